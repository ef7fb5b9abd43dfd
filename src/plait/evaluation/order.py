"""How much the order of two texts matters to a model that compares them.

n examples.
"""

from dataclasses import dataclass

import numpy as np

from plait.data.examples import Examples
from plait.data.prediction_arrays import PredictionArrays
from plait.model.decode import within_range
from plait.model.encode_texts import Advance, AnyModel, predict_columns

__all__ = ["Order", "measure_order", "needs_pass"]


@dataclass(frozen=True)
class Order:
    """The effect of swapping the two texts of every example."""

    changed: float | None  # the share of examples whose prediction changes; None for scores
    difference: float | None  # the mean absolute change of a score; None for other predictions
    symmetric: bool  # the head ignores the order, so nothing was measured

    def describe(self) -> str:
        if self.symmetric:
            return "the order of the two texts does not matter to its head"
        if self.difference is not None:
            return f"swapping the two texts changes the score by {self.difference:.3f} on average"
        return f"swapping the two texts changes {100 * (self.changed or 0):.1f} % of the predictions"


def needs_pass(model: AnyModel, task: str) -> bool:
    """Whether the effect of the order must be measured by another pass over the examples."""
    return len(model.tasks[task].text) == 2 and not _is_symmetric(model, task)


def measure_order(
    model: AnyModel,
    task: str,
    examples: Examples,
    predictions: PredictionArrays,
    *,
    advance: Advance | None = None,
) -> Order | None:
    """The effect of swapping the texts on these predictions; None for a task that does not read two texts."""
    spec = model.tasks[task]
    if len(spec.text) != 2:
        return None
    scored = spec.labels.about.is_score
    if not needs_pass(model, task):
        return Order(None if scored else 0.0, 0.0 if scored else None, symmetric=True)
    first, second = examples.texts
    swapped = predict_columns(model, task, (second, first), advance=advance).predictions
    if scored:
        shown_n, swapped_n = (within_range(one, spec).values for one in (predictions, swapped))
        return Order(None, float(np.mean(np.abs(shown_n - swapped_n))), symmetric=False)
    differs_n = (predictions.values != swapped.values).reshape(len(examples), -1).any(axis=1)
    return Order(float(np.mean(differs_n)), None, symmetric=False)


def _is_symmetric(model: AnyModel, task: str) -> bool:
    """Whether the order of two texts cannot matter to the head, or to the heads of all members."""
    return all(getattr(member.head(task), "symmetric", False) for member in model.members)
