"""Run directories: what they may be created in, who may use them, what is stored in them."""

import json
from pathlib import Path

import pytest

import plait
from plait.data.read import BadRow
from plait.errors import DataError, PlaitError, RunError
from plait.runs.directory import RunDirectory
from plait.training.train import Stopped, resume
from small_runs import stop_after


@pytest.mark.parametrize("kind", ["empty", "link", "here"])
def test_a_run_may_start_in_an_empty_folder(tiny_recipe, tmp_path, monkeypatch, kind):
    (tmp_path / "empty").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "empty")
    monkeypatch.chdir(tmp_path / "empty")
    result = plait.train(tiny_recipe(epochs=1), "." if kind == "here" else tmp_path / kind, baselines=False)
    assert (tmp_path / "empty/best/plait.json").is_file() and (tmp_path / "link").is_symlink()
    assert result.steps == 3


def test_a_folder_with_other_files_is_refused(tiny_recipe, tmp_path):
    (tmp_path / "full").mkdir()
    (tmp_path / "full/thesis.tex").write_text("years of work")
    with pytest.raises(RunError, match=r"full: not empty, it contains thesis\.tex; choose another `out`"):
        plait.train(tiny_recipe(), tmp_path / "full")


def test_two_processes_cannot_train_the_same_run(tiny_recipe, tmp_path):
    with pytest.raises(Stopped):
        plait.train(tiny_recipe(), tmp_path / "run", baselines=False, stop=stop_after(2))
    with RunDirectory(tmp_path / "run").locked(), pytest.raises(RunError, match="another process is training this run"):
        resume(tmp_path / "run")


def test_a_refused_recipe_leaves_no_run_behind(tiny_recipe, tmp_path):
    recipe = tiny_recipe()
    recipe["tasks"]["mood"]["max_length"] = 2
    with pytest.raises(PlaitError, match=r"tasks\.mood\.max_length: expected 3 to 42 tokens for this encoder, found 2"):
        plait.train(recipe, tmp_path / "run")
    assert not (tmp_path / "run").exists()


def test_a_file_cannot_become_a_run(tmp_path):
    (tmp_path / "run").write_text("")
    with pytest.raises(RunError, match="run: is a file; choose another `out`"):
        RunDirectory(tmp_path / "run").check_free()


def test_leftovers_of_a_run_that_never_began_may_stay(tmp_path):
    for name in (".lock", "recipe.yaml", "bad-rows.jsonl", ".run.json.123.part"):
        (tmp_path / name).write_text("")
    (tmp_path / "tables").mkdir()
    RunDirectory(tmp_path).check_free()


def test_a_run_that_began_or_finished_is_refused_with_a_hint(tiny_recipe, tmp_path):
    with pytest.raises(Stopped):
        plait.train(tiny_recipe(), tmp_path / "run", baselines=False, stop=stop_after(1))
    with pytest.raises(RunError, match=f"already holds a run; resume it with plait train --resume {tmp_path}/run, or"):
        plait.train(tiny_recipe(), tmp_path / "run")
    resume(tmp_path / "run")
    with pytest.raises(RunError, match="already holds a finished run; choose another `out`"):
        plait.train(tiny_recipe(), tmp_path / "run")
    with pytest.raises(RunError, match=f"already finished; its model is {tmp_path}/run/best"):
        resume(tmp_path / "run")


def test_a_lock_removes_what_a_killed_process_left_half_written(tmp_path):
    run = RunDirectory(tmp_path)
    for folder in (run.folder, run.checkpoints, run.kept):
        (folder / ".half.123.part").mkdir(parents=True)
    with run.locked():
        assert not list(tmp_path.rglob("*.part"))


def test_bad_rows_are_listed_in_the_run(tiny_recipe, tmp_path):
    recipe = tiny_recipe(epochs=1, bad_rows="skip")
    with Path(recipe["tasks"]["mood"]["train"]).open("a") as file:
        file.write(",low\n")
    plait.train(recipe, tmp_path / "run", baselines=False)
    (line,) = (tmp_path / "run/bad-rows.jsonl").read_text().splitlines()
    found = json.loads(line)
    assert found.pop("task") == "mood"
    assert BadRow(**found).where == "mood-train.csv:26"


def test_tables_in_memory_become_files_of_the_run(tmp_path):
    run = RunDirectory(tmp_path / "run")
    rows = [{"text": "a", "label": "x"}, {"text": "b", "label": "y"}]
    recipe = {"tasks": {"mood": {"train": rows, "dev": "dev.csv", "text": "text"}}, "lr": 1}
    stored = run.store_tables(recipe)
    path = tmp_path / "run/tables/mood-train.jsonl"
    assert stored == {"tasks": {"mood": {"train": str(path), "dev": "dev.csv", "text": "text"}}, "lr": 1}
    assert [json.loads(line) for line in path.read_text().splitlines()] == rows
    assert recipe["tasks"]["mood"]["train"] is rows  # the caller's mapping stays unchanged
    assert run.store_tables("recipe.yaml") == "recipe.yaml"


def test_tables_that_plait_0_1_stored_are_found(tmp_path):
    (tmp_path / "given").mkdir()
    assert RunDirectory(tmp_path).tables == tmp_path / "given"


def test_neither_a_file_nor_a_table_is_refused(tmp_path):
    with pytest.raises(DataError, match=r"mood\.train: expected a file, a data frame or a list of dicts, found set"):
        RunDirectory(tmp_path).store_tables({"tasks": {"mood": {"train": {"a.csv"}}}})
