"""A suite of two rows on the tiny encoder."""

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from ruamel.yaml import YAML

from plait.cli.main import main
from plait.experiments.cells import Experiment
from plait.recipe.suite import read_suite
from tiny import write_tasks


def write_yaml(path: Path, keys: dict[str, Any]) -> None:
    with path.open("w", encoding="utf-8") as file:
        YAML().dump(keys, file)


@pytest.fixture
def make_suite(tiny_bert: Path, tmp_path: Path) -> Callable[..., Path]:
    """The folder of a suite; keyword arguments change suite.yaml."""

    def make(**changes: Any) -> Path:
        folder = tmp_path / "suite"
        folder.mkdir(exist_ok=True)
        write_yaml(
            folder / "base.yaml", {**write_tasks(tmp_path / "data", tiny_bert), "profiles": {"short": {"epochs": 1}}}
        )
        write_yaml(folder / "plain.yaml", {"extends": "base.yaml"})
        write_yaml(folder / "faster.yaml", {"extends": "base.yaml", "lr": 3e-3})
        suite = {
            "title": "Tiny table",
            "seeds": [1, 2],
            "scores": {"mood": "mood accuracy", "near": "near Pearson"},
            "means": {"mean": "plain", "shifted": "shifted"},
            "baseline": "plain",
            "paper_rows": {"mood": 24, "near": 1000},
            "rows": {
                "plain": {"paper": {"mood": 0.5, "near": 0.1, "mean": 0.3}},
                "faster": {"paper": {"mood": 0.75}},
                "test": {"shown": "nobody has the labels", "paper": {"mood": 0.9}},
            },
        }
        write_yaml(folder / "suite.yaml", {**suite, **changes})
        return folder

    return make


@pytest.fixture
def experiment(monkeypatch, capsys) -> Callable[..., tuple[str, str]]:
    """`plait experiment` in this process: its standard output and standard error."""

    def run(*arguments: object, code: int = 0) -> tuple[str, str]:
        monkeypatch.setattr(sys, "argv", ["plait", "experiment", *map(str, arguments)])
        found = 0
        try:
            main()
        except SystemExit as exit_:
            found = exit_.code
        captured = capsys.readouterr()
        assert found == code, captured.out + captured.err
        return captured.out, captured.err

    return run


@pytest.fixture
def suite_of(make_suite, tmp_path):
    """An experiment on the tiny suite; keyword arguments change suite.yaml."""

    def make(**changes: object) -> Experiment:
        return Experiment(read_suite(make_suite(**changes)), tmp_path / "out")

    return make
