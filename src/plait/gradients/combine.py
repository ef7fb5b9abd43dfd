"""How the gradients of several tasks become one update of the weights that they share.

A method gives each task's gradient a weight, from the number of tasks or from the Gram matrix of the gradients (the
dot products of all pairs). Heads always keep their own gradients unchanged.

K tasks.
"""

import random
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache

import torch
from torch import Tensor, nn

from plait.errors import RecipeError, did_you_mean
from plait.gradients.torchjd_weightings import PREFIX, find_weighting

__all__ = ["COMBINERS", "ByGram", "Combiner", "Fixed", "draw_orders", "find_combiner", "scale_gradients", "surgery"]


@dataclass(frozen=True)
class Fixed:
    """A method with the same weight for every task, whatever the gradients; they can be summed in place."""

    weigh: Callable[[int], float]  # the number of tasks → the weight of each


@dataclass(frozen=True)
class ByGram:
    """A method that compares the gradients first, so each task's must be stored separately."""

    weigh: Callable[[Tensor, str], Tensor]  # Gram matrix (K, K) and a seed → weights (K,)


Combiner = Fixed | ByGram


def _sum_weight(tasks: int) -> float:
    """The sum of the gradients: each task has weight 1."""
    return 1.0


def _mean_weight(tasks: int) -> float:
    """The mean of the gradients: each of K tasks has weight 1/K."""
    return 1 / tasks


def _surgery_weights(gram_KK: Tensor, seed: str) -> Tensor:
    """PCGrad (Yu 2020): a gradient that conflicts with another loses its component along it; then the mean.

    The order in which a gradient meets the others is drawn for each task in each step.
    """
    return surgery(gram_KK, orders=draw_orders(len(gram_KK), seed))


def surgery(gram_KK: Tensor, *, orders: Sequence[Sequence[int]]) -> Tensor:
    """Weights (K,) whose mix of the K task gradients is PCGrad's mean direction (Yu et al. 2020, algorithm 1).

    `orders[i]` is the order in which task i's gradient meets the others.
    """
    mix_KK = torch.eye(len(gram_KK), dtype=gram_KK.dtype)
    for i, mix_K in enumerate(mix_KK):
        for j in orders[i]:
            dot = gram_KK[j] @ mix_K  # <g_j, g_i as projected so far>
            if j != i and dot < 0 < gram_KK[j, j]:  # a square may underflow when the product does not
                mix_K[j] -= dot / gram_KK[j, j]
    return mix_KK.mean(dim=0)


def draw_orders(tasks: int, seed: str) -> list[list[int]]:
    """One random permutation of all tasks per task."""
    generator = random.Random(seed)
    return [generator.sample(range(tasks), tasks) for _ in range(tasks)]


COMBINERS: Mapping[str, Combiner] = {
    "sum": Fixed(_sum_weight),
    "mean": Fixed(_mean_weight),
    "surgery": ByGram(_surgery_weights),
}


@lru_cache
def find_combiner(name: str) -> Combiner:
    """The method of that name, plait's own or torchjd's."""
    if name in COMBINERS:
        return COMBINERS[name]
    if name.startswith(PREFIX):
        return ByGram(find_weighting(name.removeprefix(PREFIX)))
    raise RecipeError(f"unknown name {name!r}; {did_you_mean(name, COMBINERS)}")


def scale_gradients(parameters: Iterable[nn.Parameter], weight: float) -> None:
    """Multiply gradients in place that the tasks' backward passes have already summed."""
    for parameter in parameters:
        if parameter.grad is not None and weight != 1.0:
            parameter.grad.mul_(weight)
