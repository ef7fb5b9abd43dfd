"""Texts that occur both in train and in dev, with contradictory labels, or in two tasks."""

from collections.abc import Mapping
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
    within = []
    train: dict[str, set[str]] = {}  # task → the texts it trains on
    held: dict[str, set[str]] = {}  # task → the texts of its other splits
    for task, splits in tasks.items():
        inputs = {
            split: [tuple(normal_form(text) for text in row) for row in zip(*part.texts, strict=True)]
            for split, part in splits.items()
        }
        if symmetric[task]:
            inputs = {split: [tuple(sorted(row)) for row in rows] for split, rows in inputs.items()}
        labels: dict[tuple[str, ...], set[object]] = {}
        for row, label in zip(inputs["train"], splits["train"].labels.tolist(), strict=True):
            labels.setdefault(row, set()).add(tuple(label) if isinstance(label, list) else label)
        train[task] = {text for row in inputs.pop("train") for text in row}
        held[task] = {text for rows in inputs.values() for row in rows for text in row}
        within.append(
            Within(
                task,
                sum(len(found) > 1 for found in labels.values()),
                {split: sum(row in labels for row in rows) for split, rows in inputs.items()},
                {split: sum(not train[task].isdisjoint(row) for row in rows) for split, rows in inputs.items()},
            )
        )
    between = []
    for first, second in combinations(tasks, 2):
        if shared := (train[first] | held[first]) & (train[second] | held[second]):
            held_out = (train[first] & held[second]) | (train[second] & held[first])
            between.append(Between((first, second), len(shared), len(held_out)))
    return Overlaps(within, between)
