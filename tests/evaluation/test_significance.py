"""Bootstrap intervals, paired tests, corrections."""

import numpy as np
import pytest
from scipy import stats

from plait.evaluation.significance import (
    _percentiles,
    bootstrap,
    holm,
    mcnemar,
    paired_bootstrap,
    paired_bootstrap_test,
)
from plait.metrics import roc_auc


def mean_of(values_n: np.ndarray):
    return lambda rows: float(values_n[rows].mean())


def normal(seed: int, rows: int, mean: float = 0.0) -> np.ndarray:
    return np.random.default_rng(seed).normal(mean, 1, rows)


def test_percentiles_by_hand():
    # of 0 … 1000 the middle 95 % go from 25 to 975, the middle half from 250 to 750
    assert _percentiles(np.arange(1001.0), 0.95) == pytest.approx((25, 975), abs=1e-9)  # 100·(1 − 0.95)/2 is rounded
    assert _percentiles(np.arange(1001.0), 0.5) == (250, 750)


def test_percentiles_ignore_resamples_without_a_score():
    values_R = np.concatenate([np.arange(1001.0), np.full(50, np.nan)])
    assert _percentiles(values_R, 0.5) == (250, 750)


def test_the_interval_of_a_constant_score_has_no_width():
    assert bootstrap(mean_of(np.full(20, 0.75)), 20) == (0.75, 0.75)
    assert bootstrap(mean_of(np.array([0.3])), 1) == (0.3, 0.3)


def test_resamples_are_drawn_with_replacement_and_as_large_as_the_data():
    seen = []
    bootstrap(lambda rows: seen.append(rows) or 0.0, 30)
    assert len(seen) == 1000
    assert {len(rows) for rows in seen} == {30}
    assert {*np.concatenate(seen)} == set(range(30))
    # a row is missed with probability (1 − 1/30)³⁰ = 0.362, so a resample has 19.15 different rows
    assert np.mean([len(set(rows)) for rows in seen]) == pytest.approx(
        30 * (1 - (29 / 30) ** 30), abs=0.3
    )  # 5 deviations


def test_the_interval_covers_the_true_mean_as_often_as_its_level_says():
    covered = 0
    for seed in range(200):
        low, high = bootstrap(mean_of(normal(seed, 60)), 60, seed=seed)
        covered += low <= 0 <= high
    assert 0.90 <= covered / 200 <= 0.99  # 3 deviations of 0.015 about 0.95, a little lower for 60 rows


def test_the_interval_of_a_mean_matches_the_normal_distribution():
    values_n = normal(0, 400)
    low, high = bootstrap(mean_of(values_n), 400)
    half = 1.96 * values_n.std() / 20
    assert (low, high) == pytest.approx(
        (values_n.mean() - half, values_n.mean() + half), abs=0.2 * half
    )  # 1000 resamples


def test_the_interval_depends_only_on_the_seed():
    score = mean_of(normal(0, 50))
    assert bootstrap(score, 50, seed=3) == bootstrap(score, 50, seed=3)
    assert bootstrap(score, 50, seed=3) != bootstrap(score, 50, seed=4)


def test_bootstrap_does_not_use_the_global_random_state():
    np.random.seed(0)
    before = np.random.get_state()[1].copy()
    bootstrap(mean_of(normal(0, 50)), 50)
    assert np.array_equal(np.random.get_state()[1], before)


def test_the_interval_narrows_with_the_square_root_of_the_rows():
    for seed in range(5):
        low, high = bootstrap(mean_of(normal(seed, 100)), 100)
        low_16, high_16 = bootstrap(mean_of(normal(seed, 1600)), 1600)
        assert (high - low) / (high_16 - low_16) == pytest.approx(4, rel=0.25)  # both ends and the deviation are random


def test_a_higher_level_gives_a_wider_interval():
    score = mean_of(normal(0, 50))
    (a, b), (c, d), (e, f) = (bootstrap(score, 50, level=level) for level in (0.99, 0.95, 0.5))
    assert a < c < e < f < d < b


def test_resamples_without_a_score_are_ignored():
    yes_n, scores_n = np.array([1, 0, 0, 0]), np.array([0.9, 0.1, 0.5, 0.2])  # a third of the resamples have no yes
    assert bootstrap(lambda rows: roc_auc(yes_n[rows], scores_n[rows]), 4) == (1.0, 1.0)


def test_a_score_that_is_never_defined_has_no_interval():
    low, high = bootstrap(lambda rows: float("nan"), 4)
    assert np.isnan(low) and np.isnan(high)


# Two models on the same rows


def accuracy_difference(a_n: np.ndarray, b_n: np.ndarray):
    """The difference in accuracy on some rows, from the rows that each model predicts correctly."""
    return lambda rows: float(a_n[rows].mean() - b_n[rows].mean()), len(a_n)


def test_identical_models_do_not_differ():
    correct_n = np.random.default_rng(0).random(200) < 0.8
    assert paired_bootstrap([accuracy_difference(correct_n, correct_n)] * 2) == (0.0, 0.0)


def test_a_clear_difference_excludes_zero():
    generator = np.random.default_rng(0)
    better_n, worse_n = generator.random(500) < 0.9, generator.random(500) < 0.7
    low, high = paired_bootstrap([accuracy_difference(better_n, worse_n)])
    assert 0.1 < low < better_n.mean() - worse_n.mean() < high < 0.3  # 0.2 with a deviation of 0.025


def test_swapping_the_models_mirrors_the_interval():
    generator = np.random.default_rng(1)
    a_n, b_n = generator.random(300) < 0.9, generator.random(300) < 0.8
    low, high = paired_bootstrap([accuracy_difference(a_n, b_n)])
    assert paired_bootstrap([accuracy_difference(b_n, a_n)]) == pytest.approx((-high, -low), abs=1e-12)  # float64


def test_equally_good_models_include_zero():
    included = 0
    for seed in range(40):
        generator = np.random.default_rng(seed)
        a_n, b_n = generator.random(200) < 0.8, generator.random(200) < 0.8
        low, high = paired_bootstrap([accuracy_difference(a_n, b_n)], seed=seed)
        included += low <= 0 <= high
    assert included >= 34  # 38 expected, deviation 1.4


def test_pairing_removes_the_variance_that_both_models_share():
    hard_n = normal(0, 200)  # the difficulty of each row, the same for both models
    low, high = paired_bootstrap([(lambda rows: float((hard_n[rows] + 0.1).mean() - hard_n[rows].mean()), 200)])
    assert (low, high) == pytest.approx((0.1, 0.1), abs=1e-12)  # float64
    low, high = bootstrap(mean_of(hard_n), 200)
    assert high - low > 0.2


def test_data_sets_of_any_size_have_equal_weight():
    small, large = (lambda rows: 0.4, 10), (lambda rows: 0.2, 1000)
    assert paired_bootstrap([small, large]) == pytest.approx((0.3, 0.3), abs=1e-12)  # float64


def test_data_sets_are_resampled_independently():
    values_n = normal(0, 100)
    same = (mean_of(values_n), 100)
    low, high = paired_bootstrap([same])
    low_4, high_4 = paired_bootstrap([same] * 4)
    # with shared rows, four copies would be as uncertain as one; with independent rows, half as uncertain
    assert (high - low) / (high_4 - low_4) == pytest.approx(2, rel=0.15)  # 1000 resamples determine each end within 5 %


def test_the_paired_interval_depends_only_on_the_seed():
    difference = [(mean_of(normal(0, 50)), 50)]
    assert paired_bootstrap(difference, seed=3) == paired_bootstrap(difference, seed=3)
    assert paired_bootstrap(difference, seed=3) != paired_bootstrap(difference, seed=4)


# Several tests at once


def test_holm_matches_values_worked_out_by_hand():
    # sorted 0.01·4, 0.02·3, 0.03·2 (held at 0.06), 0.04·1 (held at 0.06)
    assert holm([0.04, 0.01, 0.03, 0.02]) == pytest.approx([0.06, 0.04, 0.06, 0.06], abs=1e-12)


def test_holm_leaves_a_single_test_unchanged():
    assert holm([0.03]) == [0.03]
    assert holm([]) == []


def test_holm_skips_missing_values():
    assert holm([None, 0.01, None, 0.04]) == [None, 0.02, None, 0.04]


def test_holm_stays_below_one_and_keeps_the_order():
    p_values = np.random.default_rng(0).random(20).tolist()
    corrected = holm(p_values)
    assert all(p <= c <= 1 for p, c in zip(p_values, corrected, strict=True))
    by_p = [corrected[place] for place in np.argsort(p_values)]
    assert by_p == sorted(by_p)


# Paired tests


def test_mcnemar_matches_scipy():
    for only_first, only_second in [(0, 1), (3, 9), (10, 10), (200, 260), (5, 0)]:
        expected = stats.binomtest(only_first, only_first + only_second).pvalue
        # sums of float64 terms in another order
        assert mcnemar(only_first, only_second) == pytest.approx(expected, rel=1e-9)


def test_mcnemar_by_hand():
    assert mcnemar(0, 0) == 1
    assert mcnemar(0, 5) == pytest.approx(2 / 32, rel=1e-12)  # five of five coins, on either side
    assert mcnemar(7, 2) == mcnemar(2, 7)


def test_the_paired_bootstrap_test_agrees_with_its_interval():
    for shift in (0.0, 0.1, 0.3, -0.3):
        values_n = normal(3, 100, shift)
        interval, p = paired_bootstrap_test(mean_of(values_n), 100)
        assert interval == paired_bootstrap([(mean_of(values_n), 100)])
        outside = interval[0] > 0 or interval[1] < 0
        assert (p < 0.05) == outside


def test_equal_models_have_no_difference():
    interval, p = paired_bootstrap_test(lambda rows: 0.0, 10)
    assert interval == (0.0, 0.0) and p == 1.0


def test_a_difference_without_a_score_has_no_p():
    interval, p = paired_bootstrap_test(lambda rows: float("nan"), 10)
    assert np.isnan(interval).all() and p is None
