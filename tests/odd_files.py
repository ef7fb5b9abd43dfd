"""The files of new users: odd in the ways that files are."""

import csv
import json
from collections.abc import Sequence
from pathlib import Path

from tiny import HAPPY, sentences


def mood_of(text: str) -> str:
    return ("low", "high")[bool(HAPPY & set(text.split()))]


def write_table(path: Path, rows: Sequence[Sequence[object]], *, delimiter: str = ",", encoding: str = "utf-8") -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("w", newline="", encoding=encoding) as file:
        csv.writer(file, delimiter=delimiter).writerows(rows)
    return path


def write_folder(folder: Path) -> Path:
    """A folder with two usable files, one of them latin-1 and separated by semicolons, and four that are of no use."""
    texts = [text + " café" * (row % 7 == 0) for row, text in enumerate(sentences(80, 3))]
    tickets = [(row, text, mood_of(text)) for row, text in enumerate(texts)]
    write_table(folder / "tickets.csv", [("number", "message", "mood"), *tickets], delimiter=";", encoding="latin-1")
    first, second = sentences(60, 4), sentences(60, 5)
    pairs = [
        {"sentence1": one, "sentence2": one if row % 2 else two, "same": row % 2}
        for row, (one, two) in enumerate(zip(first, second, strict=True))
    ]
    (folder / "pairs.json").write_text(json.dumps(pairs), encoding="utf-8")
    (folder / "notes.txt").write_text("buy milk\n", encoding="utf-8")
    (folder / "empty.csv").touch()
    write_table(folder / "users.csv", [("user", "created"), *((f"u{row}", "2024-01-02") for row in range(60))])
    write_table(folder / "old" / "more.csv", [("a", "b"), (1, 2)])
    return folder
