"""The rows to predict for or to embed: a file, a folder or a pipe, whose columns are known before the work begins."""

import shutil
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import Any, BinaryIO

from plait.data.read import check_columns, format_of, open_table, parse
from plait.data.readers.lines import NOT_UTF8
from plait.data.readers.parquet import pyarrow_or_error
from plait.data.readers.records import Record, Table
from plait.errors import DataError, RequestError
from plait.files import read_json, write_json
from plait.inference.corpus import Corpus, Shard, count_lines, find_corpus, shard_records, shown_mistakes

__all__ = ["Input", "fingerprint", "open_input"]

_STDIN = "standard input"
_MOST_COLUMNS = 10_000  # in all rows of a jsonl file together, so that their names fit in memory
_EXACT = 2**53  # up to here float64 represents every integer
# Type of a column → the types of value that it can hold; any other mixture becomes text.
_COLUMN_TYPES = {"truth": {"truth"}, "integer": {"integer", "long"}, "number": {"integer", "number"}}


@dataclass(frozen=True)
class Input:
    """The rows to process."""

    name: str  # in messages
    kind: str  # csv, tsv, jsonl, json, parquet or xlsx
    records: Iterator[Record]
    columns: Mapping[str, Any]  # name → type, as in a Header
    rows: int = 0  # approximate; 0 if unknown
    is_pipe: bool = False
    grows: bool = False  # whether later rows of a pipe may have columns that earlier ones lack


def open_input(
    source: str,
    needed: Sequence[str],
    *,
    quoting: str | None = None,
    encoding: str = "utf-8",
    pipe_kind: str | None = None,
    keep_in: Path | None = None,
    only: Sequence[str] = (),
    option: str = "",
    shard: Shard | None = None,
    survey: Path | None = None,
) -> Input:
    """Open a file, all files of a folder, or standard input for `-`; fails if a needed column is missing.

    Each row of JSON names its own columns, so the file is read twice, first to collect them. Rows from a pipe are
    stored in an unnamed file in the folder `keep_in` meanwhile; without a folder they are processed as they come. With
    `only`, no other columns must be known. `option` is the one that names other columns than the needed ones, for the
    message about a missing one. `shard` selects some of the rows; the columns are those of all rows. What must be read
    to know columns and lines is written to the file `survey`, for the next shard.
    """
    parsing = _Parsing(quoting, encoding, only, option)
    try:
        if source == "-":
            return _open_pipe(needed, parsing, pipe_kind, keep_in)
        if shard or Path(source).is_dir():
            return _open_corpus(find_corpus(Path(source)), needed, parsing, shard or Shard(0, 1), survey)
        return _open_file(source, needed, parsing)
    except DataError as error:
        hint = ", or use --encoding latin-1"
        raise DataError(*(f"{found}{hint * (NOT_UTF8 in found)}" for found in error.mistakes)) from None


@dataclass(frozen=True)
class _Parsing:
    """How text becomes rows, and which columns must be known if not all."""

    quoting: str | None
    encoding: str
    only: Sequence[str]
    option: str

    def parse(self, file: BinaryIO, kind: str) -> Table:
        return parse(file, _STDIN, kind, self.quoting, self.encoding)

    def open(self, path: Path) -> Table:
        return open_table(path, quoting=self.quoting, encoding=self.encoding)


def _open_file(source: str, needed: Sequence[str], parsing: _Parsing) -> Input:
    path = Path(source)
    kind = format_of(path)
    table = parsing.open(path)
    rows = 0
    columns: dict[str, Any] = dict.fromkeys(table.columns or (), "text")
    if table.columns is None:
        columns, rows = _collect_columns(source, table.records, parsing.only)
        table = parsing.open(path)
    elif kind == "parquet":
        columns, rows = _parquet_columns(path)
    elif kind in ("csv", "tsv") and not source.lower().endswith(".gz"):
        rows = count_lines(path) - 2
    _check_columns(source, table, columns, needed, parsing.option)
    return Input(path.name, kind or "", table.records, columns, rows)


def _open_corpus(corpus: Corpus, needed: Sequence[str], parsing: _Parsing, shard: Shard, survey: Path | None) -> Input:
    key = [corpus.digest, parsing.quoting, parsing.encoding, list(parsing.only)]
    known = _read_survey(survey, key)
    if corpus.family == "json":
        records = chain.from_iterable(parsing.open(path).records for path in corpus.files)
        columns = known.get("columns") or _collect_columns(str(corpus.source), records, parsing.only)[0]
        _check_columns(str(corpus.source), Table(None, iter(())), columns, needed, parsing.option)
    else:
        columns = _shared_columns(corpus, needed, parsing)
    lines = known.get("lines") or [count_lines(path) for path in corpus.files]
    if survey and not known and corpus.family != "parquet":
        with suppress(OSError):  # another machine may write it at the same moment
            write_json(survey, {"key": key, "lines": lines, "columns": columns})
    places = shard.places(sum(lines))
    found = shard_records(corpus, lines, places, parsing.open)
    return Input(corpus.source.name, corpus.kind, found, columns, len(places))


def _read_survey(path: Path | None, key: list[Any]) -> dict[str, Any]:
    """What another shard of the same corpus wrote; empty if nothing."""
    try:
        found: dict[str, Any] = read_json(path) if path else {}
    except (OSError, ValueError):
        return {}
    return found if isinstance(found, dict) and found.get("key") == key else {}


def _shared_columns(corpus: Corpus, needed: Sequence[str], parsing: _Parsing) -> dict[str, Any]:
    """The columns of all files, whose headers name them; each file must have those that are needed."""
    shared: dict[str, Any] = {}
    mistakes: list[str] = []
    for path in corpus.files:
        columns: dict[str, Any] = {}
        try:
            table = parsing.open(path)
            columns = dict.fromkeys(table.columns or (), "text")
            if corpus.family == "parquet":
                columns, _ = _parquet_columns(path)
            _check_columns(str(path), table, columns, needed, parsing.option)
        except DataError as error:
            mistakes += error.mistakes
        for name, kind in columns.items():
            shared[name] = _common_type(shared[name], kind) if name in shared else kind
    if mistakes:
        raise DataError(*shown_mistakes(mistakes))
    return shared


def _common_type(first: Any, second: Any) -> Any:
    """A type for the values of both; text if there is no other."""
    if first == second or "text" in (first, second):
        return first if first == second else "text"
    import pyarrow

    schemas = [pyarrow.schema([("column", kind)]) for kind in (first, second)]
    try:
        return pyarrow.unify_schemas(schemas, promote_options="permissive").field(0).type
    except (pyarrow.ArrowInvalid, pyarrow.ArrowTypeError):
        return "text"


def _open_pipe(needed: Sequence[str], parsing: _Parsing, kind: str | None, keep_in: Path | None) -> Input:
    if sys.stdin is None:
        raise RequestError("--input -: standard input is closed")
    file: BinaryIO = sys.stdin.buffer
    kind = kind or _guess_format(file)
    if kind != "jsonl":
        table = parsing.parse(file, kind)
        columns = dict.fromkeys(table.columns or (), "text")
        _check_columns(_STDIN, table, columns, needed, parsing.option)
        return Input(_STDIN, kind, table.records, columns, is_pipe=True)
    if keep_in is None:
        return Input(_STDIN, kind, parsing.parse(file, kind).records, {}, is_pipe=True, grows=True)
    kept: BinaryIO = tempfile.TemporaryFile(dir=keep_in)  # noqa: SIM115
    shutil.copyfileobj(file, kept)
    kept.seek(0)
    columns, rows = _collect_columns(_STDIN, parsing.parse(kept, kind).records, parsing.only)
    kept.seek(0)
    table = parsing.parse(kept, kind)
    _check_columns(_STDIN, table, columns, needed, parsing.option)
    return Input(_STDIN, kind, _close_after(kept, table.records), columns, rows)


def _close_after(file: BinaryIO, records: Iterator[Record]) -> Iterator[Record]:
    """Yield the records, then close their file."""
    with file:
        yield from records


def _guess_format(file: BinaryIO) -> str:
    """The format of a pipe: jsonl if its first character is `{`, csv otherwise."""
    begin: bytes = file.peek(1)  # type: ignore[attr-defined]  # it is buffered
    return "jsonl" if begin.removeprefix(b"\xef\xbb\xbf").lstrip().startswith(b"{") else "csv"


def _check_columns(name: str, table: Table, columns: Mapping[str, Any], needed: Sequence[str], option: str) -> None:
    """Refuse an input that lacks a needed column, or that has two columns of one name, which could not both be kept."""
    known = tuple(columns) if table.columns is None else table.columns
    if known:  # if no row of a jsonl file has any column, each row is reported as bad
        check_columns(name, Table(known, iter(())), needed, option)
    if doubles := [column for column in columns if known.count(column) > 1]:
        raise DataError(f"{name}:1: column {doubles[0]!r} occurs twice; give each column its own name")


def _parquet_columns(path: Path) -> tuple[dict[str, Any], int]:
    """The columns of a parquet file, and the number of its rows."""
    with pyarrow_or_error(path).ParquetFile(path) as file:
        return {field.name: _parquet_type(field.type) for field in file.schema_arrow}, file.metadata.num_rows


def _parquet_type(given: Any) -> Any:
    """The type of a parquet column; text if pyarrow cannot build it from Python values."""
    import pyarrow

    return "text" if isinstance(given, pyarrow.BaseExtensionType) else given


def _collect_columns(name: str, records: Iterator[Record], only: Sequence[str]) -> tuple[dict[str, str], int]:
    """All columns of some rows, each with a type that fits all its values; and the number of rows."""
    found: dict[str, set[str]] = {}
    rows = 0
    for record in records:
        rows += 1
        for column, cell in (record.cells or {}).items():
            if column not in found:
                if len(found) >= _MOST_COLUMNS and column not in only:
                    if only:
                        continue
                    raise DataError(f"{name}: more than {_MOST_COLUMNS:,} columns; choose .jsonl as output")
                found[column] = set()
            if cell is not None:
                found[column].add(_value_type(cell))
    types = {
        column: next((name for name, held in _COLUMN_TYPES.items() if kinds and kinds <= held), "text")
        for column, kinds in found.items()
    }
    return types, rows


def _value_type(cell: object) -> str:
    """The type of one value; anything that tables have no type for is text."""
    if isinstance(cell, bool):
        return "truth"
    if isinstance(cell, int) and -(2**63) <= cell < 2**63:
        return "integer" if -_EXACT <= cell <= _EXACT else "long"
    return "number" if isinstance(cell, float) else "text"


def fingerprint(source: str) -> dict[str, str | int]:
    """Distinguishes one input from another without reading its content."""
    if source == "-":
        return {}
    path = str(Path(source).resolve())
    if Path(source).is_dir():
        corpus = find_corpus(Path(source))
        return {"path": path, "files": len(corpus.files), "sha256": corpus.digest, "changed": corpus.changed}
    facts = Path(source).stat()
    return {"path": path, "size": facts.st_size, "changed": facts.st_mtime_ns}
