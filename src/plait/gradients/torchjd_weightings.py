"""The methods of torchjd that weight tasks by the Gram matrix; torchjd is imported only if a recipe names one.

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
_INSTALL = 'pip install "plait[torchjd]"'


def find_weighting(name: str) -> Callable[[Tensor, str], Tensor]:
    """Weights (K,) from a Gram matrix (K, K) and a seed, by torchjd's method of that name."""
    try:
        aggregation = import_module("torchjd.aggregation")
    except ImportError:
        raise RecipeError(f"{PREFIX}{name} needs the package torchjd; {_INSTALL}") from None
    methods = [method for method in aggregation.__all__ if _is_aggregator(aggregation, method)]
    usable = [method for method in methods if _why_unusable(aggregation, method) is None]
    found = _why_unusable(aggregation, name) if name in methods else f"unknown name {PREFIX + name!r}"
    if found:
        raise RecipeError(f"{found}; available from torchjd: {', '.join(PREFIX + method for method in usable)}")
    try:
        weighting = getattr(aggregation, f"{name}Weighting")()
    except ImportError as error:
        reason = str(error).splitlines()[0]
        raise RecipeError(f"{PREFIX}{name} needs more packages; {_INSTALL} ({reason})") from None

    def weigh(gram_KK: Tensor, seed: str) -> Tensor:
        with torch.random.fork_rng(devices=[]):  # some methods draw from torch's global generator
            torch.manual_seed(random.Random(seed).getrandbits(63))
            weights_K: Tensor = weighting(gram_KK)
        return weights_K

    return weigh


def _is_aggregator(aggregation: Any, name: str) -> bool:
    """Whether a name in torchjd's module is a method, not a base class."""
    value = getattr(aggregation, name)
    bases = (aggregation.Aggregator, aggregation.WeightedAggregator, aggregation.GramianWeightedAggregator)
    return inspect.isclass(value) and issubclass(value, aggregation.Aggregator) and value not in bases


def _why_unusable(aggregation: Any, name: str) -> str | None:
    """Why plait cannot use a method of torchjd, if it cannot."""
    method, weighting = getattr(aggregation, name), getattr(aggregation, f"{name}Weighting", None)
    if weighting is None or not issubclass(method, aggregation.GramianWeightedAggregator):
        return f"{PREFIX}{name} does not weight tasks by the Gram matrix of their gradients"
    if issubclass(weighting, import_module("torchjd").Stateful):
        return f"{PREFIX}{name} keeps a state between steps, which a resumed run would lose"
    parameters = inspect.signature(weighting).parameters.values()
    if needed := [parameter.name for parameter in parameters if parameter.default is parameter.empty]:
        return f"{PREFIX}{name} needs {' and '.join(needed)}, which a recipe cannot give"
    return None
