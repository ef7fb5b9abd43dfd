"""How probabilities become answers: another threshold, abstention, and how many classes are listed.

n examples, C classes.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np

from plait.data.prediction_arrays import PredictionArrays
from plait.errors import RequestError
from plait.model.decode import apply_threshold, within_range
from plait.model.tasks import TaskSpec

__all__ = ["Decision"]


@dataclass(frozen=True)
class Decision:
    """What a user asks of the answers of a task; by default its own threshold and abstention, and all classes."""

    threshold: float | None = None  # from which a yes/no task says yes, and a multilabel task assigns a label
    abstain_below: float | None = None  # a label with a lower probability is not given; 0: every label is
    top_k: int | None = None  # how many classes are listed, the most probable first

    def for_task(self, spec: TaskSpec) -> "Decision":
        """With the task's own abstention, unless another is asked for."""
        return self if self.abstain_below is not None else replace(self, abstain_below=spec.abstain_below)

    def check(self, spec: TaskSpec) -> None:
        """Refuse what the task cannot do; all mistakes at once."""
        if mistakes := list(self._mistakes(spec)):
            raise RequestError(*mistakes)

    def _mistakes(self, spec: TaskSpec) -> Iterator[str]:
        about, name = spec.labels.about, f"the task {spec.name!r}"
        predicts = f"{name} predicts {about.predicts}"
        if self.threshold is not None:
            if not (about.is_yes_no or about.multilabel):
                hint = "" if about.is_score else "; use `abstain_below`"
                yield f"`threshold` is for yes/no and multilabel tasks; {predicts}{hint}"
            yield from _not_a_probability("threshold", self.threshold)
        if self.abstain_below is not None:
            if about.is_score:
                yield f"`abstain_below` is for labels; {predicts}"
            elif about.multilabel:
                yield f"`abstain_below` is for tasks with one label; {predicts}; use `threshold`"
            yield from _not_a_probability("abstain_below", self.abstain_below)
        if self.top_k is not None:
            if about.is_score:
                yield f"`top_k` is for classes; {predicts}"
            if isinstance(self.top_k, bool) or not isinstance(self.top_k, int) or self.top_k < 1:
                yield f"`top_k`: expected a whole number from 1, found {self.top_k!r}"

    def apply(self, predictions: PredictionArrays, spec: TaskSpec) -> PredictionArrays:
        """The predictions as users see them, before abstention."""
        if self.threshold is not None:
            predictions = apply_threshold(predictions, spec, self.threshold)
        return within_range(predictions, spec)

    def abstains(self, scores_n: np.ndarray) -> np.ndarray:
        """Which predictions (n,) are not given, by the probabilities of their labels."""
        below: np.ndarray = scores_n < (-np.inf if self.abstain_below is None else self.abstain_below)
        return below


def _not_a_probability(argument: str, value: float) -> Iterator[str]:
    number = isinstance(value, int | float | np.floating) and not isinstance(value, bool)
    if not (number and 0 <= value <= 1):
        yield f"`{argument}`: expected a probability from 0 to 1, found {value!r}"
