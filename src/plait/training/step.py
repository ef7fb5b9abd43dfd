"""One training step: for each task forward and backward, then one update."""

import math
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import torch
from torch import Tensor

from plait.data.batch import Batch
from plait.errors import NotFiniteError
from plait.gradients.combine import ByGram, Combiner, find_combiner, scale_gradients
from plait.gradients.rows import GradientRows
from plait.model.model import Model
from plait.training.backward import StoredEmbeddings, backward
from plait.training.lanes import Lanes
from plait.training.objective import Objective
from plait.world import World

__all__ = ["StepParts", "measure_conflict", "shared_parameters", "train_step"]

_JOINED_TOKENS = 4096  # of batches that are encoded together


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


def train_step(parts: StepParts, batches: Sequence[Batch], step: int) -> dict[str, float]:
    """The loss of each task; no weight changes if a number is not finite."""
    parts.optimizer.zero_grad(set_to_none=True)
    combiner = find_combiner(parts.combine) if parts.combine else None
    separate = isinstance(combiner, ByGram)
    if parts.rows is not None:
        parts.rows.clear()
    losses: dict[str, float] = {}
    with parts.lanes.free_cores():
        for group in [[batch] for batch in batches] if separate else _passes(parts, batches):
            for batch, loss in zip(group, _backward(parts, group, f"{parts.seed}/{step}"), strict=True):
                losses[batch.task] = _check_finite(loss, "loss", [batch], step, parts.world)
            if separate:
                _set_aside(parts)
        trained = [parameter for group in parts.optimizer.param_groups for parameter in group["params"]]
        parts.world.sum_gradients(trained)
        if combiner is not None:
            _combine_gradients(parts, batches, combiner, step)
        norm = parts.lanes.clip_gradients(trained, parts.clip)
        _check_finite(norm, "gradient", batches, step, parts.world)
        parts.optimizer.step()
    return losses


def _passes(parts: StepParts, batches: Sequence[Batch]) -> Iterator[list[Batch]]:
    """The batches in the groups that are encoded together: fewer and larger products take less time, and more memory.

    A batch of many tokens, or one that is encoded in chunks, is encoded alone; so are all batches with a single lane.
    """
    joins = parts.lanes.count * parts.world.size > 1
    group: list[Batch] = []
    for batch in batches:
        tokens = sum(len(ids) for one in (*group, batch) for ids in one.ids)
        chunked = any(parts.objectives[one.task].chunk for one in (*group, batch))
        if group and (not joins or chunked or tokens > _JOINED_TOKENS):
            yield group
            group = []
        group.append(batch)
    yield group


def _backward(parts: StepParts, batches: Sequence[Batch], seed: str) -> list[Tensor]:
    """The loss of each batch; their gradients are added to those already there."""
    return backward(parts.model, parts.lanes, parts.stored, parts.objectives, batches, seed, parts.world)


def _set_aside(parts: StepParts) -> None:
    """Move the gradients of a task into the next row, summed over all processes."""
    rows = parts.rows
    assert rows is not None, "a run that compares gradients has rows"
    rows.set_aside()
    rows.reached[-1] = parts.world.sum_row(rows.newest_P, rows.reached[-1])


def _combine_gradients(parts: StepParts, batches: Sequence[Batch], combiner: Combiner, step: int) -> None:
    """Turn the tasks' gradients of the shared weights into one."""
    if not isinstance(combiner, ByGram):
        scale_gradients(shared_parameters(parts.model, parts.objectives), combiner.weigh(len(batches)))
        return
    assert parts.rows is not None, "a run that compares gradients has rows"
    gram_KK = parts.rows.measure()
    for batch, square in zip(batches, gram_KK.diagonal(), strict=True):
        _check_finite(square.sqrt(), "gradient", [batch], step, parts.world)
    parts.rows.mix(combiner.weigh(gram_KK, f"{parts.seed}/{step}/combine"))


def measure_conflict(parts: StepParts, batches: Sequence[Batch], step: int) -> None:
    """Measure the gradients of one batch of each task without changing the model; dropout has its own seeds."""
    assert parts.rows is not None, "only a run that measures conflicts has rows"
    parts.model.zero_grad(set_to_none=True)
    parts.rows.clear()
    with parts.lanes.free_cores():
        for batch in batches:
            _backward(parts, [batch], f"{parts.seed}/{step}/watch")
            _set_aside(parts)
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
