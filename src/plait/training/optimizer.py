"""The optimizer of a stage: which weights learn, at which rate."""

from collections.abc import Mapping
from types import MappingProxyType

import torch
from torch import nn

from plait.encoder.weights import TOKEN_SCORES
from plait.model.model import Model
from plait.optimizers import OPTIMIZERS

__all__ = ["make_optimizer", "set_lr"]


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
    """The optimizer of the weights to train: no decay on biases and layer norms, a separate rate for heads.

    Token scores are as new as heads, and learn at their rate.
    Each loss with proxies has its own rate, `lr`; only the direction of a proxy matters, so proxies do not decay.
    """
    groups: list[dict[str, object]] = []
    for is_encoder, rate in ((True, lr), (False, head_lr)):
        for decays in (True, False):
            parameters = [
                parameter
                for key, parameter in model.named_parameters()
                if parameter.requires_grad
                and (key.startswith("encoder.") and key != f"encoder.{TOKEN_SCORES}") == is_encoder
                and (parameter.ndim > 1) == decays
            ]
            if parameters:
                decay = weight_decay if decays else 0.0
                groups.append({"params": parameters, "lr": rate, "base_lr": rate, "weight_decay": decay})
    for module in losses.values():
        groups.append({"params": list(module.parameters()), "lr": module.lr, "base_lr": module.lr, "weight_decay": 0.0})
    return OPTIMIZERS[name](groups, **options)


def set_lr(optimizer: torch.optim.Optimizer, factor: float) -> None:
    """Set every group to this share of its own rate."""
    for group in optimizer.param_groups:
        group["lr"] = group["base_lr"] * factor
