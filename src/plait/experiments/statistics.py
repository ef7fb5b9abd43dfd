"""Whether one row of a table is better than another, or the difference is noise.

n values, R resamples, S seeds.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from statistics import NormalDist

import numpy as np

from plait.evaluation.significance import Interval

__all__ = [
    "MeanDifference",
    "combined_test",
    "corrected_interval",
    "corrected_t_test",
    "incomplete_beta",
    "pooled_difference",
    "seeds_and_rows_test",
    "student_p",
    "student_quantile",
]

_RESAMPLES = 2000
_ROUNDING = 1e-9  # far below one row in a million, far above the rounding error of a score
_NORMAL = NormalDist()


@dataclass(frozen=True)
class MeanDifference:
    """How much better one row is than another, with its 95 % interval and the p of no difference."""

    mean: float
    low: float | None  # None if there are too few values for an interval
    high: float | None
    p: float | None
    row_error: float | None = None  # the standard error due to the scored rows; None if it is not known
    seed_error: float | None = None  # the one due to seeds, or to folds and seeds
    degrees: float = 0.0  # of freedom of the seed error


def corrected_t_test(differences: Sequence[float], test_to_train: float, *, level: float = 0.95) -> MeanDifference:
    """The t-test over folds and seeds, corrected for overlapping training rows (Nadeau and Bengio 2003).

    `test_to_train` is the number of test rows divided by that of training rows: 1 / (k - 1) for k folds, and more if
    part of the other folds is not trained on. Differences that are all equal have no test, unless they are 0.
    """
    mean = float(np.mean(differences))
    interval = corrected_interval(differences, test_to_train, level=level)
    if interval is None:
        return _without_spread(mean) if len(differences) > 1 else MeanDifference(mean, None, None, None)
    error, degrees = _corrected_error(differences, test_to_train), len(differences) - 1
    return MeanDifference(mean, *interval, student_p(mean / error, degrees), 0.0, error, degrees)


def corrected_interval(values: Sequence[float], test_to_train: float, *, level: float = 0.95) -> Interval | None:
    """The interval of the mean over folds and seeds, as in `corrected_t_test`; None for one value or equal ones."""
    if len(values) < 2 or np.ptp(values) <= _ROUNDING:
        return None
    half = student_quantile((1 + level) / 2, len(values) - 1) * _corrected_error(values, test_to_train)
    mean = float(np.mean(values))
    return mean - half, mean + half


def _corrected_error(values: Sequence[float], test_to_train: float) -> float:
    """The standard error of the mean of values whose training rows overlap."""
    return math.sqrt((1 / len(values) + test_to_train) * float(np.var(values, ddof=1)))


def _without_spread(mean: float) -> MeanDifference:
    """Equal values say nothing about variance, but two sides that never differ are equal."""
    if abs(mean) > _ROUNDING:
        return MeanDifference(mean, None, None, None)
    return MeanDifference(mean, mean, mean, 1.0, 0.0, 0.0)


def seeds_and_rows_test(
    differences: Sequence[tuple[Callable[[np.ndarray], float], int]],
    *,
    same_rows: bool = True,
    seed: int = 0,
    level: float = 0.95,
) -> MeanDifference:
    """Whether the mean difference between two models over seeds exceeds the dev-sample and seed variance.

    Each seed is a function from row numbers to the difference on those rows, and its number of rows. A bootstrap over
    rows gives the standard error due to the dev sample, with the same rows for all seeds if `same_rows`, else each seed
    its own; the deviation of the seeds' differences gives the one due to seeds, with Student's t and S - 1 degrees of
    freedom. The two half-widths are combined in quadrature. The dev sample also adds to the spread over seeds and so
    counts twice: the test is conservative, most of all with two seeds. With one seed, only the dev sample is tested.
    """
    values_S = np.array([difference(np.arange(count)) for difference, count in differences])
    mean = float(values_S.mean())
    row_error = _bootstrap_error(differences, same_rows, seed)
    if math.isnan(mean) or math.isnan(row_error):
        return MeanDifference(mean, None, None, None)
    seed_error = float(values_S.std(ddof=1)) / math.sqrt(len(values_S)) if len(values_S) > 1 else 0.0
    return combined_test(mean, row_error, seed_error, len(values_S), level)


def _bootstrap_error(
    differences: Sequence[tuple[Callable[[np.ndarray], float], int]], same_rows: bool, seed: int
) -> float:
    """The standard error of the mean over seeds that is due to the rows; NaN if no resample has a score."""
    counts = [count for _, count in differences]
    if same_rows and len(set(counts)) > 1:
        raise ValueError(f"seeds that were scored on the same rows need equal numbers of rows, got {counts}")
    generator = np.random.default_rng(seed)
    values_R = np.empty(_RESAMPLES)
    for resample in range(_RESAMPLES):
        shared_n = generator.integers(0, counts[0], counts[0])
        values_R[resample] = np.mean(
            [
                difference(shared_n if same_rows else generator.integers(0, count, count))
                for difference, count in differences
            ]
        )
    known_R = values_R[~np.isnan(values_R)]
    return float(known_R.std()) if len(known_R) else float("nan")


def combined_test(
    mean: float, row_error: float, seed_error: float, seeds: float, level: float = 0.95
) -> MeanDifference:
    """The interval and p of a mean with a normal error from rows and a Student error from seeds, in quadrature."""
    if math.hypot(row_error, seed_error) <= _ROUNDING:
        return _without_spread(mean)
    share = (1 + level) / 2
    seed_half = student_quantile(share, seeds - 1) * seed_error if seed_error else 0.0
    half = math.hypot(_NORMAL.inv_cdf(share) * row_error, seed_half)
    p = _combined_p(abs(mean), row_error, seed_error, seeds)
    return MeanDifference(mean, mean - half, mean + half, p, row_error, seed_error, seeds - 1)


def pooled_difference(gains: Sequence[MeanDifference], *, level: float = 0.95) -> MeanDifference:
    """The mean of the differences on several data sets, with an interval from their variances.

    Data sets are independent, so the squared standard errors of G sets add up, divided by G squared: those due to rows
    and those due to seeds separately, the latter with the degrees of freedom of Welch and Satterthwaite. The sets count
    as given: the interval says nothing about other data sets. It is None if a set has no errors.
    """
    mean, sets = float(np.mean([gain.mean for gain in gains])), len(gains)
    rows = [gain.row_error for gain in gains if gain.row_error is not None]
    seeds = [(gain.seed_error, gain.degrees) for gain in gains if gain.seed_error is not None]
    if len(rows) < sets or len(seeds) < sets:
        return MeanDifference(mean, None, None, None)
    parts = sum(error**4 / degrees for error, degrees in seeds if error)
    degrees = sum(error**2 for error, _ in seeds) ** 2 / parts if parts else 0.0
    seed_error = math.hypot(*(error for error, _ in seeds)) / sets
    return combined_test(mean, math.hypot(*rows) / sets, seed_error, degrees + 1, level)


def _combined_p(distance: float, row_error: float, seed_error: float, seeds: float) -> float:
    """One minus the level of the interval that just touches 0."""
    if seed_error == 0:
        return math.erfc(distance / row_error / math.sqrt(2))

    def half(t: float) -> float:
        tail = max(student_p(t, seeds - 1) / 2, 1e-300)  # the normal quantile of 0 is infinite
        return math.hypot(_NORMAL.inv_cdf(tail) * row_error, t * seed_error)

    low, high = 0.0, distance / seed_error
    while (middle := (low + high) / 2) not in (low, high):
        low, high = (middle, high) if half(middle) < distance else (low, middle)
    return student_p(high, seeds - 1)


def student_p(t: float, degrees: float) -> float:
    """The two-sided p of Student's t."""
    return incomplete_beta(degrees / (degrees + t * t), degrees / 2, 0.5)


def student_quantile(share: float, degrees: float) -> float:
    """The quantile of Student's t for a share above one half."""
    low, high = 0.0, 1.0
    while student_p(high, degrees) / 2 > 1 - share:
        low, high = high, 2 * high
    while (middle := (low + high) / 2) not in (low, high):
        low, high = (middle, high) if student_p(middle, degrees) / 2 > 1 - share else (low, middle)
    return high


def incomplete_beta(x: float, a: float, b: float) -> float:
    """The regularized incomplete beta function I_x(a, b), by its continued fraction."""
    if x <= 0 or x >= 1:
        return float(x >= 1)
    if x > (a + 1) / (a + b + 2):  # the fraction converges fast below this point
        return 1 - incomplete_beta(1 - x, b, a)
    front = a * math.log(x) + b * math.log1p(-x) + math.lgamma(a + b) - math.lgamma(a) - math.lgamma(b)
    return math.exp(front) / (a * _beta_fraction(x, a, b))


def _beta_fraction(x: float, a: float, b: float) -> float:
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
