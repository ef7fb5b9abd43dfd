"""What a task is trained by: its losses, each fed with what it takes of a batch.

B batch, N tokens, C outputs, D width.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import partial

import numpy as np
import torch
from torch import Tensor, nn

from plait.data.batch import READS, VIEWS
from plait.data.labels import Labels, class_of
from plait.losses import LOSSES, Loss
from plait.model.model import Tokens
from plait.model.tasks import TaskSpec
from plait.recipe.schema import LossChoice, Task
from plait.training.seeds import seed_number

__all__ = ["CHUNK", "Objective", "Part", "Pass", "make_objective", "positive_rows", "way_of"]

CHUNK = 64  # rows that a cached loss encodes at once, unless it says otherwise


@dataclass(frozen=True)
class Pass:
    """What a model makes of a batch, as far as the losses of its task look at it."""

    outputs_BC: Tensor | None  # of the head, where there is one
    views_BD: Mapping[str, Tensor] = field(default_factory=dict)  # view → embeddings
    projected_BD: Mapping[str, Tensor] = field(default_factory=dict)  # view → embeddings after the head's projection
    tokens: Tokens | None = None  # of the one input that the head reads


@dataclass(frozen=True)
class Part:
    """One loss of a task."""

    choice: LossChoice
    function: Callable[..., Tensor]  # with its options; a module where it has weights of its own
    views: tuple[str, ...] = ()  # whose embeddings it takes
    positive: float | None = None  # the label of its positives, or their least score; None: every row is one

    @property
    def loss(self) -> Loss:
        """The entry of its name."""
        return LOSSES[self.choice.name]

    def is_positive(self, label_B: Tensor) -> Tensor:
        """Which rows (B,) are positives."""
        if self.positive is None:
            return torch.ones(len(label_B), dtype=torch.bool, device=label_B.device)
        return label_B >= self.positive if self.choice.positive_above is not None else label_B == self.positive


@dataclass(frozen=True)
class Objective:
    """What one task's batches are measured by."""

    parts: tuple[Part, ...]
    weight: float = 1.0
    class_weights_C: Tensor | None = None
    label_smoothing: float = 0.0

    @property
    def chunk(self) -> int | None:
        """Rows to encode at once where a loss is cached."""
        chunks = [part.choice.chunk or CHUNK for part in self.parts if part.choice.cached]
        return min(chunks, default=None)

    @property
    def predicts(self) -> bool:
        """Whether one of the losses looks at what the head predicts."""
        return any(part.loss.takes == "predictions" for part in self.parts)

    @property
    def token_view(self) -> str | None:
        """The view whose tokens a loss looks at, if one does."""
        return next((part.views[0] for part in self.parts if part.loss.takes == "tokens"), None)

    @property
    def views(self) -> tuple[str, ...]:
        """The inputs of the encoder that its losses need."""
        return tuple(dict.fromkeys(view for part in self.parts for view in part.views))

    @property
    def projects(self) -> bool:
        """Whether one of the losses stands behind the head's projection."""
        return any(part.choice.on == "head" for part in self.parts)

    def modules(self) -> Iterator[tuple[str, nn.Module]]:
        """The losses that have weights of their own, each with its place and name."""
        for number, part in enumerate(self.parts):
            if isinstance(part.function, nn.Module):
                yield f"{number}-{part.choice.name}", part.function

    def __call__(self, passed: Pass, label_B: Tensor) -> Tensor:
        """The weighted sum of the task's losses."""
        if not self.parts:  # a head without weights on a frozen encoder
            return torch.zeros((), device=label_B.device)
        values = [part.choice.weight * self.value(part, passed, label_B) for part in self.parts]
        return self.weight * torch.stack(values).sum()

    def value(self, part: Part, passed: Pass, label_B: Tensor) -> Tensor:
        """One loss of the batch."""
        takes = part.loss.takes
        if takes == "predictions":
            return part.function(passed.outputs_BC, label_B, self.class_weights_C, self.label_smoothing)
        if takes == "tokens":
            assert passed.tokens is not None, "a task that has such a loss keeps its tokens"
            tokens = passed.tokens if part.function.special_tokens else passed.tokens.without_special()  # type: ignore[attr-defined]
            return part.function(tokens.states_ND, label_B[tokens.row_N])
        views_BD = passed.projected_BD if part.choice.on == "head" else passed.views_BD
        sides_BD = [views_BD[view] for view in part.views]
        if takes == "positives":
            same_B = part.is_positive(label_B)
            return part.function(*(side_BD[same_B] for side_BD in sides_BD))
        more = {"all": (), "same": (part.is_positive(label_B),), "label": (label_B,)}[takes]
        return part.function(*sides_BD, *more)


def make_objective(
    task: Task,
    spec: TaskSpec,
    *,
    width: int,
    class_weights: np.ndarray | None,
    device: torch.device,
    seed: str,
    predictions_only: bool = False,
) -> Objective:
    """The objective of a complete task; proxies are drawn from the seed.

    On a frozen encoder (`predictions_only`) the other losses have nothing to teach.
    """
    parts = []
    for number, choice in enumerate(task.loss or ()):
        loss = LOSSES[choice.name]
        if predictions_only and loss.takes != "predictions":
            continue
        if loss.takes == "tokens":
            generator = torch.Generator().manual_seed(seed_number(f"{seed}/{number}"))
            function = loss.function(len(spec.labels.classes), width, generator, **choice.options).to(device)
        else:
            function = partial(loss.function, **choice.options)
        way = way_of(loss, len(spec.text))
        parts.append(Part(choice, function, VIEWS[way] if way else (), positive_of(choice, spec.labels)))
    weights_C = None if class_weights is None else torch.from_numpy(class_weights).to(device)
    return Objective(tuple(parts), task.weight, weights_C, task.label_smoothing)


def way_of(loss: Loss, texts: int) -> str | None:
    """How a loss reads a task of so many texts; None for one of predictions, and where it cannot."""
    return next((way for way in loss.reads if READS[way] == texts), None)


def positive_rows(choice: LossChoice, labels: Labels, encoded: np.ndarray) -> np.ndarray:
    """Which rows are positives to a loss that asks for them."""
    positive = positive_of(choice, labels)
    if positive is None:
        return np.ones(len(encoded), dtype=bool)
    return encoded >= positive if choice.positive_above is not None else encoded == positive


def positive_of(choice: LossChoice, labels: Labels) -> float | None:
    """The label of the pairs that are positives to a loss, as it is encoded, or their least score."""
    if choice.positive_label is not None:
        return float(labels.classes.index(class_of(choice.positive_label)))
    return 1.0 if choice.positive_above is None and labels.kind == "yes_no" else choice.positive_above
