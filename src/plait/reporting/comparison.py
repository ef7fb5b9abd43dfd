"""Two runs on the same rows: the paired difference of each task, and the examples that changed."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace

import numpy as np

from plait.evaluation.paired import TaskComparison, compare_rows, correct_for_several, shared_rows
from plait.reporting.facts import ScoredSplit

__all__ = ["Change", "PairedDifference", "compare_predictions", "correct_differences"]


@dataclass(frozen=True)
class Change:
    """An example that one run gets right and the other wrong, or that one scores better."""

    row: int  # of the first run
    other: int  # of the second
    better: bool  # whether the second run is the better one
    size: float  # how much the error of a score changed, or how sure the second run is


@dataclass(frozen=True)
class PairedDifference:
    """What the second run gains over the first on the rows that both predict."""

    first: ScoredSplit
    second: ScoredSplit
    compared: TaskComparison
    changes: list[Change]  # largest first


def compare_predictions(first: ScoredSplit, second: ScoredSplit) -> PairedDifference | None:
    """The difference on the rows that both runs have; None if they share none or predict other labels."""
    if first.spec.labels != second.spec.labels or first.spec.metric != second.spec.metric:
        return None
    rows_n, others_n = shared_rows(first.examples, second.examples)
    if not len(rows_n):
        return None
    before, after = first.predictions.rows(rows_n), second.predictions.rows(others_n)
    compared = compare_rows(first.spec, first.examples.labels[rows_n], before, after)
    changes = sorted(_changes(first, second, rows_n, others_n), key=lambda change: -change.size)
    return PairedDifference(first, second, compared, changes)


def correct_differences(
    differences: Mapping[str, Mapping[str, PairedDifference]],
) -> dict[str, dict[str, PairedDifference]]:
    """The differences of each run and task, with p corrected for all of them."""
    every = [found.compared for tasks in differences.values() for found in tasks.values()]
    corrected = iter(correct_for_several(every))
    return {
        run: {task: replace(found, compared=next(corrected)) for task, found in tasks.items()}
        for run, tasks in differences.items()
    }


def _changes(first: ScoredSplit, second: ScoredSplit, rows_n: np.ndarray, others_n: np.ndarray) -> Iterator[Change]:
    """For scores every row, by how much its error changed; else the rows that are right once and wrong once."""
    right, also = first.right_n, second.right_n
    for row, other in zip(rows_n.tolist(), others_n.tolist(), strict=True):
        if first.spec.labels.about.is_score:
            label = first.examples.labels[row]
            less = abs(first.predictions.values[row] - label) - abs(second.predictions.values[other] - label)
            if less:
                yield Change(row, other, bool(less > 0), float(abs(less)))
        elif right[row] != also[other]:
            shares = second.predictions.probabilities
            sure = 0.0 if shares is None else float(shares[other].max())
            yield Change(row, other, bool(also[other]), sure)
