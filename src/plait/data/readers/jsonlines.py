"""jsonl: one object per line."""

import json
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import BinaryIO

from plait.data.readers.lines import Line, Lines
from plait.data.readers.records import Record, Table, as_text

__all__ = ["read_json_lines"]

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


class _DuplicateKey(Exception):
    """An object has the same key twice: one of its values would be lost."""


def _object_without_duplicates(pairs: Sequence[tuple[str, object]]) -> dict[str, object]:
    found = dict(pairs)
    if len(found) < len(pairs):
        ((key, _),) = Counter(key for key, _ in pairs).most_common(1)
        raise _DuplicateKey(f"duplicate key {key!r}; remove one of them")
    return found


def _parse_line(line: Line) -> Record:
    def bad(problem: str) -> Record:
        return Record(line.number, {}, problem, line.text)

    if line.problem:
        return bad(line.problem)
    try:
        value = json.loads(line.text.rstrip("\r\n"), object_pairs_hook=_object_without_duplicates)
    except _DuplicateKey as error:
        return bad(str(error))
    except RecursionError:
        return bad("invalid JSON: nested too deeply")
    except json.JSONDecodeError as error:
        reason = error.msg.removesuffix(" at").removesuffix(" starting")
        return bad(f"invalid JSON at column {error.colno}: {reason}")
    except ValueError:  # Python parses integers of up to 4,300 digits
        return bad("invalid JSON: a number has too many digits")
    if not isinstance(value, dict):
        return bad(f"expected one JSON object per line, found {_JSON_TYPES[type(value)]}")
    return Record(line.number, {key: as_text(cell) for key, cell in value.items()}, cells=value)
