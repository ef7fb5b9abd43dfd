"""Texts as vectors: the nearest training examples of a row, and a map of many rows.

n examples, m candidates, D width, F features.
"""

import re
from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from plait.data.examples import Examples
from plait.model.encode_texts import AnyModel, embed_texts

__all__ = ["Embedder", "EmbeddingMap", "Neighbour", "draw_map", "find_nearest"]

_CANDIDATES = 10  # training rows that share words with one row
_FILL = 40  # further training rows, drawn evenly
_SEARCHED = 50_000  # training rows that are searched for shared words
_NEAREST = 3


class Embedder:
    """Unit vectors of texts; each text is encoded once."""

    def __init__(self, model: AnyModel) -> None:
        self._model = model
        self._known: dict[str, np.ndarray] = {}

    def add(self, columns: Sequence[Sequence[str]]) -> None:
        """Encode all new texts of some columns in one pass."""
        new = list(dict.fromkeys(text for column in columns for text in column if text not in self._known))
        if new:
            vectors_nD = embed_texts(self._model, new).vectors_nD.float().numpy()
            lengths_n1 = np.linalg.norm(vectors_nD, axis=1, keepdims=True)
            self._known.update(zip(new, vectors_nD / np.maximum(lengths_n1, 1e-12), strict=True))

    def vectors(self, columns: Sequence[Sequence[str]]) -> list[np.ndarray]:
        """The vectors (n, D) of each column."""
        self.add(columns)
        return [np.stack([self._known[text] for text in column]) for column in columns]


@dataclass(frozen=True)
class Neighbour:
    """A training row and how similar it is to the row that it is listed for."""

    row: int
    similarity: float  # cosine, the mean over the texts of an example


@dataclass(frozen=True)
class EmbeddingMap:
    """Points of a map and how much of the variance its two axes show."""

    points_n2: np.ndarray
    shown: tuple[float, float]


def find_nearest(
    embedder: Embedder, examples: Examples, rows: Sequence[int], train: Examples, *, symmetric: bool
) -> dict[int, list[Neighbour]]:
    """The training rows that are nearest to some rows, by the cosine of their embeddings.

    Only training rows that share rare words with the rows are compared, and some that are drawn evenly.
    """
    if not rows or not len(train):
        return {}
    candidates = _candidates(examples, rows, train)
    ours = embedder.vectors(examples.chosen(rows).texts)
    theirs = embedder.vectors(train.chosen(candidates).texts)
    similar_nm = np.mean([one @ other.T for one, other in zip(ours, theirs, strict=True)], axis=0)
    if symmetric and len(ours) == 2:
        similar_nm = np.maximum(similar_nm, np.mean([ours[0] @ theirs[1].T, ours[1] @ theirs[0].T], axis=0))
    found = {}
    for place, row in enumerate(rows):
        best = np.argsort(-similar_nm[place], kind="stable")[:_NEAREST]
        found[row] = [Neighbour(candidates[number], float(similar_nm[place, number])) for number in best]
    return found


def _candidates(examples: Examples, rows: Sequence[int], train: Examples) -> list[int]:
    """Training rows worth comparing."""
    generator = np.random.default_rng(0)
    count = min(len(train), _SEARCHED)
    searched = sorted(generator.choice(len(train), count, replace=False).tolist())
    if len(searched) <= _FILL:
        return searched
    holders: dict[str, list[int]] = defaultdict(list)
    for row in searched:
        for word in _words(train, row):
            holders[word].append(row)
    chosen: dict[int, None] = {}
    for row in rows:
        shared: Counter[int] = Counter()
        for word in _words(examples, row):
            if (found := holders.get(word)) and len(found) < max(20, len(searched) // 20):
                for other in found:
                    shared[other] += 1
        chosen |= dict.fromkeys(other for other, _ in shared.most_common(_CANDIDATES))
    chosen |= dict.fromkeys(generator.permutation(searched)[:_FILL].tolist())
    return list(chosen)


def _words(examples: Examples, row: int) -> set[str]:
    return {word for column in examples.texts for word in re.findall(r"\w+", column[row].lower())}


def draw_map(embedder: Embedder, examples: Examples) -> EmbeddingMap | None:
    """The two directions in which the examples differ most (PCA); None if there are too few.

    A pair is described by |u − v| and u ∗ v, which is what its label depends on; a triplet by its two differences.
    """
    if len(examples) < 3:
        return None
    vectors = embedder.vectors(examples.texts)
    first, *others = vectors
    parts = [part for other in others for part in (np.abs(first - other), first * other)] if others else vectors
    features_nF = np.concatenate(parts, axis=1)
    centred_nF = features_nF - features_nF.mean(axis=0)
    left, sizes, _ = np.linalg.svd(centred_nF, full_matrices=False)
    total = float((sizes**2).sum())
    if total < 1e-9:  # all examples are equal
        return None
    points_n2 = left[:, :2] * sizes[:2]
    return EmbeddingMap(points_n2, (float(sizes[0] ** 2) / total, float(sizes[1] ** 2) / total))
