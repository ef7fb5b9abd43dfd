"""The methods of torchjd that weigh tasks by the Gram matrix alone; torchjd is imported only when a recipe names one.

K tasks.
"""

import inspect
import random
from collections.abc import Callable
from importlib import import_module
from typing import Any

import torch
from torch import Tensor

from plait.errors import RecipeError

__all__ = ["PREFIX", "find_weighting"]

PREFIX = "torchjd."  # of a method's name in a recipe
INSTALL = 'pip install "plait[torchjd]"'


def find_weighting(name: str) -> Callable[[Tensor, str], Tensor]:
    """Weights (K,) from a Gram matrix (K, K) and a seed, by torchjd's method of that name."""
    try:
        aggregation = import_module("torchjd.aggregation")
    except ImportError:
        raise RecipeError(f"{PREFIX}{name} needs the package torchjd; {INSTALL}") from None
    methods = [method for method in aggregation.__all__ if is_aggregator(aggregation, method)]
    usable = [method for method in methods if why_not(aggregation, method) is None]
    found = why_not(aggregation, name) if name in methods else f"unknown name {PREFIX + name!r}"
    if found:
        raise RecipeError(f"{found}; of torchjd there are {', '.join(PREFIX + method for method in usable)}")
    try:
        weighting = getattr(aggregation, f"{name}Weighting")()
    except ImportError as error:
        reason = str(error).splitlines()[0]
        raise RecipeError(f"{PREFIX}{name} needs more packages; {INSTALL} ({reason})") from None

    def weigh(gram_KK: Tensor, seed: str) -> Tensor:
        with torch.random.fork_rng(devices=[]):  # some draw from torch's own random numbers
            torch.manual_seed(random.Random(seed).getrandbits(63))
            weights_K: Tensor = weighting(gram_KK)
        return weights_K

    return weigh


def is_aggregator(aggregation: Any, name: str) -> bool:
    """Whether torchjd has a method of that name."""
    value = getattr(aggregation, name)
    bases = (aggregation.Aggregator, aggregation.WeightedAggregator, aggregation.GramianWeightedAggregator)
    return inspect.isclass(value) and issubclass(value, aggregation.Aggregator) and value not in bases


def why_not(aggregation: Any, name: str) -> str | None:
    """Why a method of torchjd cannot be used here, if it cannot."""
    method, weighting = getattr(aggregation, name), getattr(aggregation, f"{name}Weighting", None)
    if weighting is None or not issubclass(method, aggregation.GramianWeightedAggregator):
        return f"{PREFIX}{name} does not weigh the tasks by the products of their gradients"
    if issubclass(weighting, import_module("torchjd").Stateful):
        return f"{PREFIX}{name} remembers earlier steps, which a run that goes on would have lost"
    parameters = inspect.signature(weighting).parameters.values()
    if needed := [parameter.name for parameter in parameters if parameter.default is parameter.empty]:
        return f"{PREFIX}{name} needs {' and '.join(needed)}, which a recipe cannot give"
    return None
