"""The rows of a task by split: each from its own files, or split off the training data."""

import random
from collections.abc import Sequence
from functools import partial

from plait.data.examples import Examples
from plait.data.folds import split_off
from plait.data.labels import guess_kind
from plait.data.make import MAKES
from plait.data.read import Rows, read_rows, row_mistakes
from plait.errors import DataError
from plait.recipe.schema import Label, Task

__all__ = ["SPLITS", "fewer_rows", "read_splits"]

SPLITS = ("train", "dev", "test")


def read_splits(task: Task, seed: str, splits: Sequence[str] = SPLITS) -> dict[str, Rows]:
    """The rows of these splits; raises one DataError with every source that cannot be read."""
    shared = [split for split in SPLITS if task.share(split) is not None]
    rows: dict[str, Rows] = {}
    mistakes: list[str] = []
    for split in dict.fromkeys("train" if split in shared else split for split in splits):
        try:
            rows[split] = read_rows(
                task.sources(split),
                [*task.text, *task.label_columns],
                lists=task.label_columns,
                quoting=task.quoting,
                split=split,
            )
        except DataError as error:
            mistakes += error.mistakes
    if mistakes:
        raise DataError(*mistakes, *row_mistakes([row for part in rows.values() for row in part.bad]))
    if shared and "train" in rows:
        rows |= divide(rows["train"], task, shared, seed)
    if task.make:
        make = partial(MAKES[task.make.name], **task.make.options)
        rows = {split: make(part, task.text, task.label_columns[0]) for split, part in rows.items()}
    return {split: rows[split] for split in splits}


def divide(rows: Rows, task: Task, shared: Sequence[str], seed: str) -> dict[str, Rows]:
    """Training rows without those of the other splits, and the other splits; bad rows stay with the training rows."""
    texts = [rows.columns[column] for column in task.text]
    shares = [task.share(split) or 0.0 for split in shared]
    parts = split_off(texts, kept_in_proportion(rows, task), shares, f"{seed}/split")
    for split, part in zip(shared, parts, strict=False):
        if not part:
            raise DataError(
                f"{split}: {task.share(split)} of {len(rows):,} training rows cannot be split off without a text on "
                f"both sides; give {split} a file of its own, or a larger share"
            )
    found = {split: rows.chosen(part) for split, part in zip([*shared, "train"], parts, strict=True)}
    found["train"] = Rows(found["train"].columns, found["train"].origins, rows.bad)
    return found


def kept_in_proportion(rows: Rows, task: Task) -> list[str]:
    """The class of each row, which every part gets its share of; scores and triplets have none."""
    columns = [rows.columns[column] for column in task.label_columns]
    label = task.label
    scored = label is None or label.kind == "score" or label.range is not None
    if label == Label(column=task.label_columns) and len(columns) == 1:  # the recipe says nothing of it
        scored = guess_kind(columns[0], pair=len(task.text) == 2) == "score"
    if scored:
        return [""] * len(rows)
    return ["|".join(values) for values in zip(*columns, strict=True)]


def fewer_rows(examples: Examples, task: Task, split: str, seed: str) -> Examples:
    """At most as many rows as the task says, drawn by the seed, in their old order."""
    rows = task.rows if split == "train" else task.dev_rows
    if rows is None or rows >= len(examples):
        return examples
    place = "rows" if split == "train" else f"rows/{split}"
    return examples.chosen(sorted(random.Random(f"{seed}/{place}").sample(range(len(examples)), rows)))
