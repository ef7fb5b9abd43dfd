"""The texts that an export is checked with: from the starter data, of many lengths, some longer than any limit."""

import csv
from collections.abc import Sequence
from pathlib import Path

import plait.data

__all__ = ["sample_columns", "sample_texts"]

STARTER = Path(plait.data.__file__).parent / "starter"
FILES = ("reviews-dev.csv", "questions-dev.csv", "pairs-dev.csv")
JOINED = (1, 1, 1, 2, 1, 3, 1, 1, 5, 9)  # sentences in one text, in turn
LONGEST = 48  # sentences in the one that is sure to be cut


def sample_texts(count: int) -> list[str]:
    """So many texts: sentences, and paragraphs made of some."""
    sentences: list[str] = []
    for name in FILES:
        with (STARTER / name).open(encoding="utf-8", newline="") as file:
            sentences += [row[key] for row in csv.DictReader(file) for key in row if key.startswith("sentence")]
    texts = [
        " ".join(sentences[(number + more) % len(sentences)] for more in range(JOINED[number % len(JOINED)]))
        for number in range(count - 2)
    ]
    return [*texts, " ".join(sentences[:LONGEST]), "?"]


def sample_columns(count: int, columns: int) -> Sequence[Sequence[str]]:
    """So many examples of one, two or three texts."""
    texts = sample_texts(count)
    return [[*texts[shift:], *texts[:shift]] for shift in range(columns)]
