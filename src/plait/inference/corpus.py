"""A corpus: one data file, or the data files of a folder in order of their names; and its shards of consecutive rows.

Every row has a place: the lines of all files before its own, and the lines before its own in that file. Lines are quick
to count and rows are not, so a shard is a range of places: whoever has the files finds its rows.
"""

import hashlib
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass
from functools import cached_property
from itertools import accumulate
from pathlib import Path

from plait.data.read import FORMAT_NAMES, SHOWN, format_of, open_table, opened
from plait.data.readers.parquet import pyarrow_or_error
from plait.data.readers.records import Record, Table
from plait.errors import DataError

__all__ = ["Corpus", "Shard", "count_lines", "find_corpus", "shard_records", "shown_mistakes"]

_HIDDEN = (".", "_")  # how the names of files begin that hold no data, as in Spark, Ray and pyarrow
_SAMPLE = 1 << 16  # bytes at either end of a file that its digest covers
# Formats whose columns have the same types; a folder holds files of one such family.
_FAMILIES = {"csv": "csv", "tsv": "csv", "jsonl": "json", "json": "json", "parquet": "parquet", "xlsx": "xlsx"}


@dataclass(frozen=True)
class Shard:
    """One of `count` shards, numbered from 0."""

    number: int
    count: int

    def places(self, total: int) -> range:
        """Its places, of so many in all."""
        return range(total * self.number // self.count, total * (self.number + 1) // self.count)


@dataclass(frozen=True)
class Corpus:
    """The files of a corpus, in order."""

    source: Path
    files: tuple[Path, ...]
    kind: str  # format of the first file

    @property
    def family(self) -> str:
        """csv, json, parquet or xlsx."""
        return _FAMILIES[self.kind]

    def name(self, file: Path) -> str:
        """A file in messages: its place in the folder."""
        return file.name if file == self.source else file.relative_to(self.source).as_posix()

    @property
    def changed(self) -> int:
        """When one of its files was changed last, in nanoseconds."""
        return max(path.stat().st_mtime_ns for path in self.files)

    @cached_property
    def digest(self) -> str:
        """Distinguishes one corpus from another on any machine: names, sizes, and both ends of each file."""
        digest = hashlib.sha256()
        for path in self.files:
            size = path.stat().st_size
            digest.update(f"{self.name(path)}\0{size}\0".encode("utf-8", "surrogateescape"))
            with path.open("rb") as file:
                digest.update(file.read(_SAMPLE))
                file.seek(max(size - _SAMPLE, 0))
                digest.update(file.read(_SAMPLE))
        return digest.hexdigest()


def find_corpus(source: Path) -> Corpus:
    """A file, or the data files in a folder and its subfolders; names that begin with a dot or underscore are left out.

    Raises one DataError for all files that are no data, or of another format than the first.
    """
    files = [source] if not source.is_dir() else _data_files(source)
    if not files:
        raise DataError(f"{source}: the folder holds no data files; plait reads {FORMAT_NAMES}")
    unknown = [path for path in files if format_of(path) is None]
    if unknown:
        advice = "move it away, or begin its name with an underscore"
        raise DataError(*shown_mistakes([f"{path}: unknown file format; {advice}" for path in unknown]))
    kinds = [format_of(path) or "" for path in files]
    others = [
        f"{path}: {kind}, but {files[0].name} is {kinds[0]}; keep one format per folder"
        for path, kind in zip(files, kinds, strict=True)
        if _FAMILIES[kind] != _FAMILIES[kinds[0]]
    ]
    if others:
        raise DataError(*shown_mistakes(others))
    return Corpus(source, tuple(files), kinds[0])


def _data_files(folder: Path) -> list[Path]:
    found = (path for path in folder.rglob("*") if path.is_file())
    visible = (path for path in found if not any(part.startswith(_HIDDEN) for part in path.relative_to(folder).parts))
    return sorted(visible, key=lambda path: path.relative_to(folder).as_posix())


def shown_mistakes(mistakes: Sequence[str]) -> list[str]:
    """The first mistakes, and how many more there are."""
    more = len(mistakes) - SHOWN
    return [*mistakes[:SHOWN], *([f"... and {more:,} more files like these"] if more > 0 else [])]


def count_lines(path: Path) -> int:
    """At least the number of the line that the last row of a file begins on; quick, except for xlsx."""
    kind = format_of(path)
    if kind == "parquet":
        with pyarrow_or_error(path).ParquetFile(path) as file:
            return int(file.metadata.num_rows)
    if kind == "xlsx":
        return max((record.line for record in open_table(path).records), default=0)
    with opened(path) as file:
        return sum(block.count(b"\n") for block in iter(lambda: file.read(1 << 20), b"")) + 1


def shard_records(
    corpus: Corpus, lines: Sequence[int], places: range, open_file: Callable[[Path], Table]
) -> Iterator[Record]:
    """The rows at these places, each with the name of its file; only files that have one of them are opened."""
    before = accumulate(lines, initial=0)
    for path, first, count in zip(corpus.files, before, lines, strict=False):
        if first >= places.stop or first + count <= places.start:
            continue
        name = corpus.name(path)
        with closing(open_file(path).records) as records:  # type: ignore[type-var]  # readers are generators
            for record in records:
                place = first + record.line - 1
                if place >= places.stop:
                    break
                if place >= places.start:
                    yield record._replace(file=name)
