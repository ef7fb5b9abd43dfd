"""The table of cells that are written by hand; nothing is trained."""

import pytest

from plait.errors import RunError
from plait.experiments.cells import Cell, Experiment
from plait.experiments.compare import suite_table
from plait.experiments.statistics import corrected_interval, corrected_t_test
from written_cells import LABELS, METRICS, one_task, write_cell, write_scored


def entries_of(experiment: Experiment, row: str, seeds=(1, 2), rows=("plain", "faster")):
    return next(found for found in suite_table(experiment, seeds, rows).rows if found.name == row).entries


# The same rows


def test_rows_scored_on_the_same_labels_are_tested(suite_of):
    experiment = suite_of()
    for seed in (1, 2):
        write_scored(experiment, Cell("plain", seed, None), 10, LABELS)
        write_scored(experiment, Cell("faster", seed, None), 1, LABELS)
    entry = entries_of(experiment, "faster")["mood"]
    assert not entry.untested and entry.gain.mean == pytest.approx(9 / 40)
    assert entry.gain.low > 0 and entry.gain.p < 0.01


@pytest.mark.parametrize("other", [LABELS["mood"][:30], 1 - LABELS["mood"]], ids=["fewer", "others"])
def test_rows_scored_on_other_labels_are_not_tested(suite_of, other):
    experiment = suite_of()
    for seed in (1, 2):
        write_scored(experiment, Cell("plain", seed, None), 10, LABELS)
        write_scored(experiment, Cell("faster", seed, None), 0, {**LABELS, "mood": other})
    entries = entries_of(experiment, "faster")
    for column in ("mood", "mean"):
        gain = entries[column].gain
        assert entries[column].untested and (gain.low, gain.high, gain.p) == (None, None, None)
    assert entries["mood"].gain.mean == pytest.approx(10 / 40)
    assert not entries["near"].untested and entries["near"].gain.p is not None


def test_row_of_another_task_is_not_tested(suite_of):
    experiment = suite_of(scores={"only": "accuracy"}, means={}, rows={"plain": {}, "faster": {}}, paper_rows={})
    for row, task in (("plain", "mood"), ("faster", "same")):
        one_task(experiment, row, task)
        write_scored(experiment, Cell(row, 1, None), 4 if task == "mood" else 0, {task: LABELS[task]})
    entry = entries_of(experiment, "faster", seeds=[1])["only"]
    assert entry.untested and entry.gain.mean == pytest.approx(4 / 40) and entry.gain.p is None


def test_rows_scored_by_another_metric_are_not_tested(suite_of):
    experiment = suite_of()
    write_scored(experiment, Cell("plain", 1, None), 10, LABELS)
    metrics = {**METRICS, "mood": "macro_f1"}
    write_scored(experiment, Cell("faster", 1, None), 0, LABELS, metrics=metrics)
    entries = entries_of(experiment, "faster", seeds=[1])
    assert entries["mood"].untested and not entries["near"].untested


def test_seeds_with_their_own_dev_rows_are_tested(suite_of):
    experiment = suite_of()
    for seed, count in ((1, 40), (2, 36)):
        labels = {task: labels_n[:count] for task, labels_n in LABELS.items()}
        write_scored(experiment, Cell("plain", seed, None), 10, labels)
        write_scored(experiment, Cell("faster", seed, None), 1, labels)
    entry = entries_of(experiment, "faster")["mood"]
    assert not entry.untested and entry.gain.p < 0.05


# Cells of another recipe


def test_stale_cell_is_refused_whichever_rows_are_shown(suite_of):
    experiment = suite_of()
    write_scored(experiment, Cell("plain", 1, None), 10, LABELS)
    recipe = experiment.suite.folder / "plain.yaml"
    recipe.write_text(recipe.read_text(encoding="utf-8") + "lr: 0.5\n", encoding="utf-8")
    for rows in (["plain"], ["faster"]):
        with pytest.raises(RunError, match=r"was run by another recipe: lr: 0.001 → 0.5"):
            suite_table(experiment, [1], rows)


# What differs from the paper


def departures(experiment: Experiment) -> dict[str, tuple[str, ...]]:
    write_scored(experiment, Cell("plain", 1, None), 1, LABELS)
    return {column: entry.departures for column, entry in entries_of(experiment, "plain", seeds=[1]).items()}


def test_unknown_sizes_of_the_paper_are_not_marked(suite_of):
    assert set(departures(suite_of(paper_rows={})).values()) == {()}


def test_fewer_rows_of_one_task_are_marked_in_every_column(suite_of):
    assert set(departures(suite_of(paper_rows={"mood": 24, "near": 24, "same": 1000})).values()) == {("rows",)}


def test_fewer_rows_of_a_task_that_does_not_learn_are_not_marked(suite_of):
    experiment = suite_of(paper_rows={"mood": 24, "near": 24, "same": 1000})
    (experiment.suite.folder / "plain.yaml").write_text(
        "extends: base.yaml\ntasks: {same: {learn: false}}\n", encoding="utf-8"
    )
    assert set(departures(experiment).values()) == {()}


# Folds


@pytest.fixture
def folded(suite_of):
    """Two rows of one task with three folds and a quarter of the other folds as dev; without predictions."""
    experiment = suite_of(
        folds=3, scores={"only": "accuracy"}, means={}, paper_rows={}, rows={"plain": {}, "faster": {}}
    )
    for row in ("plain", "faster"):
        one_task(experiment, row, "mood", dev=0.25)
    return experiment


def test_test_over_folds_accounts_for_rows_that_are_not_trained_on(folded):
    scores = {"plain": [0.5, 0.6, 0.7], "faster": [0.6, 0.75, 0.9]}
    for row, values in scores.items():
        for fold, value in enumerate(values, start=1):
            write_cell(folded, Cell(row, 1, fold), {"mood": value})  # a t-test needs no predictions
    entry = entries_of(folded, "faster", seeds=[1])["only"]
    ratio = (1 / 3) / (2 / 3 * 0.75)
    expected = corrected_t_test([0.1, 0.15, 0.2], ratio)
    assert (entry.gain.low, entry.gain.high, entry.gain.p) == pytest.approx(
        (expected.low, expected.high, expected.p), rel=1e-9
    )
    assert entry.interval == pytest.approx(corrected_interval(scores["faster"], ratio), rel=1e-12)


def test_folds_of_other_rows_are_not_tested(folded):
    for fold in (1, 2):
        write_cell(folded, Cell("plain", 1, fold), {"mood": 0.5})
        write_cell(folded, Cell("faster", 1, fold), {"mood": 0.5 + fold / 10}, rows={"mood": 12})
    entry = entries_of(folded, "faster", seeds=[1])["only"]
    assert entry.untested and entry.gain.mean == pytest.approx(0.15) and entry.gain.p is None


# Several tests


def test_p_does_not_depend_on_the_rows_that_are_shown(suite_of):
    experiment = suite_of(rows={"plain": {}, "faster": {}, "third": {"recipe": "faster.yaml"}})
    for row, wrong in (("plain", 10), ("faster", 4), ("third", 5)):
        write_scored(experiment, Cell(row, 1, None), wrong, LABELS)
    both, single = (suite_table(experiment, [1], rows).rows for rows in (["faster", "third"], ["faster"]))
    assert [row.name for row in single] == ["faster"]
    assert single[0] == both[0]
    (experiment.folder(Cell("third", 1, None)) / "cell.json").unlink()
    uncorrected = entries_of(experiment, "faster", seeds=[1])["mood"].p
    assert single[0].entries["mood"].p == pytest.approx(2 * uncorrected, rel=1e-12)  # the smaller of two
