"""Dev rows that choose the best model, apart from those that are scored."""

import json
from collections import Counter

import numpy as np
import pytest

import plait
from plait.errors import PlaitError, RecipeError
from plait.evaluation.evaluate import score_task
from plait.model.directory.load import load_model
from plait.model.directory.record import open_directory
from plait.model.ensemble_build import build_ensemble
from plait.resolve.run import resolve_run
from plait.resolve.warm_start import find_start_model
from plait.runs.directory import RunDirectory
from plait.runs.origins import find_split
from plait.runs.records import ScoresLine
from plait.training.given_recipe import as_recipe
from plait.training.train import Stopped, resume
from reading import resolve
from small_runs import stop_after

TASKS = ("mood", "same", "near")


def scores_lines(run) -> list[ScoresLine]:
    return [line for line in RunDirectory(run).metrics_lines() if isinstance(line, ScoresLine)]


@pytest.fixture
def run(tiny_recipe, tmp_path):
    """A finished run of three epochs with 8 of 24 dev rows that choose."""
    recipe = tiny_recipe(choose_rows=8, epochs=3)
    return recipe, plait.train(recipe, tmp_path / "run")


# The rows


def test_rows_are_divided_in_proportion_and_whatever_the_seed(tiny_recipe):
    whole = resolve(tiny_recipe()).tasks["mood"].splits["dev"]
    one, other = (resolve(tiny_recipe(choose_rows=8, seed=seed)).tasks["mood"] for seed in (1, 2))
    assert one.choosing.origins == other.choosing.origins and len(one.choosing) == 8
    assert sorted(one.choosing.origins + one.splits["dev"].origins) == sorted(whole.origins)
    assert one.judges is one.choosing and resolve(tiny_recipe()).tasks["mood"].judges is not None
    counts, all_counts = (Counter(part.labels.tolist()) for part in (one.choosing, whole))
    assert all(abs(counts[label] - 8 * count / 24) <= 1 for label, count in all_counts.items())


def test_tasks_may_have_their_own_number(tiny_recipe):
    recipe = tiny_recipe()
    recipe["tasks"]["mood"]["choose_rows"] = 5
    tasks = resolve(recipe).tasks
    assert len(tasks["mood"].choosing) == 5 and tasks["same"].choosing is None
    assert resolve(tiny_recipe(choose_rows=5, dev_rows=9)).tasks["near"].splits["dev"].labels.shape == (4,)


def test_rows_are_named_before_training(tiny_recipe):
    notes = resolve(tiny_recipe(choose_rows=8)).data_notes()
    assert "mood: 8 of 24 dev rows choose the best model, the others are scored" in notes


def test_too_many_rows_are_refused(tiny_recipe):
    with pytest.raises(
        PlaitError, match=r"tasks.mood.choose_rows: 24 of 24 dev rows choose the best model, which leaves"
    ):
        resolve(tiny_recipe(choose_rows=24))


def test_task_without_dev_rows_has_none_that_choose(tiny_recipe):
    recipe = tiny_recipe(choose_rows=8)
    del recipe["tasks"]["same"]["dev"]
    assert resolve(recipe).tasks["same"].choosing is None  # run-wide: the others have dev
    recipe["tasks"]["same"]["choose_rows"] = 8
    with pytest.raises(PlaitError, match="choose_rows: the task has no dev data to choose from"):
        resolve(recipe)


def test_share_of_a_fold_is_divided_too(tiny_recipe):
    recipe = tiny_recipe(fold="1/3")
    recipe["tasks"]["mood"] |= {"dev": 0.5, "choose_rows": 3}
    task = resolve(recipe).tasks["mood"]
    assert (len(task.splits["test"]), len(task.splits["dev"]) + 3) == (8, 8) and len(task.choosing) == 3


# A run


def test_best_model_is_that_of_the_choosing_rows_and_its_scores_are_on_the_others(run):
    recipe, result = run
    tasks = resolve(recipe).tasks
    model = load_model(result.model).model
    chosen = {name: score_task(model, name, task.choosing) for name, task in tasks.items()}
    scored = {name: score_task(model, name, task.splits["dev"]) for name, task in tasks.items()}
    assert {name: result.scores[name] for name in TASKS} == {name: scored[name].values for name in TASKS}
    lines = scores_lines(result.run)
    best = max(lines, key=lambda line: line.mean)
    assert result.best_step == best.step
    assert best.mean == pytest.approx(np.mean([found.value for found in chosen.values()]))
    assert best.choose == {name: found.values for name, found in chosen.items()}
    assert best.dev == {name: found.values for name, found in scored.items()}
    assert RunDirectory(result.run).read_result().best_score == best.mean
    assert "did not select this checkpoint" in (result.model / "README.md").read_text()


def test_choice_follows_the_rows_that_choose(tiny_recipe, tmp_path):
    recipe = tiny_recipe(choose_rows=8, best_by="mood", epochs=3)
    result = plait.train(recipe, tmp_path / "run", baselines=False)
    judged = [(line.choose["mood"]["accuracy"], -line.step) for line in scores_lines(result.run)]
    assert -max(judged)[1] == result.best_step


def test_evaluation_and_gains_use_the_scored_rows(run):
    recipe, result = run
    found = open_directory(result.model)
    again = find_split(found.record, found.folder, "dev", None)
    tasks = resolve(recipe).tasks
    for name in TASKS:
        assert again[name].origins == tasks[name].splits["dev"].origins and len(again[name]) == 16
        assert result.gains[name].rows == 16
    answers = RunDirectory(result.run).read_baseline_predictions()["dev"]
    assert {len(found.values) for own in answers.values() for found in own.values()} == {16}


def test_interrupted_run_resumes_to_the_same_bits(run, tmp_path):
    recipe, whole = run
    with pytest.raises(Stopped):
        plait.train(recipe, tmp_path / "stopped", stop=stop_after(4))
    again = resume(tmp_path / "stopped")
    first, second = (RunDirectory(found.run).read_result() for found in (whole, again))
    assert first.last_weights_sha256 == second.last_weights_sha256 and first.scores == second.scores
    assert (first.best_step, first.best_score) == (second.best_step, second.best_score)
    assert [line.to_json() for line in scores_lines(whole.run)] == [line.to_json() for line in scores_lines(again.run)]


def test_refit_trains_on_all_dev_rows(tiny_recipe, tmp_path):
    recipe = tiny_recipe(choose_rows=2, refit=True, epochs=1)
    for task in recipe["tasks"].values():
        task["dev"] = 0.25
    result = plait.train(recipe, tmp_path / "run", baselines=False)
    assert open_directory(result.model).record.provenance.refit
    assert {len(task.splits["dev"]) for task in resolve(recipe).tasks.values()} <= {3, 4, 5}


def test_warm_start_scores_kept_tasks_on_the_scored_rows(run, tiny_recipe):
    recipe, result = run
    new = tiny_recipe(encoder=str(result.model), head_start="random")
    new["tasks"] = {"mood": new["tasks"]["mood"]}
    start = find_start_model(as_recipe(new, None, None, ()), None)
    assert start.kept["near"].dev.origins == resolve(recipe).tasks["near"].splits["dev"].origins


def test_ensemble_shares_dev_rows_only_if_the_same_rows_chose(run, tiny_recipe, tmp_path):
    recipe, result = run
    for number, rows in ((1, 8), (2, 9)):
        other = plait.train({**recipe, "choose_rows": rows, "seed": 5}, tmp_path / f"other-{number}", baselines=False)
        build_ensemble([str(result.model), str(other.model)], tmp_path / f"ensemble-{number}")
        data = open_directory(tmp_path / f"ensemble-{number}").record.provenance.data["mood"]
        assert ("dev" in data) == (rows == 8)
    found = open_directory(tmp_path / "ensemble-1")
    assert len(find_split(found.record, found.folder, "dev", tmp_path / "data")["mood"]) == 16


def test_run_without_the_key_writes_the_same_lines_as_before(tiny_recipe, tmp_path):
    result = plait.train(tiny_recipe(epochs=1), tmp_path / "run", baselines=False)
    lines = [json.loads(line) for line in (result.run / "metrics.jsonl").read_text().splitlines()]
    assert not any("choose" in line for line in lines)


def test_changed_number_is_refused_when_resuming(tiny_recipe, tmp_path):
    with pytest.raises(Stopped):
        plait.train(tiny_recipe(choose_rows=8), tmp_path / "run", baselines=False, stop=stop_after(2))
    with pytest.raises(PlaitError, match="choose_rows: 8 → 9"):
        resume(tmp_path / "run", overrides=["choose_rows=9", *(f"tasks.{task}.choose_rows=9" for task in TASKS)])


def test_baselines_choose_their_epoch_on_the_same_rows(tiny_recipe, monkeypatch):
    from plait.progress import SilentProgress
    from plait.training import baselines

    seen = []
    measure = baselines._measure
    monkeypatch.setattr(
        baselines, "_measure", lambda task, examples, said: seen.append(len(examples)) or measure(task, examples, said)
    )
    recipe = as_recipe(tiny_recipe(choose_rows=8, head_start="random", epochs=1), None, None, ())
    baselines.frozen_model(resolve_run(recipe), {}, SilentProgress())
    assert seen and set(seen) == {8}


def test_wrong_value_is_refused(tiny_recipe):
    with pytest.raises(RecipeError, match="choose_rows"):
        resolve(tiny_recipe(choose_rows=0))
