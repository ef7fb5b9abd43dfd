"""MLflow, trackio and Weights & Biases hold every loss of a run that was stopped and resumed; all in local files."""

import json
from collections.abc import Iterator

import pytest

import plait
from plait.training.train import Stopped, resume

pytestmark = [pytest.mark.slow, pytest.mark.filterwarnings("ignore")]  # warnings of the trackers' own


@pytest.fixture
def tracked(tiny_recipe, tmp_path) -> Iterator:
    """Trains with a tracker, stops after two steps and resumes; returns the losses in metrics.jsonl by step."""

    def train(tracker: str) -> dict[int, dict[str, float]]:
        steps = iter([False, True])
        recipe = tiny_recipe(epochs=3, tracker=tracker, checkpoint_every=1)
        with pytest.raises(Stopped):
            plait.train(recipe, tmp_path / "run", baselines=False, stop=lambda: next(steps, True))
        resume(tmp_path / "run")
        lines = map(json.loads, (tmp_path / "run/metrics.jsonl").read_text().splitlines())
        return {line["step"]: line["loss"] for line in lines if line["kind"] == "train"}

    return train


def named(losses: dict[int, dict[str, float]]) -> dict[tuple[int, str], float]:
    return {(step, f"loss/{task}"): loss for step, tasks in losses.items() for task, loss in tasks.items()}


def test_mlflow(tracked, tmp_path, monkeypatch):
    pytest.importorskip("mlflow", reason="mlflow is not installed")
    monkeypatch.setenv("MLFLOW_TRACKING_URI", f"sqlite:///{tmp_path}/mlflow.db")
    monkeypatch.chdir(tmp_path)
    losses = tracked("mlflow")
    from mlflow.tracking import MlflowClient

    client = MlflowClient()
    experiment = client.get_experiment_by_name("plait")
    (run,) = client.search_runs([experiment.experiment_id])
    assert run.info.status == "FINISHED" and run.info.run_name == "run"
    found = {
        (point.step, name): point.value
        for name in run.data.metrics
        if name.startswith("loss/")
        for point in client.get_metric_history(run.info.run_id, name)
    }
    assert found == pytest.approx(named(losses))
    assert "dev/mood/accuracy" in run.data.metrics


def test_trackio(tracked, tmp_path, monkeypatch):
    monkeypatch.setenv("TRACKIO_DIR", str(tmp_path / "trackio"))
    pytest.importorskip("trackio", reason="trackio is not installed")
    losses = tracked("trackio")
    from trackio.sqlite_storage import SQLiteStorage

    assert SQLiteStorage.get_runs("plait") == ["run"]
    found = {
        (line["step"], name): value
        for line in SQLiteStorage.get_logs("plait", "run")
        for name, value in line.items()
        if name.startswith("loss/")
    }
    assert found == pytest.approx(named(losses))


def test_wandb_offline(tracked, tmp_path, monkeypatch):
    pytest.importorskip("wandb", reason="wandb is not installed")
    monkeypatch.setenv("WANDB_MODE", "offline")
    losses = tracked("wandb")
    files = sorted((tmp_path / "run/wandb").glob("offline-run-*/*.wandb"))
    assert len(files) == 2 and files[0].name == files[1].name  # one run, in two parts
    content = b"".join(file.read_bytes() for file in files)
    for (_, name), loss in named(losses).items():
        assert name.encode() in content and json.dumps(loss).encode() in content
