"""The lines of a file as text, one at a time, whatever bytes it contains."""

from collections import deque
from collections.abc import Iterator, Sequence
from typing import BinaryIO, NamedTuple

from plait.data.readers.records import MOST_BYTES

__all__ = ["NOT_UTF8", "Line", "Lines"]

NOT_UTF8 = "not UTF-8"  # how the problem of a line in another encoding begins


class Line(NamedTuple):
    """A line including its line ending."""

    number: int  # from 1
    text: str
    problem: str | None  # why the text cannot be trusted


class Lines:
    """Iterates over decoded lines, without a byte order mark. Lines that were read too early can be put back.

    In the encoding, a line must end with the byte of a line feed.
    """

    def __init__(self, file: BinaryIO, encoding: str = "utf-8") -> None:
        self._file = file
        self._encoding = encoding
        self._number = 0
        self._put_back: deque[Line] = deque()

    def __iter__(self) -> Iterator[Line]:
        return self

    def __next__(self) -> Line:
        if self._put_back:
            return self._put_back.popleft()
        data = self._file.readline(MOST_BYTES + 1)
        if not data:
            raise StopIteration
        self._number += 1
        if len(data) > MOST_BYTES:
            length = len(data)
            while not data.endswith(b"\n") and (data := self._file.readline(MOST_BYTES)):
                length += len(data)
            return Line(self._number, "\n", f"the line has {length:,} bytes; shorten it to {MOST_BYTES:,} or less")
        if self._number == 1:
            data = data.removeprefix(b"\xef\xbb\xbf")
        problem = None
        if b"\0" in data:
            problem = "contains a NUL byte; if the file is UTF-16, save it as UTF-8"
            data = data.replace(b"\0", b"")
        try:
            return Line(self._number, data.decode(self._encoding), problem)
        except UnicodeDecodeError as error:
            what = NOT_UTF8 if self._encoding == "utf-8" else f"not {self._encoding}"
            problem = problem or f"{what} at byte {error.start} of the line; save the file as UTF-8"
            return Line(self._number, data.decode(self._encoding, errors="replace"), problem)

    def put_back(self, lines: Sequence[Line]) -> None:
        """Return these lines next, in this order."""
        self._put_back.extendleft(reversed(lines))
