"""One training step: for each task forward and backward, then one update."""

from collections.abc import Iterator, Mapping, Sequence

import torch
from torch import Tensor

from plait.data.batch import Batch
from plait.errors import NotFiniteError
from plait.gradients.combine import ByGram, find_combiner, weigh_gradients
from plait.gradients.rows import Rows
from plait.model.model import Model
from plait.training.backward import Encode, backward
from plait.training.objective import Objective

__all__ = ["measure_rows", "shared_parameters", "train_step"]


def train_step(
    model: Model,
    encode: Encode,
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
        loss = backward(model, encode, objectives[batch.task], batch, f"{seed}/{step}/{batch.task}")
        losses[batch.task] = check_finite(loss, "loss", [batch], step)
        if rows is not None:
            rows.set_aside()
    if combine is not None:  # other schedules train one task a step
        combine_gradients(model, batches, rows, combine, seed, step)
    trained = [parameter for group in optimizer.param_groups for parameter in group["params"]]
    norm = torch.nn.utils.clip_grad_norm_(trained, float("inf") if clip is None else clip, foreach=True)
    check_finite(norm, "gradient", batches, step)
    optimizer.step()
    return losses


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
    encode: Encode,
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
        backward(model, encode, objectives[batch.task], batch, f"{seed}/{step}/{batch.task}/watch")
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
