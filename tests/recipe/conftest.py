from pathlib import Path

import pytest

from recipe_files import MOOD, NEAR


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder with the data files of the recipes."""
    (tmp_path / "mood.csv").write_text(MOOD)
    (tmp_path / "near.csv").write_text(NEAR)
    return tmp_path
