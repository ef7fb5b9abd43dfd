"""How the gradients of several tasks become one update of the weights that they share.

K tasks. A method gives the weight of each task's gradient; heads always keep their own plain gradients.
"""

from collections.abc import Callable, Iterable, Mapping

from torch import nn

__all__ = ["COMBINERS", "weigh_gradients"]


def sum_weight(tasks: int) -> float:
    """The weight of each of K tasks in their sum."""
    return 1.0


def mean_weight(tasks: int) -> float:
    """The weight of each of K tasks in their mean."""
    return 1 / tasks


COMBINERS: Mapping[str, Callable[[int], float]] = {"sum": sum_weight, "mean": mean_weight}


def weigh_gradients(parameters: Iterable[nn.Parameter], weight: float) -> None:
    """Multiply gradients that the tasks' backward passes have already added up."""
    for parameter in parameters:
        if parameter.grad is not None and weight != 1.0:
            parameter.grad.mul_(weight)
