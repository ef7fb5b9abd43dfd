"""metrics.jsonl while a run writes it: a digest of all its lines goes into checkpoints and the result."""

import hashlib
import json
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

from plait.errors import RunError
from plait.runs.records import MetricsLine, MetricsMark, parse_line

__all__ = ["MetricsFile", "mark_after_step", "open_metrics", "read_metrics"]


class MetricsFile:
    """The end of metrics.jsonl, where lines are added."""

    def __init__(self, path: Path, file: IO[bytes], check: Callable[[], None]) -> None:
        self.path = path
        self._file = file
        self._check = check
        self._size = 0
        self._digest = hashlib.sha256()
        for block in iter(lambda: file.read(1 << 20), b""):
            self._count(block)

    def write(self, line: MetricsLine) -> None:
        """Append a line, unless the directory of the run is gone."""
        self._check()
        text = (json.dumps(line.to_json()) + "\n").encode()
        left = memoryview(text)
        try:
            while left:
                left = left[self._file.write(left) :]
        except OSError as error:
            error.filename = str(self.path)
            raise
        self._count(text)

    @property
    def mark(self) -> MetricsMark:
        """All lines so far."""
        return MetricsMark(self._size, self._digest.hexdigest())

    def sync(self) -> None:
        """Flush every line to disk."""
        os.fsync(self._file.fileno())

    def _count(self, block: bytes) -> None:
        self._size += len(block)
        self._digest.update(block)


@contextmanager
def open_metrics(path: Path, check: Callable[[], None]) -> Iterator[MetricsFile]:
    """Go on with metrics.jsonl, which has only whole lines; `check` is called before each write."""
    with path.open("a+b", buffering=0) as file:
        file.seek(0)
        yield MetricsFile(path, file, check)


def read_metrics(path: Path, mark: MetricsMark | None = None) -> list[MetricsLine]:
    """The lines of metrics.jsonl, up to a mark if there is one; raises RunError if one of them was changed.

    Without a mark, a last line that is only half written is left out.
    """
    content = path.read_bytes()[: mark.size if mark else None]
    whole = content if mark else content[: content.rfind(b"\n") + 1]
    lines = [_parse(path, number, line) for number, line in enumerate(whole.splitlines(), start=1)]
    if mark and not mark.fits(content):
        raise RunError(f"{path}: modified after it was written; restore it from a copy")
    return lines


def mark_after_step(path: Path, step: int) -> MetricsMark:
    """The lines up to a step, for a checkpoint of an older plait, which has no mark; a damaged last line is dropped."""
    lines = path.read_bytes().splitlines(keepends=True)
    size = 0
    for number, line in enumerate(lines, start=1):
        try:
            if not line.endswith(b"\n") or _parse(path, number, line).step > step:
                break
        except RunError:
            if number == len(lines):
                break
            raise
        size += len(line)
    return MetricsMark(size, hashlib.sha256(b"".join(lines)[:size]).hexdigest())


def _parse(path: Path, number: int, line: bytes) -> MetricsLine:
    try:
        return parse_line(line)
    except ValueError:
        raise RunError(f"{path}: line {number} is damaged; restore the file from a copy") from None
