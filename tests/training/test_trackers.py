"""Trackers receive what metrics.jsonl has."""

import json
import math
import struct
from pathlib import Path

import pytest

import plait
from plait.errors import RecipeError
from plait.runs.directory import RunDirectory
from plait.runs.records import ConflictLine, ScoresLine, TrainLine
from plait.training import trackers
from plait.training.trackers import TRACKERS, numbers_of


def losses_of(run: Path) -> list[tuple[int, str, float]]:
    """Step, task and loss of every training step, as metrics.jsonl has them."""
    lines = map(json.loads, (run / "metrics.jsonl").read_text().splitlines())
    return [
        (line["step"], task, loss) for line in lines if line["kind"] == "train" for task, loss in line["loss"].items()
    ]


def test_numbers_of_a_line_have_names():
    assert numbers_of(TrainLine(1, None, 0, {"mood": 0.5, "near": math.nan})) == {"loss/mood": 0.5}
    assert numbers_of(ConflictLine(1, None, {"mood/near": -0.5, "mood/same": None})) == {"cosine/mood/near": -0.5}
    line = ScoresLine(
        1, None, 0, dev={"mood": {"accuracy": 1}}, kept={}, recall={}, train={"mood": {"accuracy": 0.5}}, mean=1.0
    )
    assert numbers_of(line) == {"dev/mood/accuracy": 1.0, "train/mood/accuracy": 0.5, "mean": 1.0}


class Recorder:
    """A tracker that keeps what it gets, and breaks at a step."""

    def __init__(self, run, breaks_at: int = 99) -> None:
        self.run, self.breaks_at, self.known, self.is_closed = run, breaks_at, f"id of {run.name}", False
        self.got: list[tuple[int, dict[str, float]]] = []

    def log(self, values, step) -> None:
        if step == self.breaks_at:
            raise OSError("no\nroute")
        self.got.append((step, dict(values)))

    def close(self) -> None:
        self.is_closed = True


class Notes(plait.SilentProgress):
    def __init__(self) -> None:
        self.messages: list[str] = []

    def note(self, message: str) -> None:
        self.messages.append(message)


@pytest.fixture
def recorders(monkeypatch):
    """The trackers mlflow and wandb, replaced; the second breaks at step 2."""
    made: dict[str, Recorder] = {}

    def start(name: str, breaks_at: int):
        def begin(run):
            made[name] = Recorder(run, breaks_at)
            return made[name]

        return trackers._Entry(begin, "json")

    monkeypatch.setattr(trackers, "TRACKERS", {"mlflow": start("mlflow", 99), "wandb": start("wandb", 2)})
    return made


def test_every_line_goes_to_every_tracker_and_a_broken_one_is_given_up(recorders, tiny_recipe, tmp_path):
    notes = Notes()
    recipe = tiny_recipe(epochs=3, tracker=["mlflow", "wandb"])
    result = plait.train(recipe, tmp_path / "run", baselines=False, progress=notes)
    good, broken = recorders["mlflow"], recorders["wandb"]
    got = [
        (step, name[5:], value) for step, values in good.got for name, value in values.items() if name[:5] == "loss/"
    ]
    assert got == losses_of(result.run) and result.steps >= 3 and good.is_closed
    assert good.run.name == "run" and good.run.recipe["epochs"] == 3
    assert max(step for step, _ in broken.got) < 2 and not broken.is_closed
    assert notes.messages.count("wandb failed and is no longer written to: no route") == 1
    assert RunDirectory(tmp_path / "run").read_trackers() == {"mlflow": "id of run", "wandb": "id of run"}


def test_a_resumed_run_is_the_same_to_its_trackers(recorders, tiny_recipe, tmp_path):
    from plait.training.train import Stopped, resume

    steps = iter([False, True])
    recipe = tiny_recipe(epochs=3, tracker="mlflow", checkpoint_every=1)
    with pytest.raises(Stopped):
        plait.train(recipe, tmp_path / "run", baselines=False, stop=lambda: next(steps, True))
    first = recorders["mlflow"]
    assert first.is_closed and first.run.known is None
    resume(tmp_path / "run")
    again = recorders["mlflow"].run
    assert again.known == "id of run" and again.step == max(step for step, _ in first.got)


def test_a_tracker_that_is_not_installed_is_refused_before_the_run(tiny_recipe, tmp_path, monkeypatch):
    absent = {name: trackers._Entry(entry.start, "no_such_module") for name, entry in TRACKERS.items()}
    monkeypatch.setattr(trackers, "TRACKERS", absent)
    with pytest.raises(RecipeError) as error:
        plait.train(tiny_recipe(tracker=["mlflow", "trackio"]), tmp_path / "run")
    assert list(error.value.mistakes) == [
        'tracker: mlflow is not installed; pip install "plait[mlflow]"',
        'tracker: trackio is not installed; pip install "plait[trackio]"',
    ]
    assert not (tmp_path / "run").exists()


def test_an_unknown_tracker_is_named(tiny_recipe, tmp_path):
    with pytest.raises(RecipeError, match="tracker"):
        plait.train(tiny_recipe(tracker="tensorbord"), tmp_path / "run")


def test_tensorboard_has_the_losses(tiny_recipe, tmp_path):
    event_pb2 = pytest.importorskip("tensorboardX.proto.event_pb2", reason="tensorboardX is not installed")
    result = plait.train(tiny_recipe(epochs=2, tracker="tensorboard"), tmp_path / "run", baselines=False)
    found = []
    for file in sorted((result.run / "tensorboard").iterdir()):
        content = file.read_bytes()
        while content:
            (length,) = struct.unpack("<Q", content[:8])  # a length and its checksum, an event and its checksum
            event = event_pb2.Event.FromString(content[12 : 12 + length])
            content = content[16 + length :]
            found += [(event.step, value.tag, value.simple_value) for value in event.summary.value]
    losses = [(step, tag.removeprefix("loss/"), value) for step, tag, value in found if tag.startswith("loss/")]
    expected = losses_of(result.run)
    assert [loss[:2] for loss in losses] == [loss[:2] for loss in expected]
    assert [loss[2] for loss in losses] == pytest.approx([loss[2] for loss in expected], rel=1e-6)  # float32
    assert any(tag == "dev/mood/accuracy" for _, tag, _ in found)
