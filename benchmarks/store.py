"""Where benchmarks keep what they make: virtual environments of peers, exported models, results. Not in git."""

from pathlib import Path

REPO = Path(__file__).resolve().parent.parent
STORE = REPO / ".benchmarks"


def kept(name: str) -> Path:
    """A folder of that name among what is kept; it is there."""
    folder = STORE / name
    folder.mkdir(parents=True, exist_ok=True)
    (STORE / ".gitignore").write_text("*\n", encoding="utf-8")
    return folder
