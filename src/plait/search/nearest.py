"""The nearest of many unit vectors, exactly, in blocks that fit into memory.

n vectors, m queries, D width, k nearest, b rows of a block, c candidates.
"""

import numpy as np

__all__ = ["best_of", "nearest_rows"]

_BLOCK_BYTES = 32_000_000  # of vectors at a time
_QUERIES = 256  # at a time


def nearest_rows(
    vectors_nD: np.ndarray, queries_mD: np.ndarray, k: int, skip: np.ndarray | None = None
) -> tuple[np.ndarray, np.ndarray]:
    """The cosines and row numbers (m, k) of the nearest vectors, best first; -inf and -1 where there are fewer than k.

    `skip` are the sorted numbers of rows to leave out. Vectors may be memory-mapped: a block is read once for 256
    queries.
    """
    scores_mk = np.full((len(queries_mD), k), -np.inf, np.float32)
    rows_mk = np.full((len(queries_mD), k), -1, np.int64)
    step = max(1, _BLOCK_BYTES // (4 * vectors_nD.shape[1]))
    for at in range(0, len(queries_mD), _QUERIES):
        some = slice(at, at + _QUERIES)
        for start in range(0, len(vectors_nD), step):
            scores_mb = queries_mD[some] @ vectors_nD[start : start + step].T
            if skip is not None:
                first, last = np.searchsorted(skip, [start, start + step])
                scores_mb[:, skip[first:last] - start] = -np.inf
            scores_mc, rows_mc = best_of(scores_mb, None, k)
            merged = (
                np.concatenate([scores_mk[some], scores_mc], axis=1),
                np.concatenate([rows_mk[some], rows_mc + start], axis=1),
            )
            scores_mk[some], rows_mk[some] = best_of(*merged, k)
    rows_mk[np.isneginf(scores_mk)] = -1
    return scores_mk, rows_mk


def best_of(scores_mc: np.ndarray, rows_mc: np.ndarray | None, k: int) -> tuple[np.ndarray, np.ndarray]:
    """The k best candidates, best first, and their rows or, without rows, their places among the candidates."""
    if scores_mc.shape[1] > k:
        places_mk = np.argpartition(-scores_mc, k - 1, axis=1)[:, :k]
        places_mk.sort(axis=1)  # so that, of equal scores, the first comes first
    else:
        places_mk = np.broadcast_to(np.arange(scores_mc.shape[1]), scores_mc.shape)
    order_mk = np.argsort(-np.take_along_axis(scores_mc, places_mk, 1), axis=1, kind="stable")
    places_mk = np.take_along_axis(places_mk, order_mk, 1)
    rows_mk = places_mk if rows_mc is None else np.take_along_axis(rows_mc, places_mk, 1)
    return np.take_along_axis(scores_mc, places_mk, 1), rows_mk
