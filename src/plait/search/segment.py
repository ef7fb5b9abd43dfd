"""Some rows of an index on disk: vectors, rows, keys of their ids, and which of them are deleted.

n rows, D width.
"""

import hashlib
import json
from array import array
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from plait.data.write import json_line
from plait.errors import SearchIndexError
from plait.files import sync
from plait.progress import Progress
from plait.search.approximate import APPROXIMATE_FROM, Approximate, build_approximate, has_faiss
from plait.search.nearest import nearest_rows
from plait.search.record import SegmentRecord, record_file

__all__ = ["VECTORS_FILE", "IdRow", "Segment", "keys_of", "merge_segments", "write_segment"]

VECTORS_FILE = "vectors.npy"
_ROWS, _OFFSETS, _KEYS, _ANN = "rows.jsonl", "offsets.npy", "keys.npy", "vectors.faiss"
_COPIED_ROWS = 16_384  # at a time

IdRow = tuple[str | None, dict[str, object]]  # an id and a row by column; None for a bad row


class Segment:
    """An open segment."""

    def __init__(self, folder: Path, record: SegmentRecord) -> None:
        self.folder, self.record = folder, record
        for name, facts in record.files.items():
            if (folder / name).stat().st_size != facts.bytes:
                raise SearchIndexError(f"{folder / name}: has another size than it was written with; {_AGAIN}")
        self.vectors_nD: np.ndarray = np.load(folder / VECTORS_FILE, mmap_mode="r")
        self._offsets: np.ndarray = np.load(folder / _OFFSETS, mmap_mode="r")
        self.keys: np.ndarray = np.load(folder / _KEYS, mmap_mode="r")  # a number for each id, by `keys_of`
        # All files are mapped now, so that they can be read after another process has merged and deleted them.
        self._rows: np.ndarray = np.memmap(folder / _ROWS, np.uint8, "r") if record.rows else np.empty(0, np.uint8)
        empty = np.empty(0, np.int64)
        self.deleted: np.ndarray = np.load(folder / record.deleted_file) if record.deleted_file else empty
        self._ann = Approximate(folder / _ANN, record.ann) if record.ann else None

    def nearest(self, queries_mD: np.ndarray, k: int, *, exact: bool = False) -> tuple[np.ndarray, np.ndarray]:
        """The cosines and numbers of the nearest rows, as `nearest_rows`."""
        if self._ann and not exact:
            return self._ann.nearest(self.vectors_nD, queries_mD, k, self.deleted)
        return nearest_rows(self.vectors_nD, queries_mD, k, self.deleted)

    def row(self, number: int) -> IdRow:
        """The id of a row, and the row."""
        start, end = self._offsets[number : number + 2].tolist()
        found: IdRow = tuple(json.loads(self._rows[start:end].tobytes()))
        return found

    def rows(self) -> Iterator[IdRow]:
        """All rows, deleted ones included."""
        yield from map(self.row, range(self.record.rows))

    @property
    def live(self) -> np.ndarray:
        """The numbers of the rows that are not deleted."""
        return np.setdiff1d(np.arange(self.record.rows), self.deleted, assume_unique=True)

    def find(self, ids: Iterable[str]) -> np.ndarray:
        """The numbers of the rows with these ids that are not deleted yet."""
        wanted = list(ids)
        (numbers,) = np.nonzero(np.isin(self.keys, keys_of(wanted)))
        found = np.setdiff1d(numbers, self.deleted)
        names = set(wanted)
        return np.array([number for number in found.tolist() if self.row(number)[0] in names], np.int64)

    def without(self, rows: np.ndarray) -> SegmentRecord:
        """The record after these rows are deleted; the list of deleted rows is a new file."""
        if not len(rows):
            return self.record
        deleted = np.union1d(self.deleted, rows)
        name = f"deleted-{len(deleted)}.npy"
        np.save(self.folder / name, deleted)
        sync(self.folder / name)
        sync(self.folder)
        files = {key: facts for key, facts in self.record.files.items() if key != self.record.deleted_file}
        files[name] = record_file(self.folder / name)
        return replace(self.record, deleted=len(deleted), deleted_file=name, files=files)

    def verify(self) -> None:
        """Compare every file with its digest."""
        for name, facts in self.record.files.items():
            if record_file(self.folder / name) != facts:
                raise SearchIndexError(f"{self.folder / name}: was modified; {_AGAIN}")


_AGAIN = "build the index again, or copy it again"


def keys_of(ids: Sequence[str | None]) -> np.ndarray:
    """A 64-bit number for each id, to find it by; equal for equal ids."""
    return np.frombuffer(b"".join(map(_digest, ids)), "<u8")


def _digest(name: str | None) -> bytes:
    return hashlib.blake2b((name or "").encode("utf-8", "replace"), digest_size=8).digest()


def write_segment(folder: Path, rows: Iterable[IdRow], kind: str, progress: Progress) -> SegmentRecord:
    """Write everything of a segment whose vectors are there already; a row without an id is deleted.

    Of several rows with the same id, the last one counts.
    """
    offsets, bad, digests = array("Q", [0]), array("q"), bytearray()
    with (folder / _ROWS).open("wb") as file:
        for number, (name, row) in enumerate(rows):
            file.write(json_line([name, row]))
            offsets.append(file.tell())
            digests += _digest(name)
            if name is None:
                bad.append(number)
    np.save(folder / _OFFSETS, np.array(offsets, np.uint64))
    all_keys = np.frombuffer(digests, "<u8")
    np.save(folder / _KEYS, all_keys)
    deleted = np.union1d(np.array(bad, np.int64), _repeated(all_keys))
    names = [VECTORS_FILE, _ROWS, _OFFSETS, _KEYS]
    count = len(all_keys)
    if len(deleted):
        np.save(folder / f"deleted-{len(deleted)}.npy", deleted)
        names.append(f"deleted-{len(deleted)}.npy")
    ann = None
    if kind == "faiss" or (kind == "auto" and count >= APPROXIMATE_FROM and has_faiss()):
        if count - len(deleted) > 0:
            vectors_nD = np.load(folder / VECTORS_FILE, mmap_mode="r")
            ann = build_approximate(folder / _ANN, vectors_nD, deleted, progress)
            names.append(_ANN)
    elif kind == "auto" and count >= APPROXIMATE_FROM:
        progress.note(f'{count:,} rows are searched exactly; pip install "plait[search]" makes large indexes faster')
    for name in names:
        sync(folder / name)
    sync(folder)
    files = {name: record_file(folder / name) for name in names}
    listed = names[4] if len(deleted) else None
    return SegmentRecord(folder.name, count, len(deleted), files, listed, ann)


def _repeated(keys_n: np.ndarray) -> np.ndarray:
    """The numbers of rows whose id occurs again in a later row."""
    _, last = np.unique(keys_n[::-1], return_index=True)
    return np.setdiff1d(np.arange(len(keys_n)), len(keys_n) - 1 - last)


def merge_segments(segments: Sequence[Segment], folder: Path, kind: str, progress: Progress) -> SegmentRecord:
    """One segment with the rows of several that are not deleted."""
    folder.mkdir()
    total = sum(segment.record.live for segment in segments)
    width = segments[0].vectors_nD.shape[1]
    vectors: Any = np.lib.format.open_memmap(folder / VECTORS_FILE, mode="w+", dtype="<f4", shape=(total, width))
    at = 0
    for segment in segments:
        live = segment.live
        for start in range(0, len(live), _COPIED_ROWS):
            some = live[start : start + _COPIED_ROWS]
            vectors[at : at + len(some)] = segment.vectors_nD[some]
            at += len(some)
    vectors.flush()
    del vectors

    def rows() -> Iterator[IdRow]:
        for segment in segments:
            is_deleted = np.zeros(segment.record.rows, bool)
            is_deleted[segment.deleted] = True
            yield from (row for row, gone in zip(segment.rows(), is_deleted, strict=True) if not gone)

    return write_segment(folder, rows(), kind, progress)
