"""Several models that answer as one: the mean of what they say.

n examples, M members, D width.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from plait.data.labels import Labels
from plait.model.apply import Advance, cut_inputs, embed_texts, task_outputs
from plait.model.decode import Decoded, decode
from plait.model.model import Model
from plait.model.tasks import TaskSpec

__all__ = [
    "AnyModel",
    "Ensemble",
    "answer",
    "combine",
    "count_cut",
    "embed",
    "is_symmetric",
    "limit_of",
    "member_tasks",
    "task_differences",
    "width_of",
]


@dataclass(frozen=True)
class Ensemble:
    """Models of the same tasks."""

    members: tuple[Model, ...]

    @property
    def tasks(self) -> Mapping[str, TaskSpec]:
        """The tasks as the members have them in common."""
        return member_tasks([member.tasks for member in self.members])


AnyModel = Model | Ensemble


def member_tasks(members: Sequence[Mapping[str, TaskSpec]]) -> dict[str, TaskSpec]:
    """The first member's tasks; the threshold is the mean of the members', the limit that of the shortest."""
    return {
        name: replace(
            spec,
            threshold=float(np.mean([member[name].threshold for member in members])),
            max_length=min(member[name].max_length for member in members),
        )
        for name, spec in members[0].items()
    }


def task_differences(names: Sequence[str], members: Sequence[Mapping[str, TaskSpec]]) -> list[str]:
    """Where the others differ from the first in their tasks, the labels of those, or the texts that they read."""
    first, mistakes = members[0], []
    for name, member in zip(names[1:], members[1:], strict=True):
        mistakes += [f"{name}: has no task {task!r}, {names[0]} has" for task in first if task not in member]
        mistakes += [f"{name}: has a task {task!r}, {names[0]} has none" for task in member if task not in first]
        for task in first:
            if task not in member:
                continue
            one, other = first[task], member[task]
            if one.labels != other.labels:
                said = f"{describe(other.labels)}; in {names[0]} {describe(one.labels)}"
                mistakes.append(f"{name}: the labels of {task!r} are {said}")
            if one.text != other.text:
                said = f"{', '.join(other.text)}; in {names[0]} {', '.join(one.text)}"
                mistakes.append(f"{name}: the texts of {task!r} are {said}")
    return mistakes


def describe(labels: Labels) -> str:
    """All that tells one set of labels from another."""
    if labels.kind in ("score", "triplets"):
        return f"{labels.kind} ({labels.describe()})"
    shown = ", ".join(
        word if word == name else f"{word}: {name}" for word, name in zip(labels.classes, labels.names, strict=True)
    )
    return f"{labels.kind} ({shown})"


def answer(model: AnyModel, task: str, texts: Sequence[Sequence[str]], *, progress: Advance | None = None) -> Decoded:
    """The predictions of a model, or the mean of an ensemble's, for one, two or three columns of text."""
    if isinstance(model, Model):
        return decode(task_outputs(model, task, texts, progress=progress), model.tasks[task])
    told = [progress, *[None] * (len(model.members) - 1)]  # the first member stands for all
    decoded = [
        decode(task_outputs(member, task, texts, progress=tell), member.tasks[task])
        for member, tell in zip(model.members, told, strict=True)
    ]
    return combine(decoded, model.tasks[task])


def combine(decoded: Sequence[Decoded], spec: TaskSpec) -> Decoded:
    """The mean probability of each class and what follows from it, or the mean score."""
    if spec.labels.kind == "score":
        return Decoded(np.mean([part.values for part in decoded], axis=0), None)
    given = [part.probabilities for part in decoded if part.probabilities is not None]
    assert len(given) == len(decoded), "all but scores have probabilities"
    shares: np.ndarray = np.mean(given, axis=0)
    if spec.labels.kind == "classes":
        return Decoded(shares.argmax(axis=1), shares)
    likely = shares if spec.labels.kind == "several" else shares[:, 1]
    return Decoded((likely >= spec.threshold).astype(np.int64), shares)


def embed(model: AnyModel, texts: Sequence[str], *, progress: Advance | None = None) -> Tensor:
    """Embeddings (n, D); of an ensemble the members' unit vectors side by side, divided by √M: unit vectors again.

    So the cosine of two texts is the mean of the members' cosines.
    """
    if isinstance(model, Model):
        return embed_texts(model, texts, progress=progress)
    told = [progress, *[None] * (len(model.members) - 1)]
    units = [
        F.normalize(embed_texts(member, texts, progress=tell), dim=-1)
        for member, tell in zip(model.members, told, strict=True)
    ]
    return torch.cat(units, dim=-1) / math.sqrt(len(units))


def count_cut(model: AnyModel, texts: Sequence[Sequence[str]], task: str | None) -> tuple[int, int]:
    """How many inputs of the encoder the texts make, for a task or for embeddings, and how many are cut.

    Of an ensemble, as many as the member that cuts most.
    """
    members = (model,) if isinstance(model, Model) else model.members
    counts = [
        cut_inputs(member, texts, member.tasks[task].views if task else ("first",), limit_of(member, task))
        for member in members
    ]
    return max(counts, key=lambda count: count[1])


def limit_of(model: AnyModel, task: str | None) -> int:
    """The tokens at which inputs are cut, for a task or for embeddings; of an ensemble the shortest."""
    members = (model,) if isinstance(model, Model) else model.members
    return min(member.tasks[task].max_length if task else member.text.limit for member in members)


def width_of(model: AnyModel) -> int:
    """The dimensions of an embedding."""
    members = (model,) if isinstance(model, Model) else model.members
    return sum(member.encoder.config.width for member in members)


def is_symmetric(model: AnyModel, task: str) -> bool:
    """Whether the order of two texts can never matter to the head, or to those of all members."""
    members = (model,) if isinstance(model, Model) else model.members
    return all(member.tasks[task].symmetric for member in members)
