"""Two runs on the same rows: the paired difference of each task, and the examples that changed.

n examples.
"""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from plait.evaluation.evaluate import metric_on
from plait.evaluation.significance import Interval, paired_bootstrap
from plait.reporting.facts import ScoredSplit

__all__ = ["Change", "PairedDifference", "compare_predictions"]


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
    rows: int
    difference: float
    interval: Interval | None
    changes: list[Change]  # largest first

    @property
    def verdict(self) -> str:
        """What the interval shows."""
        if self.interval is None:
            return ""
        low, high = self.interval
        return "better" if low > 0 else "worse" if high < 0 else "no difference shown"


def compare_predictions(first: ScoredSplit, second: ScoredSplit) -> PairedDifference | None:
    """The difference on the rows that both runs have; None if they share none or predict other labels."""
    if first.spec.labels != second.spec.labels or first.spec.metric != second.spec.metric:
        return None
    pairs = list(_shared_rows(first, second))
    if not pairs:
        return None
    ours_n, theirs_n = (np.array(column) for column in zip(*pairs, strict=True))
    labels = first.examples.labels[ours_n]
    before, after = first.predictions.rows(ours_n), second.predictions.rows(theirs_n)

    def difference(rows_n: np.ndarray) -> float:
        return metric_on(first.spec, labels, after, rows_n) - metric_on(first.spec, labels, before, rows_n)

    interval = paired_bootstrap([(difference, len(pairs))])
    known = None if np.isnan(interval).any() else interval
    changes = sorted(_changes(first, second, pairs), key=lambda change: -change.size)
    return PairedDifference(first, second, len(pairs), difference(np.arange(len(pairs))), known, changes)


def _shared_rows(first: ScoredSplit, second: ScoredSplit) -> Iterator[tuple[int, int]]:
    """The rows with equal texts and labels."""
    places = {key: row for row, key in enumerate(_keys(second))}
    for row, key in enumerate(_keys(first)):
        if key in places:
            yield row, places[key]


def _keys(scored: ScoredSplit) -> Iterator[tuple[tuple[str, ...], str]]:
    for row, texts in enumerate(zip(*scored.examples.texts, strict=True)):
        yield texts, str(scored.examples.labels[row].tolist())


def _changes(first: ScoredSplit, second: ScoredSplit, pairs: list[tuple[int, int]]) -> Iterator[Change]:
    """For scores every row, by how much its error changed; else the rows that are right once and wrong once."""
    right, also = first.right_n, second.right_n
    for row, other in pairs:
        if first.spec.labels.about.is_score:
            label = first.examples.labels[row]
            less = abs(first.predictions.values[row] - label) - abs(second.predictions.values[other] - label)
            if less:
                yield Change(row, other, bool(less > 0), float(abs(less)))
        elif right[row] != also[other]:
            shares = second.predictions.probabilities
            sure = 0.0 if shares is None else float(shares[other].max())
            yield Change(row, other, bool(also[other]), sure)
