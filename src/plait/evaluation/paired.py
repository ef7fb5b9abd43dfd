"""Two models on the same rows of a task: the difference, its interval and its test.

n examples.
"""

from collections import Counter
from collections.abc import Hashable, Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np

from plait.data.examples import Examples
from plait.data.prediction_arrays import PredictionArrays
from plait.evaluation.evaluate import metric_on
from plait.evaluation.significance import Interval, holm, mcnemar, paired_bootstrap_test
from plait.model.tasks import TaskSpec

__all__ = ["TaskComparison", "compare_rows", "correct_for_several", "shared_rows"]

_LEVEL = 0.05  # below which p shows a difference


@dataclass(frozen=True)
class TaskComparison:
    """The scores of two models on the same rows of a task."""

    task: str
    metric: str
    rows: int
    first: float
    second: float
    interval: Interval | None  # of the difference: 95 %, by a paired bootstrap, not corrected for several tasks
    test: str  # McNemar for the share of correct answers, paired bootstrap for other metrics
    p: float | None  # of no difference; None if the metric is undefined on these rows
    corrected_p: float | None  # for all tests of the comparison (Holm 1979)

    @property
    def difference(self) -> float:
        """What the second gains over the first."""
        return self.second - self.first

    @property
    def verdict(self) -> str:
        """What the test shows about the second model."""
        if self.corrected_p is None or self.corrected_p >= _LEVEL or self.difference == 0:
            return "no difference shown"
        return "better" if self.difference > 0 else "worse"

    def to_json(self) -> dict[str, Any]:
        return {**asdict(self), "difference": self.difference, "verdict": self.verdict}


def compare_rows(
    spec: TaskSpec, labels_n: np.ndarray, first: PredictionArrays, second: PredictionArrays
) -> TaskComparison:
    """Two models' predictions for the same rows, by the task's own metric; p is that of a single test."""

    def difference(rows_n: np.ndarray) -> float:
        return metric_on(spec, labels_n, second, rows_n) - metric_on(spec, labels_n, first, rows_n)

    interval, p = paired_bootstrap_test(difference, len(labels_n))
    test = "paired bootstrap"
    if spec.metric == "accuracy" and not spec.labels.about.is_score:
        right_n, also_n = (_is_right(labels_n, predictions) for predictions in (first, second))
        test, p = "McNemar", mcnemar(int((right_n & ~also_n).sum()), int((also_n & ~right_n).sum()))
    return TaskComparison(
        task=spec.name,
        metric=spec.metric,
        rows=len(labels_n),
        first=metric_on(spec, labels_n, first),
        second=metric_on(spec, labels_n, second),
        interval=None if np.isnan(interval).any() else interval,
        test=test,
        p=p,
        corrected_p=p,
    )


def correct_for_several(compared: Sequence[TaskComparison]) -> list[TaskComparison]:
    """The same with p corrected for all of them."""
    corrected = holm([one.p for one in compared])
    return [replace(one, corrected_p=p) for one, p in zip(compared, corrected, strict=True)]


def shared_rows(first: Examples, second: Examples) -> tuple[np.ndarray, np.ndarray]:
    """The rows (n,) of each side whose texts and labels both have; a row that occurs twice needs two partners."""
    places = {key: row for row, key in enumerate(_keys(second))}
    pairs = [(row, places[key]) for row, key in enumerate(_keys(first)) if key in places]
    pairs_n2 = np.array(pairs, dtype=np.int64).reshape(-1, 2)
    return pairs_n2[:, 0], pairs_n2[:, 1]


def _is_right(labels_n: np.ndarray, predictions: PredictionArrays) -> np.ndarray:
    """Whether each prediction (n,) is correct, with all its labels."""
    right_n: np.ndarray = (predictions.values == labels_n).reshape(len(labels_n), -1).all(axis=1)
    return right_n


def _keys(examples: Examples) -> Iterator[Hashable]:
    """Texts and label of each row, and how often they occurred before."""
    seen: Counter[Hashable] = Counter()
    for row, texts in enumerate(zip(*examples.texts, strict=True)):
        key = texts, str(examples.labels[row].tolist())
        yield key, seen[key]
        seen[key] += 1
