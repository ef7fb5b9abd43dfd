"""The table as people read it."""

from dataclasses import replace

import pytest

from plait.experiments.entries import Comparison, Entry, Line
from plait.experiments.statistics import Difference, corrected_interval
from plait.experiments.suite import Suite
from plait.experiments.tables import gain_rows, marks_for_figure, score_rows, sentences

SUITE = Suite(
    title="A table",
    seeds=[1, 2],
    scores={"sst": "SST accuracy", "sts": "STS Pearson"},
    baseline="plain",
    rows={"plain": {}, "tuned": {"grid": {"lr": [1e-5, 1e-4]}}},
)
GAIN = Difference(0.1, 0.05, 0.15, 0.01)


def table(suite: Suite = SUITE, **changes: Entry) -> Comparison:
    """Two rows; keyword arguments change the entries of the second."""
    entries = {"sst": Entry((0.6, 0.8)), "sts": Entry((0.3, 0.5))}
    lines = (
        Line("plain", entries, None, 2, 2, (), 1.0, None),
        Line("tuned", {**entries, **changes}, "plain", 2, 2, (), 1.0, None),
    )
    return Comparison(suite, (1, 2), suite.scores, lines)


def test_a_gain_on_other_rows_has_neither_interval_nor_p_and_is_told():
    untested = Entry(
        (0.6, 0.8),
        gain=Difference(0.1, None, None, None),
        untested="they were scored on other rows, another task or by another metric",
    )
    made = table(sst=untested, sts=Entry((0.3, 0.5), gain=GAIN))
    assert gain_rows(made)[1] == [["tuned", "plain", "+0.100", "+0.100 [+0.050, +0.150] p 0.010*"]]
    told = [sentence for sentence in sentences(made, "plait") if "not tested" in sentence]
    assert told == [
        "tuned is not tested against plain in SST accuracy: they were scored on other rows, another task or by another "
        "metric."
    ]
    assert not any("not tested" in sentence for sentence in sentences(table(), "plait"))


def test_dev_that_chose_the_settings_is_told():
    assert "dev chose the epoch, and in tuned also the settings." in sentences(table(), "plait")[0]
    plain = replace(table(), lines=table().lines[:1])
    assert sentences(plain, "plait")[0].endswith("dev scores, and dev chose the epoch.")


def test_the_test_part_of_a_fold_chose_nothing():
    folded = SUITE.model_copy(update={"folds": 5})
    assert sentences(table(folded), "plait")[0].endswith("over 5 folds × seeds 1, 2; scores of each fold's test part.")
    assert "Nadeau and Bengio" in sentences(table(folded), "plait")[2]
    assert "bootstrap" in sentences(table(), "plait")[2] and "Student's t" in sentences(table(), "plait")[2]


def test_every_sign_is_told():
    departures = Entry((0.5,), departures=("encoder", "rows", "epochs"))
    assert score_rows(table(sst=departures))[1][1][1] == "0.500ᵉʳⁿ"
    assert sentences(table(), "plait")[1] == "Differs from the paper's: ᵉ encoder, ʳ training rows, ⁿ epochs."


@pytest.mark.parametrize("ratio", [0.0, 0.278])
def test_the_figure_has_the_interval_of_the_test(ratio):
    mark = marks_for_figure(table(sst=Entry((0.6, 0.8), test_to_train=ratio)))[2]
    assert (mark.row, mark.column) == ("tuned", "SST accuracy")
    assert (mark.low, mark.high) == corrected_interval([0.6, 0.8], ratio)


def test_one_cell_has_no_interval():
    mark = marks_for_figure(table(sst=Entry((0.6,))))[2]
    assert (mark.measured, mark.low, mark.high) == (0.6, None, None)
