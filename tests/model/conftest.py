"""Fixtures of the tests of models."""

import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from pickled import settings_of
from plait.model import convert
from warm_commands import run_module


@pytest.fixture
def two_threads() -> Iterator[None]:
    """torch may use two threads; all other tests run with one."""
    before = torch.get_num_threads()
    torch.set_num_threads(2)
    yield
    torch.set_num_threads(before)


@pytest.fixture
def pickled(tiny_bert: Path, tmp_path: Path) -> Callable[..., Path]:
    """Make a directory with the settings of the tiny BERT and a pickled file with the given content."""

    def make(content: Any, name: str = "pytorch_model.bin", **options: Any) -> Path:
        folder = settings_of(tiny_bert, tmp_path / "pickled")
        torch.save(content, folder / name, **options)
        return folder

    return make


@pytest.fixture
def warm_reader(monkeypatch: pytest.MonkeyPatch) -> None:
    """Pickles are read in a process that starts warm, by the same code."""
    monkeypatch.setattr(convert, "subprocess", SimpleNamespace(run=run_module, DEVNULL=subprocess.DEVNULL))
