"""AdamW, and its state as named tensors."""

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Annotated

import torch
from annotated_types import Ge, Gt, Lt
from torch import Tensor, nn

from plait.model.model import Model

__all__ = ["OPTIMIZERS", "load_state", "make_optimizer", "set_lr", "state_tensors"]

Decay = Annotated[float, Ge(0), Lt(1)]


def adamw(
    groups: list[dict[str, object]], *, beta1: Decay = 0.9, beta2: Decay = 0.999, eps: Annotated[float, Gt(0)] = 1e-8
) -> torch.optim.Optimizer:
    """Bias-corrected Adam with decoupled weight decay (Loshchilov 2019), all weights in one fused pass."""
    return torch.optim.AdamW(groups, betas=(beta1, beta2), eps=eps, fused=True)


OPTIMIZERS: Mapping[str, Callable[..., torch.optim.Optimizer]] = {"adamw": adamw}


def make_optimizer(
    model: Model,
    name: str,
    options: Mapping[str, float],
    *,
    lr: float,
    head_lr: float,
    weight_decay: float,
    losses: Mapping[str, nn.Module] = MappingProxyType({}),
) -> torch.optim.Optimizer:
    """The optimizer of the weights that are trained: no decay on biases and layer norms, heads at their own rate.

    Losses with proxies have a rate each, their `lr`; only the direction of a proxy counts, so none decays.
    """
    groups: list[dict[str, object]] = []
    for is_encoder, rate in ((True, lr), (False, head_lr)):
        for decays in (True, False):
            parameters = [
                parameter
                for key, parameter in model.named_parameters()
                if parameter.requires_grad
                and key.startswith("encoder.") == is_encoder
                and (parameter.ndim > 1) == decays
            ]
            if parameters:
                decay = weight_decay if decays else 0.0
                groups.append({"params": parameters, "lr": rate, "base_lr": rate, "weight_decay": decay})
    for module in losses.values():
        groups.append({"params": list(module.parameters()), "lr": module.lr, "base_lr": module.lr, "weight_decay": 0.0})
    return OPTIMIZERS[name](groups, **options)


def set_lr(optimizer: torch.optim.Optimizer, factor: float) -> None:
    """Every group at this share of its own rate."""
    for group in optimizer.param_groups:
        group["lr"] = group["base_lr"] * factor


def state_tensors(parameters: Mapping[str, nn.Parameter], optimizer: torch.optim.Optimizer) -> dict[str, Tensor]:
    """The optimizer's state, each tensor named by its weight and its role."""
    return {
        f"{name}/{role}": value.detach().cpu().contiguous()
        for name, parameter in parameters.items()
        for role, value in optimizer.state.get(parameter, {}).items()
    }


def load_state(
    parameters: Mapping[str, nn.Parameter], optimizer: torch.optim.Optimizer, tensors: Mapping[str, Tensor]
) -> None:
    """Put a saved state back."""
    for key, value in tensors.items():
        name, role = key.rsplit("/", 1)
        place = (
            torch.device("cpu") if role == "step" and parameters[name].device.type == "cpu" else parameters[name].device
        )
        optimizer.state[parameters[name]][role] = value.to(place, copy=True)
