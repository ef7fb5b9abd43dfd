"""Texts of many lengths to calibrate and check an export with, from the starter data."""

import csv
from collections.abc import Sequence
from pathlib import Path

import plait.data

__all__ = ["sample_columns", "sample_texts"]

_STARTER = Path(plait.data.__file__).parent / "starter"
_FILES = ("reviews-dev.csv", "questions-dev.csv", "pairs-dev.csv")
_SENTENCES = (1, 1, 1, 2, 1, 3, 1, 1, 5, 9)  # how many sentences each text has, in turn
_LONGEST_TEXT = 48  # sentences in the one text that exceeds any limit


def sample_texts(count: int) -> list[str]:
    """`count` texts: sentences, paragraphs, one very long text and one of a single character."""
    sentences: list[str] = []
    for name in _FILES:
        with (_STARTER / name).open(encoding="utf-8", newline="") as file:
            sentences += [row[key] for row in csv.DictReader(file) for key in row if key.startswith("sentence")]
    texts = [
        " ".join(sentences[(number + more) % len(sentences)] for more in range(_SENTENCES[number % len(_SENTENCES)]))
        for number in range(count - 2)
    ]
    return [*texts, " ".join(sentences[:_LONGEST_TEXT]), "?"]


def sample_columns(count: int, columns: int) -> Sequence[Sequence[str]]:
    """`count` examples of one, two or three texts, column by column."""
    texts = sample_texts(count)
    return [[*texts[shift:], *texts[:shift]] for shift in range(columns)]
