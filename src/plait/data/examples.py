"""The labelled examples of one split of a task."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from plait.data.labels import Labels, encode_labels
from plait.data.read import Rows, is_unicode, read_rows, row_mistakes
from plait.errors import DataError

__all__ = ["Examples", "examples_from", "read_examples"]


@dataclass(frozen=True)
class Examples:
    """Texts by column, one label a row, and where each row was written."""

    texts: tuple[list[str], ...]
    labels: np.ndarray  # class numbers, 0/1 or scores
    origins: list[str]

    def __len__(self) -> int:
        return len(self.labels)

    def chosen(self, rows: Sequence[int]) -> "Examples":
        """Only these rows, in this order."""
        texts = tuple([column[row] for row in rows] for column in self.texts)
        return Examples(texts, self.labels[list(rows)], [self.origins[row] for row in rows])


def read_examples(
    paths: Sequence[Path], text: Sequence[str], label: str, labels: Labels, *, quoting: str | None = None
) -> Examples:
    """The examples of a split; raises one DataError with every bad row."""
    return examples_from(read_rows(paths, [*text, label], quoting=quoting), text, label, labels)


def examples_from(rows: Rows, text: Sequence[str], label: str, labels: Labels) -> Examples:
    """Rows with their labels understood."""
    encoded, bad = encode_labels(rows.columns[label], labels)
    for column in text:
        for row, value in enumerate(rows.columns[column]):
            if not value.strip():
                bad.setdefault(row, f"the text in column {column!r} is empty")
            elif not is_unicode(value):
                bad.setdefault(row, f"the text in column {column!r} has half a character (a lone surrogate)")
    if bad:
        raise DataError(*row_mistakes([f"{rows.origins[row]}: {problem}" for row, problem in sorted(bad.items())]))
    return Examples(tuple(rows.columns[column] for column in text), encoded, rows.origins)
