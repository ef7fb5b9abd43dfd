"""Where benchmarks keep what they produce: virtual environments of peers, exported models, results. Not in git."""

from pathlib import Path

REPO = Path(__file__).resolve().parent.parent
STORE = REPO / ".benchmarks"


def store_folder(name: str) -> Path:
    """A folder in the store, created if it is missing."""
    folder = STORE / name
    folder.mkdir(parents=True, exist_ok=True)
    (STORE / ".gitignore").write_text("*\n", encoding="utf-8")
    return folder
