"""What a model knows of each of its tasks: enough to read data for it, to predict and to explain the prediction."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

from torch import nn

from plait.data.batch import VIEWS
from plait.data.labels import Labels
from plait.heads import HEADS, Size

__all__ = ["TaskSpec", "build_head", "spec_from_json", "spec_to_json"]


@dataclass(frozen=True)
class TaskSpec:
    """A task without its data and its losses."""

    name: str
    text: tuple[str, ...]  # columns
    label: str  # column
    quoting: str | None
    labels: Labels
    head: str
    head_options: dict[str, Any]
    link: str  # from outputs to predictions: softmax, sigmoid, one_vs_rest, identity or scaled_sigmoid
    metric: str
    threshold: float  # the probability from which a yes/no task says yes
    max_length: int

    @property
    def reads(self) -> str:
        """How the head reads the texts."""
        return HEADS[self.head].reads

    @property
    def views(self) -> tuple[str, ...]:
        """The inputs of the encoder that the head needs."""
        return VIEWS[self.reads]


def build_head(spec: TaskSpec, width: int, dropout: float) -> nn.Module:
    """A new head for a task."""
    top = spec.labels.high if spec.labels.kind == "score" else 1.0
    return HEADS[spec.head](Size(width, spec.labels.outputs, top, dropout), **spec.head_options)


def spec_to_json(spec: TaskSpec) -> dict[str, Any]:
    """The task as plait.json holds it."""
    return asdict(spec)


def spec_from_json(value: Mapping[str, Any]) -> TaskSpec:
    """The task that plait.json holds."""
    given = value["labels"]
    labels = Labels(given["kind"], tuple(given["classes"]), tuple(given["names"]), given["low"], given["high"])
    return TaskSpec(**{**value, "labels": labels, "text": tuple(value["text"])})
