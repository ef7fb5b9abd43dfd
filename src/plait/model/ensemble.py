"""Several models of the same tasks that act as one; `model/encode_texts.py` averages their predictions."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from plait.data.labels import Labels
from plait.model.model import Model
from plait.model.tasks import TaskSpec

__all__ = ["Ensemble", "common_tasks", "task_differences"]


@dataclass(frozen=True)
class Ensemble:
    """Models of the same tasks."""

    members: tuple[Model, ...]

    @property
    def tasks(self) -> Mapping[str, TaskSpec]:
        return common_tasks([member.tasks for member in self.members])

    def limit(self, task: str | None = None) -> int:
        """The tokens to which inputs are truncated; the members' smallest limit."""
        return min(member.limit(task) for member in self.members)


def common_tasks(members: Sequence[Mapping[str, TaskSpec]]) -> dict[str, TaskSpec]:
    """The first member's tasks with the members' mean threshold and abstention, and their smallest limit."""
    return {
        name: replace(
            spec,
            threshold=float(np.mean([member[name].threshold for member in members])),
            max_length=min(member[name].max_length for member in members),
            temperature=1.0,  # each member has its own
            abstain_below=_mean_abstention([member[name] for member in members]),
        )
        for name, spec in members[0].items()
    }


def _mean_abstention(specs: Sequence[TaskSpec]) -> float | None:
    """The mean of the probabilities below which the members abstain; None if one of them never does."""
    given = [spec.abstain_below for spec in specs if spec.abstain_below is not None]
    return float(np.mean(given)) if len(given) == len(specs) else None


def task_differences(names: Sequence[str], members: Sequence[Mapping[str, TaskSpec]]) -> list[str]:
    """Where other members differ from the first: in their tasks, the labels, or the texts that a task reads."""
    first, mistakes = members[0], []
    for name, member in zip(names[1:], members[1:], strict=True):
        mistakes += [f"{name}: has no task {task!r}, {names[0]} has one" for task in first if task not in member]
        mistakes += [f"{name}: has a task {task!r}, {names[0]} has none" for task in member if task not in first]
        for task in first:
            if task not in member:
                continue
            one, other = first[task], member[task]
            if one.labels != other.labels:
                shown = f"{_describe(other.labels)}; in {names[0]} {_describe(one.labels)}"
                mistakes.append(f"{name}: the labels of {task!r} are {shown}")
            if one.text != other.text:
                shown = f"{', '.join(other.text)}; in {names[0]} {', '.join(one.text)}"
                mistakes.append(f"{name}: the text columns of {task!r} are {shown}")
    return mistakes


def _describe(labels: Labels) -> str:
    """Everything that distinguishes one set of labels from another."""
    mapped = ", ".join(f"{word} → {new}" for word, new in labels.map.items())
    kind = f"{labels.kind}, mapped {mapped}" if mapped else labels.kind
    if not labels.about.has_classes:
        return f"{kind} ({labels.describe()})"
    shown = ", ".join(
        word if word == name else f"{word}: {name}" for word, name in zip(labels.classes, labels.names, strict=True)
    )
    return f"{kind} ({shown})"
