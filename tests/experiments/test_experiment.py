"""`plait experiment`: cells, their table, and resuming after a stop."""

import csv
import json
import re
import shutil
import statistics
import subprocess
import sys
from pathlib import Path

import pytest

from plait.evaluation.evaluate import score_task
from plait.experiments.cells import Cell, Experiment
from plait.experiments.records import read_predictions
from plait.experiments.run_cell import run_cell
from plait.files import lock
from plait.model.directory.load import load_model
from plait.model.directory.record import open_directory
from plait.progress import SilentProgress
from plait.recipe.suite import read_suite
from plait.runs.origins import find_split
from plait.training.train import Stopped

NO_DEV = [option for task in ("mood", "same", "near") for option in ("--set", f"tasks.{task}.dev=null")]


def test_all_cells_are_run_and_the_table_is_written(make_suite, experiment, tmp_path):
    folder, out = make_suite(), tmp_path / "out"
    shown, _ = experiment(folder, "--out", out)
    assert "Tiny table" in shown and "nobody has the labels" in shown and "2 of 2" in shown
    table = json.loads((out / "table.json").read_text())
    entries = {(entry["row"], entry["column"]): entry for entry in table["entries"]}
    cells = [json.loads((out / "plain" / f"seed-{seed}" / "cell.json").read_text()) for seed in (1, 2)]
    for column in ("mood", "near"):
        entry = entries["plain", column]
        values = [cell["scores"][column] for cell in cells]
        assert entry["values"] == values
        assert entry["mean"] == pytest.approx(statistics.fmean(values))
        assert entry["deviation"] == pytest.approx(statistics.stdev(values))
    means = [statistics.fmean(cell["scores"][task] for task in ("mood", "near")) for cell in cells]
    assert entries["plain", "mean"]["mean"] == pytest.approx(statistics.fmean(means))
    shifted = [(cell["scores"]["mood"] + (cell["scores"]["near"] + 1) / 2) / 2 for cell in cells]
    assert entries["plain", "shifted"]["mean"] == pytest.approx(statistics.fmean(shifted))
    assert entries["plain", "mood"]["from_paper"] == pytest.approx(entries["plain", "mood"]["mean"] - 0.5)
    assert entries["plain", "mood"]["differs"] == entries["plain", "near"]["differs"] == ["rows"]
    gain = entries["faster", "mood"]
    assert gain["against"] == "plain" and entries["plain", "mood"]["gain"] is None
    assert gain["gain"] == pytest.approx(gain["mean"] - entries["plain", "mood"]["mean"])
    assert gain["low"] <= gain["gain"] <= gain["high"] and 0 < gain["p"] <= 1
    assert (entries["test", "mood"]["paper"], entries["test", "mood"]["mean"]) == (0.9, None)
    with (out / "table.csv").open() as file:
        assert len(list(csv.DictReader(file))) == len(table["entries"])
    page = (out / "table.md").read_text()
    assert "paper 0.500" in page and "± " in page and "plait experiment" in page
    assert (out / "figure.svg").read_text().startswith("<svg")


def test_finished_cells_are_not_repeated_and_seeds_can_be_added(make_suite, experiment, tmp_path):
    folder, out = make_suite(), tmp_path / "out"
    experiment(folder, "--out", out, "--seeds", "1", "--rows", "plain")
    before = (out / "plain/seed-1/cell.json").stat().st_mtime_ns
    _, notes = experiment(folder, "--out", out, "--seeds", "1,5", "--rows", "plain")
    assert "1 of 2 cells are already done" in notes
    assert (out / "plain/seed-1/cell.json").stat().st_mtime_ns == before
    assert (out / "plain/seed-5/cell.json").is_file()


def test_interrupted_cell_resumes_to_the_same_scores(make_suite, tmp_path):
    suite, cell = read_suite(make_suite()), Cell("plain", 1, None)
    whole, stopped = Experiment(suite, tmp_path / "whole"), Experiment(suite, tmp_path / "stopped")
    run_cell(whole, cell, SilentProgress(), lambda: False)
    asked = iter([False] * 4 + [True])
    with pytest.raises(Stopped):
        run_cell(stopped, cell, SilentProgress(), lambda: next(asked))
    assert stopped.result(cell) is None
    assert run_cell(stopped, cell, SilentProgress(), lambda: False)
    assert stopped.result(cell).scores == whole.result(cell).scores
    again = read_predictions(stopped.predictions_file(cell))
    for task, found in read_predictions(whole.predictions_file(cell)).items():
        assert (found.predictions.values == again[task].predictions.values).all()


def test_machines_can_share_the_cells(make_suite, experiment, tmp_path):
    folder = make_suite()
    names = []
    for part in ("1/3", "2/3", "3/3"):
        shown, _ = experiment(folder, "--out", tmp_path / "out", "--cells", part, "--dry-run", "--json")
        names.append([cell["cell"] for cell in json.loads(shown.splitlines()[-1])["cells"]])
    assert sorted(name for part in names for name in part) == [
        "faster/seed-1",
        "faster/seed-2",
        "plain/seed-1",
        "plain/seed-2",
    ]
    assert all(names)
    assert "such as 3/8" in experiment(folder, "--cells", "4/3", code=2)[1]


def test_dry_run_estimates_the_time_and_runs_nothing(make_suite, experiment, tmp_path):
    shown, _ = experiment(make_suite(), "--out", tmp_path / "out", "--dry-run")
    assert "4 cells, 4 to run: about" in shown
    assert not (tmp_path / "out").exists()


def test_cells_of_another_recipe_are_refused(make_suite, experiment, tmp_path):
    folder, out = make_suite(), tmp_path / "out"
    experiment(folder, "--out", out, "--rows", "plain", "--seeds", "1")
    _, error = experiment(folder, "--out", out, "--rows", "plain", "--seeds", "1", "--set", "lr=1e-4", code=2)
    assert "was run by another recipe: lr: 0.001 → 0.0001" in error and "choose another --out" in error


def test_cells_of_other_data_are_refused(make_suite, experiment, tmp_path):
    folder, out = make_suite(), tmp_path / "out"
    command = (folder, "--out", out, "--rows", "plain", "--seeds", "1")
    experiment(*command)
    data = tmp_path / "data/mood-train.csv"
    rows = data.read_bytes()
    data.write_bytes(rows + rows.splitlines()[-1] + b"\n")
    _, error = experiment(*command, "--table", code=2)
    assert "was run on other data: mood-train.csv: " in error and "choose another --out" in error
    data.write_bytes(rows)
    experiment(*command, "--table")


def test_departures_of_a_profile_from_the_paper_are_marked(make_suite, experiment, tmp_path):
    experiment(make_suite(), "--out", tmp_path / "out", "--profile", "short", "--rows", "plain", "--seeds", "1")
    table = json.loads((tmp_path / "out/table.json").read_text())
    differs = {entry["column"]: entry["differs"] for entry in table["entries"] if entry["row"] == "plain"}
    assert differs == {column: ["rows", "epochs"] for column in ("mood", "near", "mean", "shifted")}


def test_folds_are_scored_on_their_own_rows(make_suite, experiment, tmp_path):
    folder = make_suite(
        folds=3, scores={"only": "accuracy"}, means={}, paper_rows={"only": 24}, rows={"one": {}}, baseline="one"
    )
    data = tmp_path / "data/mood-train.csv"
    (folder / "one.yaml").write_text("extends: base.yaml\ntasks: {mood: {dev: 0.25}}\n", encoding="utf-8")
    base = (folder / "base.yaml").read_text(encoding="utf-8")
    start, end = base.index("  same:"), base.index("epochs:")
    (folder / "base.yaml").write_text(base[:start] + base[end:], encoding="utf-8")
    experiment(folder, "--out", tmp_path / "out", "--seeds", "7")
    found = [json.loads((tmp_path / f"out/one/seed-7/fold-{fold}/cell.json").read_text()) for fold in (1, 2, 3)]
    assert [cell["rows"]["mood"] for cell in found] == [24, 24, 24]
    files = [tmp_path / f"out/one/seed-7/fold-{fold}/answers.npz" for fold in (1, 2, 3)]
    sizes = [len(read_predictions(file)["mood"].labels) for file in files]
    assert sum(sizes) == len(data.read_text().splitlines()) - 1
    entry = json.loads((tmp_path / "out/table.json").read_text())["entries"][0]
    assert entry["cells"] == 3 and entry["differs"] == []


def test_grid_takes_the_best_on_dev(make_suite, experiment, tmp_path):
    rows = {"plain": {"grid": {"lr": [1e-9, 1e-2]}}}
    experiment(make_suite(rows=rows), "--out", tmp_path / "out", "--seeds", "1")
    found = json.loads((tmp_path / "out/plain/seed-1/cell.json").read_text())
    trials = json.loads((tmp_path / "out/plain/seed-1/trials.json").read_text())["trials"]
    best = max(trials, key=lambda trial: trial["score"])
    assert found["settings"] == [f"lr={best['values']['lr']!r}"]
    kept = [folder.parent.name for folder in (tmp_path / "out/plain/seed-1/trials").glob("*/best")]
    assert kept == [f"{best['number']:03}"]


def test_ensemble_averages_the_best_models_of_its_runs(make_suite, experiment, tmp_path):
    rows = {"plain": {}, "em": {"ensemble": "plain", "runs": 2, "models": 3}}
    experiment(make_suite(rows=rows), "--out", tmp_path / "out", "--seeds", "1")
    out = tmp_path / "out"
    assert len(list((out / "plain/seed-1/run/kept").iterdir())) == 2  # one per epoch
    assert len(list((out / "em/seed-1/run-2/kept").iterdir())) == 2
    found = json.loads((out / "em/seed-1/cell.json").read_text())
    assert found["scores"].keys() == {"mood", "same", "near"}
    assert found["recipe"]["seed"] == 1
    second = json.loads((out / "em/seed-1/run-2/run.json").read_text())
    assert second["recipe"]["seed"] == 100_001


def test_failed_cell_is_reported_and_the_others_continue(make_suite, experiment, tmp_path):
    folder = make_suite(seeds=[1])
    path = folder / "faster.yaml"
    path.write_text(path.read_text() + "clip: null\noptimizer: {name: adamw}\n", encoding="utf-8")
    path.write_text(path.read_text().replace("lr: 0.003", "lr: 1.0e+30"), encoding="utf-8")
    shown, notes = experiment(folder, "--out", tmp_path / "out")
    assert "faster/seed-1 failed" in notes and "Failed: faster/seed-1" in shown
    assert json.loads((tmp_path / "out/plain/seed-1/cell.json").read_text())["scores"]


def test_models_can_be_deleted_after_scoring(make_suite, experiment, tmp_path):
    experiment(make_suite(), "--out", tmp_path / "out", "--seeds", "1", "--rows", "plain", "--no-models")
    assert not (tmp_path / "out/plain/seed-1/run/best").exists()
    experiment(make_suite(), "--out", tmp_path / "out", "--seeds", "1", "--rows", "plain", "--table")


def test_models_are_kept_until_their_ensemble_is_done(make_suite, experiment, tmp_path):
    rows = {"plain": {}, "em": {"ensemble": "plain", "runs": 2, "models": 2}}
    folder, out = make_suite(rows=rows), tmp_path / "out"
    experiment(folder, "--out", out, "--seeds", "1", "--rows", "em", "--no-models")
    assert (out / "plain/seed-1/run/kept").is_dir() and not (out / "em/seed-1/run-2/kept").exists()
    experiment(folder, "--out", out, "--seeds", "1", "--no-models")
    assert not (out / "plain/seed-1/run/kept").exists() and not (out / "plain/seed-1/run/best").exists()
    seconds = json.loads((out / "em/seed-1/cell.json").read_text())["seconds"]
    assert (
        seconds == json.loads((out / "em/seed-1/run-2/result.json").read_text())["seconds"]
    )  # the first run belongs to plain


def test_ensemble_of_a_run_without_kept_models_is_refused_and_the_others_continue(make_suite, experiment, tmp_path):
    out = tmp_path / "out"
    experiment(make_suite(), "--out", out, "--seeds", "1", "--rows", "plain")
    folder = make_suite(rows={"em": {"ensemble": "plain"}, "plain": {}, "faster": {}})
    _, error = experiment(folder, "--out", out, "--seeds", "1", code=1)
    assert "em/seed-1: " in error and "kept no models; remove it" in error
    assert (out / "faster/seed-1/cell.json").is_file()


def test_ensemble_leaves_its_first_run_to_the_process_that_trains_it(make_suite, tmp_path):
    suite = read_suite(make_suite(rows={"plain": {}, "em": {"ensemble": "plain"}}))
    both = Experiment(suite, tmp_path / "out")
    (tmp_path / "out/plain/seed-1").mkdir(parents=True)
    with lock(tmp_path / "out/plain/seed-1/.cell.lock"):
        assert not run_cell(both, Cell("em", 1, None), SilentProgress(), lambda: False)
    assert not (tmp_path / "out/em/seed-1/run-2").exists()


def test_finished_run_of_another_recipe_is_not_scored(make_suite, experiment, tmp_path):
    folder, out = make_suite(), tmp_path / "out"
    experiment(folder, "--out", out, "--rows", "plain", "--seeds", "1")
    (out / "plain/seed-1/cell.json").unlink()
    _, error = experiment(folder, "--out", out, "--rows", "plain", "--seeds", "1", "--set", "lr=1e-4", code=1)
    assert "the recipe has changed: lr: 0.001 → 0.0001" in error
    experiment(folder, "--out", out, "--rows", "plain", "--seeds", "1")
    assert (out / "plain/seed-1/cell.json").is_file()


def test_cell_of_another_grid_is_refused(make_suite, experiment, tmp_path):
    folder, out = make_suite(rows={"plain": {"grid": {"lr": [1e-3]}}}), tmp_path / "out"
    experiment(folder, "--out", out, "--seeds", "1")
    folder = make_suite(rows={"plain": {"grid": {"lr": [1e-4]}}})
    _, error = experiment(folder, "--out", out, "--seeds", "1", code=2)
    assert "was run by another recipe: grid.lr" in error


def test_departures_chosen_by_a_grid_are_marked(make_suite, experiment, tmp_path):
    rows = {"plain": {"grid": {"epochs": [1]}}}
    experiment(make_suite(rows=rows), "--out", tmp_path / "out", "--seeds", "1")
    entries = json.loads((tmp_path / "out/table.json").read_text())["entries"]
    assert all("epochs" in entry["differs"] for entry in entries if entry["row"] == "plain")


def test_all_values_of_a_grid_are_checked_before_the_first_cell(make_suite, experiment, tmp_path):
    rows = {"plain": {"grid": {"tasks.mood.los": ["cross_entropy"], "lr": [1e-3, "fast"]}}}
    _, error = experiment(make_suite(rows=rows), "--out", tmp_path / "out", code=2)
    assert "unknown key 'los'" in error and "lr: " in error and not (tmp_path / "out").exists()


def test_grid_without_dev_data_is_refused(make_suite, experiment, tmp_path):
    folder = make_suite(rows={"plain": {"grid": {"lr": [1e-3]}}}, scores={"mood": "mood"}, means={})
    _, error = experiment(folder, "--out", tmp_path / "out", *NO_DEV, code=2)
    assert "a grid needs dev data to choose the best settings, and no task has any" in error


def test_grid_without_a_finite_score_is_a_failed_cell(make_suite, experiment, tmp_path):
    rows = {"plain": {"grid": {"lr": [1e30], "clip": [None]}}, "faster": {}}
    shown, _ = experiment(make_suite(rows=rows), "--out", tmp_path / "out", "--seeds", "1")
    assert "Failed: plain/seed-1" in shown and "none of 1 trials reached a finite score" in shown
    assert (tmp_path / "out/faster/seed-1/cell.json").is_file()
    assert not list((tmp_path / "out/plain").rglob("best"))
    experiment(make_suite(rows=rows), "--out", tmp_path / "out", "--seeds", "1")


def test_search_is_scored(make_suite, experiment, tmp_path):
    pytest.importorskip("optuna")
    rows = {"plain": {"grid": {"lr": [1e-9, 1e-3, 1e-2]}, "search": {"trials": 2, "sampler": "random"}}}
    experiment(make_suite(rows=rows), "--out", tmp_path / "out", "--seeds", "1", "--no-models")
    found = json.loads((tmp_path / "out/plain/seed-1/cell.json").read_text())
    assert found["settings"] and found["scores"]
    results = [json.loads(path.read_text()) for path in (tmp_path / "out/plain").rglob("result.json")]
    assert found["seconds"] == pytest.approx(sum(result["seconds"] for result in results)) and len(results) == 2


def test_folds_on_the_command_line_are_checked_like_those_of_the_suite(make_suite, experiment, tmp_path):
    folder = make_suite(rows={"plain": {}, "em": {"ensemble": "plain"}})
    assert "other folds" in experiment(folder, "--folds", "3", "--dry-run", code=2)[1]


def test_folds_need_no_dev_data(make_suite, experiment, tmp_path):
    folder = make_suite(folds=3, rows={"plain": {}}, scores={"mood": "mood"}, means={}, paper_rows={"mood": 24})
    experiment(folder, "--out", tmp_path / "out", "--seeds", "7", *NO_DEV)
    found = json.loads((tmp_path / "out/plain/seed-7/fold-1/cell.json").read_text())
    assert found["rows"]["mood"] == 24


def test_bundled_suite_is_found_by_name(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert read_suite(Path("best-of-bert")).title.startswith("The best of BERT worlds")


def test_table_names_the_command_that_fills_its_empty_cells(make_suite, experiment, tmp_path):
    shown, _ = experiment(make_suite(), "--out", tmp_path / "out", "--seeds", "1,2", "--rows", "plain", "--table")
    assert (
        "Empty cells: 2; where only one seed is done" in shown
        and "fills them: plait experiment" in shown
        and "--seeds 1,2 --rows plain" in shown
    )


def test_table_without_predictions_has_no_tests(make_suite, experiment, tmp_path):
    folder, out = make_suite(), tmp_path / "out"
    experiment(folder, "--out", out, "--seeds", "1")
    (out / "plain/seed-1/answers.npz").unlink()
    shown, _ = experiment(folder, "--out", out, "--seeds", "1", "--table")
    assert (
        "faster is not tested against plain in mood accuracy" in shown and "predictions of some of their cells" in shown
    )
    entries = json.loads((out / "table.json").read_text())["entries"]
    gains = [entry for entry in entries if entry["row"] == "faster"]
    assert all(entry["gain"] is not None and entry["p"] is None for entry in gains)


def test_damaged_predictions_are_reported(make_suite, experiment, tmp_path):
    folder, out = make_suite(), tmp_path / "out"
    experiment(folder, "--out", out, "--seeds", "1")
    (out / "plain/seed-1/answers.npz").write_bytes(b"PK half a file")
    _, error = experiment(folder, "--out", out, "--seeds", "1", "--table", code=2)
    assert "answers.npz: damaged; remove it and the cell.json beside it" in error


def test_a_changed_score_of_a_cell_is_reported(make_suite, experiment, tmp_path):
    folder, out = make_suite(), tmp_path / "out"
    experiment(folder, "--out", out, "--seeds", "1")
    file = out / "plain/seed-1/cell.json"
    value = json.loads(file.read_text())
    file.write_text(json.dumps({**value, "scores": {"mood": 0.999}}))
    _, error = experiment(folder, "--out", out, "--seeds", "1", "--table", code=2)
    assert "cell.json: damaged; remove it to score the cell again" in error


def test_models_are_scored_on_their_training_rows(make_suite, experiment, tmp_path):
    rows = {"plain": {"paper_train": {"mood": 0.9}}, "em": {"ensemble": "plain", "models": 2, "runs": 1}}
    folder, out = make_suite(free_rows=False, rows=rows), tmp_path / "out"
    experiment(folder, "--out", out, "--seeds", "1", "--set", "tasks.mood.rows=12", "--train-scores")
    cell = json.loads((out / "plain/seed-1/cell.json").read_text())
    found = open_directory(out / "plain/seed-1/run")
    examples = find_split(found.record, found.folder, "train", None)["mood"]
    assert len(examples) == 12
    expected = score_task(load_model(found.folder).model, "mood", examples).value
    assert cell["train"]["mood"] == expected and cell["train"].keys() == cell["scores"].keys()
    assert json.loads((out / "em/seed-1/cell.json").read_text())["train"].keys() == {"mood", "same", "near"}
    page = (out / "table.md").read_text()
    assert "--train-scores --set" in page
    heading = "| row | mood accuracy, train | mood accuracy, dev | near Pearson, train | near Pearson, dev | mean"
    assert heading in page and f"| plain | {expected:.3f}<br>paper 0.900 |" in page
    entry = json.loads((out / "table.json").read_text())["entries"][0]
    assert (entry["train"], entry["paper_train"]) == (expected, 0.9)


def test_train_scores_of_an_unknown_task_are_reported(make_suite, experiment):
    folder = make_suite(rows={"plain": {"paper_train": {"moood": 0.9}}})
    assert "paper_train.moood: no such score; did you mean 'mood'?" in experiment(folder, "--dry-run", code=2)[1]


def test_dev_rows_that_choose_are_not_scored(make_suite, experiment, tmp_path):
    out = tmp_path / "out"
    command = (make_suite(rows={"plain": {"grid": {"lr": [1e-9, 1e-2]}}}), "--out", out, "--seeds", "1")
    shown, _ = experiment(*command, "--set", "choose_rows=8", "--profile", "short")
    assert "dev scores, and other dev rows selected the epoch, and in plain also the settings" in shown
    cell = json.loads((out / "plain/seed-1/cell.json").read_text())
    assert {len(found.labels) for found in read_predictions(out / "plain/seed-1/answers.npz").values()} == {16}
    trials = sorted((out / "plain/seed-1/trials").iterdir())
    best = max(trials, key=lambda trial: json.loads((trial / "result.json").read_text())["best_score"])
    scores = json.loads((best / "result.json").read_text())["scores"]
    assert cell["scores"]["mood"] == scores["mood"]["accuracy"]  # of the scored rows
    assert cell["free"]["frozen encoder"] == json.loads((best / "baselines.json").read_text())["dev"]["frozen encoder"]


def test_few_rows_are_drawn_anew_for_each_draw(make_suite, experiment, tmp_path):
    folder = make_suite(train_rows=[4, 8], draws=2, free_rows=False, rows={"plain": {}, "faster": {}})
    out, file = tmp_path / "out", tmp_path / "cells.jsonl"
    shown, _ = experiment(folder, "--out", out, "--seeds", "1", "--profile", "short", "--results", file)
    assert "seeds 1 × 2 draws of the training rows" in shown
    table = json.loads((out / "table.json").read_text())
    assert [row["row"] for row in table["rows"]] == ["plain-4", "faster-4", "plain-8", "faster-8"]
    assert {row["done"] for row in table["rows"]} == {2} and table["draws"] == 2
    cells = [json.loads((out / f"plain-4/seed-1/draw-{draw}/cell.json").read_text()) for draw in (1, 2)]
    assert [cell["rows"] for cell in cells] == [{"mood": 4, "same": 4, "near": 4}] * 2
    entry = next(e for e in table["entries"] if (e["row"], e["column"]) == ("faster-8", "mood"))
    assert entry["against"] == "plain-8" and len(entry["values"]) == 2 and entry["low"] is not None
    shutil.rmtree(out)
    experiment(folder, "--out", out, "--seeds", "1", "--profile", "short", "--results", file, "--table")
    again = json.loads((out / "table.json").read_text())
    assert again == table


@pytest.mark.slow
def test_two_processes_share_the_trials_of_a_search(make_suite, tmp_path):
    rows = {"plain": {"grid": {"lr": [1e-5, 1e-4, 1e-3, 3e-3, 1e-2]}, "search": {"trials": 4}}}
    command = [Path(sys.executable).parent / "plait", "experiment", make_suite(rows=rows), "--out", tmp_path / "out"]
    options = {"stdout": subprocess.DEVNULL, "stderr": subprocess.PIPE, "text": True}
    both = [subprocess.Popen([*command, "--seeds", "1", "--no-models"], **options) for _ in range(2)]
    notes = [process.communicate()[1] for process in both]
    assert [process.returncode for process in both] == [0, 0], notes
    tried = [re.findall(r"^trial (\d) of 4", text, re.MULTILINE) for text in notes]
    assert sorted(tried[0] + tried[1]) == ["1", "2", "3", "4"] and all(tried)
    assert json.loads((tmp_path / "out/plain/seed-1/cell.json").read_text())["scores"]
