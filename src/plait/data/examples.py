"""The labelled examples of one split of a task."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from plait.data.labels import Labels, encode_labels
from plait.data.read import BadRow, Rows, row_mistakes
from plait.data.readers.records import is_unicode
from plait.errors import DataError

__all__ = ["Examples", "examples_from", "in_order", "sound_examples", "text_problem", "value_problem"]


@dataclass(frozen=True)
class Examples:
    """Texts by column, one label per row, and where each row comes from."""

    texts: tuple[list[str], ...]
    labels: np.ndarray  # (n,) class numbers, 0/1 or scores; multilabel 0/1 (n, C)
    origins: list[str]

    def __len__(self) -> int:
        return len(self.labels)

    def chosen(self, rows: Sequence[int]) -> "Examples":
        """Only these rows, in this order."""
        texts = tuple([column[row] for row in rows] for column in self.texts)
        return Examples(texts, self.labels[list(rows)], [self.origins[row] for row in rows])

    def in_both_orders(self) -> "Examples":
        """These pairs, then the same with their texts exchanged."""
        first, second = self.texts
        return Examples((first + second, second + first), np.concatenate([self.labels] * 2), self.origins * 2)


def examples_from(
    rows: Rows, text: Sequence[str], label: Sequence[str], labels: Labels
) -> tuple[Examples, list[BadRow]]:
    """The usable rows with encoded labels, and the bad rows."""
    encoded, bad = encode_labels([rows.columns[column] for column in label], labels, len(rows.origins))
    for row, texts in enumerate(zip(*(rows.columns[column] for column in text), strict=True)):
        if problem := text_problem(text, texts):
            bad.setdefault(row, problem)
    examples = Examples(tuple(rows.columns[column] for column in text), encoded, rows.origins)
    if bad:
        examples = examples.chosen([row for row in range(len(rows.origins)) if row not in bad])
    found = [rows.bad_row(row, problem) for row, problem in bad.items()]
    return examples, in_order([*rows.bad, *found])


def text_problem(columns: Sequence[str], texts: Sequence[str]) -> str | None:
    """Why the texts of a row cannot be encoded: the first problem, with its column."""
    for column, text in zip(columns, texts, strict=True):
        if not text.strip():
            return f"the text in column {column!r} is empty"
        try:
            text.encode()
        except UnicodeEncodeError:
            return f"the text in column {column!r} contains a lone surrogate, which is half a character"
    return None


def value_problem(text: object) -> str | None:
    """Why a value that is given as a text cannot be encoded."""
    if not isinstance(text, str):
        return f"is not a string but {type(text).__name__}"
    if not text.strip():
        return "is empty; leave out empty texts"
    return None if is_unicode(text) else "contains a lone surrogate, which is half a character"


def in_order(bad: Sequence[BadRow]) -> list[BadRow]:
    """Each bad row once, even if two splits read its file; file by file, in line order."""
    files: dict[str, int] = {}
    for row in bad:
        files.setdefault(row.where.rpartition(":")[0], len(files))

    def place(row: BadRow) -> tuple[int, int]:
        file, _, line = row.where.rpartition(":")
        return files[file], int(line)

    return sorted({(row.where, row.problem): row for row in bad}.values(), key=place)


def sound_examples(rows: Rows, text: Sequence[str], label: Sequence[str], labels: Labels) -> Examples:
    """The examples of these rows; raises one DataError with every bad row."""
    examples, bad = examples_from(rows, text, label, labels)
    if bad:
        raise DataError(*row_mistakes(bad))
    return examples
