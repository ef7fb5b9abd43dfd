"""`OPTIMIZERS`: parameter groups in, an optimizer out. Keyword-only parameters are options in a recipe."""

from collections.abc import Callable, Mapping
from typing import Annotated, Any

import torch
from annotated_types import Ge, Gt, Lt
from torch import Tensor

from plait.thread_pool import run_lanes, share_of

__all__ = ["OPTIMIZERS", "adamw"]

_Decay = Annotated[float, Ge(0), Lt(1)]


def adamw(
    groups: list[dict[str, object]], *, beta1: _Decay = 0.9, beta2: _Decay = 0.999, eps: Annotated[float, Gt(0)] = 1e-8
) -> torch.optim.Optimizer:
    """Bias-corrected Adam with decoupled weight decay (Loshchilov 2019), in one fused pass over all weights."""
    return _AdamW(groups, betas=(beta1, beta2), eps=eps, fused=True)


class _AdamW(torch.optim.AdamW):
    """torch's fused AdamW; on a CPU, every thread updates its share of each weight."""

    @torch.no_grad()
    def step(self, closure: Any = None) -> None:  # type: ignore[override]
        """Update all weights that have a gradient."""
        lanes = torch.get_num_threads()
        weights = [weight for group in self.param_groups for weight in group["params"] if weight.grad is not None]
        if lanes == 1 or closure or any(not self.state[weight] or weight.device.type != "cpu" for weight in weights):
            super().step(closure)  # also the first step, which creates the averages
        else:
            for group in self.param_groups:
                self._update(group, [weight for weight in group["params"] if weight.grad is not None], lanes)

    def _update(self, group: dict[str, Any], weights: list[Tensor], lanes: int) -> None:
        if not weights:
            return
        states = [self.state[weight] for weight in weights]
        steps = [state["step"].add_(1) for state in states]
        tensors = [
            weights,
            [weight.grad for weight in weights if weight.grad is not None],
            [state["exp_avg"] for state in states],
            [state["exp_avg_sq"] for state in states],
        ]
        beta1, beta2 = group["betas"]
        options: dict[str, Any] = {key: group[key] for key in ("lr", "weight_decay", "eps", "amsgrad", "maximize")}
        options |= {"beta1": beta1, "beta2": beta2}

        def update_share(lane: int) -> None:
            with torch.no_grad():  # holds for one thread
                own, gradients, averages, squares = (share_of(each, lane, lanes) for each in tensors)
                torch._fused_adamw_(own, gradients, averages, squares, [], steps, **options)

        run_lanes(update_share, lanes, lanes)


OPTIMIZERS: Mapping[str, Callable[..., torch.optim.Optimizer]] = {"adamw": adamw}
