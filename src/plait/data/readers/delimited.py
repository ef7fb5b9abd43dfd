"""csv and tsv: every line is accounted for, and every record knows the line it begins on."""

import csv
import re
import sys
from collections.abc import Iterator, Sequence
from typing import BinaryIO

from plait.data.readers.lines import Line, Lines
from plait.data.readers.records import MOST_BYTES, Record, Table, unique_columns
from plait.errors import DataError

__all__ = ["read_delimited"]

_MAX_RECORD_LINES = 1000  # in a longer record a closing quote is missing
_SURE_ROWS = 3  # well-formed rows in sequence that are not the lines of a text
_OPEN_QUOTE = "is a closing quote missing?"


class _TooManyLines(Exception):
    """A record does not end."""


def read_delimited(file: BinaryIO, name: str, *, delimiter: str | None, quoted: bool, encoding: str = "utf-8") -> Table:
    """The table of an open file. If no delimiter is given, it is guessed from the header."""
    csv.field_size_limit(sys.maxsize)
    lines = Lines(file, encoding)
    first = next(lines, None)
    if first is None:
        raise DataError(f"{name}:1: the file is empty; add a header line with the column names")
    lines.put_back([first])
    reader = _RecordReader(lines, delimiter or _guess_delimiter(first.text), quoted)
    taken, columns, problem = next(reader.fields(), ([], [], None))
    if not columns and not problem:
        raise DataError(f"{name}:1: the header line is empty; write the column names there")
    problems = [line.problem for line in taken if line.problem] + [problem] * bool(problem)
    if problems:
        raise DataError(f"{name}:1: {problems[0]}")
    names = unique_columns(columns, name)
    return Table(names, reader.records(names))


def _guess_delimiter(header: str) -> str:
    """The delimiter of a .csv file: a tab if its header has one, else comma, semicolon or bar, the most common."""
    return "\t" if "\t" in header else max(",;|", key=header.count)


class _RecordReader:
    """Wraps the csv parser of the standard library, which alone would lose the lines after an unclosed quote."""

    def __init__(self, lines: Lines, delimiter: str, quoted: bool) -> None:
        self._lines = lines
        self._delimiter = delimiter
        self._quoting: int = csv.QUOTE_MINIMAL if quoted else csv.QUOTE_NONE
        self._taken: list[Line] = []  # lines of the current record
        between = re.escape(delimiter)
        fields = rf'(?:"[^"]*+(?:""[^"]*+)*+"|[^"{between}\r\n][^{between}\r\n]*+|)'
        self._complete = re.compile(rf"(?:{fields}{between})*+")  # the complete fields at the start of a record

    def _feed(self) -> Iterator[str]:
        """The lines one by one; each is noted as part of the current record."""
        length = 0
        for line in self._lines:
            length = length + len(line.text) if self._taken else len(line.text)
            if len(self._taken) == _MAX_RECORD_LINES or (self._taken and length > MOST_BYTES):
                self._lines.put_back([line])
                raise _TooManyLines
            self._taken.append(line)
            yield line.text

    def fields(self) -> Iterator[tuple[list[Line], list[str], str | None]]:
        """The lines of each record, its fields, and why it could not be parsed."""
        while True:
            self._taken = []
            parser = csv.reader(self._feed(), delimiter=self._delimiter, quoting=self._quoting, strict=True)  # type: ignore[arg-type]
            try:
                for fields in parser:
                    yield self._taken, fields, None
                    self._taken = []
                return
            except _TooManyLines:
                most = (
                    f"{_MAX_RECORD_LINES:,} lines" if len(self._taken) == _MAX_RECORD_LINES else f"{MOST_BYTES:,} bytes"
                )
                longer = f"is longer than {most}"
                yield self._taken, [], f"a quoted field{self._begin(' that opens')} {longer}; {_OPEN_QUOTE}"
            except csv.Error as error:
                yield self._taken, [], self._explain(str(error))

    def _explain(self, error: str) -> str:
        """What is wrong with the current record, given the parser's message."""
        if "new-line" in error:  # \r without \n, the line ending of old Macs
            return "a carriage return without a line feed; save the file with \\n or \\r\\n line endings"
        if "end of data" in error:
            return f"the quote that opens{self._begin() or ' here'} is never closed; {_OPEN_QUOTE}"
        return f"{error}{self._begin(' of the field that begins')}; {_OPEN_QUOTE}"

    def _begin(self, words: str = "") -> str:
        """On which line the field that cannot be parsed begins, after some words; "" if on the record's first line."""
        text = "".join(line.text for line in self._taken)
        complete = self._complete.match(text)
        below = text.count("\n", 0, complete.end() if complete else 0)
        return f"{words} in line {self._taken[0].number + below}" if below else ""

    def records(self, columns: Sequence[str]) -> Iterator[Record]:
        """The rows below the header."""
        between = re.escape(self._delimiter)
        quoted, plain = '"[^"]*(?:""[^"]*)*"', rf'[^"{between}\r\n]*'
        field = f"(?:{quoted}|{plain})"
        well_formed = re.compile(rf"{field}(?:{between}{field}){{{len(columns) - 1}}}\r?\n?")
        for taken, fields, problem in self.fields():
            number = taken[0].number
            broken = [line.problem for line in taken if line.problem]
            if not problem and not broken and len(fields) == len(columns):
                yield Record(number, dict(zip(columns, fields, strict=True)))
                continue
            if not problem and not broken and not fields and len(columns) > 1:
                continue  # an empty line between rows
            if problem and (len(taken) > 1 or taken[0].text.count('"') % 2):
                taken = self._skip_to_next_row(taken, well_formed)
                broken = [line.problem for line in taken if line.problem]
            what = broken[0] if broken else problem or self._wrong_count(len(fields), len(columns))
            if len(taken) > 1:
                what += f" (lines {number} to {taken[-1].number})"
            yield Record(number, {}, what, "".join(line.text for line in taken[:_MAX_RECORD_LINES]))

    def _wrong_count(self, found: int, expected: int) -> str:
        count = f"{found} field{'' if found == 1 else 's'}, but the header has {expected}"
        if found < expected:
            return f"{count}; complete or remove the row"
        quoted = self._quoting != csv.QUOTE_NONE
        return f"{count}; {'quote texts that contain' if quoted else 'remove any extra'} {self._delimiter!r}"

    def _skip_to_next_row(self, taken: list[Line], well_formed: re.Pattern[str]) -> list[Line]:
        """The lines of a record with a stray quote: its first line, and all that follow until a row begins."""
        self._lines.put_back(taken[1:])
        skipped = taken[:1]
        while not self._row_follows(well_formed) and (line := next(self._lines, None)):
            skipped.append(line)
        return skipped

    def _row_follows(self, well_formed: re.Pattern[str]) -> bool:
        """Whether the next line begins a row, rather than continuing a text that a stray quote broke up.

        A line of such a text may look like a row, but is unlikely to have quotes around its fields or to be followed by
        others that look like rows. The text ends in a line with an odd number of quotes, one of them at the end of a
        field.
        """
        ahead: list[Line] = []
        record: list[Line] = []  # being assembled
        rows = quotes = 0
        for line in self._lines:
            ahead.append(line)
            if not record and not line.text.strip():
                continue
            record.append(line)
            quotes += line.text.count('"')
            if quotes % 2 and len(record) < _MAX_RECORD_LINES:
                continue
            if not well_formed.fullmatch("".join(part.text for part in record)):
                break
            record, rows = [], rows + 1
            if quotes or rows == _SURE_ROWS:
                break
        self._lines.put_back(ahead)
        if not record:
            return True
        first = record[0].text
        ends_text = re.search(rf'[^"{self._delimiter}]"(?:[{self._delimiter}\r\n]|$)', first)
        return rows > 0 and first.count('"') % 2 == 1 and not ends_text
