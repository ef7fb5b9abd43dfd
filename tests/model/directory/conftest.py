"""A saved model, and copies of it to damage."""

import hashlib
import json
import shutil
from pathlib import Path

import pytest

import plait
from tiny import write_tasks


@pytest.fixture(scope="package")
def saved(tiny_bert, tmp_path_factory) -> Path:
    """The best model of a run with three tasks and baselines; not to be changed."""
    folder = tmp_path_factory.mktemp("saved")
    return plait.train(write_tasks(folder / "data", tiny_bert), folder / "run").model


@pytest.fixture
def copy(saved, tmp_path) -> Path:
    return shutil.copytree(saved, tmp_path / "model")


@pytest.fixture
def other(copy) -> Path:
    """Another model, with the same weights."""
    record = json.loads((copy / "plait.json").read_text())
    (copy / "plait.json").write_text(json.dumps({**record, "step": 99}))
    manifest = json.loads((copy / "manifest.json").read_text())
    manifest["sha256"]["plait.json"] = hashlib.sha256((copy / "plait.json").read_bytes()).hexdigest()
    (copy / "manifest.json").write_text(json.dumps(manifest))
    return copy
