"""Whether one row of a table is better than another, or was lucky.

n values, R resamples, S seeds.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from statistics import NormalDist

import numpy as np

from plait.evaluation.significance import Interval

__all__ = [
    "Difference",
    "corrected_interval",
    "corrected_t_test",
    "holm",
    "seeds_and_rows_test",
    "student_p",
    "student_quantile",
]

RESAMPLES = 2000
ROUNDING = 1e-9  # far below one row of a million, far above the rounding of a score
NORMAL = NormalDist()


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

    `test_to_train` is the number of test rows by that of training rows: 1 / (k - 1) for k folds, and more where a part
    of the other folds is not trained on. Differences that are all the same have no test, unless they are 0.
    """
    mean = float(np.mean(differences))
    interval = corrected_interval(differences, test_to_train, level=level)
    if interval is None:
        return without_spread(mean) if len(differences) > 1 else Difference(mean, None, None, None)
    return Difference(
        mean, *interval, student_p(mean / corrected_error(differences, test_to_train), len(differences) - 1)
    )


def corrected_interval(values: Sequence[float], test_to_train: float, *, level: float = 0.95) -> Interval | None:
    """The interval of the mean over folds and seeds, as in `corrected_t_test`; none of one value or of equal ones."""
    if len(values) < 2 or np.ptp(values) <= ROUNDING:
        return None
    half = student_quantile((1 + level) / 2, len(values) - 1) * corrected_error(values, test_to_train)
    mean = float(np.mean(values))
    return mean - half, mean + half


def corrected_error(values: Sequence[float], test_to_train: float) -> float:
    """The standard error of the mean of values whose training rows overlap."""
    return math.sqrt((1 / len(values) + test_to_train) * float(np.var(values, ddof=1)))


def without_spread(mean: float) -> Difference:
    """Equal values tell nothing of luck, but two sides that never differ do not differ."""
    return Difference(mean, mean, mean, 1.0) if abs(mean) <= ROUNDING else Difference(mean, None, None, None)


def seeds_and_rows_test(
    differences: Sequence[tuple[Callable[[np.ndarray], float], int]],
    *,
    same_rows: bool = True,
    seed: int = 0,
    level: float = 0.95,
) -> Difference:
    """Whether the mean over seeds of the difference between two models is luck of the rows or of the seeds.

    Each seed is a function from some rows to the difference there, and its number of rows. A bootstrap over rows gives
    the standard error that is due to them, the same rows for all seeds with `same_rows`, else each seed its own; the
    deviation of the seeds' differences gives theirs, judged by Student's t with S - 1 degrees of freedom. The two
    half-widths add up as squares. Luck of the rows moves seeds apart as well and so counts twice: the test errs on the
    careful side, most of all with two seeds. One seed tells nothing of seeds; then only luck of the rows is tested.
    """
    values_S = np.array([difference(np.arange(count)) for difference, count in differences])
    mean = float(values_S.mean())
    row_error = resampled_error(differences, same_rows, seed)
    if math.isnan(mean) or math.isnan(row_error):
        return Difference(mean, None, None, None)
    seed_error = float(values_S.std(ddof=1)) / math.sqrt(len(values_S)) if len(values_S) > 1 else 0.0
    return judge(mean, row_error, seed_error, len(values_S), level)


def resampled_error(
    differences: Sequence[tuple[Callable[[np.ndarray], float], int]], same_rows: bool, seed: int
) -> float:
    """The standard error of the mean over seeds that is due to the rows, by bootstrap; nan where none has a score."""
    counts = [count for _, count in differences]
    if same_rows and len(set(counts)) > 1:
        raise ValueError(f"seeds that were scored on the same rows have equally many, got {counts}")
    generator = np.random.default_rng(seed)
    values_R = np.empty(RESAMPLES)
    for resample in range(RESAMPLES):
        shared_n = generator.integers(0, counts[0], counts[0])
        values_R[resample] = np.mean(
            [
                difference(shared_n if same_rows else generator.integers(0, count, count))
                for difference, count in differences
            ]
        )
    known_R = values_R[~np.isnan(values_R)]
    return float(known_R.std()) if len(known_R) else float("nan")


def judge(mean: float, row_error: float, seed_error: float, seeds: int, level: float = 0.95) -> Difference:
    """The interval and p of a mean with a normal part of many degrees of freedom and one of S - 1."""
    if math.hypot(row_error, seed_error) <= ROUNDING:
        return without_spread(mean)
    share = (1 + level) / 2
    of_seeds = student_quantile(share, seeds - 1) * seed_error if seed_error else 0.0
    half = math.hypot(NORMAL.inv_cdf(share) * row_error, of_seeds)
    return Difference(mean, mean - half, mean + half, touching_p(abs(mean), row_error, seed_error, seeds))


def touching_p(distance: float, row_error: float, seed_error: float, seeds: int) -> float:
    """The share left out by the interval that just touches 0."""
    if seed_error == 0:
        return math.erfc(distance / row_error / math.sqrt(2))

    def half(t: float) -> float:
        tail = max(student_p(t, seeds - 1) / 2, 1e-300)  # the normal quantile of 0 is infinite
        return math.hypot(NORMAL.inv_cdf(tail) * row_error, t * seed_error)

    low, high = 0.0, distance / seed_error
    while (middle := (low + high) / 2) not in (low, high):
        low, high = (middle, high) if half(middle) < distance else (low, middle)
    return student_p(high, seeds - 1)


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
