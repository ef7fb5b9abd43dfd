"""What predictions and embeddings are made of: a file or a pipe, with its columns known before the work begins."""

import shutil
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

from plait.data.parquet import pyarrow_or_error
from plait.data.read import check_columns, format_of, open_table, parse
from plait.data.records import Record, Table
from plait.errors import DataError, RequestError

__all__ = ["Input", "fingerprint", "open_input"]

PIPE = "standard input"
MOST_COLUMNS = 10_000  # that the rows of a jsonl file may name together, so that they can be held in memory
EXACT = 2**53  # up to here a float64 holds every whole number
# Type of a column → the kinds of value that it holds; any other mixture is text.
HOLDS = {"truth": {"truth"}, "integer": {"integer", "long"}, "number": {"integer", "number"}}


@dataclass(frozen=True)
class Input:
    """The rows to work on."""

    name: str  # as messages say it
    kind: str  # csv, tsv, jsonl or parquet
    records: Iterator[Record]
    columns: Mapping[str, Any]  # by name, each with its type as in a Header
    rows: int = 0  # about how many; 0: only reading them all would tell
    grows: bool = False  # rows of a pipe may name columns that none before them had


def open_input(
    source: str,
    needed: Sequence[str],
    *,
    quoting: str | None = None,
    pipe_kind: str | None = None,
    keep_in: Path | None = None,
    ends: tuple[str, ...] = (),
) -> Input:
    """A file, or `-`, the standard input; refused where a needed column is missing.

    The rows of jsonl name their own columns, so they are read twice, first for the columns. Those of a pipe are kept
    in a nameless file of the folder `keep_in` meanwhile; without a folder they go on as they come. With `ends`, only
    columns whose names end so must be known.
    """
    if source == "-":
        return open_pipe(needed, quoting, pipe_kind, keep_in, ends)
    path = Path(source)
    kind = format_of(path)
    table = open_table(path, quoting=quoting)
    rows = 0
    columns: dict[str, Any] = dict.fromkeys(table.columns or (), "text")
    if kind == "jsonl":
        columns, rows = survey(source, table.records, ends)
        table = open_table(path)
    elif kind == "parquet":
        with pyarrow_or_error(path).ParquetFile(path) as file:
            columns, rows = {field.name: arrow_type(field.type) for field in file.schema_arrow}, file.metadata.num_rows
    elif not source.lower().endswith(".gz"):
        rows = count_lines(path) - 1
    check(source, table, columns, needed)
    return Input(path.name, kind or "", table.records, columns, rows)


def open_pipe(
    needed: Sequence[str], quoting: str | None, kind: str | None, keep_in: Path | None, ends: tuple[str, ...]
) -> Input:
    """The standard input."""
    if sys.stdin is None:
        raise RequestError("--input -: the standard input is closed")
    file: BinaryIO = sys.stdin.buffer
    kind = kind or kind_of_pipe(file)
    if kind != "jsonl":
        table = parse(file, PIPE, kind, quoting)
        columns = dict.fromkeys(table.columns or (), "text")
        check(PIPE, table, columns, needed)
        return Input(PIPE, kind, table.records, columns)
    if keep_in is None:
        return Input(PIPE, kind, parse(file, PIPE, kind, quoting).records, {}, grows=True)
    kept: BinaryIO = tempfile.TemporaryFile(dir=keep_in)  # noqa: SIM115
    shutil.copyfileobj(file, kept)
    kept.seek(0)
    columns, rows = survey(PIPE, parse(kept, PIPE, kind, quoting).records, ends)
    kept.seek(0)
    table = parse(kept, PIPE, kind, quoting)
    check(PIPE, table, columns, needed)
    return Input(PIPE, kind, closing(kept, table.records), columns, rows)


def closing(file: BinaryIO, records: Iterator[Record]) -> Iterator[Record]:
    """The records, with their file closed after the last one."""
    with file:
        yield from records


def kind_of_pipe(file: BinaryIO) -> str:
    """What comes in through a pipe: a first `{` means jsonl, anything else csv."""
    begin: bytes = file.peek(1)  # type: ignore[attr-defined]  # it is buffered
    return "jsonl" if begin.removeprefix(b"\xef\xbb\xbf").lstrip().startswith(b"{") else "csv"


def check(name: str, table: Table, columns: Mapping[str, Any], needed: Sequence[str]) -> None:
    """Refuse an input that lacks a column, or that has two of one name, of which only one would be passed through."""
    known = tuple(columns) if table.columns is None else table.columns
    if known:  # rows of jsonl that name no column at all are bad one by one
        check_columns(name, Table(known, iter(())), needed)
    if doubles := [column for column in columns if known.count(column) > 1]:
        raise DataError(f"{name}:1: column {doubles[0]!r} stands twice; give each column a name of its own")


def arrow_type(given: Any) -> Any:
    """The type of a column of parquet; text where pyarrow cannot make it of Python's values."""
    import pyarrow

    return "text" if isinstance(given, pyarrow.BaseExtensionType) else given


def survey(name: str, records: Iterator[Record], ends: tuple[str, ...]) -> tuple[dict[str, str], int]:
    """The columns that rows name, each with the type that all its values have in common; and the number of rows."""
    found: dict[str, set[str]] = {}
    rows = 0
    for record in records:
        rows += 1
        for column, cell in (record.cells or {}).items():
            if column not in found:
                if len(found) >= MOST_COLUMNS and not column.endswith(ends):
                    if ends:
                        continue
                    raise DataError(
                        f"{name}: its rows name more than {MOST_COLUMNS:,} columns; choose .jsonl as output"
                    )
                found[column] = set()
            if cell is not None:
                found[column].add(kind_of(cell))
    types = {
        column: next((kind for kind, held in HOLDS.items() if kinds and kinds <= held), "text")
        for column, kinds in found.items()
    }
    return types, rows


def kind_of(cell: object) -> str:
    """The kind of one value; text is all that has no type of its own in a table."""
    if isinstance(cell, bool):
        return "truth"
    if isinstance(cell, int) and -(2**63) <= cell < 2**63:
        return "integer" if -EXACT <= cell <= EXACT else "long"
    return "number" if isinstance(cell, float) else "text"


def count_lines(path: Path) -> int:
    """The lines of a file."""
    with path.open("rb") as file:
        return sum(block.count(b"\n") for block in iter(lambda: file.read(1 << 20), b""))


def fingerprint(source: str) -> dict[str, str | int]:
    """What tells one input from another without reading it whole."""
    if source == "-":
        return {}
    facts = Path(source).stat()
    return {"path": str(Path(source).resolve()), "size": facts.st_size, "changed": facts.st_mtime_ns}
