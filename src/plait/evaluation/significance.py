"""Bootstrap intervals: how much a score, or a difference between two, varies with the sample of examples.

n examples, R resamples.
"""

from collections.abc import Callable, Sequence

import numpy as np

__all__ = ["Interval", "bootstrap", "paired_bootstrap"]

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
    generator = np.random.default_rng(seed)
    values_R = np.array(
        [
            np.mean([difference(generator.integers(0, rows, rows)) for difference, rows in differences])
            for _ in range(_RESAMPLES)
        ]
    )
    return _percentiles(values_R, level)


def _percentiles(values_R: np.ndarray, level: float) -> Interval:
    """The interval that contains the middle share of the values; NaN if no resample had a score."""
    if np.isnan(values_R).all():
        return float("nan"), float("nan")
    tail = 100 * (1 - level) / 2
    low, high = np.nanpercentile(values_R, [tail, 100 - tail])
    return float(low), float(high)
