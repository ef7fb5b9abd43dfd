"""jsonl: an object a line."""

import json
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import BinaryIO

from plait.data.lines import Line, Lines
from plait.data.records import Record, Table, as_text

__all__ = ["read_json_lines"]


def read_json_lines(file: BinaryIO) -> Table:
    """The table of an open file; numbers, truth values and lists as text."""
    return Table(None, records(Lines(file)))


def records(lines: Lines) -> Iterator[Record]:
    """A record a line that is not empty."""
    for line in lines:
        if line.problem or line.text.strip():
            yield as_record(line)


class DoubledKey(Exception):
    """An object has a key twice, and one of its values would be lost."""


def once(pairs: Sequence[tuple[str, object]]) -> dict[str, object]:
    """An object whose keys differ."""
    found = dict(pairs)
    if len(found) < len(pairs):
        ((key, _),) = Counter(key for key, _ in pairs).most_common(1)
        raise DoubledKey(f"the key {key!r} stands twice")
    return found


def as_record(line: Line) -> Record:
    """One line."""
    if line.problem:
        return Record(line.number, {}, line.problem, line.text)
    try:
        value = json.loads(line.text.rstrip("\r\n"), object_pairs_hook=once)
    except DoubledKey as error:
        return Record(line.number, {}, str(error), line.text)
    except RecursionError:
        return Record(line.number, {}, "not JSON: nested too deeply", line.text)
    except json.JSONDecodeError as error:
        return Record(line.number, {}, f"not JSON: {error.msg} at column {error.colno}", line.text)
    except ValueError:  # Python reads whole numbers of up to 4,300 digits
        return Record(line.number, {}, "not JSON: a number with too many digits", line.text)
    if not isinstance(value, dict):
        return Record(line.number, {}, f"expected an object, found {type(value).__name__}", line.text)
    return Record(line.number, {key: as_text(cell) for key, cell in value.items()}, cells=value)
