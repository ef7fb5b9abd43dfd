"""Gradient surgery against plain summing, all graphs alive at once, and torchjd: one step of three tasks.

python benchmarks/surgery.py [--json] [--rounds N] [--threads N]
"""

from collections.abc import Callable

import torch
from compare import Benchmark, Setting, Table, Target, Way, Work, agree, at_least, at_most, run
from torch import Tensor
from torchjd.aggregation import PCGrad
from torchjd.autojac import backward, jac_to_grad

from plait.gradients.combine import draw_orders, surgery
from plait.training.backward import pass_on
from plait.training.loop import as_recipe
from plait.training.seeds import seeded
from plait.training.settle import settle_recipe
from plait.training.step import shared_parameters
from plait.training.trainer import Trainer

BATCH = 32


def trainer_for(combine: str) -> tuple[Trainer, list]:
    """The starter recipe and its first step; the rate is next to 0, so that every step costs the same."""
    changes = [f"batch_size={BATCH}", "lr=1e-9", "head_lr=1e-9", f"schedule={{name: together, combine: {combine}}}"]
    trainer = Trainer(settle_recipe(as_recipe("starter", None, None, changes)))
    return trainer, next(iter(trainer.plan.epoch_plan(0)))


def of_plait(combine: str) -> Callable[[Setting], Work]:
    def make(setting: Setting) -> Work:
        trainer, planned = trainer_for(combine)
        return lambda: list(trainer.step(0, planned).values())

    return make


def all_losses(trainer: Trainer, planned: list) -> list[Tensor]:
    """The losses of all tasks, with the graphs of all of them; the same dropout as in plait's own step."""
    trainer.optimizer.zero_grad(set_to_none=True)
    trainer.model.train()
    losses = []
    for batch in trainer.batches(planned):
        objective = trainer.objectives[batch.task]
        with seeded(f"{trainer.seed}/0/{batch.task}/0", trainer.model.device):
            passed = pass_on(trainer.model, objective, batch, trainer.encode(batch))
            losses.append(objective(passed, torch.from_numpy(batch.labels)))
    return losses


def all_alive(setting: Setting) -> Work:
    """As LibMTL does it: every graph is there, and the gradients of each task are asked for in turn."""
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


def of_torchjd(setting: Setting) -> Work:
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
        "sum": Way(of_plait("sum"), how="plait's own step with `combine: sum`"),
        OURS: Way(of_plait("surgery"), how="plait's own step with `combine: surgery`"),
        "all graphs alive": Way(all_alive, how="as LibMTL does it, on plait's encoder and heads"),
        "torchjd's backward": Way(
            of_torchjd, imports=("torchjd",), how="autojac with PCGrad, on plait's encoder and heads"
        ),
    },
    check=lambda losses: agree(losses, 1e-4),
    targets=targets,
    facts=lambda table: {"encoder": "minilm", "tasks": 3, "batch of each": BATCH},
)

if __name__ == "__main__":
    run(BENCHMARK)
