"""What every reader returns: one record per row, its values as text, and what is wrong with a bad row."""

import json
import math
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from plait.errors import DataError

__all__ = ["MOST_BYTES", "Nested", "Record", "Table", "as_text", "is_unicode", "unique_columns"]


MOST_BYTES = 10_000_000  # of a row; a longer one is no sentence, and is never held in memory


class Nested(str):
    """A list or an object, as JSON."""

    __slots__ = ()


class Record(NamedTuple):
    """One row."""

    line: int  # the one it begins on
    values: dict[str, str]  # by column
    problem: str | None = None
    raw: str = ""  # the original text of a row with a problem
    cells: Mapping[str, object] | None = None  # the original values, if the format has types
    file: str = ""  # its file, if several are read as one


@dataclass(frozen=True)
class Table:
    """The rows of one file, read lazily."""

    columns: tuple[str, ...] | None  # None if each row names its own
    records: Iterator[Record]


def unique_columns(columns: Sequence[str], name: str) -> tuple[str, ...]:
    """The columns of a header, which must differ; if several have no name, each is named after its place."""
    if list(columns).count("") > 1:  # common in spreadsheets; each column keeps its own values
        columns = [column or f"column {place}" for place, column in enumerate(columns, start=1)]
    for column, count in Counter(columns).items():
        if count > 1:
            raise DataError(f"{name}:1: duplicate column {column!r}; rename one of them")
    return tuple(columns)


def is_unicode(text: str) -> bool:
    """Whether a text can be encoded: JSON escapes and shell arguments may contain half a character."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def as_text(cell: object) -> str:
    """A value as a csv file would hold it: a missing value or NaN is empty, a list is JSON."""
    if cell is None or (isinstance(cell, float) and math.isnan(cell)):
        return ""
    if isinstance(cell, str):
        return cell
    if isinstance(cell, bool | int):
        return str(cell).lower()
    if isinstance(cell, float) and math.isfinite(cell):
        return repr(cell)
    if isinstance(cell, bytes):  # how old parquet files store text
        return cell.decode(errors="replace")
    text = json.dumps(cell, ensure_ascii=False, default=str)
    return Nested(text) if isinstance(cell, list | tuple | dict) else text.removeprefix('"').removesuffix('"')
