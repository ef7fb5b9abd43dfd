"""An optimizer on a small model, with gradients of many sizes."""

import numpy as np
import torch

from plait.model.model import Model
from plait.training.optimizer import make_optimizer

LR, HEAD_LR, DECAY = 1e-3, 5e-3, 0.1


def optimizer_for(model: Model, **options: float) -> torch.optim.Optimizer:
    return make_optimizer(model, "adamw", options, lr=LR, head_lr=HEAD_LR, weight_decay=DECAY)


def group_of(optimizer: torch.optim.Optimizer, parameter: torch.nn.Parameter) -> dict:
    (found,) = [group for group in optimizer.param_groups if any(parameter is other for other in group["params"])]
    return found


def give_gradients(model: Model, step: int) -> dict[str, np.ndarray]:
    """Gradients of many sizes, the same for the same step."""
    given = {}
    for number, (name, parameter) in enumerate(model.named_parameters()):
        generator = torch.Generator().manual_seed(1000 * step + number)
        parameter.grad = torch.randn(parameter.shape, generator=generator) * 10.0 ** (number % 5 - 3)
        given[name] = parameter.grad.double().numpy().copy()
    return given


def shrink(model: Model) -> dict[str, np.ndarray]:
    """Weights within ±0.25, where neighbouring float32 numbers are at most 1.5e-8 apart."""
    with torch.no_grad():
        for number, parameter in enumerate(model.parameters()):
            parameter.uniform_(-0.25, 0.25, generator=torch.Generator().manual_seed(number))
    return {name: parameter.detach().double().numpy().copy() for name, parameter in model.named_parameters()}
