"""Gains pooled over groups of data sets, with answers that are known by hand."""

import math
import re

import pytest
from scipy import stats

from plait.errors import RecipeError
from plait.experiments.cells import Cell, Experiment
from plait.experiments.compare import suite_table
from plait.experiments.groups import draw_groups, group_marks
from plait.experiments.statistics import MeanDifference, corrected_t_test, pooled_difference
from plait.experiments.tables import as_json, as_markdown, group_cells
from written_cells import LABELS, one_task, write_cell, write_scored

# The statistic


def test_one_set_is_its_own_test():
    gain = corrected_t_test([0.1, 0.15, 0.2], 0.25)
    pooled = pooled_difference([gain])
    assert (pooled.mean, pooled.low, pooled.high, pooled.p) == pytest.approx(
        (gain.mean, gain.low, gain.high, gain.p), rel=1e-9
    )


def test_two_sets_with_folds_by_hand():
    first, second = [0.1, 0.2, 0.3, 0.2], [0.0, 0.02, 0.01, 0.01]
    ratio = 0.5
    variances = [(1 / 4 + ratio) * stats.tvar(values) for values in (first, second)]
    error = math.sqrt(sum(variances)) / 2
    degrees = sum(variances) ** 2 / sum(variance**2 / 3 for variance in variances)
    pooled = pooled_difference([corrected_t_test(values, ratio) for values in (first, second)])
    mean = (0.2 + 0.01) / 2
    half = stats.t.ppf(0.975, degrees) * error
    assert (pooled.mean, pooled.low, pooled.high) == pytest.approx((mean, mean - half, mean + half), rel=1e-6)
    assert pooled.p == pytest.approx(2 * stats.t.sf(mean / error, degrees), rel=1e-6)


def test_errors_of_rows_and_of_seeds_are_pooled_separately():
    sets = [MeanDifference(0.1, 0, 0, 0, 0.03, 0.04, 1), MeanDifference(0.3, 0, 0, 0, 0.04, 0.03, 1)]
    pooled = pooled_difference(sets)
    degrees = (0.04**2 + 0.03**2) ** 2 / (0.04**4 + 0.03**4)
    half = math.hypot(stats.norm.ppf(0.975) * 0.025, stats.t.ppf(0.975, degrees) * 0.025)
    assert (pooled.row_error, pooled.seed_error) == pytest.approx((0.025, 0.025))
    assert (pooled.mean, pooled.high - pooled.mean) == pytest.approx((0.2, half), rel=1e-6)


def test_many_equal_sets_have_a_narrower_interval():
    gain = corrected_t_test([0.1, 0.15, 0.2], 0.25)
    one, four = pooled_difference([gain]), pooled_difference([gain] * 4)
    assert four.seed_error == pytest.approx(one.seed_error / 2) and four.degrees == pytest.approx(8)


def test_set_without_errors_leaves_the_mean():
    pooled = pooled_difference([MeanDifference(0.1, None, None, None), corrected_t_test([0.1, 0.2], 0)])
    assert (pooled.mean, pooled.low, pooled.high, pooled.p) == (pytest.approx(0.125), None, None, None)


def test_sets_without_any_difference_are_equal():
    assert pooled_difference([corrected_t_test([0.0, 0.0], 0.5)] * 2).p == 1.0


# The table

KEYS = {"scores": {"only": "accuracy"}, "means": {}, "paper_rows": {}, "folds": 3, "free_rows": False}
ROWS = {
    "mood-ce": {"group": "small", "method": "ce", "paper": {"only": 0.5}},
    "mood-te": {"group": "small", "method": "te", "against": "mood-ce", "paper": {"only": 0.6}},
    "same-ce": {"group": "small", "method": "ce", "paper": {"only": 0.8}},
    "same-te": {"group": "small", "method": "te", "against": "same-ce", "paper": {"only": 0.84}},
    "late-ce": {"group": "large", "method": "ce", "paper": {"only": 0.9}},
    "late-te": {"group": "large", "method": "te", "against": "late-ce", "paper": {"only": 0.91}},
}
GROUPS = {"small": "few rows", "large": "many rows"}
VALUES = {
    "mood-ce": [0.5, 0.6, 0.7],
    "mood-te": [0.6, 0.75, 0.9],
    "same-ce": [0.5, 0.5, 0.5],
    "same-te": [0.52, 0.5, 0.54],
}


@pytest.fixture
def grouped(suite_of) -> Experiment:
    """Two small data sets with three folds each; nothing was measured on the large one."""
    rows = {name: {**keys, "recipe": "plain.yaml"} for name, keys in ROWS.items()}
    experiment = suite_of(**KEYS, rows=rows, groups=GROUPS, baseline=None)
    one_task(experiment, "plain", "mood", dev=0.25)
    for row, values in VALUES.items():
        for fold, value in enumerate(values, start=1):
            write_cell(experiment, Cell(row, 1, fold), {"mood": value})
    return experiment


def test_gains_are_pooled_by_method_and_group(grouped):
    small, large = suite_table(grouped, [1], list(ROWS)).pooled
    ratio = (1 / 3) / (2 / 3 * 0.75)
    expected = pooled_difference([corrected_t_test(values, ratio) for values in ([0.1, 0.15, 0.2], [0.02, 0, 0.04])])
    assert (small.method, small.against, small.group, small.sets, small.of) == ("te", "ce", "small", 2, 2)
    assert (small.gain.mean, small.gain.low) == pytest.approx((expected.mean, expected.low), rel=1e-9)
    assert small.gain.mean == pytest.approx((0.15 + 0.02) / 2)
    assert small.levels == pytest.approx(((0.75 + 0.52) / 2, (0.6 + 0.5) / 2))
    assert small.paper_gain == pytest.approx((0.1 + 0.04) / 2)
    assert (large.group, large.sets, large.of, large.gain) == ("large", 0, 1, None)
    assert large.paper_gain == pytest.approx(0.01)


def test_paper_is_compared_on_the_data_sets_that_were_measured(grouped):
    for fold in (1, 2, 3):
        grouped.record_file(Cell("same-te", 1, fold)).unlink()
    small, _ = suite_table(grouped, [1], list(ROWS)).pooled
    assert (small.sets, small.of) == (1, 2) and small.gain.mean == pytest.approx(0.15)
    assert small.paper == pytest.approx((0.6, 0.5))


def test_groups_are_shown(grouped):
    table = suite_table(grouped, [1], list(ROWS))
    names, rows = group_cells(table, " / ")
    assert names == ["method", "against", "few rows", "many rows"]
    assert rows[0][:2] == ["te", "ce"] and rows[0][3] == "– / 0 of 1 sets / paper +0.010"
    assert re.fullmatch(r"\+0\.085 \[.*\] / 2 of 2 sets / paper \+0\.070", rows[0][2])
    assert "| te | ce | +0.085" in as_markdown(table, "plait") and "covers these data sets" in as_markdown(table, "p")
    assert [record["group"] for record in as_json(table)["pooled"]] == ["small", "large"]
    assert suite_table(grouped, [1], ["mood-ce"]).pooled == ()  # only methods that are shown


def test_figure_has_both_sides_and_the_gain(grouped):
    table = suite_table(grouped, [1], list(ROWS))
    marks = {(mark.row, mark.column): mark for mark in group_marks(table.suite, table.pooled)}
    assert list(dict.fromkeys(row for row, _ in marks)) == ["few rows", "many rows"]
    assert {column for _, column in marks} == {"ce", "te", "te − ce"}
    assert marks["few rows", "te"].measured == pytest.approx(0.635)
    assert marks["few rows", "te − ce"].paper == pytest.approx(0.07) and marks["few rows", "te − ce"].low is not None
    assert marks["many rows", "ce"].paper == 0.9 and marks["many rows", "ce"].measured is None
    figure = draw_groups(table)
    assert figure.startswith("<svg") and "gains by group" in figure and "of the pooled gain" in figure


def test_columns_may_be_data_sets(suite_of):
    experiment = suite_of(groups=GROUPS, score_groups={"mood": "small", "near": "small"})
    for seed in (1, 2):
        write_scored(experiment, Cell("plain", seed), 10, LABELS)
        write_scored(experiment, Cell("faster", seed), 1, LABELS)
    table = suite_table(experiment, [1, 2], ["plain", "faster"])
    (pooled,) = table.pooled
    entries = next(row for row in table.rows if row.name == "faster").entries
    assert (pooled.method, pooled.against, pooled.sets) == ("faster", "plain", 2)
    assert pooled.gain.mean == pytest.approx((entries["mood"].gain.mean + entries["near"].gain.mean) / 2)
    errors = [entries[column].gain.row_error for column in ("mood", "near")]
    assert pooled.gain.row_error == pytest.approx(math.hypot(*errors) / 2)


def test_suite_without_groups_has_no_pooled_gains(suite_of):
    experiment = suite_of()
    write_scored(experiment, Cell("plain", 1), 10, LABELS)
    table = suite_table(experiment, [1], ["plain"])
    assert table.pooled == () and not any("group" in line for line in as_markdown(table, "plait").splitlines())


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({"rows": {"plain": {"group": "smal"}}, "groups": GROUPS}, "no group 'smal'; did you mean 'small'?"),
        ({"rows": {"plain": {"group": "small"}}}, "no group 'small'; the suite has no groups"),
        ({"groups": GROUPS, "score_groups": {"moood": "small"}}, "no such score; did you mean 'mood'?"),
        ({"groups": GROUPS, "score_groups": {"mood": "tiny"}}, "no group 'tiny'"),
    ],
)
def test_unknown_groups_are_reported(suite_of, changes, expected):
    with pytest.raises(RecipeError, match=re.escape(expected)):
        suite_of(**changes)
