"""What one step of one task trains on, and how texts become inputs of the encoder."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import accumulate

import numpy as np

from plait.data.tokenize import TextTokenizer, TokenTable

__all__ = [
    "READS",
    "SINGLE_TEXT_VIEWS",
    "VIEWS",
    "Batch",
    "make_batch",
    "share_inputs",
    "tokenize_views",
    "view_columns",
    "views_of",
]

# Way of reading → number of text columns it needs.
READS: Mapping[str, int] = {
    "single": 1,
    "twice": 1,
    "apart": 2,
    "joined": 2,
    "joined_both": 2,
    "joined_apart": 2,
    "triple": 3,
}
# Way of reading → the inputs of the encoder it needs.
VIEWS: Mapping[str, tuple[str, ...]] = {
    "single": ("first",),
    "twice": ("first", "again"),
    "apart": ("first", "second"),
    "joined": ("joined",),
    "joined_both": ("joined", "swapped"),
    "joined_apart": ("first", "second", "joined"),
    "triple": ("first", "second", "third"),
}
SINGLE_TEXT_VIEWS = {"first": 0, "again": 0, "second": 1, "third": 2}  # view → the text column it shows


@dataclass(frozen=True)
class Batch:
    """Some rows of one task, and inputs of the encoder; those of its views follow each other."""

    task: str
    rows: tuple[int, ...]
    labels: np.ndarray  # (B,), multilabel (B, C)
    ids: tuple[np.ndarray, ...]  # token ids of each input
    firsts: tuple[int, ...]  # tokens of each input in segment 0
    views: dict[str, slice]  # which inputs belong to which view

    def inputs(self, places: Sequence[int]) -> tuple[list[np.ndarray], list[int]]:
        """The ids of some inputs, and how many of each belong to its first text."""
        return [self.ids[place] for place in places], [self.firsts[place] for place in places]

    def split_inputs(self, count: int) -> list[list[int]]:
        """The numbers of its inputs in at most `count` parts with about as many tokens each, shortest inputs first."""
        lengths = np.array([len(tokens) for tokens in self.ids])
        order = np.argsort(lengths, kind="stable")
        middles = np.cumsum(lengths[order]) - lengths[order] / 2
        parts = np.floor(middles * count / lengths.sum())
        return [part.tolist() for part in np.split(order, np.flatnonzero(np.diff(parts)) + 1)]


def views_of(reads: Sequence[str]) -> tuple[str, ...]:
    """The views that some ways of reading need, each once."""
    return tuple(dict.fromkeys(view for way in reads for view in VIEWS[way]))


def tokenize_views(
    tokenizer: TextTokenizer, texts: Sequence[Sequence[str]], views: Sequence[str], limit: int
) -> dict[str, TokenTable]:
    """One token table per view of one, two or three columns of text."""
    columns = {view: view_columns(view, texts) for view in views}
    return {view: tokenizer.tokenize(first, limit, second) for view, (first, second) in columns.items()}


def view_columns(view: str, texts: Sequence[Sequence[str]]) -> tuple[Sequence[str], Sequence[str] | None]:
    """The column of text that a view shows, and the one that it joins to it, if it joins two."""
    if view in SINGLE_TEXT_VIEWS:
        return texts[SINGLE_TEXT_VIEWS[view]], None
    return (texts[0], texts[1]) if view == "joined" else (texts[1], texts[0])


def make_batch(task: str, rows: Sequence[int], labels: np.ndarray, tables: Mapping[str, TokenTable]) -> Batch:
    """The batch of some rows of a task."""
    ends = list(accumulate(len(rows) for _ in tables))
    return Batch(
        task,
        tuple(rows),
        labels[list(rows)],
        tuple(table.row(row) for table in tables.values() for row in rows),
        tuple(int(table.firsts[row]) for table in tables.values() for row in rows),
        {view: slice(end - len(rows), end) for view, end in zip(tables, ends, strict=True)},
    )


def share_inputs(batches: Sequence[Batch]) -> list[Batch]:
    """The same batches, each with the inputs of all, so that one pass can encode them; its views are still its own."""
    if len(batches) == 1:
        return list(batches)
    ids = tuple(tokens for batch in batches for tokens in batch.ids)
    firsts = tuple(first for batch in batches for first in batch.firsts)
    starts = accumulate((len(batch.ids) for batch in batches), initial=0)
    return [
        replace(batch, ids=ids, firsts=firsts, views=_shifted(batch.views, start))
        for batch, start in zip(batches, starts, strict=False)
    ]


def _shifted(views: Mapping[str, slice], start: int) -> dict[str, slice]:
    return {view: slice(place.start + start, place.stop + start) for view, place in views.items()}
