"""Groups of similar texts: a given number by k-means, or as many as there are dense ones.

n texts, D width, K clusters.
"""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from plait.errors import RequestError
from plait.inference.cosines import unit_vectors
from plait.inference.predictor import Predictor, load
from plait.progress import Progress, SilentProgress
from plait.search.embedded import EmbeddedTexts, embed_source, write_results

__all__ = ["Clusters", "TextCluster", "cluster", "dense_clusters"]

_AT_LEAST = 0.6  # the cosine of the texts of a dense cluster with its centre
_SMALLEST = 5  # texts of a dense cluster
_SEED = 0
_MINI_BATCH_FROM = 20_000  # texts from which k-means looks at some of them at a time
_ROWS = 1024  # at a time
_EXAMPLES = 5  # texts of a cluster that are returned


@dataclass(frozen=True)
class TextCluster:
    """Texts that are similar."""

    name: str  # the text nearest to the centre
    rows: tuple[int, ...]  # numbers in the file, from 0; the most typical first
    texts: tuple[str, ...]  # the most typical ones
    cohesion: float  # the mean cosine of its texts with the centre


@dataclass(frozen=True)
class Clusters:
    """The outcome of `plait.cluster`."""

    texts: int
    clusters: list[TextCluster]  # the largest first

    @property
    def unclustered(self) -> int:
        """Texts that belong to no cluster."""
        return self.texts - sum(len(one.rows) for one in self.clusters)


def cluster(
    model: str | Path | Predictor,
    source: Any,
    *,
    text: str | None = None,
    clusters: int | None = None,
    at_least: float = _AT_LEAST,
    smallest: int = _SMALLEST,
    out: str | Path | None = None,
    encoding: str = "utf-8",
    progress: Progress | None = None,
) -> Clusters:
    """Group the texts of a file, a table or a list by their embeddings.

    With `clusters`, k-means makes that many, and every text belongs to one. Without, dense clusters are found: a text
    and at least `smallest` - 1 others with a cosine of `at_least`; the rest belongs to none. With `out`, the rows are
    written with the columns `cluster`, `cluster_name` and `cluster_score`, the cosine with the centre.
    """
    if clusters is not None and clusters < 2:
        raise RequestError(f"the argument `clusters`: expected at least 2, found {clusters}")
    if not 0 < at_least <= 1:
        raise RequestError(f"the argument `at_least`: expected a cosine above 0 and up to 1, found {at_least:g}")
    if smallest < 1:
        raise RequestError(f"the argument `smallest`: expected at least 1, found {smallest}")
    if clusters is not None:
        _sklearn()  # fail now, not after the texts are embedded
    predictor = model if isinstance(model, Predictor) else load(model)
    shown = progress or SilentProgress()
    with embed_source(predictor, source, text, encoding, shown) as embedded:
        if clusters is None:
            labels = dense_clusters(embedded.vectors_nD, at_least, smallest, shown)
        else:
            labels = _by_k_means(embedded.vectors_nD, clusters, shown)
        found, cosines = _describe(embedded, labels)
        if out is not None:
            _write(embedded, found, cosines, out, shown)
    return Clusters(len(embedded.texts), found)


def _sklearn() -> Any:
    try:
        import sklearn.cluster
    except ImportError:
        raise RequestError(
            'k-means needs scikit-learn; pip install "plait[sklearn]", or leave out `clusters`'
        ) from None
    return sklearn.cluster


def _by_k_means(vectors_nD: np.ndarray, count: int, shown: Progress) -> np.ndarray:
    if count > len(vectors_nD):
        raise RequestError(f"the argument `clusters`: {count:,}, but there are {len(vectors_nD):,} texts")
    shown.begin("k-means", 0)
    kind = "MiniBatchKMeans" if len(vectors_nD) >= _MINI_BATCH_FROM else "KMeans"
    labels: np.ndarray = getattr(_sklearn(), kind)(count, n_init=3, random_state=_SEED).fit_predict(vectors_nD)
    shown.end()
    return labels.astype(np.int64)


def dense_clusters(vectors_nD: np.ndarray, at_least: float, smallest: int, shown: Progress) -> np.ndarray:
    """The cluster of each vector, -1 for none.

    The vector with the most others around it is the first centre, and takes all of them; then the next of those that
    are left. The time grows with the square of the number of vectors, the memory does not.
    """
    count = len(vectors_nD)
    around = np.zeros(count, np.int64)
    shown.begin("comparing", count)
    for start in range(0, count, _ROWS):
        some_mD = np.asarray(vectors_nD[start : start + _ROWS])
        for other in range(0, count, 16 * _ROWS):
            around[start : start + _ROWS] += (some_mD @ vectors_nD[other : other + 16 * _ROWS].T >= at_least).sum(
                axis=1
            )
        shown.advance(len(some_mD))
    shown.end()
    labels = np.full(count, -1, np.int64)
    left = np.arange(count)
    number = 0
    for centre in np.argsort(-around, kind="stable").tolist():
        if around[centre] < smallest:
            break
        if labels[centre] >= 0:
            continue
        members = left[_cosines(vectors_nD, left, vectors_nD[centre]) >= at_least]
        if len(members) >= smallest:
            labels[members] = number
            number += 1
            left = left[labels[left] < 0]
    return labels


def _cosines(vectors_nD: np.ndarray, rows: np.ndarray, centre_D: np.ndarray) -> np.ndarray:
    """The cosines of some vectors with another, in blocks."""
    found = [vectors_nD[rows[at : at + 16 * _ROWS]] @ centre_D for at in range(0, len(rows), 16 * _ROWS)]
    return np.concatenate(found) if found else np.empty(0, np.float32)


def _describe(embedded: EmbeddedTexts, labels: np.ndarray) -> tuple[list[TextCluster], list[list[float]]]:
    """The clusters, the largest first, and the cosines of their rows with their centres."""
    found = []
    for number in range(labels.max(initial=-1) + 1):
        (members,) = np.nonzero(labels == number)
        if not len(members):
            continue
        vectors_nD = np.asarray(embedded.vectors_nD[members])
        cosines = (vectors_nD @ unit_vectors(vectors_nD.mean(axis=0, keepdims=True))[0]).astype(np.float64)
        order = np.argsort(-cosines, kind="stable")
        members, cosines = members[order], cosines[order]
        typical = tuple(embedded.texts[place] for place in members[:_EXAMPLES].tolist())
        rows = tuple(embedded.rows[members].tolist())
        found.append((TextCluster(typical[0], rows, typical, float(cosines.mean())), cosines.tolist()))
    found.sort(key=lambda pair: (-len(pair[0].rows), min(pair[0].rows)))
    return [one for one, _ in found], [cosines for _, cosines in found]


def _write(
    embedded: EmbeddedTexts, found: list[TextCluster], cosines: list[list[float]], out: str | Path, shown: Progress
) -> None:
    cells: dict[int, tuple[object, ...]] = {}
    for number, (one, scores) in enumerate(zip(found, cosines, strict=True)):
        cells |= {row: (number, one.name, score) for row, score in zip(one.rows, scores, strict=True)}
    added = {"cluster": "integer", "cluster_name": "text", "cluster_score": "number"}
    write_results(embedded, out, added, [cells.get(row, (None,) * 3) for row in embedded.rows.tolist()], shown)
