"""Rows as lines of csv and jsonl."""

import csv
import json
from collections.abc import Iterable, Mapping, Sequence
from types import SimpleNamespace

from plait.data.labels import as_number
from plait.data.readers.records import as_text

__all__ = ["csv_cell", "csv_lines", "defuse", "json_line"]

_FORMULA_SIGNS = ("=", "+", "-", "@", "\t", "\r")
_LIST_SEPARATOR = "|"  # between the labels in one cell


def csv_lines(rows: Iterable[Iterable[str]]) -> bytes:
    """Rows as csv; a field is quoted only if it has to be."""
    lines: list[str] = []
    # With any other line terminator, Python 3.11 does not quote a carriage return.
    csv.writer(SimpleNamespace(write=lines.append), lineterminator="\r\n").writerows(rows)
    return "".join(line[:-2] + "\n" for line in lines).encode("utf-8", "replace")  # lone surrogates cannot be encoded


def defuse(cell: str) -> str:
    """A cell that no spreadsheet takes for a formula: an apostrophe precedes = + - @, tab and carriage return.

    Plain numbers stay as they are.
    """
    return f"'{cell}" if cell.startswith(_FORMULA_SIGNS) and as_number(cell) is None else cell


def csv_cell(cell: object) -> str:
    """A cell as text; several labels are separated by a bar."""
    if isinstance(cell, str):
        return cell
    return _LIST_SEPARATOR.join(cell) if isinstance(cell, tuple) else as_text(cell)


def json_line(row: Mapping[str, object] | Sequence[object]) -> bytes:
    """A row as one line of JSON, in UTF-8; a lone surrogate, which UTF-8 cannot encode, is escaped."""
    try:
        line = json.dumps(row, ensure_ascii=False, default=str).encode()
    except UnicodeEncodeError:
        line = json.dumps(row, default=str).encode()
    return line + b"\n"
