"""Files → rows of text. No reader silently shifts, merges or drops a row: all bad rows are reported at once."""

import difflib
import gzip
import re
import shlex
import zlib
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import BinaryIO

from plait.data.readers.compressed import open_gzip
from plait.data.readers.delimited import read_delimited
from plait.data.readers.hub import hub_columns, read_hub
from plait.data.readers.jsonarray import read_json_list
from plait.data.readers.jsonlines import read_json_lines
from plait.data.readers.lines import NOT_UTF8
from plait.data.readers.parquet import read_parquet
from plait.data.readers.records import Nested, Record, Table
from plait.data.readers.xlsx import read_xlsx
from plait.errors import DataError, did_you_mean
from plait.recipe.task import Source

__all__ = [
    "BINARY_FORMATS",
    "ENCODING_HINT",
    "FORMATS",
    "FORMAT_NAMES",
    "SHOWN",
    "BadRow",
    "Rows",
    "check_columns",
    "format_of",
    "only_column_problem",
    "open_source",
    "open_table",
    "opened",
    "parse",
    "read_rows",
    "row_mistakes",
    "row_problem",
    "shown_names",
]

ENCODING_HINT = "write encoding: latin-1 in the task"
SHOWN = 20  # bad rows per file that a message lists; the others are only counted
# File name ending → format; those of text may be compressed, as in .csv.gz.
FORMATS = {
    ".csv": "csv", ".tsv": "tsv", ".jsonl": "jsonl", ".ndjson": "jsonl", ".json": "json", ".parquet": "parquet",
    ".pq": "parquet", ".xlsx": "xlsx",
}  # fmt: skip
BINARY_FORMATS = {"parquet": read_parquet, "xlsx": read_xlsx}  # without an encoding of text
FORMAT_NAMES = ".csv, .tsv, .jsonl and .json (also with .gz), .parquet and .xlsx"


@dataclass(frozen=True)
class BadRow:
    """A row that cannot be used."""

    where: str  # "reviews.csv:17"
    problem: str
    row: Mapping[str, str] | str  # its values by column, or its original text if it could not be parsed


@dataclass(frozen=True)
class Rows:
    """The requested columns of one or more files, and where each row comes from."""

    columns: dict[str, list[str]]
    origins: list[str]  # "reviews.csv:17"
    bad: list[BadRow] = field(default_factory=list)
    unpaired: int = 0  # source rows without a partner, if these rows were derived from pairs

    def chosen(self, rows: Sequence[int]) -> "Rows":
        """Only these rows, in this order."""
        columns = {name: [column[row] for row in rows] for name, column in self.columns.items()}
        return Rows(columns, [self.origins[row] for row in rows])

    def bad_row(self, row: int, problem: str) -> BadRow:
        """Row number `row` as a bad row with this problem."""
        return BadRow(self.origins[row], problem, {name: column[row] for name, column in self.columns.items()})


def format_of(path: Path) -> str | None:
    """csv, tsv, jsonl, json, parquet or xlsx, by the file name; None for any other."""
    name = path.name.lower()
    compressed = name.endswith(".gz")
    kind = FORMATS.get(Path(name.removesuffix(".gz")).suffix)
    return None if compressed and kind in BINARY_FORMATS else kind


def open_table(path: Path, *, quoting: str | None = None, encoding: str = "utf-8") -> Table:
    """The columns and rows of a file; the rows are read lazily."""
    kind = format_of(path)
    if kind is None:
        raise DataError(f"{path}: unknown file format; plait reads {FORMAT_NAMES}")
    if kind in BINARY_FORMATS:
        if not path.is_file():
            raise DataError(f"{path}: cannot be read: No such file or directory")
        return BINARY_FORMATS[kind](path)
    with opened(path) as file:
        columns = parse(file, str(path), kind, quoting, encoding).columns
    return Table(columns, _records(path, kind, quoting, encoding))


def parse(file: BinaryIO, name: str, kind: str, quoting: str | None, encoding: str = "utf-8") -> Table:
    """The table of an open file of text; csv is quoted and tsv is not, unless `quoting` says otherwise."""
    if kind == "jsonl":
        return read_json_lines(file, encoding)
    if kind == "json":
        return read_json_list(file, name, encoding)
    quoted = quoting == "quoted" if quoting else kind == "csv"
    delimiter = "\t" if kind == "tsv" else None
    return read_delimited(file, name, delimiter=delimiter, quoted=quoted, encoding=encoding)


@contextmanager
def opened(path: Path) -> Iterator[BinaryIO]:
    """Open a file for reading, decompressed if necessary; system errors become a DataError."""
    try:
        with open_gzip(path) if path.name.lower().endswith(".gz") else path.open("rb") as file:
            yield file  # type: ignore[misc]  # a GzipFile reads like any other binary file
    except (EOFError, zlib.error, gzip.BadGzipFile):
        raise DataError(f"{path}: the gzip data is corrupt or truncated; replace the file with an intact one") from None
    except OSError as error:
        raise DataError(f"{path}: cannot be read: {error.strerror or error}") from None


def _records(path: Path, kind: str, quoting: str | None, encoding: str) -> Iterator[Record]:
    """The records of a file, which is open only during iteration."""
    with opened(path) as file:
        yield from parse(file, str(path), kind, quoting, encoding).records


def read_rows(
    sources: Sequence[Source],
    columns: Sequence[str],
    *,
    lists: Sequence[str] = (),
    quoting: str | None = None,
    encoding: str = "utf-8",
    split: str = "train",
) -> Rows:
    """These columns of all sources, in order; those in `lists` may contain lists, all others must be plain text.

    Raises one DataError for all sources that cannot be read or lack a column. Bad rows are collected instead.
    """
    wanted = list(dict.fromkeys(columns))
    found: dict[str, list[str]] = {column: [] for column in wanted}
    origins: list[str] = []
    bad: list[BadRow] = []
    mistakes: list[str] = []
    shown = shown_names(sources)
    for source in sources:
        needed = [*wanted, *source.where]
        try:
            table = open_source(source, quoting, split, encoding)
            check_columns(source.file, table, needed)
            for record in table.records:
                where = f"{shown[source.file]}:{record.line}"
                if record.problem:
                    bad.append(BadRow(where, record.problem, record.raw))
                    continue
                # A row that lacks a column of `where` is selected, so that it is reported as bad.
                if any(record.values.get(column, value).strip() != value for column, value in source.where.items()):
                    continue
                if problem := row_problem(record, needed, lists):
                    bad.append(BadRow(where, problem, record.values))
                    continue
                for column in wanted:
                    found[column].append(record.values[column])
                origins.append(where)
        except DataError as error:
            hint = f", or {ENCODING_HINT}"
            mistakes += [f"{mistake}{hint}" if NOT_UTF8 in mistake else mistake for mistake in error.mistakes]
    if mistakes:
        raise DataError(*mistakes, *row_mistakes(bad))
    return Rows(found, origins, bad)


def open_source(source: Source, quoting: str | None, split: str, encoding: str = "utf-8") -> Table:
    """The table of a file, or of a dataset on the hub."""
    if source.on_hub:
        return Table(tuple(hub_columns(source.file, split)), read_hub(source.file, split))
    return open_table(Path(source.file), quoting=quoting, encoding=encoding)


def only_column_problem(columns: Sequence[str]) -> str | None:
    """What is wrong if a file seems to have one column because something else separates its columns."""
    if len(columns) != 1 or not re.search(r"[,;|\t:^~]", columns[0]):
        return None
    return (
        f"the only column is {columns[0]!r}; separate columns by commas, semicolons, tabs or | in .csv, by tabs in .tsv"
    )


def check_columns(name: str, table: Table, needed: Sequence[str], option: str = "") -> None:
    """Raise a DataError if the table lacks a column; one mistake per column.

    `option` is the one of the command line that names other columns, if there is one.
    """
    columns = table.columns
    if columns is not None and (missing := [column for column in needed if column not in columns]):
        named = [column for column in columns if column]
        if problem := only_column_problem(named):
            raise DataError(f"{name}:1: {problem}")
        use = f" (use {_columns_option(option, needed, missing, named)})" if option else ""
        raise DataError(*(f"{name}:1: no column {column!r}; {did_you_mean(column, named)}{use}" for column in missing))


def _columns_option(option: str, needed: Sequence[str], missing: Sequence[str], named: Sequence[str]) -> str:
    """The option with the column that is most likely meant."""
    if len(needed) > 1:
        return " ".join([f"{option} COLUMN"] * len(needed))
    close = difflib.get_close_matches(missing[0], named, n=1) or (named if len(named) == 1 else ["COLUMN"])
    return f"{option} {shlex.quote(close[0])}"


def row_problem(record: Record, needed: Sequence[str], lists: Sequence[str]) -> str | None:
    """Why a row that was parsed cannot be used."""
    for column in needed:
        if column not in record.values:
            return f"no column {column!r}; {did_you_mean(column, record.values)}"
        if column not in lists and isinstance(record.values[column], Nested):
            return f"column {column!r} contains a list or an object; expected plain text"
    return None


def shown_names(sources: Sequence[Source]) -> dict[str, str]:
    """How messages name each source: a file without its folder, unless two files have the same name."""
    files = dict.fromkeys(source.file for source in sources)
    names = [Path(file).name for file in files]
    return {
        file: file if file.startswith("hub:") or names.count(Path(file).name) > 1 else Path(file).name for file in files
    }


def row_mistakes(bad: Sequence[BadRow]) -> list[str]:
    """The first bad rows of each file, how many more there are, and how to read those in another encoding."""
    by_file: dict[str, list[BadRow]] = {}
    for row in bad:
        by_file.setdefault(row.where.rpartition(":")[0], []).append(row)
    mistakes: list[str] = []
    for file, found in by_file.items():
        mistakes += [f"{row.where}: {row.problem}" for row in found[:SHOWN]]
        if len(found) > SHOWN:
            mistakes.append(f"{file}: ... and {len(found) - SHOWN:,} more bad rows, {len(found):,} in all")
        if count := sum(row.problem.startswith(NOT_UTF8) for row in found):
            rows = "1 row is" if count == 1 else f"{count:,} rows are"
            mistakes.append(f"{file}: {rows} not UTF-8; if the file is latin-1, {ENCODING_HINT}")
    return mistakes
