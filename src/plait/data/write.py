"""Rows as lines of csv and jsonl."""

import csv
import json
from collections.abc import Iterable, Mapping, Sequence
from types import SimpleNamespace

from plait.data.records import as_text

__all__ = ["csv_cell", "csv_lines", "json_line"]

LIST_SEPARATOR = "|"  # between several labels in one cell of csv


def csv_lines(rows: Iterable[Sequence[str]]) -> bytes:
    """Rows with every field quoted that needs it."""
    lines: list[str] = []
    # With another end of line, Python 3.11 leaves a carriage return unquoted.
    csv.writer(SimpleNamespace(write=lines.append), lineterminator="\r\n").writerows(rows)
    return "".join(line[:-2] + "\n" for line in lines).encode("utf-8", "replace")  # half a character cannot be written


def csv_cell(cell: object) -> str:
    """A cell as text; several labels with a bar between them."""
    if isinstance(cell, str):
        return cell
    return LIST_SEPARATOR.join(cell) if isinstance(cell, tuple) else as_text(cell)


def json_line(row: Mapping[str, object]) -> bytes:
    """An object on a line of its own; half a character, which only an escape can write, is escaped."""
    try:
        line = json.dumps(row, ensure_ascii=False, default=str).encode()
    except UnicodeEncodeError:
        line = json.dumps(row, default=str).encode()
    return line + b"\n"
