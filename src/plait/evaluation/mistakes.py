"""The wrong predictions of a model, by what was expected, worst first.

n examples, C classes.
"""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from plait.data.examples import Examples
from plait.data.labels import Labels
from plait.data.prediction_arrays import PredictionArrays
from plait.evaluation.row_files import ReadableLabel, confidence, readable_label, write_rows
from plait.model.decode import within_range
from plait.model.tasks import TaskSpec

__all__ = ["Mistake", "count_groups", "describe_groups", "find_mistakes", "write_mistakes"]

_COLUMNS = ("task", "group", "where", "expected", "predicted", "probability", "error")


@dataclass(frozen=True)
class Mistake:
    """An example that a model got wrong; for scores every example, since no score is exact."""

    task: str
    where: str  # file:line
    texts: tuple[str, ...]
    expected: ReadableLabel
    predicted: ReadableLabel
    probability: float | None  # of the wrong prediction; multilabel: of the most confident wrong label; None for scores
    error: float | None  # the absolute error of a score
    group: str = ""  # false positive, false negative, or the expected class; "" for other kinds of label


def find_mistakes(spec: TaskSpec, examples: Examples, predictions: PredictionArrays) -> list[Mistake]:
    """The wrong predictions of a task, most confident first; for scores every example, largest error first.

    False positives come before false negatives, and classes in the order of the expected class.
    """
    scored, predictions = spec.labels.about.is_score, within_range(predictions, spec)
    badness_n = _score_errors(examples, predictions) if scored else _confidence_if_wrong(examples, predictions)
    expected_n = examples.labels if spec.labels.about.one_class else np.zeros(len(examples))
    wrong = [int(row) for row in np.lexsort((-badness_n, expected_n)) if badness_n[row] >= 0]
    return [
        Mistake(
            spec.name,
            examples.origins[row],
            tuple(column[row] for column in examples.texts),
            readable_label(examples.labels[row], spec.labels),
            readable_label(predictions.values[row], spec.labels),
            None if scored else float(badness_n[row]),
            float(badness_n[row]) if scored else None,
            _group(examples.labels[row], spec.labels),
        )
        for row in wrong
    ]


def count_groups(mistakes: Sequence[Mistake]) -> dict[str, int]:
    """How many mistakes of a task each group has, in the order of the groups."""
    return dict(Counter(mistake.group for mistake in mistakes if mistake.group))


def describe_groups(mistakes: Sequence[Mistake], labels: Labels) -> str:
    """The same as a phrase; empty for kinds of label without groups."""
    counts = count_groups(mistakes)
    if labels.about.is_yes_no:
        return ", ".join(f"{count:,} {group}{'s' * (count != 1)}" for group, count in counts.items())
    return "by expected class: " + ", ".join(f"{name} {count:,}" for name, count in counts.items()) if counts else ""


def _group(expected: np.ndarray, labels: Labels) -> str:
    """What kind of mistake it is to miss this label."""
    if labels.about.is_yes_no:
        return "false negative" if expected else "false positive"
    return labels.names[int(expected)] if labels.about.one_class else ""


def _score_errors(examples: Examples, predictions: PredictionArrays) -> np.ndarray:
    """The absolute error of each score (n,)."""
    errors_n: np.ndarray = np.abs(predictions.values - examples.labels.astype(np.float64))
    return errors_n


def _confidence_if_wrong(examples: Examples, predictions: PredictionArrays) -> np.ndarray:
    """The probability of each wrong prediction (n,), −1 for a correct one."""
    if_wrong: np.ndarray = np.where(examples.labels == predictions.values, -1.0, confidence(predictions))
    return if_wrong if if_wrong.ndim == 1 else if_wrong.max(axis=1)


def write_mistakes(mistakes: Sequence[Mistake], path: Path, *, safe_csv: bool = False) -> None:
    """Write a csv or jsonl file with one row per mistake."""
    rows = [{name: getattr(mistake, name) for name in (*_COLUMNS, "texts")} for mistake in mistakes]
    write_rows(rows, path, _COLUMNS, safe_csv=safe_csv)
