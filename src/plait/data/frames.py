"""Tables in memory: pandas and polars data frames, lists of dicts, and whatever else goes row by row."""

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from plait.data.records import as_text
from plait.errors import DataError

__all__ = ["columns_of", "is_frame", "is_table", "rows_of", "write_table"]


def is_frame(value: object) -> bool:
    """Whether a value is a data frame, which would otherwise be taken for the list of its column names."""
    return hasattr(value, "columns") and (hasattr(value, "iter_rows") or hasattr(value, "itertuples"))


def is_table(value: object) -> bool:
    """Whether a value holds rows itself, and does not name a file."""
    if is_frame(value) or hasattr(value, "to_pylist"):
        return True
    first = value[0] if isinstance(value, list | tuple) and value else None
    return isinstance(first, Mapping) and not first.keys() <= {"file", "where"}  # which is a source, and not a row


def rows_of(table: Any) -> Iterator[Mapping[str, object]]:
    """The rows of a table, each by column."""
    if hasattr(table, "iter_rows"):  # polars
        return iter(table.iter_rows(named=True))
    if hasattr(table, "itertuples"):  # pandas
        names = [str(column) for column in table.columns]
        return (dict(zip(names, row, strict=True)) for row in table.itertuples(index=False, name=None))
    if hasattr(table, "to_pylist"):  # pyarrow
        return iter(table.to_pylist())
    return iter(table)


def names_of(table: Any, what: str) -> list[str]:
    """The names of a table's columns, each once; none where every row names its own."""
    columns = table.columns if is_frame(table) else table.schema.names if hasattr(table, "schema") else []
    names = [str(column) for column in columns]
    if double := next((name for name in names if names.count(name) > 1), None):
        raise DataError(f"{what}: column {double!r} stands twice")
    return names


def columns_of(table: Any, names: Sequence[str]) -> list[list[str]]:
    """Some columns of a data frame as text."""
    present = names_of(table, "the data frame")
    if lacking := [name for name in names if name not in present]:
        raise DataError(f"the data frame has no column {lacking[0]!r}; it has {', '.join(present)}")
    rows = [[cell_text(row[name]) for name in names] for row in rows_of(table)]
    return [list(column) for column in zip(*rows, strict=True)] if rows else [[] for _ in names]


def write_table(table: Any, path: Path, what: str) -> None:
    """Write a table as jsonl, where a run can find it again."""
    names_of(table, what)
    with path.open("w", encoding="utf-8") as file:
        for number, row in enumerate(checked(rows_of(table), what)):
            try:
                cells = {str(name): plain_cell(cell) for name, cell in row.items()}
                file.write(json.dumps(cells, ensure_ascii=True, default=str) + "\n")
            except ValueError as error:
                raise DataError(f"{what}: row {number}: {error}") from None


def checked(rows: Iterable[object], what: str) -> Iterator[Mapping[str, object]]:
    """Rows that are what a table is made of."""
    for number, row in enumerate(rows):
        if not isinstance(row, Mapping):
            raise DataError(f"{what}: row {number}: expected values by column, found {type(row).__name__}")
        yield row


def plain_cell(cell: Any) -> Any:
    """A value as JSON knows it: numpy's numbers as Python's, what is missing as null."""
    if hasattr(cell, "tolist"):
        cell = cell.tolist()
    missing = cell is None or type(cell).__name__ in ("NAType", "NaTType") or cell != cell  # NaN differs from itself
    return None if missing else cell


def cell_text(cell: Any) -> str:
    """A value as text."""
    return as_text(plain_cell(cell))
