"""An index: the texts of a corpus by their embeddings. Opening and searching it by vectors needs no torch.

n vectors, m queries, D width, k nearest.
"""

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from shutil import rmtree
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from plait.errors import RequestError, SearchIndexError
from plait.files import lock
from plait.inference.cosines import unit_vectors
from plait.progress import Progress, SilentProgress
from plait.search.approximate import recall_of
from plait.search.nearest import best_of
from plait.search.record import SEGMENT_NAME, IndexRecord, SegmentRecord
from plait.search.segment import Segment, merge_segments

if TYPE_CHECKING:
    from plait.inference.predictor import Predictor

__all__ = ["Hit", "Index", "IndexBlock", "IndexCheck", "changing", "check_top_k"]

_MOST_SEGMENTS = 8
_DELETED_SHARE = 0.25  # of the rows, from which an index is written again without them
_SMALL = 10  # times smaller than the largest segment are those that are merged first
_CHECK_QUERIES = 256
_ATTEMPTS = 5  # to open an index that another process changes
_MOST_HITS = 10_000


@dataclass(frozen=True)
class Hit:
    """A row that a search found."""

    id: str
    score: float  # the cosine with the query
    text: str
    row: dict[str, object]  # by column, as in the corpus


@dataclass(frozen=True)
class IndexCheck:
    """What `Index.check` measured."""

    rows: int
    queries: int
    recall: float  # at 10, of the search as it is against an exact one


class IndexBlock(NamedTuple):
    """Some rows of an index, to be put into a database."""

    ids: list[str]
    texts: list[str]
    rows: list[dict[str, object]]
    vectors_nD: np.ndarray


class Index:
    """A folder that `plait index` wrote; threads can share it.

    The model is loaded on first use, from where it was when the index was built, unless `model` is given: a loaded
    model, or another place of the same one. Any other model is refused.
    """

    def __init__(self, folder: str | Path, *, model: "str | Path | Predictor | None" = None) -> None:
        self.folder = Path(folder)
        self._given = model
        self._model: Predictor | None = None
        self.reopen()

    def reopen(self) -> None:
        """Read what another process may have changed."""
        for attempt in range(_ATTEMPTS):  # the segments of a record that was replaced meanwhile may be gone
            self.record = IndexRecord.load(self.folder)
            try:
                self.segments = [Segment(self.folder / one.name, one) for one in self.record.segments]
                return
            except FileNotFoundError as error:
                if attempt == _ATTEMPTS - 1 or IndexRecord.load(self.folder) == self.record:
                    missing = f"{error.filename}: is missing; build the index again, or copy it again"
                    raise SearchIndexError(missing) from None

    def __len__(self) -> int:
        return self.record.rows

    def __repr__(self) -> str:
        return f"<plait.Index {str(self.folder)!r}: {len(self):,} rows>"

    @property
    def model(self) -> "Predictor":
        """The model that the texts were embedded with."""
        if self._model is None:
            from plait.inference.predictor import Predictor, load

            given = self._given
            found = given if isinstance(given, Predictor) else load(given or self.record.model)
            self.check_identity(found.identity, str(found.folder))
            self._model = found
        return self._model

    def check_identity(self, identity: str, name: str) -> None:
        """Refuse another model than the one that the index was built with."""
        if identity != self.record.identity:
            raise SearchIndexError(
                f"{self.folder}: was built with another model than {name}, and their vectors cannot be compared; "
                f"use {self.record.model} as it was, or build the index again"
            )

    def search(self, query: str, *, top_k: int = 10) -> list[Hit]:
        """The rows nearest to a text, best first."""
        return self.search_many([query], top_k=top_k)[0]

    def search_many(self, queries: Iterable[str], *, top_k: int = 10) -> list[list[Hit]]:
        """The rows nearest to each text, best first."""
        check_top_k(top_k)
        return self.nearest(self.model.embed(queries), top_k=top_k)

    def nearest(self, vectors_mD: np.ndarray, *, top_k: int = 10) -> list[list[Hit]]:
        """The rows nearest to each vector of the same model, best first."""
        check_top_k(top_k)
        vectors_mD = np.asarray(vectors_mD, np.float32)
        if vectors_mD.ndim != 2 or vectors_mD.shape[1] != self.record.width:
            found = " × ".join(map(str, vectors_mD.shape))
            raise RequestError(f"the argument `vectors`: expected queries × {self.record.width}, found {found}")
        queries_mD = unit_vectors(vectors_mD)
        _, segments_mk, rows_mk = self._nearest(queries_mD, top_k)
        return [
            self._hits(query_D, [place for place in zip(*places, strict=True) if place[1] >= 0])
            for query_D, *places in zip(queries_mD, segments_mk.tolist(), rows_mk.tolist(), strict=True)
        ]

    def _hits(self, query_D: np.ndarray, places: list[tuple[int, int]]) -> list[Hit]:
        """The hits at these segments and rows.

        Their scores are computed again in float64, so that they do not depend on the queries beside this one.
        """
        vectors_kD = [self.segments[segment].vectors_nD[row] for segment, row in places]
        scores_k = np.array([vector_D.astype(np.float64) @ query_D for vector_D in vectors_kD]).astype(np.float32)
        order = np.argsort(-scores_k, kind="stable").tolist()
        return [self._hit(*places[place], score=float(scores_k[place])) for place in order]

    def _nearest(
        self, queries_mD: np.ndarray, k: int, *, exact: bool = False
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """The cosines (m, k) of the nearest rows, with the numbers of their segments and their rows."""
        segments = self.segments
        if not segments:
            return np.empty((len(queries_mD), 0)), *np.empty((2, len(queries_mD), 0), np.int64)
        found = [segment.nearest(queries_mD, k, exact=exact) for segment in segments]
        scores_mc = np.concatenate([scores for scores, _ in found], axis=1)
        rows_mc = np.concatenate([rows for _, rows in found], axis=1)
        scores_mk, places_mk = best_of(scores_mc, None, k)
        return scores_mk, places_mk // k, np.take_along_axis(rows_mc, places_mk, 1)

    def _hit(self, segment: int, number: int, *, score: float) -> Hit:
        name, row = self.segments[segment].row(number)
        assert name is not None, "bad rows are deleted"
        return Hit(name, score, str(row[self.record.text]), row)

    def blocks(self, size: int = 1000) -> Iterator[IndexBlock]:
        """All rows with their vectors, some at a time, in the order in which they were indexed."""
        for segment in self.segments:
            is_deleted = np.zeros(segment.record.rows, bool)
            is_deleted[segment.deleted] = True
            ids: list[str] = []
            rows: list[dict[str, object]] = []
            numbers: list[int] = []
            for number, (name, row) in enumerate(segment.rows()):
                if is_deleted[number]:
                    continue
                assert name is not None, "bad rows are deleted"
                ids.append(name)
                rows.append(row)
                numbers.append(number)
                if len(ids) == size:
                    yield self._block(segment, ids, rows, numbers)
                    ids, rows, numbers = [], [], []
            if ids:
                yield self._block(segment, ids, rows, numbers)

    def _block(self, segment: Segment, ids: list[str], rows: list[dict[str, object]], numbers: list[int]) -> IndexBlock:
        return IndexBlock(ids, [str(row[self.record.text]) for row in rows], rows, segment.vectors_nD[numbers])

    def check(self) -> IndexCheck:
        """Compare every file with its digest, and the search with an exact one on a sample of the index's own rows."""
        for segment in self.segments:
            segment.verify()
        generator = np.random.default_rng(0)
        total, sample = 0, 0
        exact_recalls = []
        for place, segment in enumerate(self.segments):
            live = segment.live
            share = -(-_CHECK_QUERIES * len(live) // max(1, len(self)))
            own = np.sort(generator.choice(live, min(len(live), share), replace=False))
            queries_mD = np.array(segment.vectors_nD[own])
            exact, found = (
                self._numbered(*self._nearest(queries_mD, 11, exact=is_exact)[1:]) for is_exact in (True, False)
            )
            exact_recalls.append(recall_of(exact, found, own + (place << 40)) * len(own))
            total, sample = total + len(live), sample + len(own)
        return IndexCheck(total, sample, sum(exact_recalls) / sample if sample else 1.0)

    @staticmethod
    def _numbered(segments_mk: np.ndarray, rows_mk: np.ndarray) -> np.ndarray:
        """One number for a segment and a row."""
        numbers: np.ndarray = (segments_mk << 40) + rows_mk
        return np.where(rows_mk < 0, -1, numbers)

    def add(
        self, corpus: Any, *, resume: bool = False, encoding: str = "utf-8", progress: Progress | None = None
    ) -> int:
        """Add the rows of a file or table; a row whose id is already there replaces it. Returns how many were added."""
        from plait.search.build import add_corpus

        return add_corpus(self, corpus, resume=resume, encoding=encoding, progress=progress or SilentProgress())

    def delete(self, ids: Iterable[str], *, progress: Progress | None = None) -> int:
        """Delete the rows with these ids; returns how many there were."""
        if isinstance(ids, str):
            raise RequestError("the argument `ids`: expected a list of ids, found one; put it into a list")
        with changing(self.folder):
            self.reopen()
            names = [str(name) for name in ids]
            found = [segment.find(names) for segment in self.segments]
            segments = [segment.without(rows) for segment, rows in zip(self.segments, found, strict=True)]
            self.commit(replace(self.record, segments=tuple(segments)), progress or SilentProgress())
        return sum(map(len, found))

    def commit(self, record: IndexRecord, progress: Progress) -> None:
        """Save a changed record, then merge segments if there are many small ones or many deleted rows."""
        record.save(self.folder)
        self.reopen()
        if chosen := _to_merge(record.segments):
            name = f"{record.next_segment:06d}"
            merged = [segment for segment in self.segments if segment.record in chosen]
            rmtree(self.folder / name, ignore_errors=True)
            new = merge_segments(merged, self.folder / name, record.kind, progress)
            left = [one for one in record.segments if one not in chosen]
            segments = tuple(one for one in (*left, new) if one.rows)
            replace(record, segments=segments, next_segment=record.next_segment + 1).save(self.folder)
            self.reopen()
        self._remove_others()

    def _remove_others(self) -> None:
        """Delete segments and files of segments that the record does not name."""
        names = {one.name: one for one in self.record.segments}
        for folder in self.folder.iterdir():
            if not folder.is_dir() or not SEGMENT_NAME.fullmatch(folder.name):
                continue
            if folder.name not in names:
                rmtree(folder)
                continue
            for file in folder.iterdir():
                if file.name not in names[folder.name].files:
                    file.unlink()


def _to_merge(segments: Sequence[SegmentRecord]) -> list[SegmentRecord]:
    """The segments to be merged into one; none if all is well."""
    deleted, rows = sum(one.deleted for one in segments), sum(one.rows for one in segments)
    if deleted > _DELETED_SHARE * rows:
        return list(segments)
    if len(segments) <= _MOST_SEGMENTS:
        return []
    largest = max(one.rows for one in segments)
    small = [one for one in segments if one.rows * _SMALL < largest]
    return small if len(small) > 1 else list(segments)


def check_top_k(top_k: int) -> None:
    """Refuse a number of hits that makes no sense."""
    if not 1 <= top_k <= _MOST_HITS:
        raise RequestError(f"the argument `top_k`: expected 1 to {_MOST_HITS:,}, found {top_k}")


@contextmanager
def changing(folder: Path) -> Iterator[None]:
    """While an index is changed: keeps other processes from changing it too."""
    with lock(folder / ".lock", wait=False) as held:
        if not held:
            raise RequestError(f"{folder}: another process is changing this index; wait until it is done")
        yield
