"""What every reader of data gives: a record a row, as text, and what is wrong with those that are bad."""

import json
import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import NamedTuple

__all__ = ["Nested", "Record", "Table", "as_text", "is_unicode"]


class Nested(str):
    """A list or an object, as JSON."""

    __slots__ = ()


class Record(NamedTuple):
    """One row: the line that it begins on, its values by column as text, and what is wrong with it."""

    line: int
    values: dict[str, str]
    problem: str | None = None
    raw: str = ""  # a row with a problem as it was
    cells: Mapping[str, object] | None = None  # the values as they were, where they are not text


@dataclass(frozen=True)
class Table:
    """The rows of one file, read as they are asked for."""

    columns: tuple[str, ...] | None  # None: each row names its own
    records: Iterator[Record]


def is_unicode(text: str) -> bool:
    """Whether a text can be written at all: JSON's escapes and a shell's bytes may hold half a character."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def as_text(cell: object) -> str:
    """A value as a csv file would hold it; what is missing, NaN included, is empty, and a list is JSON."""
    if cell is None or (isinstance(cell, float) and math.isnan(cell)):
        return ""
    if isinstance(cell, str):
        return cell
    if isinstance(cell, bool | int):
        return str(cell).lower()
    if isinstance(cell, float) and math.isfinite(cell):
        return repr(cell)
    if isinstance(cell, bytes):  # old parquet files keep text so
        return cell.decode(errors="replace")
    text = json.dumps(cell, ensure_ascii=False, default=str)
    return Nested(text) if isinstance(cell, list | tuple | dict) else text.removeprefix('"').removesuffix('"')
