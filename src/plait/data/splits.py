"""The rows of each split of a task: from its own files, or split off the training data."""

import random
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial

from plait.data.derive import DERIVATIONS
from plait.data.examples import Examples
from plait.data.kinds import KINDS, Kind
from plait.data.labels import YES, class_of, listed
from plait.data.partition import split_off, stratified_sample
from plait.data.read import Rows, read_rows, row_mistakes
from plait.errors import DataError
from plait.recipe.task import SPLITS, Task

__all__ = ["cut_train", "divide", "divide_dev", "draw_seed", "limit_rows", "read_splits"]


def read_splits(task: Task, splits: Sequence[str] = SPLITS, fold: str | None = None) -> dict[str, Rows]:
    """The rows of these splits; those of a share or a fold are still in train.

    Raises one DataError with every source that cannot be read.
    """
    rows: dict[str, Rows] = {}
    mistakes: list[str] = []
    for split in dict.fromkeys(task.key(split, fold) for split in splits):
        try:
            rows[split] = read_rows(
                task.sources(split),
                [*task.text, *task.label_columns],
                lists=task.label_columns,
                quoting=task.quoting,
                encoding=task.encoding,
                split=split,
            )
        except DataError as error:
            mistakes += error.mistakes
    if mistakes:
        raise DataError(*mistakes, *row_mistakes([row for part in rows.values() for row in part.bad]))
    return rows


def divide(rows: Mapping[str, Rows], task: Task, kind: Kind, seed: str, fold: str | None = None) -> dict[str, Rows]:
    """The rows of every split, with shares split off train; bad rows stay with the training rows.

    `kind` is the resolved kind of label, not what the recipe spells out: a run, its resumption and its evaluation must
    find the same rows. With a fold nothing is split off yet: the fold is held out once the examples are known.
    """
    found = dict(rows)
    shared = [split for split in SPLITS if task.share(split) is not None]
    if shared and "train" in rows and not fold:
        train = rows["train"]
        texts = [train.columns[column] for column in task.text]
        shares = [task.share(split) or 0.0 for split in shared]
        parts = split_off(texts, _row_strata(train, task, kind), shares, f"{seed}/split")
        for split, part in zip(shared, parts, strict=False):
            if not part:
                raise DataError(
                    f"{split}: {task.share(split)} of {len(train.origins):,} training rows cannot be split off without "
                    f"the same text on both sides; give {split} a file of its own, or a larger share"
                )
        found |= {split: train.chosen(part) for split, part in zip([*shared, "train"], parts, strict=True)}
        found["train"] = replace(found["train"], bad=train.bad)
        found = {split: found[split] for split in SPLITS if split in found}
    if task.derive:
        derive = partial(DERIVATIONS[task.derive.name], **task.derive.options)
        found = {split: derive(part, task.text, task.label_columns[0]) for split, part in found.items()}
    return found


def _row_strata(rows: Rows, task: Task, kind: Kind) -> list[str]:
    """What every part gets its share of: the class of a row, or its rarest; scores and triplets are not stratified."""
    about = KINDS[kind]
    if not about.has_classes:
        return [""] * len(rows.origins)
    columns = [rows.columns[column] for column in task.label_columns]
    if not about.multilabel:
        return [class_of(value) for value in columns[0]]
    if len(columns) > 1:
        held = [
            [name for name, value in zip(task.label_columns, values, strict=True) if value.strip().lower() in YES]
            for values in zip(*columns, strict=True)
        ]
    else:
        separator = task.label.separator if task.label else None
        held = [listed(value, separator) or [] for value in columns[0]]
    counts = Counter(label for labels in held for label in labels)
    return [min(labels, key=lambda label: (counts[label], label), default="") for labels in held]


def limit_rows(examples: Examples, task: Task, kind: Kind, split: str, seed: str) -> Examples:
    """At most as many rows as the task allows, in their original order. Training rows are drawn by the seed.

    Dev and test rows are the same for every seed, so that all models are scored on the same rows. If a random draw
    would miss a class, the classes are drawn in proportion.
    """
    rows = task.rows if split == "train" else task.dev_rows
    if rows is None or rows >= len(examples):
        return examples
    drawn_by = f"{seed}/rows" if split == "train" else f"rows/{split}"
    drawn = sorted(random.Random(drawn_by).sample(range(len(examples)), rows))
    strata = KINDS[kind].strata(examples.labels)
    if len({strata[row] for row in drawn}) < len(set(strata)):
        drawn = stratified_sample(strata, rows, drawn_by)
    return examples.chosen(drawn)


def draw_seed(task: str, seed: int, draw: int | None) -> str:
    """What draws `train_rows` of a task: the seed of the run, unless the recipe names a draw."""
    return f"{seed}/{task}" if draw is None else f"draw {draw}/{task}"


def cut_train(examples: Examples, task: Task, kind: Kind, seed: str) -> Examples:
    """At most `train_rows` of the examples that are left for training, in their original order."""
    if task.train_rows is None or task.train_rows >= len(examples):
        return examples
    strata = KINDS[kind].strata(examples.labels)
    return examples.chosen(stratified_sample(strata, task.train_rows, f"{seed}/train_rows"))


def divide_dev(examples: Examples, task: Task, kind: Kind) -> tuple[Examples | None, Examples]:
    """The dev rows that choose the best model, if some are set apart for that, and those that are scored.

    The rows do not depend on the seed, so that all models are scored on the same ones.
    """
    if task.choose_rows is None:
        return None, examples
    if task.choose_rows >= len(examples):
        raise DataError(
            f"{task.choose_rows:,} of {len(examples):,} dev rows choose the best model, which leaves none to score; "
            "give a smaller number"
        )
    chosen = stratified_sample(KINDS[kind].strata(examples.labels), task.choose_rows, "choose")
    others = sorted(set(range(len(examples))).difference(chosen))
    return examples.chosen(chosen), examples.chosen(others)
