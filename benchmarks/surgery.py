"""Gradient surgery against plain summing, all graphs alive at once, and torchjd: one step of three tasks.

python benchmarks/surgery.py [--json] [--rounds N] [--threads N]

Losses are compared without dropout and timed with the dropout of the checkpoint.
"""

from collections.abc import Callable

import torch
from compare import Benchmark, Contender, Setting, Table, Target, Work, agree, at_least, at_most, run
from torch import Tensor
from torchjd.aggregation import PCGrad
from torchjd.autojac import backward, jac_to_grad
from trainers import DROPOUT, set_dropout

from plait.data.batch import make_batch
from plait.gradients.combine import draw_orders, surgery
from plait.resolve.run import resolve_run
from plait.training.given_recipe import as_recipe
from plait.training.objective import Pass
from plait.training.seeds import seeded
from plait.training.step import shared_parameters
from plait.training.trainer import Trainer, build_start_model

BATCH = 32


Step = Callable[[], list[float]]  # trains one step and returns the losses of its tasks


def trainer_for(combine: str, dropout: float) -> tuple[Trainer, list]:
    """The starter recipe and its first step; with a learning rate near 0, every step costs the same."""
    changes = [f"batch_size={BATCH}", "lr=1e-9", "head_lr=1e-9", "precision=float32"]
    changes.append(f"schedule={{name: together, combine: {combine}}}")
    resolved = resolve_run(as_recipe("starter", None, None, changes))
    model = build_start_model(resolved)
    set_dropout(model, dropout)
    trainer = Trainer(resolved.stages[-1], model)
    return trainer, next(iter(trainer.plan.epoch_plan(0)))


def timed(make_step: Callable[[float], Step]) -> Callable[[Setting], Work]:
    """Steps with dropout that return the losses without it."""

    def make(setting: Setting) -> Work:
        losses = make_step(0.0)()
        step = make_step(DROPOUT)
        return lambda: step() and losses

    return make


def with_plait(combine: str) -> Callable[[float], Step]:
    def make(dropout: float) -> Step:
        trainer, planned = trainer_for(combine, dropout)
        return lambda: list(trainer.step(0, planned).values())

    return make


def all_losses(trainer: Trainer, planned: list) -> list[Tensor]:
    """The losses of all tasks, their graphs all alive."""
    trainer.optimizer.zero_grad(set_to_none=True)
    model = trainer.model.train()
    losses = []
    for task, rows in planned:
        batch = make_batch(task, rows, trainer.resolved.tasks[task].splits["train"].labels, trainer.tokens[task])
        with seeded(f"{trainer.seed}/0/{task}/0", model.device):
            views = model.encode(batch).views
            outputs_BC = model.outputs(task, [views[view] for view in model.tasks[task].views])
            losses.append(trainer.objectives[task](Pass(outputs_BC, views), torch.from_numpy(batch.labels)))
    return losses


def all_alive(dropout: float) -> Step:
    """As LibMTL does it: every graph stays alive, and each task's gradients are computed in turn."""
    trainer, planned = trainer_for("sum", dropout)
    shared = list(shared_parameters(trainer.model, trainer.objectives))
    heads = [weight for name, weight in trainer.model.named_parameters() if name.startswith("heads.")]

    def row(loss: Tensor) -> Tensor:
        found = torch.autograd.grad(loss, shared, retain_graph=True, allow_unused=True)
        filled = [torch.zeros_like(w) if g is None else g for w, g in zip(shared, found, strict=True)]
        return torch.cat([part.flatten() for part in filled])

    def step() -> list[float]:
        losses = all_losses(trainer, planned)
        rows_KP = torch.stack([row(loss) for loss in losses])
        weights_K = surgery(rows_KP @ rows_KP.T, orders=draw_orders(len(losses), "0"))
        for weight, part in zip(shared, (weights_K @ rows_KP).split([w.numel() for w in shared]), strict=True):
            weight.grad = part.view_as(weight)
        for weight, gradient in zip(heads, torch.autograd.grad(sum(losses), heads), strict=True):
            weight.grad = gradient
        trainer.optimizer.step()
        return [loss.item() for loss in losses]

    return step


def with_torchjd(dropout: float) -> Step:
    """Each task's gradients by torchjd, combined by its PCGrad."""
    trainer, planned = trainer_for("sum", dropout)

    def step() -> list[float]:
        losses = all_losses(trainer, planned)
        backward(losses)
        jac_to_grad([w for w in trainer.model.parameters() if getattr(w, "jac", None) is not None], PCGrad())
        trainer.optimizer.step()
        return [loss.item() for loss in losses]

    return step


def targets(table: Table) -> list[Target]:
    return [
        at_most(1.15, "× the time of sum", table.ratio(OURS, "sum")),
        at_most(1.35, "× the memory of sum", table.memory(OURS, "sum")),
        at_least(2, "× the speed of torchjd's backward", table.ratio("torchjd's backward", OURS)),
    ]


OURS = "plait's surgery"
BENCHMARK = Benchmark(
    "Gradient surgery, one step of three tasks",
    {
        "sum": Contender(timed(with_plait("sum")), how="plait's own step with `combine: sum`"),
        OURS: Contender(timed(with_plait("surgery")), how="plait's own step with `combine: surgery`"),
        "all graphs alive": Contender(timed(all_alive), how="as LibMTL does it, on plait's encoder and heads"),
        "torchjd's backward": Contender(
            timed(with_torchjd), imports=("torchjd",), how="autojac with PCGrad, on plait's encoder and heads"
        ),
    },
    check=lambda losses: agree(losses, 1e-4),
    targets=targets,
    facts=lambda table: {"encoder": "minilm", "tasks": 3, "batch of each task": BATCH},
)

if __name__ == "__main__":
    run(BENCHMARK)
