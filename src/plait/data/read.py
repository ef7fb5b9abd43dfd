"""Files → rows of text. No reader shifts, merges or drops a row in silence: every bad row is named, all at once."""

import csv
import json
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from plait.errors import DataError, did_you_mean

__all__ = ["Rows", "is_unicode", "read_rows", "row_mistakes", "shown_names"]

SHOWN = 20  # bad rows that a message lists before it only counts


@dataclass(frozen=True)
class Rows:
    """The wanted columns of one or more files, row by row, and where each row was written."""

    columns: dict[str, list[str]]
    origins: list[str]  # "reviews.csv:17"

    def __len__(self) -> int:
        return len(self.origins)


def read_rows(paths: Sequence[Path], columns: Sequence[str], *, quoting: str | None = None) -> Rows:
    """The columns of files in csv, tsv or jsonl, one file after the other."""
    wanted = list(dict.fromkeys(columns))
    found: dict[str, list[str]] = {column: [] for column in wanted}
    origins: list[str] = []
    mistakes: list[str] = []
    shown = shown_names(paths)
    for path in paths:
        has_header = path.suffix.lower() not in (".jsonl", ".ndjson")
        records = read_delimited(path, quoting) if has_header else read_json_lines(path, wanted)
        bad: list[str] = []
        for line, record, problem in records:
            lacking = [column for column in wanted if column not in record]
            unknown = [f"no column {column!r}; {did_you_mean(column, record)}" for column in lacking]
            problems = [problem] if problem else unknown
            bad += [f"{path}:{line}: {problem}" if line else f"{path}: {problem}" for problem in problems]
            if problems and has_header and line <= 1:  # no row of this file can be used
                break
            if not problems and (line > 1 or not has_header):
                for column in wanted:
                    found[column].append(record[column])
                origins.append(f"{shown[path]}:{line}")
        mistakes += row_mistakes(bad)
    if mistakes:
        raise DataError(*mistakes)
    return Rows(found, origins)


def shown_names(paths: Sequence[Path]) -> dict[Path, str]:
    """How messages name each file: without its folder, unless two have the same name."""
    names = [path.name for path in paths]
    return {path: str(path) if names.count(path.name) > 1 else path.name for path in paths}


def row_mistakes(bad: Sequence[str]) -> list[str]:
    """The first bad rows of a file, and how many more there are."""
    rest = [f"... and {len(bad) - SHOWN:,} more bad rows"] if len(bad) > SHOWN else []
    return [*bad[:SHOWN], *rest]


Record = tuple[int, dict[str, str], str | None]  # first line, values by column, what is wrong with it


def read_delimited(path: Path, quoting: str | None) -> Iterator[Record]:
    """The header as a record whose values are its names, then a record a row; .csv is quoted, .tsv is not."""
    if path.suffix.lower() not in (".csv", ".tsv"):
        yield 0, {}, "unknown kind of file; give .csv, .tsv or .jsonl"
        return
    csv.field_size_limit(sys.maxsize)
    quoted = quoting == "quoted" if quoting else path.suffix.lower() == ".csv"
    broken: dict[int, str] = {}  # line → why it could not be decoded
    try:
        with path.open("rb") as file:
            delimiter = "\t" if path.suffix.lower() == ".tsv" else guess_delimiter(file.readline())
            file.seek(0)
            reader = csv.reader(
                decode_lines(file, broken),
                delimiter=delimiter,
                quoting=csv.QUOTE_MINIMAL if quoted else csv.QUOTE_NONE,
                strict=True,
            )
            header: list[str] | None = None
            while True:
                first = reader.line_num + 1
                try:
                    fields = next(reader)
                except StopIteration:
                    break
                except csv.Error as error:
                    bare = "new-line" in str(error)  # a carriage return alone, the line end of old Macs
                    hint = "a carriage return within a row; save the file with line feeds as line ends"
                    yield first, {}, hint if bare else f"{error}; is a quote left open?"
                    continue
                problems = [broken[line] for line in range(first, reader.line_num + 1) if line in broken]
                if header is None:
                    header = fields
                    problems += [f"column {name!r} stands twice" for name in header if name and header.count(name) > 1]
                    yield 1, dict(zip(header, header, strict=True)), problems[0] if problems else None
                elif problems:
                    yield first, {}, problems[0]
                elif not fields and len(header) > 1:
                    continue  # an empty line between rows
                elif len(fields) != len(header):
                    yield first, {}, f"{len(fields)} fields where the header has {len(header)}"
                else:
                    yield first, dict(zip(header, fields, strict=True)), None
            if header is None:
                yield 1, {}, "the file is empty; expected a header line"
    except OSError as error:
        yield 0, {}, f"cannot be read: {error.strerror}"


def guess_delimiter(header: bytes) -> str:
    """The delimiter of a .csv file: a tab if its header has one, else the commoner of comma and semicolon."""
    if b"\t" in header:
        return "\t"
    return ";" if header.count(b";") > header.count(b",") else ","


def decode_lines(lines: Iterator[bytes], broken: dict[int, str]) -> Iterator[str]:
    """Lines as text, without a byte order mark; what is wrong with a line is written down under its number."""
    for number, line in enumerate(lines, start=1):
        if number == 1:
            line = line.removeprefix(b"\xef\xbb\xbf")
        if b"\0" in line:
            broken[number] = "a NUL byte; the file may be UTF-16, save it as UTF-8"
            line = line.replace(b"\0", b"")
        try:
            yield line.decode()
        except UnicodeDecodeError as error:
            broken[number] = f"not UTF-8 at byte {error.start} of the line; save the file as UTF-8"
            yield line.decode(errors="replace")


def read_json_lines(path: Path, wanted: Sequence[str]) -> Iterator[Record]:
    """A record an object; numbers and truth values as text."""
    broken: dict[int, str] = {}
    try:
        with path.open("rb") as file:
            for number, line in enumerate(decode_lines(file, broken), start=1):
                if not line.strip():
                    continue
                if number in broken:
                    yield number, {}, broken[number]
                    continue
                try:
                    value = json.loads(line)
                except RecursionError:
                    yield number, {}, "not JSON: nested too deeply"
                    continue
                except json.JSONDecodeError as error:
                    yield number, {}, f"not JSON: {error.msg} at column {error.colno}"
                    continue
                if not isinstance(value, dict):
                    yield number, {}, f"expected an object, found {type(value).__name__}"
                    continue
                nested = [key for key in wanted if isinstance(value.get(key), list | dict)]
                record = {key: as_text(cell) for key, cell in value.items()}
                yield number, record, f"the value of {nested[0]!r} is not plain text" if nested else None
    except OSError as error:
        yield 0, {}, f"cannot be read: {error.strerror}"


def is_unicode(text: str) -> bool:
    """Whether a text can be written at all: JSON's escapes and a shell's bytes may hold half a character."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def as_text(cell: object) -> str:
    """A JSON value as a csv file would hold it."""
    if cell is None:
        return ""
    return cell if isinstance(cell, str) else json.dumps(cell)
