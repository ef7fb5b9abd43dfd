"""One training step: for each task forward and backward, then one update.

B batch, C outputs, D width.
"""

import hashlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

import torch
from torch import Tensor

from plait.data.batch import VIEWS, Batch
from plait.errors import NotFiniteError
from plait.gradients.combine import ByGram, find_combiner, weigh_gradients
from plait.gradients.rows import Rows
from plait.losses import LOSSES
from plait.model.model import Model
from plait.recipe.schema import LossChoice

__all__ = ["Objective", "measure_rows", "seeded", "shared_parameters", "train_step"]


@dataclass(frozen=True)
class Objective:
    """What one task's outputs are measured by."""

    losses: tuple[LossChoice, ...]
    weight: float
    class_weights_C: Tensor | None
    label_smoothing: float
    positives: tuple[float | None, ...] = ()  # for each loss: the label of its positives, or their least score

    def __call__(self, outputs_BC: Tensor, label_B: Tensor, views_BD: Mapping[str, Tensor] | None = None) -> Tensor:
        """The weighted sum of the task's losses, of its outputs or of the embeddings of its views."""
        values = []
        for number, choice in enumerate(self.losses):
            loss = LOSSES[choice.name]
            if loss.reads is None:
                value = loss.function(outputs_BC, label_B, self.class_weights_C, self.label_smoothing, **choice.options)
            else:
                assert views_BD is not None, "a task that has such a loss trains on its views"
                sides_BD = [views_BD[view] for view in VIEWS[loss.reads]]
                if loss.takes in ("positives", "same"):
                    same_B = self.is_positive(number, label_B)
                    more = [same_B] if loss.takes == "same" else []
                    sides_BD = sides_BD if more else [side_BD[same_B] for side_BD in sides_BD]
                else:
                    more = [label_B] if loss.takes == "label" else []
                value = loss.function(*sides_BD, *more, **choice.options)
            values.append(choice.weight * value)
        return self.weight * torch.stack(values).sum()

    def is_positive(self, number: int, label_B: Tensor) -> Tensor:
        """Which rows (B,) are positives to one of the losses."""
        wanted = self.positives[number]
        assert wanted is not None, "a loss that asks for positives has them named"
        return label_B >= wanted if self.losses[number].positive_above is not None else label_B == wanted


def train_step(
    model: Model,
    forward: Callable[[Batch], tuple[Tensor, Mapping[str, Tensor]]],
    objectives: Mapping[str, Objective],
    optimizer: torch.optim.Optimizer,
    batches: Sequence[Batch],
    *,
    combine: str | None,
    clip: float | None,
    seed: str,
    step: int,
    rows: Rows | None = None,
) -> dict[str, float]:
    """The loss of each task; dropout comes from the seed, and no weight changes if a number is not finite.

    With `rows` the gradients of the shared weights are set aside task by task, and measured before they are combined.
    """
    optimizer.zero_grad(set_to_none=True)
    if rows is not None:
        rows.clear()
    losses: dict[str, float] = {}
    for batch in batches:
        loss = task_loss(model, forward, objectives[batch.task], batch, f"{seed}/{step}/{batch.task}/0")
        losses[batch.task] = check_finite(loss, "loss", [batch], step)
        if loss.requires_grad:  # a head without weights on a frozen encoder has nothing to learn
            loss.backward()
        if rows is not None:
            rows.set_aside()
    if combine is not None:  # other schedules train one task a step
        combine_gradients(model, batches, rows, combine, seed, step)
    trained = [parameter for group in optimizer.param_groups for parameter in group["params"]]
    norm = torch.nn.utils.clip_grad_norm_(trained, float("inf") if clip is None else clip, foreach=True)
    check_finite(norm, "gradient", batches, step)
    optimizer.step()
    return losses


def task_loss(
    model: Model,
    forward: Callable[[Batch], tuple[Tensor, Mapping[str, Tensor]]],
    objective: Objective,
    batch: Batch,
    seed: str,
) -> Tensor:
    """The loss of one batch, with dropout from the seed."""
    with seeded(seed, model.device):
        label_B = torch.from_numpy(batch.labels).to(model.device)
        outputs_BC, views_BD = forward(batch)
        return objective(outputs_BC, label_B, views_BD)


def combine_gradients(
    model: Model, batches: Sequence[Batch], rows: Rows | None, combine: str, seed: str, step: int
) -> None:
    """Make one gradient of the shared weights from those of the tasks."""
    combiner = find_combiner(combine)
    if rows is None:
        assert not isinstance(combiner, ByGram), f"{combine} weighs gradients that were set aside"
        weigh_gradients(shared_parameters(model), combiner.weigh(len(batches)))
        return
    gram_KK = rows.measure()
    if isinstance(combiner, ByGram):
        for batch, square in zip(batches, gram_KK.diagonal(), strict=True):
            check_finite(square.sqrt(), "gradient", [batch], step)
        rows.mix(combiner.weigh(gram_KK, f"{seed}/{step}/combine"))
    else:
        rows.add_up(combiner.weigh(len(batches)))


def measure_rows(
    model: Model,
    forward: Callable[[Batch], tuple[Tensor, Mapping[str, Tensor]]],
    objectives: Mapping[str, Objective],
    batches: Sequence[Batch],
    rows: Rows,
    *,
    seed: str,
    step: int,
) -> None:
    """Measure the gradients of one batch of each task and leave the model as it was; dropout has seeds of its own."""
    model.zero_grad(set_to_none=True)
    rows.clear()
    for batch in batches:
        loss = task_loss(model, forward, objectives[batch.task], batch, f"{seed}/{step}/{batch.task}/watch")
        if loss.requires_grad:
            loss.backward()
        rows.set_aside()
    rows.measure()
    model.zero_grad(set_to_none=True)


def shared_parameters(model: Model) -> Iterator[torch.nn.Parameter]:
    """The weights that more than one task trains."""
    yield from model.encoder.parameters()
    if model.shared_layer is not None:
        yield from model.shared_layer.parameters()


def check_finite(value: Tensor, what: str, batches: Sequence[Batch], step: int) -> float:
    """The number, if it is one."""
    number = value.item()
    if not torch.isfinite(value):
        rows = "; ".join(f"{batch.task}: rows {', '.join(map(str, batch.rows))}" for batch in batches)
        raise NotFiniteError(
            f"step {step + 1}: the {what} is {number}, the weights were left as they were ({rows}); "
            "try a smaller lr, a clip, or look at these rows",
            rows=[(batch.task, row) for batch in batches for row in batch.rows],
        )
    return number


@contextmanager
def seeded(seed: str, device: torch.device) -> Iterator[None]:
    """Torch's random numbers from this seed inside, and as if untouched outside."""
    number = int.from_bytes(hashlib.sha256(seed.encode()).digest()[:8], "big") >> 1
    devices = [device] if device.type == "cuda" else []
    with torch.random.fork_rng(devices=devices):
        torch.manual_seed(number)
        yield
