"""A damaged checkpoint is replaced by the one before; the run ends with the same bits."""

import json
from pathlib import Path

import pytest

import plait
from plait.errors import RunError
from plait.runs.checkpoint import find_checkpoints
from plait.training.train import Stopped, resume
from small_runs import Recorder, result_json, stop_after


def flip(path: Path, place: float = 0.9) -> None:
    """Change one bit."""
    content = bytearray(path.read_bytes())
    content[int(len(content) * place)] ^= 4
    path.write_bytes(content)


@pytest.fixture
def recipe(tiny_recipe):
    recipe = tiny_recipe(epochs=2, checkpoint_every=2, evaluate_every=1, dropout=0.3)
    recipe["tasks"] = {"mood": recipe["tasks"]["mood"]}
    return recipe


@pytest.fixture
def stopped(recipe, tmp_path) -> Path:
    """A run of six steps with checkpoints of the steps 2 and 4."""
    with pytest.raises(Stopped):
        plait.train(recipe, tmp_path / "run", baselines=False, stop=stop_after(4))
    assert [place.name for place in find_checkpoints(tmp_path / "run/checkpoints")] == [
        "step-00000004",
        "step-00000002",
    ]
    return tmp_path / "run"


@pytest.mark.parametrize("file", ["weights.safetensors", "optimizer.safetensors", "position.json", "metrics"])
def test_the_checkpoint_before_a_damaged_one_is_used(recipe, stopped, tmp_path, file):
    if file == "metrics":
        flip(stopped / "metrics.jsonl", 0.95)  # after step 2
        reason = f"{stopped}/metrics.jsonl: "
    else:
        flip(stopped / "checkpoints/step-00000004" / file)
        reason = f"{stopped}/checkpoints/step-00000004: damaged ({file} was modified)"
    progress = Recorder()
    found = resume(stopped, progress=progress).run
    assert any(note.startswith(reason) for note in progress.notes)
    assert f"{stopped}/checkpoints/step-00000002: whole, and used instead" in progress.notes
    whole = plait.train(recipe, tmp_path / "whole", baselines=False).run
    assert result_json(found)["last_weights_sha256"] == result_json(whole)["last_weights_sha256"]
    assert (found / "metrics.jsonl").read_bytes() == (whole / "metrics.jsonl").read_bytes()
    assert (found / "best/manifest.json").read_bytes() == (whole / "best/manifest.json").read_bytes()


def test_without_a_whole_checkpoint_nothing_is_trained(stopped):
    before = (stopped / "metrics.jsonl").read_bytes()
    for place in find_checkpoints(stopped / "checkpoints"):
        flip(place / "weights.safetensors")
    with pytest.raises(RunError) as caught:
        resume(stopped)
    assert [mistake.removeprefix(f"{stopped}/checkpoints/") for mistake in caught.value.mistakes] == [
        "step-00000004: damaged (weights.safetensors was modified)",
        "step-00000002: damaged (weights.safetensors was modified)",
        f"to train from the beginning, delete {stopped}/checkpoints and resume",
    ]
    assert (stopped / "metrics.jsonl").read_bytes() == before


def test_a_checkpoint_without_manifest_is_damaged_unless_an_older_plait_began_the_run(stopped):
    for place in find_checkpoints(stopped / "checkpoints"):
        (place / "manifest.json").unlink()
    with pytest.raises(RunError, match=r"step-00000004: damaged \(manifest\.json is missing\)"):
        resume(stopped)
    record = json.loads((stopped / "run.json").read_text())
    del record["digests"], record["sha256"]
    (stopped / "run.json").write_text(json.dumps(record))
    assert resume(stopped).steps == 6


def test_a_best_model_that_was_changed_is_named_before_it_is_used(stopped):
    def damage() -> bool:
        (stopped / "best/heads.safetensors").write_bytes(b"")
        return False

    with pytest.raises(RunError) as caught:
        resume(stopped, stop=damage)  # after every step, whichever is the best
    assert any("heads.safetensors: modified after the model was saved" in line for line in caught.value.mistakes)


class Killed(BaseException):
    """Stands for a kill signal."""


@pytest.mark.parametrize(("evaluate_every", "usable"), [("epoch", True), (1, False)])
def test_a_checkpoint_of_an_earlier_stage_needs_its_best_model(tiny_recipe, tmp_path, evaluate_every, usable):
    recipe = tiny_recipe(checkpoint_every=3, evaluate_every=1)
    recipe["tasks"] = {name: recipe["tasks"][name] for name in ("mood", "near")}
    recipe["stages"] = [
        {"tasks": ["mood"], "epochs": 2},
        {"tasks": ["near"], "epochs": 1, "evaluate_every": evaluate_every},
    ]
    asked = 0

    def kill() -> bool:
        nonlocal asked
        asked += 1
        if asked == 7:  # the first step of the second stage, perhaps after an evaluation
            raise Killed
        return False

    run = tmp_path / "run"
    with pytest.raises(Killed):
        plait.train(recipe, run, baselines=False, stop=kill)
    newest, before = find_checkpoints(run / "checkpoints")
    stages = [json.loads((place / "position.json").read_text())["stage"] for place in (newest, before)]
    assert (newest.name, before.name, stages) == ("step-00000006", "step-00000003", [1, 0])
    flip(newest / "weights.safetensors")
    if not usable:
        with pytest.raises(RunError, match="best: of a later stage than the checkpoint of step 3"):
            resume(run)
        return
    whole = plait.train(recipe, tmp_path / "whole", baselines=False).run
    assert result_json(resume(run).run)["last_weights_sha256"] == result_json(whole)["last_weights_sha256"]
