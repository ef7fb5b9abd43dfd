"""Tables in memory: pandas and polars data frames, pyarrow tables, and any other iterable of dicts."""

import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from plait.data.readers.records import as_text
from plait.errors import DataError

__all__ = ["columns_of", "in_rows", "is_frame", "is_table", "write_table"]


def is_frame(value: object) -> bool:
    """Whether a value is a data frame; iterating over one gives its column names, not its rows."""
    return hasattr(value, "columns") and (hasattr(value, "iter_rows") or hasattr(value, "itertuples"))


def is_table(value: object) -> bool:
    """Whether a value contains rows, rather than naming a file."""
    if is_frame(value) or hasattr(value, "to_pylist"):
        return True
    first = value[0] if isinstance(value, list | tuple) and value else None
    return isinstance(first, Mapping) and not first.keys() <= {"file", "where"}  # which is a source, not a row


def _rows(table: Any) -> Iterator[Mapping[str, object]]:
    """The rows of a table, each a mapping by column."""
    if hasattr(table, "iter_rows"):  # polars
        return iter(table.iter_rows(named=True))
    if hasattr(table, "itertuples"):  # pandas
        names = [str(column) for column in table.columns]
        return (dict(zip(names, row, strict=True)) for row in table.itertuples(index=False, name=None))
    if hasattr(table, "to_pylist"):  # pyarrow
        return iter(table.to_pylist())
    return iter(table)


def _column_names(table: Any, what: str) -> list[str]:
    """The column names of a table, checked for duplicates; empty if every row names its own."""
    columns = table.columns if is_frame(table) else table.schema.names if hasattr(table, "schema") else []
    names = [str(column) for column in columns]
    if duplicate := next((name for name in names if names.count(name) > 1), None):
        raise DataError(f"{what}: duplicate column {duplicate!r}; rename one of them")
    return names


def columns_of(table: Any, names: Sequence[str]) -> list[list[str]]:
    """Some columns of a data frame as text."""
    present = _column_names(table, "the data frame")
    if missing := [name for name in names if name not in present]:
        raise DataError(f"the data frame has no column {missing[0]!r}; it has {', '.join(present)}")
    rows = [[as_text(_plain_cell(row[name])) for name in names] for row in _rows(table)]
    return [list(column) for column in zip(*rows, strict=True)] if rows else [[] for _ in names]


def write_table(table: Any, path: Path, what: str) -> None:
    """Write a table as jsonl, so that a run can be resumed; `what` names the table in messages."""
    _column_names(table, what)
    with path.open("w", encoding="utf-8") as file:
        for number, row in enumerate(_checked(_rows(table), what)):
            try:
                cells = {str(name): _plain_cell(cell) for name, cell in row.items()}
                file.write(json.dumps(cells, ensure_ascii=True, default=str) + "\n")
            except ValueError as error:
                raise DataError(f"{what}: row {number}: {error}") from None


def in_rows(messages: Iterable[str], tables: Mapping[Path, str]) -> list[str]:
    """Messages about the files of written tables, in terms of the tables and their rows, which count from 0.

    `tables` maps each file to what the user calls the table.
    """
    names = {name: what for file, what in tables.items() for name in (str(file), file.name)}
    files = "|".join(re.escape(name) for name in sorted(names, key=len, reverse=True))

    def rename(found: re.Match[str]) -> str:
        what, line = names[found[1]], found[2]
        return f"{what}: row {int(line) - 1}" if line else what

    return [re.sub(rf"(?<![\w./-])({files})(?::(\d+))?", rename, message) for message in messages]


def _checked(rows: Iterable[object], what: str) -> Iterator[Mapping[str, object]]:
    for number, row in enumerate(rows):
        if not isinstance(row, Mapping):
            raise DataError(f"{what}: row {number}: expected a dict of values by column, found {type(row).__name__}")
        yield row


def _plain_cell(cell: Any) -> Any:
    """A value that JSON can represent: numpy numbers become Python's, missing values None."""
    if hasattr(cell, "tolist"):
        cell = cell.tolist()
    missing = cell is None or type(cell).__name__ in ("NAType", "NaTType") or cell != cell  # NaN differs from itself
    return None if missing else cell
