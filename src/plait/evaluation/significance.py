"""How much a score, or a difference between two, varies with the sample of examples, and whether it is more than noise.

n examples, R resamples.
"""

import math
from collections.abc import Callable, Sequence

import numpy as np

__all__ = ["Interval", "bootstrap", "holm", "mcnemar", "paired_bootstrap", "paired_bootstrap_test"]

Interval = tuple[float, float]
_RESAMPLES = 1000


def bootstrap(score: Callable[[np.ndarray], float], rows: int, *, seed: int = 0, level: float = 0.95) -> Interval:
    """The percentile interval of a score; `score` maps the rows of a resample to its value."""
    generator = np.random.default_rng(seed)
    values_R = np.array([score(generator.integers(0, rows, rows)) for _ in range(_RESAMPLES)])
    return _percentiles(values_R, level)


def paired_bootstrap(
    differences: Sequence[tuple[Callable[[np.ndarray], float], int]], *, seed: int = 0, level: float = 0.95
) -> Interval:
    """The interval of the difference between two models on the same rows, averaged over several data sets.

    Each data set is a function from the rows of a resample to the difference on them, and its number of rows.
    """
    return _percentiles(_resampled(differences, seed), level)


def paired_bootstrap_test(
    difference: Callable[[np.ndarray], float], rows: int, *, seed: int = 0, level: float = 0.95
) -> tuple[Interval, float | None]:
    """The interval of the difference between two models on the same rows, and the two-sided p of no difference.

    p is twice the share of resamples that do not share the sign of the difference, with one more counted, so that it is
    never 0 (Davison and Hinkley 1997). It is None if no resample has a score.
    """
    values_R = _resampled([(difference, rows)], seed)
    interval = _percentiles(values_R, level)
    known_R = values_R[~np.isnan(values_R)]
    if not len(known_R):
        return interval, None
    tail = min(np.sum(known_R <= 0), np.sum(known_R >= 0))
    return interval, float(min(1.0, 2 * (tail + 1) / (len(known_R) + 1)))


def mcnemar(only_first: int, only_second: int) -> float:
    """The exact two-sided p that two models are right equally often (McNemar 1947).

    Of the rows that one model alone gets right, each is the first's with probability one half.
    """
    rows, fewer = only_first + only_second, min(only_first, only_second)
    logs = [math.lgamma(rows + 1) - math.lgamma(k + 1) - math.lgamma(rows - k + 1) for k in range(fewer + 1)]
    return min(1.0, 2 * sum(math.exp(log - rows * math.log(2)) for log in logs))


def holm(p_values: Sequence[float | None]) -> list[float | None]:
    """p values corrected for several tests, so that the family-wise error stays at the level of one (Holm 1979).

    None stays None and does not count as a test.
    """
    known = sorted((p, place) for place, p in enumerate(p_values) if p is not None)
    corrected: list[float | None] = [None] * len(p_values)
    highest = 0.0
    for rank, (p, place) in enumerate(known):
        highest = max(highest, min(1.0, (len(known) - rank) * p))
        corrected[place] = highest
    return corrected


def _resampled(differences: Sequence[tuple[Callable[[np.ndarray], float], int]], seed: int) -> np.ndarray:
    """The mean difference in each resample (R,)."""
    generator = np.random.default_rng(seed)
    return np.array(
        [
            np.mean([difference(generator.integers(0, rows, rows)) for difference, rows in differences])
            for _ in range(_RESAMPLES)
        ]
    )


def _percentiles(values_R: np.ndarray, level: float) -> Interval:
    """The interval that contains the middle share of the values; NaN if no resample had a score."""
    if np.isnan(values_R).all():
        return float("nan"), float("nan")
    tail = 100 * (1 - level) / 2
    low, high = np.nanpercentile(values_R, [tail, 100 - tail])
    return float(low), float(high)
