"""MLflow and trackio, each with its own files on this machine."""

import json
from pathlib import Path

import pytest

import plait

pytestmark = [pytest.mark.slow, pytest.mark.filterwarnings("ignore")]  # those of the trackers


def losses_of(run: Path, task: str) -> list[tuple[int, float]]:
    lines = map(json.loads, (run / "metrics.jsonl").read_text().splitlines())
    return [(line["step"], line["loss"][task]) for line in lines if line["kind"] == "train" and task in line["loss"]]


def test_mlflow_has_the_losses(tiny_recipe, tmp_path, monkeypatch):
    tracking = pytest.importorskip("mlflow.tracking", reason="mlflow is not installed")
    monkeypatch.setenv("MLFLOW_TRACKING_URI", f"file:{tmp_path / 'mlruns'}")
    monkeypatch.setenv("MLFLOW_ALLOW_FILE_STORE", "true")
    result = plait.train(tiny_recipe(epochs=2, tracker="mlflow"), tmp_path / "run", baselines=False)
    known = json.loads((result.run / "trackers.json").read_text())["mlflow"]
    client = tracking.MlflowClient()
    history = client.get_metric_history(known, "loss/mood")
    assert [(one.step, one.value) for one in history] == losses_of(result.run, "mood")
    run = client.get_run(known)
    assert run.info.status == "FINISHED" and run.info.run_name == "run"
    assert run.data.metrics["mean"] <= 1


def test_trackio_has_the_losses(tiny_recipe, tmp_path, monkeypatch):
    monkeypatch.setenv("TRACKIO_DIR", str(tmp_path / "trackio"))
    monkeypatch.setenv("TRACKIO_SHOW", "0")
    trackio = pytest.importorskip("trackio", reason="trackio is not installed")
    result = plait.train(tiny_recipe(epochs=2, tracker="trackio"), tmp_path / "run", baselines=False)
    (run,) = [run for run in trackio.Api().runs("plait") if run.name == "run"]
    logged = run.metrics("loss/mood") if callable(getattr(run, "metrics", None)) else []
    assert logged
    assert result.steps
