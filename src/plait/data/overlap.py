"""Texts that stand where they should not: in train and dev, with two labels, or in two tasks."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations

from plait.data.examples import Examples
from plait.data.folds import normal_form

__all__ = ["Between", "Overlaps", "Within", "count_overlaps"]


@dataclass(frozen=True)
class Within:
    """What one task shares between its own splits."""

    task: str
    contradictory: int  # inputs of train that stand there with different labels
    rows: dict[str, int]  # by split: rows whose whole input is in train
    texts: dict[str, int]  # by split: rows with a text that is in train


@dataclass(frozen=True)
class Between:
    """What two tasks share."""

    tasks: tuple[str, str]
    texts: int  # distinct texts that both have
    held_out: int  # of those, the ones that one task trains on and the other holds out


@dataclass(frozen=True)
class Overlaps:
    """Everything that is shared; nothing in it is a mistake, all of it can flatter a score."""

    within: list[Within]
    between: list[Between]

    def sentences(self) -> list[str]:
        """What to tell a user, one line a finding; none where nothing is shared."""
        told = []
        for task in self.within:
            for split, rows in task.rows.items():
                if rows:
                    told.append(f"{task.task}: {rows:,} {split} rows stand in train as well; their score flatters")
            for split, rows in task.texts.items():
                if rows > task.rows[split]:
                    told.append(f"{task.task}: {rows:,} {split} rows have a text that train has too")
            if task.contradictory:
                told.append(f"{task.task}: {task.contradictory:,} training inputs have contradictory labels")
        for pair in self.between:
            held = f", {pair.held_out:,} of them trained on by one and held out by the other" if pair.held_out else ""
            told.append(f"{' and '.join(pair.tasks)} share {pair.texts:,} texts{held}")
        return told


def count_overlaps(tasks: Mapping[str, Mapping[str, Examples]], symmetric: Mapping[str, bool]) -> Overlaps:
    """Count them in all splits of all tasks; in a symmetric task the order of two texts does not matter."""
    texts = {
        task: {split: {normal_form(text) for column in part.texts for text in column} for split, part in splits.items()}
        for task, splits in tasks.items()
    }
    within = [count_within(task, splits, texts[task], symmetric[task]) for task, splits in tasks.items()]
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


def count_within(task: str, splits: Mapping[str, Examples], texts: Mapping[str, set[str]], symmetric: bool) -> Within:
    """The counts of one task."""
    train = splits["train"]
    labels: dict[tuple[str, ...], set[object]] = {}
    for key, label in zip(inputs(train.texts, symmetric), train.labels.tolist(), strict=True):
        labels.setdefault(key, set()).add(tuple(label) if isinstance(label, list) else label)
    others = {split: part for split, part in splits.items() if split != "train"}
    return Within(
        task,
        sum(len(found) > 1 for found in labels.values()),
        {split: sum(key in labels for key in inputs(part.texts, symmetric)) for split, part in others.items()},
        {
            split: sum(any(text in texts["train"] for text in key) for key in inputs(part.texts, symmetric))
            for split, part in others.items()
        },
    )


def inputs(texts: Sequence[Sequence[str]], symmetric: bool) -> list[tuple[str, ...]]:
    """The whole input of each row, in a form that does not depend on case and white space."""
    rows = [tuple(normal_form(text) for text in row) for row in zip(*texts, strict=True)]
    return [tuple(sorted(row)) for row in rows] if symmetric else rows
