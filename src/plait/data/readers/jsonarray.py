"""json: a list of objects. Files of that name that have one object per line are read as well."""

import io
import json
import re
from collections.abc import Iterator
from typing import BinaryIO

from plait.data.readers.jsonlines import (
    DuplicateKey,
    explain_json,
    object_without_duplicates,
    read_json_lines,
    record_of,
)
from plait.data.readers.lines import NOT_UTF8
from plait.data.readers.records import Record, Table
from plait.errors import DataError

__all__ = ["read_json_list"]

_EXPECTED = "expected a list of objects, such as [{...}, {...}], or one object per line"
_MOST_BYTES = 200_000_000  # of a file, since it is read as a whole
_SPACE = re.compile(r"[ \t\r\n]*")


def read_json_list(file: BinaryIO, name: str, encoding: str = "utf-8") -> Table:
    """The table of an open file, which is read into memory; numbers, booleans and lists become text."""
    return Table(None, _records(file, name, encoding))


def _records(file: BinaryIO, name: str, encoding: str) -> Iterator[Record]:
    data = file.read(_MOST_BYTES + 1).removeprefix(b"\xef\xbb\xbf")
    if len(data) > _MOST_BYTES:
        raise DataError(f"{name}: longer than {_MOST_BYTES:,} bytes; save it as .jsonl, which is read line by line")
    if _has_objects_in_lines(data):
        yield from read_json_lines(io.BytesIO(data), encoding).records
        return
    try:
        text = data.decode(encoding)
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        what = NOT_UTF8 if encoding == "utf-8" else f"not {encoding}"
        raise DataError(f"{name}:{line}: {what}; save the file as UTF-8") from None
    yield from _items(text, name)


def _has_objects_in_lines(data: bytes) -> bool:
    """Whether the first line is a complete object."""
    line = data.lstrip().partition(b"\n")[0].strip()
    return line.startswith(b"{") and line.endswith(b"}") and (b"\n" in data.strip() or b"[" not in line)


def _items(text: str, name: str) -> Iterator[Record]:
    """The items of a list, each with the line that it begins on."""
    decoder = json.JSONDecoder(object_pairs_hook=object_without_duplicates)
    counted, line = 0, 1  # up to which character the lines are counted

    def skip_space(place: int) -> int:
        found = _SPACE.match(text, place)
        return found.end() if found else place

    def wrong(problem: str) -> DataError:
        return DataError(f"{name}:{line}: {problem}")

    place = skip_space(0)
    if not text.startswith("[", place):
        raise wrong(_EXPECTED if text.strip() else "the file is empty; " + _EXPECTED)
    place = skip_space(place + 1)
    more = not text.startswith("]", place)
    while more:
        line, counted = line + text.count("\n", counted, place), place
        try:
            value, end = decoder.raw_decode(text, place)
        except json.JSONDecodeError as error:
            line = error.lineno
            raise wrong(explain_json(error)) from None
        except (DuplicateKey, RecursionError, ValueError) as error:
            raise wrong(explain_json(error)) from None
        yield record_of(line, value, text[place:end], "a list of JSON objects")
        place = skip_space(end)
        more = text.startswith(",", place)
        if not more and not text.startswith("]", place):
            line += text.count("\n", counted, place)
            raise wrong("invalid JSON: expected , or ] after an item of the list; is the file complete?")
        place = skip_space(place + more)
    if text[place + 1 :].strip():
        line += text.count("\n", counted, place)
        raise wrong("invalid JSON: there is more after the end of the list; keep one list per file")
