"""One fold of a task's training data held out as its test data."""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from plait.data.examples import Examples
from plait.data.folds import components, k_folds, split_off
from plait.data.labels import Kind, Labels
from plait.data.splits import fewer_rows
from plait.errors import DataError
from plait.recipe.schema import SPLITS, Task

__all__ = ["HeldOut", "hold_out", "strata"]

BINS = 5  # parts of the scores, with as many rows each, of which every fold gets its share


@dataclass(frozen=True)
class HeldOut:
    """The examples of every split, and the sizes of groups that share texts and were too large for a fold."""

    splits: dict[str, Examples]
    broken: list[int]  # the largest first

    def notes(self, labels: Labels) -> list[str]:
        """What to tell a user of them, and the classes that training never sees."""
        told = []
        if len(self.broken) == 1:
            told.append(f"1 group of {self.broken[0]:,} rows that share texts is larger than a fold and was split")
        elif self.broken:
            groups = f"{len(self.broken):,} groups of up to {self.broken[0]:,} rows that share texts"
            told.append(f"{groups} are larger than a fold and were split")
        if labels.kind in ("classes", "yes_no"):
            known = set(self.splits["train"].labels.tolist())
            for split in ("dev", "test"):
                unseen = set(self.splits[split].labels.tolist()) - known if split in self.splits else set()
                told += [f"the class {labels.names[n]!r} is in {split} and not in train" for n in sorted(unseen)]
        return told


def hold_out(splits: Mapping[str, Examples], task: Task, kind: Kind, fold: str, seed: str) -> HeldOut:
    """Cut the training examples to `rows`, part them into folds, and make the one of this number the test data.

    The folds do not depend on the number. A share in `dev` is split off the other folds, from rows that share no text,
    directly or over others, with the test data.
    """
    number, count = map(int, fold.split("/"))
    every = fewer_rows(splits["train"], task, "train", seed)
    labels = strata(every.labels, kind)
    folds = k_folds(every.texts, labels, count, f"{seed}/folds")
    test = folds.parts[number - 1]
    if not test or len(test) == len(every):
        raise DataError(f"fold: {len(every):,} training rows cannot be parted into {count} folds; give more rows")
    held = set(test)
    rest = [row for row in range(len(every)) if row not in held]
    dev: list[int] = []
    if (share := task.share("dev")) is not None:
        free = rest
        if folds.broken:
            groups = components(every.texts)
            free = sorted(row for group in groups if held.isdisjoint(group) for row in group)
        texts = [[column[row] for row in free] for column in every.texts]
        wanted = min(1.0, share * len(rest) / max(1, len(free)))
        chosen, _ = split_off(texts, [labels[row] for row in free], [wanted], f"{seed}/split")
        dev = [free[row] for row in chosen]
        if not dev:
            raise DataError(
                f"dev: {share} of {len(rest):,} training rows cannot be split off without a text on both sides; "
                "give dev a file of its own, or a larger share"
            )
    apart = held | set(dev)
    train = [row for row in rest if row not in apart]
    own = {"train": every.chosen(train), "test": every.chosen(test)} | ({"dev": every.chosen(dev)} if dev else {})
    found = {**splits, **own}
    return HeldOut({split: found[split] for split in SPLITS if split in found}, folds.broken)


def strata(labels: np.ndarray, kind: Kind) -> list[str]:
    """What every fold gets its share of: a row's class, of several the rarest, or the fifth that its score is in."""
    if kind in ("triplets", "unlabelled"):
        return [""] * len(labels)
    if kind == "score":
        ends = np.quantile(labels, np.arange(1, BINS) / BINS)
        return [str(place) for place in np.searchsorted(ends, labels, side="right").tolist()]
    if kind == "several":
        counts = labels.sum(axis=0)
        held = [np.flatnonzero(row).tolist() for row in labels]
        return [str(min(found, key=lambda place: (counts[place], place), default="")) for found in held]
    return [str(label) for label in labels.tolist()]
