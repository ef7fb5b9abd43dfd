"""The code of docs/search.md that fills Qdrant and PostgreSQL finds what the index finds."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

import plait
from search_corpus import TEXTS

pytestmark = pytest.mark.slow
PAGE = Path(__file__).parent.parent.parent / "docs/search.md"
QUERY = "the river was cold"


@pytest.fixture
def index(tiny_bert, tmp_path) -> plait.Index:
    rows = [{"sentence": text, "place": place} for place, text in enumerate(TEXTS)]
    return plait.index(tiny_bert, rows, tmp_path / "tickets.index", text="sentence")


def printed(module: str, folder: Path) -> list[tuple[str, str, str]]:
    """The score, id and text of each line that the block with this import prints."""
    (code,) = [
        code
        for code in re.findall(r"```python\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL)
        if module in code
    ]
    done = subprocess.run([sys.executable, "-c", code], cwd=folder, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return [tuple(line.split(" ", 2)) for line in done.stdout.splitlines()]


def expected(index: plait.Index) -> list[tuple[str, str, str]]:
    return [(f"{hit.score:.3f}", hit.id, hit.text) for hit in index.search(QUERY, top_k=3)]


def test_qdrant_in_its_local_mode(index):
    pytest.importorskip("qdrant_client", reason="qdrant-client is not installed")
    assert printed("import qdrant_client", index.folder.parent) == expected(index)


def test_postgresql_with_pgvector(index):
    """PLAIT_POSTGRES names a database with pgvector that the test may write to."""
    psycopg = pytest.importorskip("psycopg", reason="psycopg is not installed")
    pytest.importorskip("pgvector", reason="pgvector is not installed")
    if "PLAIT_POSTGRES" not in os.environ:
        pytest.skip("no PostgreSQL with pgvector: set PLAIT_POSTGRES")
    with psycopg.connect(os.environ["PLAIT_POSTGRES"], autocommit=True) as connection:
        connection.execute("DROP TABLE IF EXISTS tickets")
        assert printed("import psycopg", index.folder.parent) == expected(index)
        assert connection.execute("SELECT count(*) FROM tickets").fetchone() == (len(TEXTS),)
        connection.execute("DROP TABLE tickets")
