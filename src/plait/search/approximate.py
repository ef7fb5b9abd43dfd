"""Approximate search by faiss: vectors in lists, 8 bits per number, candidates scored again exactly.

n vectors, m queries, D width, k nearest, c candidates.
"""

from pathlib import Path
from typing import Any

import numpy as np

from plait.errors import RequestError
from plait.progress import Progress
from plait.search.nearest import best_of, nearest_rows
from plait.search.record import AnnRecord

__all__ = ["APPROXIMATE_FROM", "Approximate", "build_approximate", "faiss_or_error", "has_faiss", "recall_of"]

APPROXIMATE_FROM = 200_000  # rows, from which `auto` means faiss: below, an exact search takes some 30 ms of one core
_TRAINED_ON = 64  # vectors for each list
_BLOCK_ROWS = 65_536
_SAMPLE = 256  # queries to choose the number of probes by
_RECALL = 0.97  # that the probes must reach on them
_CANDIDATES = 4  # for each wanted row, to be scored exactly
_FILE_OPTIONS = "IO_FLAG_MMAP"


def has_faiss() -> bool:
    """Whether faiss is installed."""
    try:
        import faiss  # noqa: F401
    except ImportError:
        return False
    return True


def faiss_or_error() -> Any:
    """The module; if it is missing, the error says how to install it."""
    try:
        import faiss
    except ImportError:
        raise RequestError('approximate search needs faiss; pip install "plait[search]", or use kind exact') from None
    return faiss


class Approximate:
    """The approximate index of a memory-mapped file."""

    def __init__(self, path: Path, about: AnnRecord) -> None:
        faiss = self._faiss = faiss_or_error()
        self._index = faiss.read_index(str(path), getattr(faiss, _FILE_OPTIONS))
        self._about = about

    def nearest(
        self, vectors_nD: np.ndarray, queries_mD: np.ndarray, k: int, skip: np.ndarray, probes: int | None = None
    ) -> tuple[np.ndarray, np.ndarray]:
        """As `nearest_rows`; the scores are exact, but a near vector may be missing."""
        faiss = self._faiss
        options = {"nprobe": probes or self._about.probes}
        if len(skip):
            options["sel"] = faiss.IDSelectorNot(faiss.IDSelectorBatch(skip.astype(np.int64)))
        parameters = faiss.SearchParametersIVF(**options)
        count = min(_CANDIDATES * k, max(k, len(vectors_nD)))
        _, rows_mc = self._index.search(np.ascontiguousarray(queries_mD, np.float32), count, params=parameters)
        scores_mc = np.full(rows_mc.shape, -np.inf, np.float32)
        for number, rows_c in enumerate(rows_mc):
            is_row = rows_c >= 0
            order = np.sort(rows_c[is_row])  # a file is read faster from its beginning to its end
            rows_mc[number, is_row] = order
            scores_mc[number, is_row] = vectors_nD[order] @ queries_mD[number]
        scores_mk, rows_mk = best_of(scores_mc, rows_mc, k)
        return _padded(scores_mk, k, -np.inf), _padded(rows_mk, k, -1)


def _padded(values_mc: np.ndarray, k: int, value: float) -> np.ndarray:
    return np.pad(values_mc, ((0, 0), (0, k - values_mc.shape[1])), constant_values=value)


def build_approximate(path: Path, vectors_nD: np.ndarray, skip: np.ndarray, progress: Progress) -> AnnRecord:
    """Write the approximate index of unit vectors; as many lists are searched as the recall at 10 of a sample needs."""
    faiss = faiss_or_error()
    live = np.setdiff1d(np.arange(len(vectors_nD)), skip, assume_unique=True)
    lists = max(1, min(int(4 * len(live) ** 0.5), len(live) // 39))  # faiss wants 39 vectors for each
    generator = np.random.default_rng(0)
    sample = np.sort(generator.choice(live, min(len(live), _TRAINED_ON * lists), replace=False))
    progress.begin("training the approximate index", 0)
    index = faiss.index_factory(vectors_nD.shape[1], f"IVF{lists},SQ8", faiss.METRIC_INNER_PRODUCT)
    index.train(np.ascontiguousarray(vectors_nD[sample], np.float32))
    progress.end()
    progress.begin("writing the approximate index", len(live))
    for start in range(0, len(live), _BLOCK_ROWS):
        rows = live[start : start + _BLOCK_ROWS]
        index.add_with_ids(np.ascontiguousarray(vectors_nD[rows], np.float32), rows)
        progress.advance(len(rows))
    progress.end()
    faiss.write_index(index, str(path))
    del index
    asked = np.sort(generator.choice(live, min(len(live), _SAMPLE), replace=False))
    queries_mD = np.array(vectors_nD[asked])
    _, exact_mk = nearest_rows(vectors_nD, queries_mD, 11, skip)
    probes, recall = 1, 0.0
    while True:
        about = AnnRecord(lists, probes, recall)
        _, found_mk = Approximate(path, about).nearest(vectors_nD, queries_mD, 11, skip)
        recall = recall_of(exact_mk, found_mk, asked)
        if recall >= _RECALL or probes >= lists:
            return AnnRecord(lists, probes, recall)
        probes = min(2 * probes, lists)


def recall_of(exact_mk: np.ndarray, found_mk: np.ndarray, own_m: np.ndarray) -> float:
    """The share of the nearest rows that were found; a query's own row, which is always found, does not count."""
    hits = wanted = 0
    for exact, found, own in zip(exact_mk, found_mk, own_m, strict=True):
        rows = set(exact.tolist()) - {own, -1}
        hits += len(rows & set(found.tolist()))
        wanted += len(rows)
    return hits / wanted if wanted else 1.0
