"""The rows of a table that need no training of the encoder."""

import csv
import json

import pytest

from plait.experiments.cells import Cell, Experiment
from plait.experiments.compare import suite_table
from plait.experiments.tables import as_csv, as_json, as_markdown, footnotes, score_cells
from plait.training.baselines import FREE, FROZEN, MAJORITY, ZERO_SHOT
from written_cells import one_task, write_cell

SCORES = {"mood": 0.7, "near": 0.4}
CONSTANT = {"mood": 0.5}
COSINE = {"near": 0.45}


def free(mood: float, near: float) -> dict[str, dict[str, float]]:
    return {MAJORITY: CONSTANT, ZERO_SHOT: COSINE, FROZEN: {"mood": mood, "near": near}}


def filled(suite_of, **changes: object) -> Experiment:
    """Two rows whose frozen heads differ, with two seeds each."""
    experiment = suite_of(**changes)
    for seed in (1, 2):
        write_cell(experiment, Cell("plain", seed, None), SCORES, free=free(0.6, 0.1))
        better = {"mood": 0.8, "near": 0.5 + seed / 100}
        write_cell(experiment, Cell("faster", seed, None), better, free=free(0.55, 0.3 + seed / 10))
    return experiment


def test_table_starts_with_the_best_free_scores_of_its_rows(suite_of):
    table = suite_table(filled(suite_of), [1, 2], ["plain", "faster"])
    assert [row.name for row in table.rows] == [*FREE, "plain", "faster", "test"]
    majority, cosine, frozen = table.rows[:3]
    assert majority.entries["mood"].values == (0.5, 0.5) and majority.entries["near"].values == ()
    assert cosine.entries["near"].values == (0.45, 0.45) and cosine.entries["mean"].values == ()
    assert frozen.entries["mood"].values == (0.6, 0.6)  # of plain
    assert frozen.entries["near"].values == pytest.approx((0.4, 0.5))  # of faster: the higher mean, seed by seed
    assert frozen.entries["mean"].mean == pytest.approx((0.6 + 0.45) / 2)


def test_gain_over_the_best_free_row_by_hand(suite_of):
    table = suite_table(filled(suite_of), [1, 2], ["plain", "faster"])
    plain, faster = table.rows[3:5]
    assert plain.entries["mood"].over_free == pytest.approx(0.1) and plain.entries["mood"].best_free == FROZEN
    assert plain.entries["near"].over_free == pytest.approx(0.4 - 0.45)  # cosine and frozen both have 0.45
    assert table.over_free(plain) == pytest.approx((0.1 - 0.05) / 2)
    assert plain.entries["mean"].over_free == pytest.approx((0.1 - 0.05) / 2)
    assert plain.entries["shifted"].over_free == pytest.approx((0.1 - 0.05 / 2) / 2)
    assert faster.entries["near"].over_free == pytest.approx(0.515 - 0.45)
    assert [row.name for row in table.rows if row.entries["near"].below_zero_shot] == ["plain"]


def test_rows_below_zero_shot_are_marked_and_explained_only_then(suite_of):
    experiment = filled(suite_of)
    table = suite_table(experiment, [1, 2], ["plain", "faster"])
    names, rows = score_cells(table, " / ")
    assert names[-2:] == ["over free rows", "cells"]
    plain, faster = rows[3:5]
    assert "0.400 ± 0.000ʳᶻ" in plain[2] and "ᶻ" not in faster[2]
    assert plain[-2] == "+0.025 / mood accuracy +0.100 / near Pearson −0.050"
    assert rows[0][-2:] == ["–", "–"]
    note = "ᶻ not above the zero-shot cosine: a comparison of heads says little here."
    assert note in footnotes(table, "plait") and note in as_markdown(table, "plait")
    above = suite_table(experiment, [1, 2], ["faster"])
    assert not any("ᶻ" in line for line in footnotes(above, "plait"))
    assert above.rows[2].entries["mood"].values == (0.6, 0.6)  # of plain, which is not shown


def test_machines_get_the_same(suite_of):
    table = suite_table(filled(suite_of), [1, 2], ["plain", "faster"])
    value = as_json(table)
    rows = {row["row"]: row for row in value["rows"]}
    assert rows[FROZEN]["free"] and not rows["plain"]["free"]
    assert rows["plain"]["below_zero_shot"] == ["near"] and rows["plain"]["over_free"] == pytest.approx(0.025)
    entry = next(e for e in value["entries"] if (e["row"], e["column"]) == ("plain", "mood"))
    assert entry["over_free"] == pytest.approx(0.1) and entry["best_free"] == FROZEN
    lines = list(csv.DictReader(as_csv(table).splitlines()))
    assert {line["over_free"] for line in lines if line["row"] == MAJORITY} == {""}
    assert json.loads(json.dumps(value)) == value


def test_cells_without_free_scores_leave_the_table_as_it_was(suite_of):
    experiment = suite_of()
    write_cell(experiment, Cell("plain", 1, None), SCORES)
    table = suite_table(experiment, [1], ["plain", "faster"])
    assert [row.name for row in table.rows] == ["plain", "faster", "test"]
    assert "over free rows" not in score_cells(table)[0] and len(footnotes(table, "plait")) == 5


def test_cells_of_before_have_no_gain_over_free_rows(suite_of):
    experiment = suite_of()
    write_cell(experiment, Cell("plain", 1, None), SCORES, free=free(0.6, 0.1))
    write_cell(experiment, Cell("faster", 2, None), SCORES)
    rows = {row.name: row for row in suite_table(experiment, [1, 2], ["plain", "faster"]).rows}
    assert rows["plain"].entries["mood"].over_free == pytest.approx(0.1)
    assert rows["faster"].entries["mood"].over_free is None


def test_free_rows_can_be_switched_off(suite_of):
    table = suite_table(filled(suite_of, free_rows=False), [1, 2], ["plain"])
    assert [row.name for row in table.rows] == ["plain", "test"]


def test_rows_with_other_data_have_their_own_free_rows(suite_of):
    keys = {"scores": {"only": "score"}, "means": {}, "paper_rows": {}}
    experiment = suite_of(**keys, rows={"plain": {}, "faster": {"against": "plain"}})
    for row, task in (("plain", "mood"), ("faster", "near")):
        one_task(experiment, row, task)
        write_cell(experiment, Cell(row, 1, None), {task: SCORES[task]}, free={FROZEN: {task: 0.6}})
    rows = suite_table(experiment, [1], ["plain", "faster"]).rows
    assert [row.name for row in rows] == [
        *(f"{name} (mood)" for name in FREE),
        "plain",
        *(f"{name} (near)" for name in FREE),
        "faster",
    ]
    assert rows[3].entries["only"].over_free == pytest.approx(0.1)
    assert rows[7].entries["only"].over_free == pytest.approx(-0.2)


def test_free_scores_are_those_of_the_baselines_of_a_run(make_suite, experiment, tmp_path):
    out = tmp_path / "out"
    shown, _ = experiment(make_suite(), "--out", out, "--seeds", "1", "--rows", "plain")
    cell = json.loads((out / "plain/seed-1/cell.json").read_text())
    stored = json.loads((out / "plain/seed-1/run/baselines.json").read_text())["dev"]
    assert cell["free"][FROZEN] == stored[FROZEN] and cell["free"][FROZEN].keys() == {"mood", "same", "near"}
    assert cell["free"][ZERO_SHOT].keys() == {"same", "near"} and cell["free"][MAJORITY].keys() >= {"mood", "same"}
    assert "over free rows" in shown and MAJORITY in shown


def test_suite_without_free_rows_measures_none(make_suite, experiment, tmp_path):
    out = tmp_path / "out"
    experiment(make_suite(free_rows=False, rows={"plain": {}}), "--out", out, "--seeds", "1")
    assert json.loads((out / "plain/seed-1/cell.json").read_text())["free"] == {}
    assert not (out / "plain/seed-1/run/baselines.json").exists()
