"""Training once more on all rows, after dev has shown how well it works."""

import pytest

import plait
from plait.errors import RecipeError, RequestError
from plait.model.directory.record import open_directory
from plait.runs.directory import RunDirectory
from plait.runs.origins import find_split
from plait.training import train as training
from plait.training.train import Stopped, resume
from small_runs import stop_after


@pytest.fixture
def recipe(tiny_recipe):
    """A share of train as dev for two tasks, and a dev file for the third."""
    found = tiny_recipe(refit=True)
    for name in ("mood", "same"):
        found["tasks"][name] = {**found["tasks"][name], "dev": 0.25}
    return found


def without_refit(recipe: dict) -> dict:
    tasks = {name: {key: item for key, item in task.items() if key != "dev"} for name, task in recipe["tasks"].items()}
    return {**recipe, "tasks": tasks, "refit": False}


def weights(folder) -> list[bytes]:
    return [(folder / name).read_bytes() for name in ("model.safetensors", "heads.safetensors")]


def test_the_model_is_that_of_a_run_on_all_rows_with_the_scores_of_the_first_training(recipe, tmp_path):
    first = plait.train({**recipe, "refit": False}, tmp_path / "first", baselines=False)
    refitted = plait.train(recipe, tmp_path / "refitted", baselines=False)
    whole = plait.train(without_refit(recipe), tmp_path / "whole", baselines=False)
    assert weights(refitted.model) == weights(whole.model) != weights(first.model)
    assert refitted.scores == first.scores and refitted.best_step == first.best_step
    assert not RunDirectory(tmp_path / "refitted").refit.exists()
    assert "trained on all rows" in (refitted.model / "README.md").read_text()


def test_an_interrupted_refit_resumes_to_the_same_bits(recipe, tmp_path):
    whole = plait.train(recipe, tmp_path / "whole", baselines=False)
    steps = whole.steps
    for name, after in (("first", 2), ("refit", steps + 2)):
        with pytest.raises(Stopped):
            plait.train(recipe, tmp_path / name, baselines=False, stop=stop_after(after))
        assert not RunDirectory(tmp_path / name).is_finished()
        result = resume(tmp_path / name)
        assert weights(result.model) == weights(whole.model) and result.scores == whole.scores
        assert RunDirectory(tmp_path / name).is_finished()


def test_if_dev_prefers_the_start_only_the_heads_are_solved_again(recipe, tmp_path, monkeypatch):
    monkeypatch.setattr(training, "_start_was_better", lambda run, resolved: True)
    result = plait.train({**recipe, "head_start": "frozen"}, tmp_path / "run", baselines=False)
    frozen = {**without_refit(recipe), "head_start": "frozen", "lr": 1e-12, "steps": 1, "epochs": None}
    again = plait.train(frozen, tmp_path / "frozen", baselines=False)
    mine, theirs = (plait.load(found.model) for found in (result, again))
    for task, texts in (("mood", ["a happy film"]), ("same", [("a film", "a film indeed")])):
        assert mine.predict(task, texts)[0].score == pytest.approx(theirs.predict(task, texts)[0].score, abs=1e-4)


def test_dev_rows_cannot_score_a_model_that_was_trained_on_them(recipe, tmp_path):
    result = plait.train(recipe, tmp_path / "run", baselines=False)
    found = open_directory(result.model)
    assert found.record.provenance.refit
    with pytest.raises(RequestError, match=r"trained on its dev rows as well \(refit: true\)"):
        find_split(found.record, found.folder, "dev", None)


def test_refit_needs_rows_that_were_split_off(tiny_recipe, tmp_path):
    with pytest.raises(RecipeError, match="no task has a share of train as dev"):
        plait.train(tiny_recipe(refit=True), tmp_path / "run")
