"""What a task is trained on: its losses, each called with what it takes from a batch.

B batch, N tokens, C outputs, D width.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import partial

import numpy as np
import torch
from torch import Tensor, nn

from plait.data.batch import VIEWS
from plait.losses import LOSSES, Loss
from plait.model.model import Tokens
from plait.recipe.choices import LossChoice
from plait.registry import split_version
from plait.resolve.positives import positive_label_of, reading_of
from plait.resolve.task import ResolvedTask
from plait.training.seeds import seed_number
from plait.training.teacher import TeacherOutputs

__all__ = ["CHUNK", "Objective", "ObjectivePart", "Pass", "make_objective"]

CHUNK = 64  # rows that a cached loss encodes at a time, unless it says otherwise


@dataclass(frozen=True)
class Pass:
    """What a model computes for a batch, as far as the losses of its task need it."""

    outputs_BC: Tensor | None  # of the head, if there is one
    views_BD: Mapping[str, Tensor] = field(default_factory=dict)  # view → embeddings
    projected_BD: Mapping[str, Tensor] = field(default_factory=dict)  # view → embeddings after the head's projection
    tokens: Tokens | None = None  # of the single input that the head reads
    teacher_BC: Tensor | None = None  # the outputs of a teacher for these rows


@dataclass(frozen=True)
class ObjectivePart:
    """One loss of a task."""

    choice: LossChoice
    function: Callable[..., Tensor]  # with its options bound; a module if it has weights of its own
    views: tuple[str, ...] = ()  # whose embeddings it takes
    positive: float | None = None  # the label of its positives, or their lowest score; None: every row is one
    link: str = ""  # from outputs to predictions

    @property
    def loss(self) -> Loss:
        return LOSSES[self.choice.name]

    def is_positive(self, label_B: Tensor) -> Tensor:
        """Which rows (B,) are positives."""
        if self.positive is None:
            return torch.ones(len(label_B), dtype=torch.bool, device=label_B.device)
        return label_B >= self.positive if self.choice.positive_above is not None else label_B == self.positive


@dataclass(frozen=True)
class Objective:
    """All losses of one task."""

    parts: tuple[ObjectivePart, ...]
    weight: float = 1.0
    class_weights_C: Tensor | None = None
    label_smoothing: float = 0.0
    accumulated: int | None = None  # rows to encode at a time, as the recipe says
    teacher: TeacherOutputs | None = None  # for all training rows

    @property
    def chunk(self) -> int | None:
        """Rows to encode at a time, if the recipe says so or a loss is cached."""
        chunks = [part.choice.chunk or CHUNK for part in self.parts if part.choice.cached]
        return min([*chunks, *([self.accumulated] if self.accumulated else [])], default=None)

    @property
    def predicts(self) -> bool:
        """Whether a loss needs the head's outputs."""
        return any(part.loss.of_predictions for part in self.parts)

    @property
    def token_view(self) -> str | None:
        """The view whose tokens a loss needs, if one does."""
        return next((part.views[0] for part in self.parts if part.loss.takes == "tokens"), None)

    @property
    def views(self) -> tuple[str, ...]:
        """The inputs of the encoder that the losses need."""
        return tuple(dict.fromkeys(view for part in self.parts for view in part.views))

    @property
    def mines(self) -> bool:
        """Whether a loss needs hard negatives from the training data, as third texts."""
        return any(part.choice.mine for part in self.parts)

    def anchors(self, label_n: np.ndarray) -> Tensor:
        """Which of these rows (n,) are positives of a loss that needs hard negatives."""
        known_n = torch.from_numpy(label_n)
        return torch.stack([part.is_positive(known_n) for part in self.parts if part.choice.mine]).any(dim=0)

    @property
    def projects(self) -> bool:
        """Whether a loss needs the head's projection."""
        return any(part.choice.on == "head" for part in self.parts)

    def modules(self) -> Iterator[tuple[str, nn.Module]]:
        """The losses that have weights of their own, each with a name that is unique in the task."""
        for number, part in enumerate(self.parts):
            if isinstance(part.function, nn.Module):
                yield f"{number}-{split_version(part.choice.name)[0]}", part.function

    def __call__(self, passed: Pass, label_B: Tensor) -> Tensor:
        """The weighted sum of the losses."""
        if not self.parts:  # a head without weights on a frozen encoder
            return torch.zeros((), device=label_B.device)
        values = [part.choice.weight * self._value(part, passed, label_B) for part in self.parts]
        return self.weight * torch.stack(values).sum()

    def _value(self, part: ObjectivePart, passed: Pass, label_B: Tensor) -> Tensor:
        takes = part.loss.takes
        if takes == "predictions":
            return part.function(passed.outputs_BC, label_B, self.class_weights_C, self.label_smoothing)
        if takes == "teacher":
            return part.function(passed.outputs_BC, passed.teacher_BC, part.link)
        if takes == "tokens":
            assert passed.tokens is not None, "the tokens are kept for a task with such a loss"
            tokens = passed.tokens if part.function.special_tokens else passed.tokens.without_special()  # type: ignore[attr-defined]
            return part.function(tokens.states_ND, label_B[tokens.row_N])
        views_BD = passed.projected_BD if part.choice.on == "head" else passed.views_BD
        sides_BD = [views_BD[view] for view in part.views]
        if takes == "positives":
            same_B = part.is_positive(label_B)
            return part.function(*(side_BD[same_B] for side_BD in sides_BD))
        if takes == "anchors":
            return part.function(*sides_BD[:2], part.is_positive(label_B), *sides_BD[2:])
        more = {"all": (), "same": (part.is_positive(label_B),), "label": (label_B,)}[takes]
        return part.function(*sides_BD, *more)


def make_objective(
    task: ResolvedTask,
    *,
    width: int,
    device: torch.device,
    seed: str,
    predictions_only: bool = False,
    chunk: int | None = None,
) -> Objective:
    """The objective of a task; proxies are drawn from the seed, and `chunk` rows are encoded at a time.

    With a frozen encoder (`predictions_only`) the other losses have nothing to train.
    """
    parts = []
    labels, texts = task.spec.labels, len(task.spec.text)
    for number, choice in enumerate(task.losses):
        loss = LOSSES[choice.name]
        if predictions_only and not loss.of_predictions:
            continue
        if loss.takes == "tokens":
            generator = torch.Generator().manual_seed(seed_number(f"{seed}/{number}"))
            function = loss.function(len(labels.classes), width, generator, **choice.options).to(device)
        else:
            function = partial(loss.function, **choice.options)
        way = "triple" if choice.mine else reading_of(loss, texts)
        views = VIEWS[way] if way else ()
        parts.append(ObjectivePart(choice, function, views, positive_label_of(choice, labels), task.spec.link))
    weights_C = None if task.class_weights is None else torch.from_numpy(task.class_weights).to(device)
    taught = any(part.loss.takes == "teacher" for part in parts)
    teacher = TeacherOutputs(len(task.splits["train"]), task.spec).to(device) if taught else None
    return Objective(tuple(parts), task.settings.weight, weights_C, task.settings.label_smoothing, chunk, teacher)
