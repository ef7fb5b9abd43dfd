"""Texts that occur both in train and in dev, with contradictory labels, or in two tasks."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations

from plait.data.examples import Examples
from plait.data.partition import normal_form

__all__ = ["Between", "Overlaps", "Within", "count_overlaps"]


@dataclass(frozen=True)
class Within:
    """What the splits of one task share."""

    task: str
    contradictory: int  # training inputs that occur with different labels
    rows: dict[str, int]  # by split: rows whose entire input is in train
    texts: dict[str, int]  # by split: rows with a text that is in train


@dataclass(frozen=True)
class Between:
    """What two tasks share."""

    tasks: tuple[str, str]
    texts: int  # distinct texts that are in both
    held_out: int  # of those, the ones that one task trains on and the other holds out


@dataclass(frozen=True)
class Overlaps:
    """Everything that is shared. None of it is a mistake, but all of it can make scores optimistic."""

    within: list[Within]
    between: list[Between]

    def sentences(self) -> list[str]:
        """One sentence per finding."""
        found = []
        for task in self.within:
            for split, rows in task.rows.items():
                if rows:
                    found.append(f"{task.task}: {rows:,} {split} rows also occur in train; scores are optimistic")
            for split, rows in task.texts.items():
                if rows > task.rows[split]:
                    found.append(f"{task.task}: {rows:,} {split} rows share a text with train")
            if task.contradictory:
                found.append(f"{task.task}: {task.contradictory:,} training inputs have contradictory labels")
        for pair in self.between:
            held = f", {pair.held_out:,} of which one trains on and the other holds out" if pair.held_out else ""
            found.append(f"{' and '.join(pair.tasks)} share {pair.texts:,} texts{held}")
        return found


def count_overlaps(tasks: Mapping[str, Mapping[str, Examples]], symmetric: Mapping[str, bool]) -> Overlaps:
    """Count what all splits of all tasks share; in a symmetric task the order of two texts does not matter."""
    texts = {
        task: {split: {normal_form(text) for column in part.texts for text in column} for split, part in splits.items()}
        for task, splits in tasks.items()
    }
    within = [_count_within(task, splits, texts[task], symmetric[task]) for task, splits in tasks.items()]
    train = {task: splits["train"] for task, splits in texts.items()}
    held = {
        task: set().union(*(found for split, found in splits.items() if split != "train"))
        for task, splits in texts.items()
    }
    between = []
    for first, second in combinations(tasks, 2):
        if shared := (train[first] | held[first]) & (train[second] | held[second]):
            held_out = (train[first] & held[second]) | (train[second] & held[first])
            between.append(Between((first, second), len(shared), len(held_out)))
    return Overlaps(within, between)


def _count_within(task: str, splits: Mapping[str, Examples], texts: Mapping[str, set[str]], symmetric: bool) -> Within:
    train = splits["train"]
    labels: dict[tuple[str, ...], set[object]] = {}
    for key, label in zip(_inputs(train.texts, symmetric), train.labels.tolist(), strict=True):
        labels.setdefault(key, set()).add(tuple(label) if isinstance(label, list) else label)
    others = {split: part for split, part in splits.items() if split != "train"}
    return Within(
        task,
        sum(len(found) > 1 for found in labels.values()),
        {split: sum(key in labels for key in _inputs(part.texts, symmetric)) for split, part in others.items()},
        {
            split: sum(any(text in texts["train"] for text in key) for key in _inputs(part.texts, symmetric))
            for split, part in others.items()
        },
    )


def _inputs(texts: Sequence[Sequence[str]], symmetric: bool) -> list[tuple[str, ...]]:
    """The normalized texts of each row."""
    rows = [tuple(normal_form(text) for text in row) for row in zip(*texts, strict=True)]
    return [tuple(sorted(row)) for row in rows] if symmetric else rows
