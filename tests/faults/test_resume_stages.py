"""A run with two stages, stopped within either or between them, ends like one that never stopped."""

import json
from pathlib import Path

import pytest

import plait
from plait.runs import checkpoint
from plait.training import stage, stages
from plait.training.train import Stopped, resume
from small_runs import stop_after

FIRST, SECOND = 6, 6  # steps of the two stages


@pytest.fixture
def recipe(tiny_recipe):
    stages = [{"tasks": ["near", "mood"]}, {"tasks": ["mood", "same"], "lr": 5e-4}]
    return tiny_recipe(dropout=0.3, seed=4, checkpoint_every=4, evaluate_every=2, early_stopping=50, stages=stages)


@pytest.fixture
def uninterrupted(recipe, tmp_path):
    """The run that never stops."""
    result = plait.train(recipe, tmp_path / "uninterrupted", baselines=False, keep=2)
    assert [part.steps for part in result.stages] == [FIRST, SECOND]
    return result.run


def assert_same_run(expected: Path, found: Path) -> None:
    """Equal weights, results, metrics and models."""
    first, second = (json.loads((run / "result.json").read_text()) for run in (expected, found))
    for result in (first, second):
        del result["seconds"], result["sha256"]
    assert first == second
    assert (expected / "metrics.jsonl").read_bytes() == (found / "metrics.jsonl").read_bytes()
    names = sorted(
        path.relative_to(expected) for path in expected.rglob("*") if path.is_file() and path.name != "run.json"
    )
    for name in names:
        if name.name not in ("result.json", ".lock"):
            assert (expected / name).read_bytes() == (found / name).read_bytes(), name
    assert not (found / "checkpoints").exists()


@pytest.mark.parametrize("steps", [3, FIRST - 1, FIRST, FIRST + 1, FIRST + 3, FIRST + SECOND])
def test_resume_after_a_stop_gives_equal_bits(recipe, uninterrupted, tmp_path, steps):
    with pytest.raises(Stopped, match=f"stopped after step {steps}; "):
        plait.train(recipe, tmp_path / "run", baselines=False, keep=2, stop=stop_after(steps))
    resume(tmp_path / "run")
    assert_same_run(uninterrupted, tmp_path / "run")


class Killed(BaseException):
    """Stands for a kill signal."""


def is_first_of_second_stage(*arguments) -> bool:
    """Whether the checkpoint to save is the first of the second stage."""
    position = arguments[-1]
    return (position.stage, position.step) == (1, FIRST)


def in_second_stage(evaluating, name) -> bool:
    return evaluating.position.stage == 1


# The function to kill in, when, whether after it has run, and the stage of the checkpoint that is left.
MOMENTS = {
    "before the best model is loaded": (stages, "load_weights", lambda *_: True, False, 0),
    "after the best model is loaded": (stages, "load_weights", lambda *_: True, True, 0),
    "before the first checkpoint of the second stage": (stage, "save_checkpoint", is_first_of_second_stage, False, 0),
    "after the first checkpoint of the second stage": (stage, "save_checkpoint", is_first_of_second_stage, True, 1),
    "after a model of the second stage replaced the best": (stage.StageRun, "evaluate", in_second_stage, True, 1),
}


@pytest.mark.parametrize("moment", MOMENTS)
def test_resume_after_a_kill_between_stages_gives_equal_bits(recipe, uninterrupted, tmp_path, monkeypatch, moment):
    place, name, due, after, left = MOMENTS[moment]
    real = getattr(place, name)

    def killed(*arguments):
        if after or not due(*arguments):
            real(*arguments)
        if due(*arguments):
            raise Killed

    with monkeypatch.context() as patch, pytest.raises(Killed):
        patch.setattr(place, name, killed)
        plait.train(recipe, tmp_path / "run", baselines=False, keep=2)
    position = checkpoint.read_position(checkpoint.find_checkpoints(tmp_path / "run/checkpoints")[0])
    assert position.stage == left
    resume(tmp_path / "run")
    assert_same_run(uninterrupted, tmp_path / "run")
