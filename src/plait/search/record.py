"""index.json: what an index holds, and the digests of its files."""

import re
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from plait import __version__
from plait.errors import SearchIndexError
from plait.files import read_json, sha256_of, write_json

__all__ = [
    "RECORD_FILE",
    "SEGMENT_NAME",
    "AnnRecord",
    "FileRecord",
    "IndexRecord",
    "SegmentRecord",
    "is_index",
    "record_file",
]

RECORD_FILE = "index.json"
SEGMENT_NAME = re.compile(r"\d{6}")
_FILE_NAME = re.compile(r"[a-z]+(-\d+)?\.(npy|jsonl|faiss)")
_FORMAT = 1  # an index once written opens for ever


@dataclass(frozen=True)
class FileRecord:
    """The size and digest of a file."""

    bytes: int
    sha256: str


@dataclass(frozen=True)
class AnnRecord:
    """The approximate index of a segment."""

    lists: int  # into which the vectors are divided
    probes: int  # lists that a search looks into
    recall: float  # at 10, of a sample of the segment's own texts


@dataclass(frozen=True)
class SegmentRecord:
    """A folder with some of the rows; its files never change, except that more rows are listed as deleted."""

    name: str
    rows: int
    deleted: int  # of these
    files: Mapping[str, FileRecord]
    deleted_file: str | None = None
    ann: AnnRecord | None = None

    @property
    def live(self) -> int:
        return self.rows - self.deleted


@dataclass(frozen=True)
class IndexRecord:
    """The content of index.json."""

    model: str  # where it was loaded from
    identity: str  # of the model; vectors of another one cannot be compared
    engine: str
    width: int
    text: str  # column
    id: str | None  # column; without one, rows are numbered
    kind: str  # auto, exact or faiss
    next_segment: int = 1
    next_number: int = 0  # of a row without an id
    segments: tuple[SegmentRecord, ...] = field(default=())

    @property
    def rows(self) -> int:
        return sum(segment.live for segment in self.segments)

    def save(self, folder: Path) -> None:
        write_json(folder / RECORD_FILE, {"format": _FORMAT, "plait": __version__, **asdict(self)})

    @staticmethod
    def load(folder: Path) -> "IndexRecord":
        try:
            value: dict[str, Any] = read_json(folder / RECORD_FILE)
        except FileNotFoundError:
            raise SearchIndexError(f"{folder}: not an index: {RECORD_FILE} is missing; build it again") from None
        except (OSError, ValueError) as error:
            raise SearchIndexError(f"{folder}/{RECORD_FILE}: cannot be read: {error}; build the index again") from None
        try:
            if value.pop("format") > _FORMAT:
                raise SearchIndexError(f"{folder}: written by a newer plait ({value.get('plait')}); update plait")
            value.pop("plait")
            segments = tuple(map(_segment, value.pop("segments")))
            return IndexRecord(**value, segments=segments)
        except (AttributeError, KeyError, TypeError, ValueError):
            raise SearchIndexError(f"{folder}/{RECORD_FILE}: is damaged; build the index again") from None


def _segment(value: dict[str, Any]) -> SegmentRecord:
    files = {name: FileRecord(**facts) for name, facts in value.pop("files").items()}
    ann = value.pop("ann")
    found = SegmentRecord(**value, files=files, ann=ann and AnnRecord(**ann))
    named = [*files, *([found.deleted_file] if found.deleted_file else [])]
    if not SEGMENT_NAME.fullmatch(found.name) or not all(map(_FILE_NAME.fullmatch, named)):
        raise ValueError("a name that leads out of the folder")
    return found


def is_index(folder: str | Path) -> bool:
    """Whether a folder holds an index."""
    return (Path(folder) / RECORD_FILE).is_file()


def record_file(path: Path) -> FileRecord:
    """The size and digest of a file."""
    return FileRecord(path.stat().st_size, sha256_of(path))
