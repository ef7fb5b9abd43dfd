"""gzip, within limits: a small file cannot unpack to more than the memory or the disk holds."""

import gzip
from pathlib import Path

from plait.errors import DataError

__all__ = ["open_gzip"]

_ALWAYS = 1_000_000  # bytes that every file may unpack to
_MOST_RATIO = 100  # of bytes unpacked to bytes read; texts have less than 20, and gzip can reach 1,000


def open_gzip(path: Path) -> gzip.GzipFile:
    """An open file; reading it raises a DataError once it unpacks to much more than any text does."""
    return _CheckedGzip(path, "rb")


class _CheckedGzip(gzip.GzipFile):
    def __init__(self, path: Path, mode: str) -> None:
        super().__init__(path, mode)
        self._most = max(_ALWAYS, _MOST_RATIO * path.stat().st_size)
        self._path = path

    def read(self, size: int | None = -1) -> bytes:
        data = super().read(self._most + 1 if size is None or size < 0 else size)
        self._check()
        return data

    def readline(self, size: int | None = -1) -> bytes:
        line = super().readline(self._most + 1 if size is None or size < 0 else size)
        self._check()
        return line

    def _check(self) -> None:
        if self.tell() > self._most:
            raise DataError(
                f"{self._path}: unpacks to more than {_MOST_RATIO} times its size, so it is no text; "
                "unpack it yourself if you trust it"
            )
