from pathlib import Path

import pytest

from small_minilm import make_small_minilm


@pytest.fixture(scope="session")
def small_minilm(minilm: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_small_minilm(tmp_path_factory.mktemp("small") / "minilm", minilm)
