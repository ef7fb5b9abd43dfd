"""Two small runs with hostile texts, and a browser."""

from pathlib import Path

import pytest

import plait
from browser import browser
from command_line import plait as command
from hostile import write_data

__all__ = ["browser", "command"]


@pytest.fixture(scope="session")
def hostile_run(tiny_bert: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run of four kinds of label whose data has a text with HTML; tests must not change it."""
    folder = tmp_path_factory.mktemp("hostile")
    recipe = {**write_data(folder / "data", tiny_bert), "epochs": 2, "conflict_every": 2, "seed": 3}
    plait.train(recipe, folder / "first")
    return folder / "first"


@pytest.fixture(scope="session")
def other_run(hostile_run: Path, tiny_bert: Path) -> Path:
    """A run on the same data with another rate and schedule; tests must not change it."""
    recipe = write_data(hostile_run.parent / "data", tiny_bert)
    changed = {**recipe, "epochs": 3, "lr": 3e-3, "schedule": "round_robin", "seed": 3}
    plait.train(changed, hostile_run.parent / "second", baselines=False)
    return hostile_run.parent / "second"


@pytest.fixture(scope="session")
def page_file(hostile_run: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The report of the run."""
    return plait.report(hostile_run, out=tmp_path_factory.mktemp("page") / "report.html")
