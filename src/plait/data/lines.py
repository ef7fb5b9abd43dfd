"""The lines of a file as text, one at a time, whatever bytes it holds."""

from collections import deque
from collections.abc import Iterator, Sequence
from typing import BinaryIO, NamedTuple

__all__ = ["LONGEST", "Line", "Lines"]

LONGEST = 10_000_000  # bytes of a line; more is no sentence, and is not held in memory


class Line(NamedTuple):
    """A line with its end, its number from 1, and why it cannot be trusted."""

    number: int
    text: str
    problem: str | None


class Lines:
    """Decoded lines, without a byte order mark; lines that were taken too early can be put back."""

    def __init__(self, file: BinaryIO) -> None:
        self.file = file
        self.number = 0
        self.waiting: deque[Line] = deque()

    def __iter__(self) -> Iterator[Line]:
        return self

    def __next__(self) -> Line:
        if self.waiting:
            return self.waiting.popleft()
        data = self.file.readline(LONGEST + 1)
        if not data:
            raise StopIteration
        self.number += 1
        if len(data) > LONGEST:
            length = len(data)
            while not data.endswith(b"\n") and (data := self.file.readline(LONGEST)):
                length += len(data)
            return Line(self.number, "\n", f"a line of {length:,} bytes; lines of up to {LONGEST:,} are read")
        return decode_line(self.number, data)

    def put_back(self, lines: Sequence[Line]) -> None:
        """These lines come next, in this order."""
        self.waiting.extendleft(reversed(lines))


def decode_line(number: int, data: bytes) -> Line:
    """One line of bytes."""
    if number == 1:
        data = data.removeprefix(b"\xef\xbb\xbf")
    problem = None
    if b"\0" in data:
        problem = "a NUL byte; the file may be UTF-16, save it as UTF-8"
        data = data.replace(b"\0", b"")
    try:
        return Line(number, data.decode(), problem)
    except UnicodeDecodeError as error:
        problem = problem or f"not UTF-8 at byte {error.start} of the line; save the file as UTF-8"
        return Line(number, data.decode(errors="replace"), problem)
