"""`OPTIMIZERS`: parameter groups in, an optimizer out. Keyword-only parameters are options in a recipe."""

from collections.abc import Callable, Mapping
from typing import Annotated

import torch
from annotated_types import Ge, Gt, Lt

__all__ = ["OPTIMIZERS", "adamw"]

_Decay = Annotated[float, Ge(0), Lt(1)]


def adamw(
    groups: list[dict[str, object]], *, beta1: _Decay = 0.9, beta2: _Decay = 0.999, eps: Annotated[float, Gt(0)] = 1e-8
) -> torch.optim.Optimizer:
    """Bias-corrected Adam with decoupled weight decay (Loshchilov 2019), in one fused pass over all weights."""
    return torch.optim.AdamW(groups, betas=(beta1, beta2), eps=eps, fused=True)


OPTIMIZERS: Mapping[str, Callable[..., torch.optim.Optimizer]] = {"adamw": adamw}
