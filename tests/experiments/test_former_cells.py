"""Cells that plait 0.1 wrote."""

import json
import shutil
from pathlib import Path

import pytest

from plait.experiments.records import CellResult

FIXTURE = Path(__file__).parents[1] / "fixtures/plait-0.1"


@pytest.fixture
def former(tmp_path, monkeypatch):
    """A copy of the suite and its experiment, as the current directory; its recipes now name the defaults of then."""
    for folder in ("suite", "experiment", "encoder", "data"):
        shutil.copytree(FIXTURE / folder, tmp_path / folder)
    for name in ("plain", "other"):
        with (tmp_path / f"suite/{name}.yaml").open("a", encoding="utf-8") as file:
            file.write("head_start: random\nbatches: sorted\nprecision: float32\n")
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_cells_of_plait_0_1_are_accepted_and_give_the_same_table(former, experiment):
    before = json.loads((former / "experiment/table.json").read_text(encoding="utf-8"))
    shown, _ = experiment("suite", "--seeds", "1", "--out", "experiment", "--table")
    assert "1 of 1" in shown and "not tested" not in shown
    after = json.loads((former / "experiment/table.json").read_text(encoding="utf-8"))
    for part in ("rows", "entries"):  # keys that were added since are empty
        added = [
            {key: now[key] for key in now if key not in then}
            for now, then in zip(after[part], before[part], strict=True)
        ]
        assert not any(value for keys in added for value in keys.values())
        after[part] = [{key: now[key] for key in then} for now, then in zip(after[part], before[part], strict=True)]
    assert {key: after[key] for key in before} == before


def test_cells_of_plait_0_1_are_not_run_again(former, experiment):
    before = (former / "experiment/plain/seed-1/cell.json").read_bytes()
    _, notes = experiment("suite", "--seeds", "1", "--out", "experiment")
    assert "2 of 2 cells are already done" in notes
    assert (former / "experiment/plain/seed-1/cell.json").read_bytes() == before


def test_cells_of_plait_0_1_are_added_to_a_results_file(former, experiment):
    experiment("suite", "--seeds", "1", "--out", "experiment", "--results", "cells.jsonl", "--table")
    lines = [json.loads(line) for line in (former / "cells.jsonl").read_text(encoding="utf-8").splitlines()]
    assert [line["kind"] for line in lines] == ["row", "cell", "row", "cell", "gain"]
    shutil.rmtree(former / "experiment")
    _, notes = experiment("suite", "--seeds", "1", "--out", "experiment", "--results", "cells.jsonl")
    assert "2 of 2 cells are already done" in notes


def test_former_kind_of_label_is_read_with_its_current_name():
    value = json.loads((FIXTURE / "experiment/plain/seed-1/cell.json").read_text(encoding="utf-8"))
    assert CellResult.from_json({**value, "kinds": {"topics": "several"}}).kinds == {"topics": "multilabel"}
