"""A small corpus of distinct texts."""

import csv
from collections.abc import Iterable
from pathlib import Path

from tiny import sentences

TEXTS = list(dict.fromkeys(sentences(120, seed=3, longest=12)))[:80]


def write_corpus(path: Path, numbers: Iterable[int]) -> Path:
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow(("name", "text", "topic"))
        writer.writerows((f"n{number}", TEXTS[number], number % 3) for number in numbers)
    return path
