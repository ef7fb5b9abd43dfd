"""Whether one row of a table is better than another, or was lucky.

n differences, R resamples.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from plait.evaluation.significance import percentiles

__all__ = ["Difference", "bootstrap_test", "corrected_t_test", "holm", "student_p", "student_quantile"]

RESAMPLES = 2000


@dataclass(frozen=True)
class Difference:
    """How much better one row is than another, how sure that is, and how often luck alone would give as much."""

    mean: float
    low: float | None  # None where there is too little to tell
    high: float | None
    p: float | None


def holm(p_values: Sequence[float | None]) -> list[float | None]:
    """The p of each of several tests, raised so that all together err as seldom as one (Holm 1979); None stays."""
    known = sorted((p, place) for place, p in enumerate(p_values) if p is not None)
    corrected: list[float | None] = [None] * len(p_values)
    highest = 0.0
    for rank, (p, place) in enumerate(known):
        highest = max(highest, min(1.0, (len(known) - rank) * p))
        corrected[place] = highest
    return corrected


def corrected_t_test(differences: Sequence[float], test_to_train: float, *, level: float = 0.95) -> Difference:
    """The t-test of differences on folds whose training rows overlap (Nadeau and Bengio 2003), for every fold and seed.

    `test_to_train` is the number of test rows by that of training rows: 1 / (k - 1) for k folds.
    """
    differences_n = np.asarray(differences, dtype=np.float64)
    mean, n = float(differences_n.mean()), len(differences_n)
    if n < 2:
        return Difference(mean, None, None, None)
    error = math.sqrt((1 / n + test_to_train) * float(differences_n.var(ddof=1)))
    if np.ptp(differences_n) == 0:  # the variance may be off by a rounding, so this asks the values
        return Difference(mean, mean, mean, 1.0 if mean == 0 else 0.0)
    half = student_quantile((1 + level) / 2, n - 1) * error
    return Difference(mean, mean - half, mean + half, student_p(mean / error, n - 1))


def bootstrap_test(
    differences: Sequence[tuple[Callable[[np.ndarray], float], int]],
    *,
    same_rows: bool = True,
    seed: int = 0,
    level: float = 0.95,
) -> Difference:
    """The paired bootstrap of two models over seeds and rows: both are drawn anew, with repeats, in each resample.

    Each seed is a function from some rows to the difference there, and its number of rows. With `same_rows`, all seeds
    were scored on the same rows, which are drawn once for all of them: what is luck of the rows does not shrink with
    more seeds. Otherwise each seed has rows of its own.
    """
    counts = [count for _, count in differences]
    if same_rows and len(set(counts)) > 1:
        raise ValueError(f"seeds that were scored on the same rows have equally many, got {counts}")
    generator = np.random.default_rng(seed)
    values_R = np.empty(RESAMPLES)
    for resample in range(RESAMPLES):
        shared = generator.integers(0, counts[0], counts[0])
        chosen = [differences[place] for place in generator.integers(0, len(differences), len(differences))]
        values_R[resample] = np.mean(
            [difference(shared if same_rows else generator.integers(0, count, count)) for difference, count in chosen]
        )
    mean = float(np.mean([difference(np.arange(count)) for difference, count in differences]))
    low, high = percentiles(values_R, level)
    known_R = values_R[~np.isnan(values_R)]
    if not len(known_R):
        return Difference(mean, None, None, None)
    p = 2 * min(float(np.mean(known_R <= 0)), float(np.mean(known_R >= 0)))
    return Difference(mean, low, high, min(1.0, max(1 / RESAMPLES, p)))


def student_p(t: float, degrees: float) -> float:
    """How often Student's t is at least as far from 0."""
    return beta_share(degrees / (degrees + t * t), degrees / 2, 0.5)


def student_quantile(share: float, degrees: float) -> float:
    """The t that Student's t is below with this probability, of more than a half."""
    low, high = 0.0, 1.0
    while student_p(high, degrees) / 2 > 1 - share:
        low, high = high, 2 * high
    while (middle := (low + high) / 2) not in (low, high):
        low, high = (middle, high) if student_p(middle, degrees) / 2 > 1 - share else (low, middle)
    return high


def beta_share(x: float, a: float, b: float) -> float:
    """The regularized incomplete beta function I_x(a, b), by its continued fraction."""
    if x <= 0 or x >= 1:
        return float(x >= 1)
    if x > (a + 1) / (a + b + 2):  # the fraction converges fast below this point
        return 1 - beta_share(1 - x, b, a)
    front = a * math.log(x) + b * math.log1p(-x) + math.lgamma(a + b) - math.lgamma(a) - math.lgamma(b)
    return math.exp(front) / (a * beta_fraction(x, a, b))


def beta_fraction(x: float, a: float, b: float) -> float:
    """1 + d1/(1 + d2/(1 + …)) of the incomplete beta function, from the front (Lentz 1976)."""
    value = above = 1.0
    below = 0.0
    for step in range(1, 1000):
        m = step // 2
        if step % 2:
            term = -(a + m) * (a + b + m) * x / ((a + 2 * m) * (a + 2 * m + 1))
        else:
            term = m * (b - m) * x / ((a + 2 * m - 1) * (a + 2 * m))
        below = 1 / (1 + term * below)
        above = 1 + term / above
        value *= above * below
        if abs(above * below - 1) < 1e-15:
            break
    return value
