"""The rows of a pipe in chunks, without waiting for rows that have not arrived."""

from collections import deque
from collections.abc import Iterator
from threading import Condition, Thread
from time import monotonic

from plait.data.readers.records import Record

__all__ = ["characters_of", "pipe_chunks"]

_FIRST_ROWS = 32  # in a chunk, until the speed of the work is known
_SECONDS = 0.5  # that the work on a chunk should take, so that its rows are answered within a second


def characters_of(record: Record) -> int:
    """How much text a row has."""
    return len(record.raw) + sum(map(len, record.values.values()))


def pipe_chunks(records: Iterator[Record], most: int, characters: int) -> Iterator[list[Record]]:
    """The rows that have arrived, as soon as there is one; a thread reads more while a chunk is worked on.

    So a fast pipe gives full chunks and a slow one single rows. A chunk has at most `most` rows and about `characters`
    characters, and no more rows than take half a second at the speed of the chunk before.
    """
    arrived = _Arrived(most, characters)
    Thread(target=arrived.fill, args=(records,), daemon=True, name="plait-pipe").start()
    size = min(_FIRST_ROWS, most)
    try:
        while chunk := arrived.take(size):
            began = monotonic()
            yield chunk
            speed = len(chunk) / max(monotonic() - began, 1e-6)
            size = max(1, min(most, int(speed * _SECONDS)))
    finally:
        arrived.close()


class _Arrived:
    """The rows that have been read and not yet been taken: at most one chunk."""

    def __init__(self, most: int, characters: int) -> None:
        self._most, self._characters = most, characters
        self._rows: deque[Record] = deque()
        self._held = 0  # characters of these rows
        self._ended = self._closed = False
        self._error: BaseException | None = None
        self._changed = Condition()

    def fill(self, records: Iterator[Record]) -> None:
        """Read all rows; the body of the thread."""
        try:
            for record in records:
                with self._changed:
                    self._changed.wait_for(lambda: self._closed or not self._full)
                    if self._closed:
                        return
                    self._rows.append(record)
                    self._held += characters_of(record)
                    self._changed.notify_all()
        except BaseException as error:  # raised again where the rows are taken
            self._error = error
        finally:
            with self._changed:
                self._ended = True
                self._changed.notify_all()

    @property
    def _full(self) -> bool:
        return len(self._rows) >= self._most or self._held >= self._characters

    def take(self, size: int) -> list[Record]:
        """The first rows, at most `size` of them; waits for one, and is empty only at the end."""
        with self._changed:
            self._changed.wait_for(lambda: self._rows or self._ended)
            if not self._rows and self._error:
                raise self._error
            taken = [self._rows.popleft() for _ in range(min(size, len(self._rows)))]
            self._held -= sum(map(characters_of, taken))
            self._changed.notify_all()
            return taken

    def close(self) -> None:
        """Let the thread end, if it waits for room."""
        with self._changed:
            self._closed = True
            self._changed.notify_all()
