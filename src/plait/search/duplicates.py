"""Texts that mean the same: candidates by their vectors, decided by a head that compares pairs if the model has one.

p pairs.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from plait.errors import RequestError, did_you_mean
from plait.inference.predictor import Predictor, load
from plait.model.tasks import TaskSpec
from plait.progress import Progress, SilentProgress
from plait.search.embedded import EmbeddedTexts, embed_source, write_results
from plait.search.neighbours import near_pairs
from plait.search.pair_scores import score_pairs

__all__ = ["COSINE", "DuplicateGroup", "Duplicates", "duplicates", "find_leaders"]

COSINE = "cosine"
_AT_LEAST = 0.9  # the cosine of duplicates
_CANDIDATE = 0.5  # the cosine from which a head is asked
_NEIGHBOURS = 20  # of each text that are candidates


@dataclass(frozen=True)
class DuplicateGroup:
    """Rows that mean the same; each was compared with the first."""

    rows: tuple[int, ...]  # numbers in the file, from 0; the first is the one to keep
    texts: tuple[str, ...]
    scores: tuple[float, ...]  # of each with the first; 1 for the first itself and for equal texts


@dataclass(frozen=True)
class Duplicates:
    """The outcome of `plait.duplicates`."""

    texts: int
    kept: int  # texts that are left without the duplicates
    by: str  # cosine, or the task that decided
    at_least: float
    candidates: int  # pairs
    groups: list[DuplicateGroup]  # the largest first


def duplicates(
    model: str | Path | Predictor,
    source: Any,
    *,
    text: str | None = None,
    by: str | None = None,
    at_least: float | None = None,
    out: str | Path | None = None,
    encoding: str = "utf-8",
    progress: Progress | None = None,
) -> Duplicates:
    """Find the texts of a file, a table or a list that mean the same.

    `by` is the task that decides about a pair, or `cosine`; by default it is the model's task of yes/no pairs, if it
    has one. `at_least` is the probability, score or cosine from which two texts are duplicates; by default the
    threshold of the task, or 0.9. With `out`, the rows are written with the columns `group`, `duplicate_of` and
    `duplicate_score`.
    """
    predictor = model if isinstance(model, Predictor) else load(model)
    shown = progress or SilentProgress()
    task = _task(predictor, by)
    limit = _limit(task, at_least)
    with embed_source(predictor, source, text, encoding, shown) as embedded:
        first_of = _equal_texts(embedded.texts)
        distinct = np.flatnonzero(first_of == np.arange(len(first_of)))
        vectors_nD = embedded.vectors_nD if len(distinct) == len(first_of) else embedded.vectors_nD[distinct]
        floor = limit if task is None else _CANDIDATE
        pairs_p2, scores_p = near_pairs(vectors_nD, min(_NEIGHBOURS, len(distinct)), floor, shown)
        pairs_p2 = distinct[pairs_p2]
        if task is not None:
            scores_p = score_pairs(predictor, task, embedded.texts, pairs_p2, shown)
        is_same = scores_p >= limit
        leader, score = find_leaders(first_of, pairs_p2[is_same], scores_p[is_same])
        groups = _groups(embedded, leader, score)
        if out is not None:
            _write(embedded, groups, out, shown)
    kept = int((leader == np.arange(len(leader))).sum())
    return Duplicates(len(leader), kept, task.name if task else COSINE, limit, len(pairs_p2), groups)


def _task(predictor: Predictor, by: str | None) -> TaskSpec | None:
    """The task that decides; None for the cosine."""
    pairs = {
        name: spec
        for name, spec in predictor.tasks.items()
        if len(spec.text) == 2 and (spec.labels.about.is_yes_no or spec.labels.about.is_score)
    }
    if by == COSINE:
        return None
    if by is not None:
        if by not in pairs:
            hint = did_you_mean(by, [*pairs, COSINE])
            raise RequestError(f"the argument `by`: the model has no task {by!r} that scores pairs; {hint}")
        return pairs[by]
    yes_no = [spec for spec in pairs.values() if spec.labels.about.is_yes_no]
    if len(yes_no) > 1:
        names = ", ".join(spec.name for spec in yes_no)
        raise RequestError(f"the argument `by`: several tasks compare pairs; name one of {names}, or {COSINE}")
    return yes_no[0] if yes_no else None


def _limit(task: TaskSpec | None, at_least: float | None) -> float:
    if task is None:
        low, high, default = -1.0, 1.0, _AT_LEAST
    elif task.labels.about.is_score:
        low, high = float(task.labels.low), float(task.labels.high)
        if at_least is None:
            what = f"give the score of {task.name!r}, {low:g} to {high:g}, from which two texts are duplicates"
            raise RequestError(f"the argument `at_least`: {what}")
        default = high
    else:
        low, high, default = 0.0, 1.0, task.threshold
    if at_least is not None and not low <= at_least <= high:
        raise RequestError(f"the argument `at_least`: expected {low:g} to {high:g}, found {at_least:g}")
    return default if at_least is None else at_least


def _equal_texts(texts: Iterable[str]) -> np.ndarray:
    """For each text the number of the first that is equal, apart from spaces at both ends."""
    first: dict[str, int] = {}
    return np.array([first.setdefault(text.strip(), number) for number, text in enumerate(texts)], np.int64)


def find_leaders(first_of: np.ndarray, pairs_p2: np.ndarray, scores_p: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """For each text the one to keep instead, and the score of the two.

    A text is kept unless it is a duplicate of one that comes before it and is kept; of several, it belongs to the most
    similar. So a group has no chains, and every member is a duplicate of the kept text itself.
    """
    leader, score = first_of.copy(), np.ones(len(first_of))
    order = np.lexsort((pairs_p2[:, 0], -scores_p, pairs_p2[:, 1]))
    for place in order.tolist():
        kept, other = pairs_p2[place].tolist()
        if leader[other] == other and leader[kept] == kept:
            leader[other], score[other] = kept, scores_p[place]
    copies = first_of != np.arange(len(first_of))
    score[copies] = score[first_of[copies]]
    leader[copies] = leader[first_of[copies]]
    return leader, score


def _groups(embedded: EmbeddedTexts, leader: np.ndarray, score: np.ndarray) -> list[DuplicateGroup]:
    members: dict[int, list[int]] = {}
    for number, kept in enumerate(leader.tolist()):
        members.setdefault(kept, []).append(number)
    groups = [
        DuplicateGroup(
            tuple(embedded.rows[numbers].tolist()),
            tuple(embedded.texts[number] for number in numbers),
            tuple(score[numbers].tolist()),
        )
        for numbers in members.values()
        if len(numbers) > 1
    ]
    return sorted(groups, key=lambda group: (-len(group.rows), group.rows))


def _write(embedded: EmbeddedTexts, groups: list[DuplicateGroup], out: str | Path, shown: Progress) -> None:
    found: dict[int, tuple[int, int | None, float]] = {}
    for number, group in enumerate(groups):
        for place, (row, score) in enumerate(zip(group.rows, group.scores, strict=True)):
            found[row] = number, group.rows[0] if place else None, score
    cells: list[tuple[object, ...]] = [found.get(row, (None, None, None)) for row in embedded.rows.tolist()]
    added = {"group": "integer", "duplicate_of": "integer", "duplicate_score": "number"}
    write_results(embedded, out, added, cells, shown)
