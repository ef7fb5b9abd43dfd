"""How much the order of two texts matters to a model that compares them.

n examples.
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from plait.data.examples import Examples
from plait.evaluation.evaluate import decode_examples
from plait.model.decode import Decoded
from plait.model.ensemble import AnyModel, is_symmetric

__all__ = ["Order", "measure_order", "needs_pass"]


@dataclass(frozen=True)
class Order:
    """What swapping the two texts of every example does."""

    changed: float | None  # the share of examples whose answer changes; None of scores
    difference: float | None  # of scores, how far they move on average
    symmetric: bool  # the head cannot tell the order, so nothing was measured

    def describe(self) -> str:
        """A sentence."""
        if self.symmetric:
            return "its head gives the same for both orders of the two texts"
        if self.difference is not None:
            return f"swapping the two texts moves the score by {self.difference:.3f} on average"
        return f"swapping the two texts changes {100 * (self.changed or 0):.1f} % of the answers"


def needs_pass(model: AnyModel, task: str) -> bool:
    """Whether the order must be measured, by one more pass over the examples."""
    return len(model.tasks[task].text) == 2 and not is_symmetric(model, task)


def measure_order(
    model: AnyModel,
    task: str,
    examples: Examples,
    decoded: Decoded,
    *,
    progress: Callable[[int], None] | None = None,
) -> Order | None:
    """What swapping the texts does to these predictions; None for a task that does not read two texts."""
    spec = model.tasks[task]
    if len(spec.text) != 2:
        return None
    scored = spec.labels.kind == "score"
    if not needs_pass(model, task):
        return Order(None if scored else 0.0, 0.0 if scored else None, symmetric=True)
    first, second = examples.texts
    swapped = decode_examples(
        model, task, Examples((second, first), examples.labels, examples.origins), progress=progress
    )
    if scored:
        return Order(None, float(np.mean(np.abs(decoded.values - swapped.values))), symmetric=False)
    differs_n = (decoded.values != swapped.values).reshape(len(examples), -1).any(axis=1)
    return Order(float(np.mean(differs_n)), None, symmetric=False)
