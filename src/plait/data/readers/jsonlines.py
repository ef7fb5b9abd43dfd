"""jsonl: one object per line."""

import json
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import BinaryIO

from plait.data.readers.lines import Line, Lines
from plait.data.readers.records import Record, Table, as_text

__all__ = ["DuplicateKey", "explain_json", "object_without_duplicates", "read_json_lines", "record_of"]

_JSON_TYPES = {
    list: "an array", str: "a string", int: "a number", float: "a number", bool: "a boolean", type(None): "null",
}  # fmt: skip


def read_json_lines(file: BinaryIO, encoding: str = "utf-8") -> Table:
    """The table of an open file; numbers, booleans and lists become text."""
    return Table(None, _records(Lines(file, encoding)))


def _records(lines: Lines) -> Iterator[Record]:
    """One record per line that is not empty."""
    for line in lines:
        if line.problem or line.text.strip():
            yield _parse_line(line)


class DuplicateKey(Exception):
    """An object has the same key twice: one of its values would be lost."""


def object_without_duplicates(pairs: Sequence[tuple[str, object]]) -> dict[str, object]:
    """An object from its keys and values; a hook of the JSON decoder."""
    found = dict(pairs)
    if len(found) < len(pairs):
        ((key, _),) = Counter(key for key, _ in pairs).most_common(1)
        raise DuplicateKey(f"duplicate key {key!r}; remove one of them")
    return found


def explain_json(error: Exception) -> str:
    """Why a text is not JSON, from what the decoder raised."""
    if isinstance(error, DuplicateKey):
        return str(error)
    if isinstance(error, RecursionError):
        return "invalid JSON: nested too deeply"
    if isinstance(error, json.JSONDecodeError):
        reason = error.msg.removesuffix(" at").removesuffix(" starting")
        return f"invalid JSON at column {error.colno}: {reason}"
    return "invalid JSON: a number has too many digits"  # Python parses integers of up to 4,300 digits


def record_of(line: int, value: object, raw: str, expected: str) -> Record:
    """The record of a JSON value, which must be an object."""
    if not isinstance(value, dict):
        return Record(line, {}, f"expected {expected}, found {_JSON_TYPES[type(value)]}", raw)
    return Record(line, {key: as_text(cell) for key, cell in value.items()}, cells=value)


def _parse_line(line: Line) -> Record:
    if line.problem:
        return Record(line.number, {}, line.problem, line.text)
    try:
        value = json.loads(line.text.rstrip("\r\n"), object_pairs_hook=object_without_duplicates)
    except (DuplicateKey, RecursionError, ValueError) as error:
        return Record(line.number, {}, explain_json(error), line.text)
    return record_of(line.number, value, line.text, "one JSON object per line")
