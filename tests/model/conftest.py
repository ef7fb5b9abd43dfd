"""Fixtures of the tests of models."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import torch

from pickled import settings_of


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
