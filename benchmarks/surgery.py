"""Gradient surgery against plain summing, all graphs alive at once, and torchjd: one step of three tasks.

python benchmarks/surgery.py [--json] [--rounds N] [--threads N]
"""

from collections.abc import Callable

import torch
from compare import Benchmark, Contender, Setting, Table, Target, Work, agree, at_least, at_most, run
from torch import Tensor
from torchjd.aggregation import PCGrad
from torchjd.autojac import backward, jac_to_grad

from plait.data.batch import make_batch
from plait.gradients.combine import draw_orders, surgery
from plait.resolve.run import resolve_run
from plait.training.objective import Pass
from plait.training.seeds import seeded
from plait.training.step import shared_parameters
from plait.training.train import as_recipe
from plait.training.trainer import Trainer, build_start_model

BATCH = 32


def trainer_for(combine: str) -> tuple[Trainer, list]:
    """The starter recipe and its first step; with a learning rate near 0, every step costs the same."""
    changes = [f"batch_size={BATCH}", "lr=1e-9", "head_lr=1e-9", f"schedule={{name: together, combine: {combine}}}"]
    resolved = resolve_run(as_recipe("starter", None, None, changes))
    trainer = Trainer(resolved.stages[-1], build_start_model(resolved))
    return trainer, next(iter(trainer.plan.epoch_plan(0)))


def with_plait(combine: str) -> Callable[[Setting], Work]:
    def make(setting: Setting) -> Work:
        trainer, planned = trainer_for(combine)
        return lambda: list(trainer.step(0, planned).values())

    return make


def all_losses(trainer: Trainer, planned: list) -> list[Tensor]:
    """The losses of all tasks, their graphs all alive; dropout is the same as in plait's own step."""
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


def all_alive(setting: Setting) -> Work:
    """As LibMTL does it: every graph stays alive, and each task's gradients are computed in turn."""
    trainer, planned = trainer_for("sum")
    shared = list(shared_parameters(trainer.model))
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


def with_torchjd(setting: Setting) -> Work:
    trainer, planned = trainer_for("sum")

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
        "sum": Contender(with_plait("sum"), how="plait's own step with `combine: sum`"),
        OURS: Contender(with_plait("surgery"), how="plait's own step with `combine: surgery`"),
        "all graphs alive": Contender(all_alive, how="as LibMTL does it, on plait's encoder and heads"),
        "torchjd's backward": Contender(
            with_torchjd, imports=("torchjd",), how="autojac with PCGrad, on plait's encoder and heads"
        ),
    },
    check=lambda losses: agree(losses, 1e-4),
    targets=targets,
    facts=lambda table: {"encoder": "minilm", "tasks": 3, "batch of each task": BATCH},
)

if __name__ == "__main__":
    run(BENCHMARK)
