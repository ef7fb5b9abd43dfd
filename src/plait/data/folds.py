"""One fold of a task's training data, held out as its test data."""

from collections.abc import Mapping
from dataclasses import dataclass

from plait.data.examples import Examples
from plait.data.kinds import KINDS, Kind
from plait.data.labels import Labels
from plait.data.partition import components, k_folds, split_off
from plait.data.splits import limit_rows
from plait.errors import DataError
from plait.recipe.task import SPLITS, Task

__all__ = ["HeldOut", "hold_out_fold"]


@dataclass(frozen=True)
class HeldOut:
    """The examples of every split, and the sizes of groups of rows with shared texts that were too large for a fold."""

    splits: dict[str, Examples]
    broken: list[int]  # largest first

    def notes(self, labels: Labels) -> list[str]:
        """What a user should know about them, including classes that training never sees."""
        notes = []
        if len(self.broken) == 1:
            notes.append(f"1 group of {self.broken[0]:,} rows with shared texts is larger than a fold and was split")
        elif self.broken:
            groups = f"{len(self.broken):,} groups of up to {self.broken[0]:,} rows with shared texts"
            notes.append(f"{groups} are larger than a fold and were split")
        if labels.about.one_class:
            known = set(self.splits["train"].labels.tolist())
            for split in ("dev", "test"):
                unseen = set(self.splits[split].labels.tolist()) - known if split in self.splits else set()
                notes += [f"the class {labels.names[n]!r} occurs in {split} but not in train" for n in sorted(unseen)]
        return notes


def hold_out_fold(splits: Mapping[str, Examples], task: Task, kind: Kind, fold: str, seed: str) -> HeldOut:
    """Limit the training examples to `rows`, divide them into folds, and make one fold the test data.

    The folds do not depend on which one is held out. A share in `dev` is split off the other folds, from rows that
    share no text with the test data, directly or through other rows.
    """
    number, count = map(int, fold.split("/"))
    every = limit_rows(splits["train"], task, kind, "train", seed)
    labels = KINDS[kind].strata(every.labels)
    folds = k_folds(every.texts, labels, count, f"{seed}/folds")
    test = folds.parts[number - 1]
    if not test or len(test) == len(every):
        raise DataError(f"fold: {len(every):,} training rows cannot be divided into {count} folds; give more rows")
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
                f"dev: {share} of {len(rest):,} training rows cannot be split off without the same text on both sides; "
                "give dev a file of its own, or a larger share"
            )
    apart = held | set(dev)
    train = [row for row in rest if row not in apart]
    own = {"train": every.chosen(train), "test": every.chosen(test)} | ({"dev": every.chosen(dev)} if dev else {})
    found = {**splits, **own}
    return HeldOut({split: found[split] for split in SPLITS if split in found}, folds.broken)
