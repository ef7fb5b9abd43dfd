"""A run of two stages that breaks off inside either or between them ends as one that never stopped."""

import json
from pathlib import Path

import pytest

import plait
from plait.training import checkpoint, loop, stage
from plait.training.loop import Stopped, resume

FIRST, SECOND = 6, 6  # steps of the two stages


@pytest.fixture
def recipe(tiny_recipe):
    stages = [{"tasks": ["near", "mood"]}, {"tasks": ["mood", "same"], "lr": 5e-4}]
    return tiny_recipe(dropout=0.3, seed=4, checkpoint_every=4, evaluate_every=2, early_stopping=50, stages=stages)


@pytest.fixture
def whole(recipe, tmp_path):
    """The run that never stops."""
    result = plait.train(recipe, tmp_path / "whole", baselines=False, keep=2)
    assert [part["steps"] for part in result.stages] == [FIRST, SECOND]
    return result.run


def same_run(whole: Path, mended: Path) -> None:
    """Equal weights, results, metrics and models."""
    first, second = (json.loads((run / "result.json").read_text()) for run in (whole, mended))
    assert {**first, "seconds": 0} == {**second, "seconds": 0}
    assert (whole / "metrics.jsonl").read_bytes() == (mended / "metrics.jsonl").read_bytes()
    names = sorted(path.relative_to(whole) for path in whole.rglob("*") if path.is_file() and path.name != "run.json")
    for name in names:
        if name.name not in ("result.json", ".lock"):
            assert (whole / name).read_bytes() == (mended / name).read_bytes(), name
    assert not (mended / "checkpoints").exists()


@pytest.mark.parametrize("steps", [3, FIRST - 1, FIRST, FIRST + 1, FIRST + 3, FIRST + SECOND])
def test_stopped_after_any_step_it_goes_on_to_the_same_bits(recipe, whole, tmp_path, steps):
    stops = iter([False] * (steps - 1) + [True])
    with pytest.raises(Stopped, match=f"stopped after step {steps}; "):
        plait.train(recipe, tmp_path / "run", baselines=False, keep=2, stop=lambda: next(stops))
    resume(tmp_path / "run")
    same_run(whole, tmp_path / "run")


class Killed(BaseException):
    """The process is gone."""


def at_border(*arguments) -> bool:
    """Whether a checkpoint is the first of the second stage."""
    position = arguments[-1]
    return (position.stage, position.step) == (1, FIRST)


def in_second_stage(evaluating, name) -> bool:
    return evaluating.position.stage == 1


MOMENTS = {  # what is called, when it is due, whether the kill comes after it, the stage of the checkpoint that is left
    "before the best model is loaded": (loop, "load_weights", lambda *_: True, False, 0),
    "after the best model is loaded": (loop, "load_weights", lambda *_: True, True, 0),
    "before the first checkpoint of the second stage": (stage, "save_checkpoint", at_border, False, 0),
    "after the first checkpoint of the second stage": (stage, "save_checkpoint", at_border, True, 1),
    "after a model of the second stage took the place of the best": (stage.Loop, "evaluate", in_second_stage, True, 1),
}


@pytest.mark.parametrize("moment", MOMENTS)
def test_killed_between_the_stages_it_goes_on_to_the_same_bits(recipe, whole, tmp_path, monkeypatch, moment):
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
    position = checkpoint.read_position(checkpoint.newest_checkpoint(tmp_path / "run/checkpoints"))
    assert position.stage == left
    resume(tmp_path / "run")
    same_run(whole, tmp_path / "run")
