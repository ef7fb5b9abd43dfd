"""Progress for users of Python: their own, and the one of the command line."""

import json

import pytest

import plait


class Recorded(plait.SilentProgress):
    """Everything that a run reports."""

    def __init__(self) -> None:
        self.begun: list[tuple[str, int]] = []
        self.losses: list[dict[str, float]] = []
        self.evaluations: list[dict] = []
        self.notes: list[str] = []

    def begin(self, what: str, total: int, done: int = 0) -> None:
        self.begun.append((what, total))

    def advance(self, count: int = 1, **facts) -> None:
        if "loss" in facts:
            assert facts.keys() == {"loss", "examples", "epoch"}
            self.losses.append(facts["loss"])

    def scores(self, record: dict) -> None:
        self.evaluations.append(record)

    def note(self, message: str) -> None:
        self.notes.append(message)


def test_losses_and_scores_are_those_of_the_metrics_file(tiny_recipe, tmp_path):
    progress: plait.Progress = Recorded()
    result = plait.train(tiny_recipe(), tmp_path / "run", baselines=False, progress=progress)
    lines = [json.loads(line) for line in (tmp_path / "run/metrics.jsonl").read_text().splitlines()]
    assert progress.losses == [line["loss"] for line in lines if line["kind"] == "train"]
    assert len(progress.losses) == result.steps and ("training", result.steps) in progress.begun
    evaluations = [line for line in lines if line["kind"] == "scores"]
    assert [
        {key: record[key] for key in line} for record, line in zip(progress.evaluations, evaluations, strict=True)
    ] == (evaluations)
    assert any(record["best"] for record in progress.evaluations)


def test_shown_progress_names_arguments_in_a_pipe(capfd):
    progress = plait.show_progress()
    progress.begin("training", 20)
    progress.advance(examples=8, loss={"mood": 0.5})
    progress.note("`threads` sets another number")
    progress.end()
    assert capfd.readouterr().err.splitlines() == ["training (20)", "`threads` sets another number"]


def test_shown_progress_is_a_bar_in_a_terminal(capfd, monkeypatch):
    monkeypatch.setenv("FORCE_COLOR", "1")  # which rich takes for a terminal
    progress = plait.show_progress()
    progress.begin("training", 20)
    progress.advance(examples=8, loss={"mood": 0.5})
    progress.end()
    assert "training" in capfd.readouterr().err


@pytest.mark.parametrize("name", ["begin", "advance", "end", "scores", "note"])
def test_the_silent_progress_has_every_method(name):
    assert callable(getattr(plait.SilentProgress(), name)) and hasattr(plait.Progress, name)
