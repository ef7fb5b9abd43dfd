"""Trainers on the tiny encoder, and single steps with them."""

from collections.abc import Mapping, Sequence
from typing import Any

from torch import Tensor

from plait.data.batch import Batch, make_batch
from plait.gradients.rows import GradientRows
from plait.resolve.run import resolve_run
from plait.training.given_recipe import as_recipe
from plait.training.lanes import Lanes
from plait.training.step import StepParts, shared_parameters, train_step
from plait.training.trainer import Trainer, build_start_model

Planned = Sequence[tuple[str, tuple[int, ...]]]  # tasks of a step and their rows


def build_trainer(recipe: Mapping[str, Any]) -> Trainer:
    """The trainer of a recipe with one stage."""
    resolved = resolve_run(as_recipe(recipe, None, None, ()))
    return Trainer(resolved.stages[-1], build_start_model(resolved))


def batches_of(trainer: Trainer, planned: Planned) -> list[Batch]:
    tasks = trainer.resolved.tasks
    return [make_batch(task, rows, tasks[task].splits["train"].labels, trainer.tokens[task]) for task, rows in planned]


def step_parts(
    trainer: Trainer, combine: str, rows: GradientRows | None = None, clip: float | None = None
) -> StepParts:
    return StepParts(
        trainer.model,
        Lanes(trainer.model),
        trainer.objectives,
        trainer.optimizer,
        "7/0",
        combine=combine,
        clip=clip,
        rows=rows,
    )


def gradients(trainer: Trainer) -> dict[str, Tensor]:
    """A copy of the gradients of all weights that have one, by name."""
    named = trainer.model.named_parameters()
    return {name: weight.grad.clone() for name, weight in named if weight.grad is not None}


def weights(trainer: Trainer) -> dict[str, Tensor]:
    """A copy of all weights, by name."""
    return {name: tensor.clone() for name, tensor in trainer.model.state_dict().items()}


def gradients_after_step(trainer: Trainer, planned: Planned, combine: str) -> dict[str, Tensor]:
    """The gradients that one training step leaves; the weights are restored afterwards."""
    before = weights(trainer)
    rows = GradientRows(list(shared_parameters(trainer.model, trainer.objectives)), len(planned))
    train_step(step_parts(trainer, combine, rows), batches_of(trainer, planned), 0)
    trainer.model.load_state_dict(before)
    return gradients(trainer)


def shared_size(trainer: Trainer) -> int:
    """The number of weights that tasks share."""
    return sum(parameter.numel() for parameter in shared_parameters(trainer.model, trainer.objectives))
