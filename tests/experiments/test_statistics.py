"""Tests of differences between rows of a table."""

import math

import numpy as np
import pytest
from scipy import special, stats

from plait.experiments.statistics import (
    beta_share,
    corrected_interval,
    corrected_t_test,
    holm,
    judge,
    seeds_and_rows_test,
    student_p,
    student_quantile,
)

# Several tests at once


def test_holm_by_hand():
    # sorted 0.01·4, 0.02·3, 0.03·2 (held at 0.06), 0.04·1 (held at 0.06)
    assert holm([0.04, 0.01, 0.03, 0.02]) == pytest.approx([0.06, 0.04, 0.06, 0.06], abs=1e-12)


def test_holm_of_one_test_changes_nothing():
    assert holm([0.03]) == [0.03]
    assert holm([]) == []


def test_holm_passes_over_what_was_not_tested():
    assert holm([None, 0.01, None, 0.04]) == [None, 0.02, None, 0.04]


def test_holm_never_passes_one_and_keeps_the_order():
    p_values = np.random.default_rng(0).random(20).tolist()
    corrected = holm(p_values)
    assert all(p <= c <= 1 for p, c in zip(p_values, corrected, strict=True))
    by_p = [corrected[place] for place in np.argsort(p_values)]
    assert by_p == sorted(by_p)


# Student's t


@pytest.mark.parametrize("a", [0.5, 1, 2.5, 12, 300])
@pytest.mark.parametrize("b", [0.5, 3, 40])
def test_the_beta_function_is_that_of_scipy(a, b):
    for x in [0, 1e-12, 0.003, 0.2, 0.5, 0.77, 0.999, 1]:
        # two roundings of float64 that grow with lgamma
        assert beta_share(x, a, b) == pytest.approx(special.betainc(a, b, x), rel=1e-10, abs=1e-14)


@pytest.mark.parametrize("degrees", [1, 2, 4, 9, 24, 1000])
def test_students_t_is_that_of_scipy(degrees):
    for t in [0, 0.01, 0.7, -1.3, 2.5, 8, -40]:
        assert student_p(t, degrees) == pytest.approx(2 * stats.t.sf(abs(t), degrees), rel=1e-10)  # float64
    for share in [0.6, 0.95, 0.975, 0.999]:
        assert student_quantile(share, degrees) == pytest.approx(stats.t.ppf(share, degrees), rel=1e-10)  # float64


# Folds


def test_the_corrected_test_by_hand():
    # mean 2, variance 1, n 3: error √(1/3 + 1/4) = 0.7638, t = 2.6186 with 2 degrees
    found = corrected_t_test([1, 2, 3], 1 / 4)
    t = 2 / math.sqrt(1 / 3 + 1 / 4)
    assert found.mean == 2
    assert found.p == pytest.approx(2 * stats.t.sf(t, 2), rel=1e-10)  # float64
    half = stats.t.ppf(0.975, 2) * math.sqrt(1 / 3 + 1 / 4)
    assert (found.low, found.high) == pytest.approx((2 - half, 2 + half), rel=1e-10)


def test_without_overlap_the_corrected_test_is_the_plain_one():
    values = np.random.default_rng(0).normal(0.3, 1, 12).tolist()
    assert corrected_t_test(values, 0).p == pytest.approx(stats.ttest_1samp(values, 0).pvalue, rel=1e-10)  # float64


def test_overlapping_training_rows_make_the_test_more_careful():
    values = np.random.default_rng(0).normal(0.5, 1, 10).tolist()
    plain, corrected = corrected_t_test(values, 0), corrected_t_test(values, 1 / 4)
    assert corrected.p > plain.p
    assert corrected.low < plain.low < plain.high < corrected.high


def test_the_interval_of_folds_excludes_zero_just_where_p_is_below_its_share():
    for seed in range(50):
        found = corrected_t_test(np.random.default_rng(seed).normal(0.8, 1, 10).tolist(), 1 / 4)
        assert (found.p < 0.05) == (not found.low <= 0 <= found.high)


def test_differences_that_do_not_vary():
    assert corrected_t_test([0.0, 0.0, 0.0], 1 / 4).p == 1
    for equal in ([0.005, 0.005], [0.8 - 0.795, 0.9 - 0.895]):  # the latter but for a rounding
        found = corrected_t_test(equal, 1 / 4)
        assert found.mean == pytest.approx(0.005, abs=1e-12)  # float64
        assert (found.low, found.high, found.p) == (None, None, None)
    assert corrected_t_test([0.0, 1e-17], 1 / 4).p == 1


def test_the_interval_of_a_mean_is_that_of_the_test():
    values = np.random.default_rng(0).normal(0.5, 1, 10).tolist()
    found = corrected_t_test(values, 1 / 4)
    assert corrected_interval(values, 1 / 4) == (found.low, found.high)
    assert corrected_interval([0.5], 1 / 4) is None
    assert corrected_interval([0.5, 0.5], 1 / 4) is None


def test_one_difference_cannot_be_tested():
    found = corrected_t_test([0.1], 1 / 4)
    assert (found.mean, found.low, found.high, found.p) == (0.1, None, None, None)


# Seeds and rows


def seeds_of(values_SN: np.ndarray):
    """Each seed's mean over rows, from the difference of every seed (S) and row (N)."""
    return [(lambda rows, values_N=values_N: float(values_N[rows].mean()), len(values_N)) for values_N in values_SN]


def test_equal_models_do_not_differ():
    found = seeds_and_rows_test(seeds_of(np.zeros((3, 20))))
    assert (found.mean, found.low, found.high, found.p) == (0, 0, 0, 1)


def test_a_clear_difference_is_found():
    values_SN = np.random.default_rng(0).normal(1, 1, (4, 100))
    found = seeds_and_rows_test(seeds_of(values_SN))
    assert found.mean == pytest.approx(values_SN.mean(), abs=1e-12)  # float64
    assert found.p < 0.01
    assert 0.5 < found.low < found.mean < found.high < 1.5


def test_the_two_parts_by_hand():
    # rows: 0.3 · 1.96, seeds: 0.4 · 12.706 (one degree of freedom)
    half = math.hypot(0.3 * stats.norm.ppf(0.975), 0.4 * stats.t.ppf(0.975, 1))
    found = judge(1.0, 0.3, 0.4, 2)
    assert (found.low, found.high) == pytest.approx((1 - half, 1 + half), rel=1e-10)  # float64
    assert judge(half, 0.3, 0.4, 2).p == pytest.approx(0.05, rel=1e-9)  # the interval touches 0


def test_one_seed_is_tested_by_its_rows_alone_and_equal_rows_by_seeds_alone():
    assert judge(0.5, 0.2, 0.0, 1).p == pytest.approx(2 * stats.norm.sf(2.5), rel=1e-10)  # float64
    values_S = np.array([0.1, 0.2, 0.4])
    found = seeds_and_rows_test(seeds_of(np.tile(values_S[:, None], 20)))
    assert found.p == pytest.approx(stats.ttest_1samp(values_S, 0).pvalue, rel=1e-9)  # float64


def test_rows_and_seeds_that_never_differ_have_no_test():
    found = seeds_and_rows_test(seeds_of(np.ones((2, 20))))
    assert (found.mean, found.low, found.high, found.p) == (1, None, None, None)


def test_the_interval_excludes_zero_just_where_p_is_below_its_share():
    generator = np.random.default_rng(0)
    for seeds in (2, 3, 5):
        for _ in range(30):
            found = judge(generator.normal(0, 3), *generator.random(2), seeds)
            assert (found.p < 0.05) == (not found.low <= 0 <= found.high)


def found_in_draws(seed_deviation: float, difference: float) -> float:
    """How often two seeds show a difference, in standard errors of the rows that both were scored on."""
    generator = np.random.default_rng(0)
    draws_DS = difference + generator.normal(0, 1, (400, 1)) + generator.normal(0, seed_deviation, (400, 2))
    tests = [judge(float(d_S.mean()), 1.0, float(d_S.std(ddof=1) / math.sqrt(2)), 2) for d_S in draws_DS]
    return float(np.mean([found.p < 0.05 for found in tests]))


@pytest.mark.parametrize("seed_deviation", [0, 1, 2, 4])
def test_two_seeds_are_not_too_sure_however_much_they_vary(seed_deviation):
    assert found_in_draws(seed_deviation, 0) <= 0.07  # 0.05, deviation 0.011


def test_two_seeds_that_agree_find_a_difference_of_four_errors():
    assert found_in_draws(0, 4) > 0.9


def test_turning_the_models_round_turns_the_test_round():
    values_SN = np.random.default_rng(0).normal(0.1, 1, (4, 60))
    found, turned = seeds_and_rows_test(seeds_of(values_SN)), seeds_and_rows_test(seeds_of(-values_SN))
    assert turned.p == found.p
    assert (turned.mean, turned.low, turned.high) == pytest.approx((-found.mean, -found.high, -found.low), abs=1e-12)


def test_luck_of_shared_rows_does_not_shrink_with_more_seeds():
    rows_N = np.random.default_rng(0).normal(0, 1, 100)  # all seeds err on the same rows
    shared = seeds_and_rows_test(seeds_of(np.tile(rows_N, (9, 1))))
    apart = seeds_and_rows_test(seeds_of(np.tile(rows_N, (9, 1))), same_rows=False)
    assert (shared.high - shared.low) / (apart.high - apart.low) == pytest.approx(3, rel=0.15)  # 5 % an end


def test_seeds_that_disagree_widen_the_interval():
    values_SN = np.random.default_rng(0).normal(0, 1, (4, 100))
    scattered_SN = values_SN + np.array([[-1.0], [-0.5], [0.5], [1.0]])
    calm, scattered = seeds_and_rows_test(seeds_of(values_SN)), seeds_and_rows_test(seeds_of(scattered_SN))
    assert scattered.high - scattered.low > 2 * (calm.high - calm.low)


def test_the_same_rows_are_equally_many():
    with pytest.raises(ValueError, match=r"equally many, got \[3, 4\]"):
        seeds_and_rows_test([(lambda rows: 0.0, 3), (lambda rows: 0.0, 4)])
    assert seeds_and_rows_test([(lambda rows: 0.0, 3), (lambda rows: 0.0, 4)], same_rows=False).p == 1


def test_a_score_that_never_exists_has_no_test():
    found = seeds_and_rows_test([(lambda rows: float("nan"), 4)])
    assert (found.low, found.high, found.p) == (None, None, None)


def test_the_test_is_the_same_for_the_same_seed_only():
    differences = seeds_of(np.random.default_rng(0).normal(0.1, 1, (3, 30)))
    assert seeds_and_rows_test(differences, seed=3) == seeds_and_rows_test(differences, seed=3)
    assert seeds_and_rows_test(differences, seed=3) != seeds_and_rows_test(differences, seed=4)
