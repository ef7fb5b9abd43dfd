"""Gradient surgery against plain summing, all graphs alive at once, and torchjd: one step of three tasks.

python benchmarks/surgery.py [--json] [--threads N]
"""

import torch
from compare import Work, run
from torch import Tensor
from torchjd.aggregation import PCGrad
from torchjd.autojac import backward, jac_to_grad

from plait.gradients.combine import draw_orders, surgery
from plait.training.backward import pass_on
from plait.training.loop import as_recipe
from plait.training.settle import settle_recipe
from plait.training.step import shared_parameters
from plait.training.trainer import Trainer

BATCH = 32


def trainer_for(combine: str) -> tuple[Trainer, list]:
    """The starter recipe and its first step; the rate is next to 0, so that every step costs the same."""
    changes = [f"batch_size={BATCH}", "lr=1e-9", "head_lr=1e-9", f"schedule={{name: together, combine: {combine}}}"]
    trainer = Trainer(settle_recipe(as_recipe("starter", None, None, changes)))
    return trainer, next(iter(trainer.plan.epoch_plan(0)))


def of_plait(combine: str) -> Work:
    trainer, planned = trainer_for(combine)
    return lambda: trainer.step(0, planned)


def all_losses(trainer: Trainer, planned: list) -> list[Tensor]:
    """The losses of all tasks, with the graphs of all of them."""
    trainer.optimizer.zero_grad(set_to_none=True)
    trainer.model.train()
    losses = []
    for batch in trainer.batches(planned):
        objective = trainer.objectives[batch.task]
        passed = pass_on(trainer.model, objective, batch, trainer.encode(batch))
        losses.append(objective(passed, torch.from_numpy(batch.labels)))
    return losses


def all_alive() -> Work:
    """As LibMTL does it: every graph is there, and the gradients of each task are asked for in turn."""
    trainer, planned = trainer_for("sum")
    shared = list(shared_parameters(trainer.model))
    heads = [weight for name, weight in trainer.model.named_parameters() if name.startswith("heads.")]

    def row(loss: Tensor) -> Tensor:
        found = torch.autograd.grad(loss, shared, retain_graph=True, allow_unused=True)
        filled = [torch.zeros_like(w) if g is None else g for w, g in zip(shared, found, strict=True)]
        return torch.cat([part.flatten() for part in filled])

    def step() -> None:
        losses = all_losses(trainer, planned)
        rows_KP = torch.stack([row(loss) for loss in losses])
        weights_K = surgery(rows_KP @ rows_KP.T, orders=draw_orders(len(losses), "0"))
        for weight, part in zip(shared, (weights_K @ rows_KP).split([w.numel() for w in shared]), strict=True):
            weight.grad = part.view_as(weight)
        for weight, gradient in zip(heads, torch.autograd.grad(sum(losses), heads), strict=True):
            weight.grad = gradient
        trainer.optimizer.step()

    return step


def of_torchjd() -> Work:
    trainer, planned = trainer_for("sum")

    def step() -> None:
        backward(all_losses(trainer, planned))
        jac_to_grad([w for w in trainer.model.parameters() if getattr(w, "jac", None) is not None], PCGrad())
        trainer.optimizer.step()

    return step


WAYS = {
    "sum": lambda: of_plait("sum"),
    "plait's surgery": lambda: of_plait("surgery"),
    "all graphs alive": all_alive,
    "torchjd's backward": of_torchjd,
}

if __name__ == "__main__":
    run("Surgery", WAYS, rounds=5, facts={"encoder": "minilm", "tasks": 3, "batch": BATCH})
