"""The pairs of near vectors among many.

n vectors, D width, k nearest, p pairs.
"""

import tempfile
from pathlib import Path

import numpy as np

from plait.progress import Progress
from plait.search.approximate import Approximate, build_approximate, has_faiss
from plait.search.nearest import nearest_rows

__all__ = ["near_pairs"]

_APPROXIMATE_FROM = 50_000  # vectors: the exact search takes a time that grows with their square
_QUERIES = 1024


def near_pairs(vectors_nD: np.ndarray, k: int, at_least: float, progress: Progress) -> tuple[np.ndarray, np.ndarray]:
    """Pairs (p, 2) of different vectors with a cosine of at least `at_least`, and the cosines.

    Only the k nearest of each vector are looked at. The first of a pair is the one that comes first. From 50,000
    vectors on, faiss finds them if it is installed.
    """
    count = len(vectors_nD)
    nothing = np.empty(0, np.int64)
    pairs, cosines = [np.empty((0, 2), np.int64)], [np.empty(0, np.float32)]
    with tempfile.TemporaryDirectory(prefix="plait-") as place:
        ann = None
        if count >= _APPROXIMATE_FROM and has_faiss():
            path = Path(place) / "vectors.faiss"
            ann = Approximate(path, build_approximate(path, vectors_nD, nothing, progress))
        progress.begin("comparing", count)
        for start in range(0, count, _QUERIES):
            queries_mD = np.asarray(vectors_nD[start : start + _QUERIES])
            if ann:
                scores_mk, rows_mk = ann.nearest(vectors_nD, queries_mD, k + 1, nothing)
            else:
                scores_mk, rows_mk = nearest_rows(vectors_nD, queries_mD, k + 1)
            own_mk = np.broadcast_to(np.arange(start, start + len(queries_mD))[:, None], rows_mk.shape)
            is_near = (scores_mk >= at_least) & (rows_mk != own_mk)
            found_p2 = np.stack([own_mk[is_near], rows_mk[is_near]], axis=1)
            pairs.append(np.sort(found_p2, axis=1))
            cosines.append(scores_mk[is_near])
            progress.advance(len(queries_mD))
        progress.end()
    all_p2, places = np.unique(np.concatenate(pairs), axis=0, return_index=True)
    return all_p2, np.concatenate(cosines)[places]
