"""csv and tsv: every line accounted for, every record with the line that it begins on."""

import csv
import re
import sys
from collections.abc import Iterator
from typing import BinaryIO

from plait.data.lines import Line, Lines
from plait.data.records import Record, Table
from plait.errors import DataError

__all__ = ["read_delimited"]

MOST_LINES = 1000  # of one record; beyond that a quote was left open
SURE = 3  # rows one after the other that are no lines of a text


class TooManyLines(Exception):
    """A record does not end."""


def read_delimited(file: BinaryIO, name: str, *, delimiter: str | None, quoted: bool) -> Table:
    """The table of an open file; without a delimiter, its header tells."""
    csv.field_size_limit(sys.maxsize)
    lines = Lines(file)
    first = next(lines, None)
    if first is None:
        raise DataError(f"{name}:1: the file is empty; expected a header line")
    lines.put_back([first])
    reader = RecordReader(lines, delimiter or guess_delimiter(first.text), quoted)
    taken, columns, problem = next(reader.fields(), ([], [], None))
    if not columns and not problem:
        raise DataError(f"{name}:1: the header line is empty; expected the names of the columns")
    if columns.count("") > 1:  # as spreadsheets leave them; each keeps its own values
        columns = [column or f"column {place}" for place, column in enumerate(columns, start=1)]
    doubles = [f"column {column!r} stands twice" for column in dict.fromkeys(columns) if columns.count(column) > 1]
    problems = [line.problem for line in taken if line.problem] + [problem] * bool(problem)
    if found := problems + doubles:
        raise DataError(f"{name}:1: {found[0]}")
    return Table(tuple(columns), reader.records(columns))


def guess_delimiter(header: str) -> str:
    """The delimiter of a .csv file: a tab if its header has one, else the commoner of comma and semicolon."""
    if "\t" in header:
        return "\t"
    return ";" if header.count(";") > header.count(",") else ","


class RecordReader:
    """The standard library's csv parser, which alone would lose lines behind a quote that was left open."""

    def __init__(self, lines: Lines, delimiter: str, quoted: bool) -> None:
        self.lines = lines
        self.delimiter = delimiter
        self.quoting: int = csv.QUOTE_MINIMAL if quoted else csv.QUOTE_NONE
        self.taken: list[Line] = []  # lines of the record that is being read

    def feed(self) -> Iterator[str]:
        """One line after the other, written down as part of the record."""
        for line in self.lines:
            if len(self.taken) == MOST_LINES:
                self.lines.put_back([line])
                raise TooManyLines
            self.taken.append(line)
            yield line.text

    def fields(self) -> Iterator[tuple[list[Line], list[str], str | None]]:
        """The lines of each record, its fields, and why it could not be parsed."""
        while True:
            self.taken = []
            parser = csv.reader(self.feed(), delimiter=self.delimiter, quoting=self.quoting, strict=True)  # type: ignore[arg-type]
            try:
                for fields in parser:
                    yield self.taken, fields, None
                    self.taken = []
                return
            except TooManyLines:
                yield self.taken, [], f"a quoted text of more than {MOST_LINES:,} lines; is a quote left open?"
            except csv.Error as error:
                bare = "new-line" in str(error)  # a carriage return alone, the line end of old Macs
                hint = "a carriage return within a row; save the file with line feeds as line ends"
                yield self.taken, [], hint if bare else f"{error}; is a quote left open?"

    def records(self, columns: list[str]) -> Iterator[Record]:
        """The rows below the header."""
        quoted, plain = '"[^"]*(?:""[^"]*)*"', rf'[^"{self.delimiter}\r\n]*'
        field = f"(?:{quoted}|{plain})"
        sound = re.compile(rf"{field}(?:{self.delimiter}{field}){{{len(columns) - 1}}}\r?\n?")
        for taken, fields, problem in self.fields():
            number = taken[0].number
            broken = [line.problem for line in taken if line.problem]
            if not problem and not broken and len(fields) == len(columns):
                yield Record(number, dict(zip(columns, fields, strict=True)))
                continue
            if not problem and not broken and not fields and len(columns) > 1:
                continue  # an empty line between rows
            if problem and (len(taken) > 1 or taken[0].text.count('"') % 2):
                taken = self.up_to_next_row(taken, sound)
                broken = [line.problem for line in taken if line.problem]
            what = broken[0] if broken else problem or f"{len(fields)} fields where the header has {len(columns)}"
            if len(taken) > 1:
                what += f" (lines {number} to {taken[-1].number})"
            yield Record(number, {}, what, "".join(line.text for line in taken[:MOST_LINES]))

    def up_to_next_row(self, taken: list[Line], sound: re.Pattern[str]) -> list[Line]:
        """The lines of a record with a stray quote: its first one, and those that follow up to where a row begins."""
        self.lines.put_back(taken[1:])
        skipped = taken[:1]
        while not self.row_follows(sound) and (line := next(self.lines, None)):
            skipped.append(line)
        return skipped

    def row_follows(self, sound: re.Pattern[str]) -> bool:
        """Whether the file goes on with a row, and not with the rest of a text that a stray quote tore apart.

        A line of such a text may look like a row, but hardly one with quotes around its fields, or a few one after the
        other; and the text ends in a line with an odd number of quotes, one of them at the end of a field.
        """
        ahead: list[Line] = []
        record: list[Line] = []  # that is being put together
        rows = quotes = 0
        for line in self.lines:
            ahead.append(line)
            if not record and not line.text.strip():
                continue
            record.append(line)
            quotes += line.text.count('"')
            if quotes % 2 and len(record) < MOST_LINES:
                continue
            if not sound.fullmatch("".join(part.text for part in record)):
                break
            record, rows = [], rows + 1
            if quotes or rows == SURE:
                break
        self.lines.put_back(ahead)
        if not record:
            return True
        first = record[0].text
        ends_text = re.search(rf'[^"{self.delimiter}]"(?:[{self.delimiter}\r\n]|$)', first)
        return rows > 0 and first.count('"') % 2 == 1 and not ends_text
