"""One training step: for each task forward and backward, then one update."""

import math
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import torch
from torch import Tensor

from plait.data.batch import Batch
from plait.errors import NotFiniteError
from plait.gradients.combine import ByGram, find_combiner, scale_gradients
from plait.gradients.rows import GradientRows
from plait.model.model import Model
from plait.training.backward import StoredEmbeddings, backward
from plait.training.lanes import Lanes
from plait.training.objective import Objective
from plait.world import World

__all__ = ["StepParts", "measure_conflict", "shared_parameters", "train_step"]


@dataclass(frozen=True)
class StepParts:
    """What every step of a stage works with."""

    model: Model
    lanes: Lanes
    objectives: Mapping[str, Objective]  # by task
    optimizer: torch.optim.Optimizer
    seed: str
    combine: str | None = None  # how the gradients of several tasks become one; None: one task per step
    clip: float | None = None  # the largest allowed norm of the gradient
    rows: GradientRows | None = None  # for methods that compare the tasks' gradients
    stored: StoredEmbeddings = field(default_factory=dict)
    world: World = field(default_factory=World)


def train_step(parts: StepParts, batches: Sequence[Batch], step: int, *, separate: bool = False) -> dict[str, float]:
    """The loss of each task; no weight changes if a number is not finite.

    With `separate` the gradients of the shared weights are kept in `parts.rows`, one row per task, and measured before
    they are combined.
    """
    parts.optimizer.zero_grad(set_to_none=True)
    rows = parts.rows if separate else None
    if rows is not None:
        rows.clear()
    losses: dict[str, float] = {}
    with parts.lanes.free_cores():
        for batch in batches:
            loss = _backward(parts, batch, f"{parts.seed}/{step}/{batch.task}")
            losses[batch.task] = _check_finite(loss, "loss", [batch], step, parts.world)
            if rows is not None:
                _set_aside(rows, parts.world)
        trained = [parameter for group in parts.optimizer.param_groups for parameter in group["params"]]
        parts.world.sum_gradients(trained)
        if parts.combine is not None:
            _combine_gradients(parts, batches, rows, parts.combine, step)
        norm = parts.lanes.clip_gradients(trained, parts.clip)
        _check_finite(norm, "gradient", batches, step, parts.world)
        parts.optimizer.step()
    return losses


def _backward(parts: StepParts, batch: Batch, seed: str) -> Tensor:
    """The loss of a batch; its gradients are added to those already there."""
    objective = parts.objectives[batch.task]
    return backward(parts.model, parts.lanes, parts.stored, objective, batch, seed, parts.world)


def _set_aside(rows: GradientRows, world: World) -> None:
    """Move the gradients of a task into the next row, summed over all processes."""
    rows.set_aside()
    rows.reached[-1] = world.sum_row(rows.newest_P, rows.reached[-1])


def _combine_gradients(
    parts: StepParts, batches: Sequence[Batch], rows: GradientRows | None, combine: str, step: int
) -> None:
    """Turn the tasks' gradients of the shared weights into one."""
    combiner = find_combiner(combine)
    if rows is None:
        assert not isinstance(combiner, ByGram), f"{combine} needs the gradient of each task"
        scale_gradients(shared_parameters(parts.model, parts.objectives), combiner.weigh(len(batches)))
        return
    gram_KK = rows.measure()
    if isinstance(combiner, ByGram):
        for batch, square in zip(batches, gram_KK.diagonal(), strict=True):
            _check_finite(square.sqrt(), "gradient", [batch], step, parts.world)
        rows.mix(combiner.weigh(gram_KK, f"{parts.seed}/{step}/combine"))
    else:
        rows.add_up(combiner.weigh(len(batches)))


def measure_conflict(parts: StepParts, batches: Sequence[Batch], step: int) -> None:
    """Measure the gradients of one batch of each task without changing the model; dropout has its own seeds."""
    assert parts.rows is not None, "only a run that measures conflicts has rows"
    parts.model.zero_grad(set_to_none=True)
    parts.rows.clear()
    for batch in batches:
        _backward(parts, batch, f"{parts.seed}/{step}/{batch.task}/watch")
        _set_aside(parts.rows, parts.world)
    parts.rows.measure()
    parts.model.zero_grad(set_to_none=True)


def shared_parameters(model: Model, tasks: Iterable[str]) -> Iterator[torch.nn.Parameter]:
    """The weights that more than one of the trained tasks reaches: a head counts if several of them use it."""
    yield from model.encoder.parameters()
    if model.shared_layer is not None:
        yield from model.shared_layer.parameters()
    uses = Counter(model.tasks[task].head_task for task in tasks if task in model.tasks)
    for owner, head in model.heads.items():
        if uses[owner] > 1:
            yield from head.parameters()


def _check_finite(value: Tensor, what: str, batches: Sequence[Batch], step: int, world: World) -> float:
    number = value.item()
    if not world.all(math.isfinite(number)):
        rows = "; ".join(f"{batch.task}: rows {', '.join(map(str, batch.rows))}" for batch in batches)
        found = "not finite in another process" if math.isfinite(number) else number
        raise NotFiniteError(
            f"step {step + 1}: the {what} is {found}, the weights were left unchanged ({rows}); "
            "try a lower lr, a clip, or check these rows",
            rows=[(batch.task, row) for batch in batches for row in batch.rows],
        )
    return number
