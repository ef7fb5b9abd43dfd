"""The table for people."""

from dataclasses import replace

import pytest

from plait.experiments.entries import Entry, SuiteTable, TableRow
from plait.experiments.statistics import MeanDifference, corrected_interval
from plait.experiments.tables import figure_marks, footnotes, gain_cells, score_cells
from plait.recipe.suite import Row, Suite

SUITE = Suite(
    title="A table",
    seeds=[1, 2],
    scores={"sst": "SST accuracy", "sts": "STS Pearson"},
    baseline="plain",
    rows={"plain": {"paper": {"sst": 0.5}}, "tuned": {"grid": {"lr": [1e-5, 1e-4]}}},
)
GAIN = MeanDifference(0.1, 0.05, 0.15, 0.01)


def table(suite: Suite = SUITE, **changes: Entry) -> SuiteTable:
    """Two rows; keyword arguments change the entries of the second."""
    entries = {"sst": Entry((0.6, 0.8)), "sts": Entry((0.3, 0.5))}
    rows = (
        TableRow("plain", entries, None, 2, 2, (), 1.0, None),
        TableRow("tuned", {**entries, **changes}, "plain", 2, 2, (), 1.0, None),
    )
    return SuiteTable(suite, (1, 2), suite.scores, rows)


def test_untested_gain_has_no_interval_and_a_reason():
    untested = Entry(
        (0.6, 0.8),
        gain=MeanDifference(0.1, None, None, None),
        untested="they were scored on other rows, another task or by another metric",
    )
    made = table(sst=untested, sts=Entry((0.3, 0.5), gain=GAIN, p=0.02))
    assert gain_cells(made)[1] == [["tuned", "plain", "+0.100", "+0.100 [+0.050, +0.150] p 0.020*"]]
    notes = [note for note in footnotes(made, "plait") if "not tested" in note]
    assert notes == [
        "tuned is not tested against plain in SST accuracy: they were scored on other rows, another task or by another "
        "metric."
    ]
    assert not any("not tested" in note for note in footnotes(table(), "plait"))


def test_rows_whose_settings_dev_selected_are_named():
    assert "dev selected the epoch, and in tuned also the settings." in footnotes(table(), "plait")[0]
    plain = replace(table(), rows=table().rows[:1])
    assert footnotes(plain, "plait")[0].endswith("dev scores, and dev selected the epoch.")


def test_test_part_of_a_fold_selects_nothing():
    folded = SUITE.model_copy(update={"folds": 5})
    assert footnotes(table(folded), "plait")[0].endswith(
        "over 5 folds × seeds 1, 2; scores on the test part of each fold."
    )
    assert "Nadeau and Bengio" in footnotes(table(folded), "plait")[2]
    assert "bootstrap" in footnotes(table(), "plait")[2] and "Student's t" in footnotes(table(), "plait")[2]


def test_all_signs_are_explained():
    departures = Entry((0.5,), departures=("encoder", "rows", "epochs"))
    assert score_cells(table(sst=departures))[1][1][1] == "0.500ᵉʳⁿ"
    assert footnotes(table(), "plait")[1] == "Differs from the paper: ᵉ encoder, ʳ training rows, ⁿ epochs."
    alone = SUITE.model_copy(update={"rows": {"plain": Row(), "tuned": Row()}})
    assert not any("paper" in note for note in footnotes(table(alone), "plait"))


@pytest.mark.parametrize("ratio", [0.0, 0.278])
def test_figure_shows_the_interval_of_the_test(ratio):
    mark = figure_marks(table(sst=Entry((0.6, 0.8), test_to_train=ratio)))[2]
    assert (mark.row, mark.column) == ("tuned", "SST accuracy")
    assert (mark.low, mark.high) == corrected_interval([0.6, 0.8], ratio)


def test_single_cell_has_no_interval():
    mark = figure_marks(table(sst=Entry((0.6,))))[2]
    assert (mark.measured, mark.low, mark.high) == (0.6, None, None)
