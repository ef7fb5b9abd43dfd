"""What a model knows about each of its tasks: enough to read data for it, to predict and to explain the prediction."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from torch import nn

from plait.data.batch import READS, VIEWS
from plait.data.labels import Labels
from plait.errors import ModelError, did_you_mean
from plait.heads import HEADS, Head, Size
from plait.recipe.options import complete_options
from plait.recipe.upgrade import FORMER_KINDS
from plait.registry import Package, split_version

__all__ = ["THRESHOLD", "TaskSpec", "build_head", "head_size", "parse_task_files"]


THRESHOLD = 0.5  # of a task that was not calibrated


@dataclass(frozen=True)
class TaskSpec:
    """A task without its data and losses."""

    name: str
    text: tuple[str, ...]  # columns
    label: tuple[str, ...]  # columns; none for triplets
    quoting: str | None
    labels: Labels
    head: str  # with its version; "" for a task that only trains the encoder, which no model has
    head_options: dict[str, Any]
    link: str  # from outputs to predictions, a name in decode.LINKS; "" without a head, like the metric
    metric: str
    threshold: float  # the probability from which a yes/no task says yes, and a multilabel task assigns a label
    max_length: int
    same_as: str | None = None  # the task whose head it uses, weights included
    temperature: float = 1.0  # by which outputs are divided before they become probabilities
    abstain_below: float | None = None  # a label with a lower probability is withheld, unless a user asks otherwise

    @property
    def is_calibrated(self) -> bool:
        """Whether it has a temperature or an abstention, which an older plait does not know."""
        return (self.temperature, self.abstain_below) != (1.0, None)

    def uncalibrated(self) -> "TaskSpec":
        """The task as it was trained."""
        return replace(self, temperature=1.0, threshold=THRESHOLD, abstain_below=None)

    def calibrated_like(self, other: "TaskSpec") -> "TaskSpec":
        """The task with what was fitted for another model of it."""
        return replace(
            self, temperature=other.temperature, threshold=other.threshold, abstain_below=other.abstain_below
        )

    @property
    def kind(self) -> str:
        """The kind of label."""
        return self.labels.kind

    @property
    def head_task(self) -> str:
        """The task that the head belongs to: another one if the head is shared."""
        return self.same_as or self.name

    @property
    def head_class(self) -> type[Head]:
        return HEADS[self.head]

    @property
    def head_name(self) -> str:
        """The head without its version."""
        return split_version(self.head)[0]

    @property
    def head_words(self) -> str:
        """The head for people: its name, and the task that it belongs to if that is another."""
        return f"{self.head_name} of {self.same_as}" if self.same_as else self.head_name

    @property
    def views(self) -> tuple[str, ...]:
        """The inputs of the encoder that the head needs."""
        return VIEWS[self.head_class.reads]

    def to_json(self) -> dict[str, Any]:
        """As plait.json holds it; keys that were added later appear only if they say something."""
        keys = asdict(self)
        for key, nothing in (("same_as", None), ("temperature", 1.0), ("abstain_below", None)):
            if keys[key] == nothing:
                del keys[key]
        if not self.labels.map:
            del keys["labels"]["map"]
        return keys

    @staticmethod
    def from_json(value: Mapping[str, Any], packages: Mapping[str, Package] | None = None) -> "TaskSpec":
        """A task from plait.json; `packages` maps heads that are not plait's own to the packages they come from."""
        given = value["labels"]
        labels = Labels(
            **{
                **given,
                "kind": FORMER_KINDS.get(given["kind"], given["kind"]),
                "classes": tuple(given["classes"]),
                "names": tuple(given["names"]),
            }
        )
        label = value["label"]  # a single column used to be a string
        columns = (label,) if isinstance(label, str) else tuple(label)
        name, version = split_version(value["head"])
        head = f"{name}.v{version or 1}"  # names used to be saved without a version
        if head not in HEADS:
            raise ModelError(f"task {value['name']!r}: {_missing_head(head, (packages or {}).get(head))}")
        options, mistakes = complete_options(HEADS[head], value["head_options"])  # some may have been added since
        if mistakes:
            raise ModelError(*(f"task {value['name']!r}: head {name}{mistake}" for mistake in mistakes))
        texts = tuple(value["text"])
        if (needed := READS[HEADS[head].reads]) != len(texts) and labels.kind != "triplets":  # which may be derived
            raise ModelError(
                f"task {value['name']!r}: the head {head!r} reads {needed} texts, the task has {len(texts)}"
            )
        known = {"labels": labels, "text": texts, "label": columns, "head": head, "head_options": options}
        return TaskSpec(**{**value, **known})


def _missing_head(head: str, package: Package | None) -> str:
    if package is None:
        return f"{HEADS.unknown(head)} The model may need a newer plait."
    install = f"{package.name}=={package.version}" if package.version else package.name
    return (
        f"the head {head!r} comes from {package}, which is not installed or not imported; "
        f"install {install}, or import the module that registers it before loading the model"
    )


def head_size(labels: Labels, width: int, dropout: float) -> Size:
    """The dimensions of a head for some labels."""
    return Size(width, labels.outputs, labels.high if labels.about.is_score else 1.0, dropout)


def build_head(spec: TaskSpec, width: int, dropout: float) -> nn.Module:
    """A new head for a task; a head that predicts scores starts in the middle of their range."""
    head = spec.head_class(head_size(spec.labels, width, dropout), **spec.head_options)
    if head.output_layer and spec.link == "identity":
        nn.init.constant_(head.get_submodule(head.output_layer).bias, (spec.labels.low + spec.labels.high) / 2)  # type: ignore[arg-type]
    return head


def parse_task_files(
    option: str, assignments: Sequence[str], tasks: Mapping[str, TaskSpec]
) -> tuple[list[tuple[str, str]], list[str]]:
    """The task and file of each TASK=FILE on the command line, and the mistakes among them."""
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
