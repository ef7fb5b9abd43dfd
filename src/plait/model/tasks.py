"""What a model knows of each of its tasks: enough to read data for it, to predict and to explain the prediction."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from torch import nn

from plait.data.batch import VIEWS
from plait.data.labels import Labels
from plait.errors import did_you_mean
from plait.heads import HEADS, Size

__all__ = ["TaskSpec", "build_head", "files_of_tasks", "spec_from_json", "spec_to_json"]


@dataclass(frozen=True)
class TaskSpec:
    """A task without its data and its losses."""

    name: str
    text: tuple[str, ...]  # columns
    label: tuple[str, ...]  # columns; none of triplets
    quoting: str | None
    labels: Labels
    head: str  # "" of a task that only trains the encoder; no model has such a task
    head_options: dict[str, Any]
    link: str  # from outputs to predictions, a name in decode.LINKS; "" without a head, like the metric
    metric: str
    threshold: float  # the probability from which a yes/no task says yes, and from which one of several labels holds
    max_length: int

    @property
    def reads(self) -> str:
        """How the head reads the texts."""
        return HEADS[self.head].reads

    @property
    def symmetric(self) -> bool:
        """Whether the order of two texts can never matter to the head."""
        return HEADS[self.head].symmetric

    @property
    def views(self) -> tuple[str, ...]:
        """The inputs of the encoder that the head needs."""
        return VIEWS[self.reads]


def build_head(spec: TaskSpec, width: int, dropout: float) -> nn.Module:
    """A new head for a task; one that gives scores begins in the middle of their range, not at 0."""
    top = spec.labels.high if spec.labels.kind == "score" else 1.0
    head = HEADS[spec.head](Size(width, spec.labels.outputs, top, dropout), **spec.head_options)
    if head.output_layer and spec.link == "identity":
        nn.init.constant_(head.get_submodule(head.output_layer).bias, (spec.labels.low + spec.labels.high) / 2)  # type: ignore[arg-type]
    return head


def spec_to_json(spec: TaskSpec) -> dict[str, Any]:
    """The task as plait.json holds it."""
    return asdict(spec)


def spec_from_json(value: Mapping[str, Any]) -> TaskSpec:
    """The task that plait.json holds."""
    given = value["labels"]
    labels = Labels(**{**given, "classes": tuple(given["classes"]), "names": tuple(given["names"])})
    label = value["label"]  # one column was a plain text once
    columns = (label,) if isinstance(label, str) else tuple(label)
    return TaskSpec(**{**value, "labels": labels, "text": tuple(value["text"]), "label": columns})


def files_of_tasks(
    option: str, assignments: Sequence[str], tasks: Mapping[str, TaskSpec]
) -> tuple[list[tuple[str, str]], list[str]]:
    """The task and the file of each TASK=FILE of the command line, and what is wrong with the others."""
    found: list[tuple[str, str]] = []
    mistakes: list[str] = []
    for assignment in assignments:
        task, equals, name = assignment.partition("=")
        if not equals:
            mistakes.append(f"{option} {assignment}: expected TASK=FILE")
        elif task not in tasks:
            hint = did_you_mean(task, tasks) if tasks else "it is a plain encoder, which only embeds"
            mistakes.append(f"{option} {assignment}: the model has no task {task!r}; {hint}")
        elif not name.startswith("hub:") and not Path(name).is_file():
            mistakes.append(f"{option} {assignment}: no such file")
        else:
            found.append((task, name))
    return found, mistakes
