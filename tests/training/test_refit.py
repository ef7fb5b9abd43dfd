"""Training once more on all rows, after dev has shown how well it works."""

import pytest

import plait
from plait.errors import RecipeError, RequestError
from plait.model.directory.record import open_directory
from plait.runs.directory import RunDirectory
from plait.runs.origins import find_split
from plait.runs.records import ScoresLine
from plait.training import train as training
from plait.training.train import Stopped, resume
from small_runs import resolve, stop_after


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


class _Scored:
    """A run that has scored its dev rows twice."""

    def __init__(self, first: float, last: float, metric: str) -> None:
        self.scores = [(0, first), (10, last)]
        self.metric = metric

    def metrics_lines(self):
        for step, score in self.scores:
            yield ScoresLine(
                stage=None,
                step=step,
                epoch=step,
                dev={"same": {self.metric: score}},
                kept={},
                recall={},
                train={},
                mean=score,
            )


@pytest.mark.parametrize(
    ("rows", "first", "last", "metric", "better"),
    [
        (16, 0.9, 0.7, "accuracy", False),  # 3 of 16 rows may be chance
        (16, 1.0, 0.9, "accuracy", False),
        (400, 0.80, 0.79, "accuracy", False),
        (400, 0.80, 0.77, "accuracy", True),  # 0.8 · 0.2 / 400 / 0.03 = 0.013
        (400, 0.77, 0.80, "accuracy", False),
        (100, 0.85, 0.84, "pearson", False),
        (100, 0.85, 0.80, "pearson", True),  # (1 − 0.85²)² / 100 / 0.03 = 0.026
    ],
)
def test_a_loss_on_few_dev_rows_is_not_believed(recipe, rows, first, last, metric, better):
    same = {
        **recipe["tasks"]["same"],
        "label": {"column": "same", "kind": "score" if metric == "pearson" else "yes_no"},
    }
    resolved = resolve({**recipe, "tasks": {"same": same}})
    task = resolved.stages[-1].tasks["same"]
    object.__setattr__(task, "choosing", task.splits["dev"].chosen([0] * rows))
    assert training._start_was_better(_Scored(first, last, metric), resolved) == better


def test_dev_rows_cannot_score_a_model_that_was_trained_on_them(recipe, tmp_path):
    result = plait.train(recipe, tmp_path / "run", baselines=False)
    found = open_directory(result.model)
    assert found.record.provenance.refit
    with pytest.raises(RequestError, match=r"trained on its dev rows as well \(refit: true\)"):
        find_split(found.record, found.folder, "dev", None)


def test_refit_needs_rows_that_were_split_off(tiny_recipe, tmp_path):
    with pytest.raises(RecipeError, match="no task has a share of train as dev"):
        plait.train(tiny_recipe(refit=True), tmp_path / "run")
