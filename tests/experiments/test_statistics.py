"""Statistical tests of differences between rows of a table."""

import math

import numpy as np
import pytest
from scipy import special, stats

from plait.experiments.statistics import (
    combined_test,
    corrected_interval,
    corrected_t_test,
    incomplete_beta,
    seeds_and_rows_test,
    student_p,
    student_quantile,
)

# Student's t


@pytest.mark.parametrize("a", [0.5, 1, 2.5, 12, 300])
@pytest.mark.parametrize("b", [0.5, 3, 40])
def test_incomplete_beta_matches_scipy(a, b):
    for x in [0, 1e-12, 0.003, 0.2, 0.5, 0.77, 0.999, 1]:
        # two roundings of float64 that grow with lgamma
        assert incomplete_beta(x, a, b) == pytest.approx(special.betainc(a, b, x), rel=1e-10, abs=1e-14)


@pytest.mark.parametrize("degrees", [1, 2, 4, 9, 24, 1000])
def test_student_t_matches_scipy(degrees):
    for t in [0, 0.01, 0.7, -1.3, 2.5, 8, -40]:
        assert student_p(t, degrees) == pytest.approx(2 * stats.t.sf(abs(t), degrees), rel=1e-10)  # float64
    for share in [0.6, 0.95, 0.975, 0.999]:
        assert student_quantile(share, degrees) == pytest.approx(stats.t.ppf(share, degrees), rel=1e-10)  # float64


# Folds


def test_corrected_test_matches_values_worked_out_by_hand():
    # mean 2, variance 1, n 3: error √(1/3 + 1/4) = 0.7638, t = 2.6186 with 2 degrees
    found = corrected_t_test([1, 2, 3], 1 / 4)
    t = 2 / math.sqrt(1 / 3 + 1 / 4)
    assert found.mean == 2
    assert found.p == pytest.approx(2 * stats.t.sf(t, 2), rel=1e-10)  # float64
    half = stats.t.ppf(0.975, 2) * math.sqrt(1 / 3 + 1 / 4)
    assert (found.low, found.high) == pytest.approx((2 - half, 2 + half), rel=1e-10)


def test_corrected_test_without_overlap_is_the_plain_t_test():
    values = np.random.default_rng(0).normal(0.3, 1, 12).tolist()
    assert corrected_t_test(values, 0).p == pytest.approx(stats.ttest_1samp(values, 0).pvalue, rel=1e-10)  # float64


def test_overlapping_training_rows_make_the_test_more_conservative():
    values = np.random.default_rng(0).normal(0.5, 1, 10).tolist()
    plain, corrected = corrected_t_test(values, 0), corrected_t_test(values, 1 / 4)
    assert corrected.p > plain.p
    assert corrected.low < plain.low < plain.high < corrected.high


def test_interval_over_folds_excludes_zero_exactly_when_p_is_below_5_percent():
    for seed in range(50):
        found = corrected_t_test(np.random.default_rng(seed).normal(0.8, 1, 10).tolist(), 1 / 4)
        assert (found.p < 0.05) == (not found.low <= 0 <= found.high)


def test_equal_differences_have_no_test_unless_they_are_zero():
    assert corrected_t_test([0.0, 0.0, 0.0], 1 / 4).p == 1
    for equal in ([0.005, 0.005], [0.8 - 0.795, 0.9 - 0.895]):  # the latter up to rounding
        found = corrected_t_test(equal, 1 / 4)
        assert found.mean == pytest.approx(0.005, abs=1e-12)  # float64
        assert (found.low, found.high, found.p) == (None, None, None)
    assert corrected_t_test([0.0, 1e-17], 1 / 4).p == 1


def test_interval_of_a_mean_matches_the_test():
    values = np.random.default_rng(0).normal(0.5, 1, 10).tolist()
    found = corrected_t_test(values, 1 / 4)
    assert corrected_interval(values, 1 / 4) == (found.low, found.high)
    assert corrected_interval([0.5], 1 / 4) is None
    assert corrected_interval([0.5, 0.5], 1 / 4) is None


def test_single_difference_cannot_be_tested():
    found = corrected_t_test([0.1], 1 / 4)
    assert (found.mean, found.low, found.high, found.p) == (0.1, None, None, None)


# Seeds and rows


def seeds_of(values_SN: np.ndarray):
    """Each seed's mean over rows, from the difference of every seed (S) and row (N)."""
    return [(lambda rows, values_N=values_N: float(values_N[rows].mean()), len(values_N)) for values_N in values_SN]


def test_equal_models_show_no_difference():
    found = seeds_and_rows_test(seeds_of(np.zeros((3, 20))))
    assert (found.mean, found.low, found.high, found.p) == (0, 0, 0, 1)


def test_clear_difference_is_found():
    values_SN = np.random.default_rng(0).normal(1, 1, (4, 100))
    found = seeds_and_rows_test(seeds_of(values_SN))
    assert found.mean == pytest.approx(values_SN.mean(), abs=1e-12)  # float64
    assert found.p < 0.01
    assert 0.5 < found.low < found.mean < found.high < 1.5


def test_combination_in_quadrature_matches_values_worked_out_by_hand():
    # rows: 0.3 · 1.96, seeds: 0.4 · 12.706 (one degree of freedom)
    half = math.hypot(0.3 * stats.norm.ppf(0.975), 0.4 * stats.t.ppf(0.975, 1))
    found = combined_test(1.0, 0.3, 0.4, 2)
    assert (found.low, found.high) == pytest.approx((1 - half, 1 + half), rel=1e-10)  # float64
    assert combined_test(half, 0.3, 0.4, 2).p == pytest.approx(0.05, rel=1e-9)  # the interval touches 0


def test_one_seed_is_tested_by_rows_only_and_equal_rows_by_seeds_only():
    assert combined_test(0.5, 0.2, 0.0, 1).p == pytest.approx(2 * stats.norm.sf(2.5), rel=1e-10)  # float64
    values_S = np.array([0.1, 0.2, 0.4])
    found = seeds_and_rows_test(seeds_of(np.tile(values_S[:, None], 20)))
    assert found.p == pytest.approx(stats.ttest_1samp(values_S, 0).pvalue, rel=1e-9)  # float64


def test_constant_difference_has_no_test():
    found = seeds_and_rows_test(seeds_of(np.ones((2, 20))))
    assert (found.mean, found.low, found.high, found.p) == (1, None, None, None)


def test_interval_excludes_zero_exactly_when_p_is_below_5_percent():
    generator = np.random.default_rng(0)
    for seeds in (2, 3, 5):
        for _ in range(30):
            found = combined_test(generator.normal(0, 3), *generator.random(2), seeds)
            assert (found.p < 0.05) == (not found.low <= 0 <= found.high)


def found_in_draws(seed_deviation: float, difference: float) -> float:
    """How often two seeds show a difference; it is given in standard errors of the dev sample, which both share."""
    generator = np.random.default_rng(0)
    draws_DS = difference + generator.normal(0, 1, (400, 1)) + generator.normal(0, seed_deviation, (400, 2))
    tests = [combined_test(float(d_S.mean()), 1.0, float(d_S.std(ddof=1) / math.sqrt(2)), 2) for d_S in draws_DS]
    return float(np.mean([found.p < 0.05 for found in tests]))


@pytest.mark.parametrize("seed_deviation", [0, 1, 2, 4])
def test_two_seeds_rarely_show_a_difference_that_does_not_exist(seed_deviation):
    assert found_in_draws(seed_deviation, 0) <= 0.07  # 0.05, deviation 0.011


def test_two_seeds_that_agree_find_a_difference_of_four_standard_errors():
    assert found_in_draws(0, 4) > 0.9


def test_swapping_the_models_mirrors_the_test():
    values_SN = np.random.default_rng(0).normal(0.1, 1, (4, 60))
    found, turned = seeds_and_rows_test(seeds_of(values_SN)), seeds_and_rows_test(seeds_of(-values_SN))
    assert turned.p == found.p
    assert (turned.mean, turned.low, turned.high) == pytest.approx((-found.mean, -found.high, -found.low), abs=1e-12)


def test_variance_of_a_shared_dev_sample_does_not_shrink_with_more_seeds():
    rows_N = np.random.default_rng(0).normal(0, 1, 100)  # all seeds err on the same rows
    shared = seeds_and_rows_test(seeds_of(np.tile(rows_N, (9, 1))))
    apart = seeds_and_rows_test(seeds_of(np.tile(rows_N, (9, 1))), same_rows=False)
    assert (shared.high - shared.low) / (apart.high - apart.low) == pytest.approx(3, rel=0.15)  # 5 % per interval


def test_seeds_that_disagree_widen_the_interval():
    values_SN = np.random.default_rng(0).normal(0, 1, (4, 100))
    scattered_SN = values_SN + np.array([[-1.0], [-0.5], [0.5], [1.0]])
    close, scattered = seeds_and_rows_test(seeds_of(values_SN)), seeds_and_rows_test(seeds_of(scattered_SN))
    assert scattered.high - scattered.low > 2 * (close.high - close.low)


def test_unequal_numbers_of_shared_rows_are_refused():
    with pytest.raises(ValueError, match=r"need equal numbers of rows, got \[3, 4\]"):
        seeds_and_rows_test([(lambda rows: 0.0, 3), (lambda rows: 0.0, 4)])
    assert seeds_and_rows_test([(lambda rows: 0.0, 3), (lambda rows: 0.0, 4)], same_rows=False).p == 1


def test_undefined_score_has_no_test():
    found = seeds_and_rows_test([(lambda rows: float("nan"), 4)])
    assert (found.low, found.high, found.p) == (None, None, None)


def test_bootstrap_depends_on_its_seed_only():
    differences = seeds_of(np.random.default_rng(0).normal(0.1, 1, (3, 30)))
    assert seeds_and_rows_test(differences, seed=3) == seeds_and_rows_test(differences, seed=3)
    assert seeds_and_rows_test(differences, seed=3) != seeds_and_rows_test(differences, seed=4)
