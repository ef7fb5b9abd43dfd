"""One of several processes that train together: python training_process.py FOLDER RANK SIZE.

FOLDER has cases.json, the recipes by name. Every process trains the first steps of each in float64 and writes its
weights to FOLDER/NAME-SIZE-RANK.pt.
"""

import json
import sys
from pathlib import Path

import torch
from torch import Tensor
from torch import distributed as dist

from plait.resolve.run import resolve_run
from plait.training.given_recipe import as_recipe
from plait.training.trainer import Trainer, build_start_model
from plait.world import World, find_world

STEPS = 20


def train_in_float64(recipe: dict, world: World) -> dict[str, Tensor]:
    """The weights after some steps of a recipe, those of its losses included."""
    resolved = resolve_run(as_recipe(recipe, None, None, ()))
    trainer = Trainer(resolved.stages[-1], build_start_model(resolved).double(), world)
    for module in trainer.loss_modules.values():
        module.double()
    number = 0
    for epoch in range(len(trainer.plan.epochs)):
        for planned in trainer.plan.epoch_plan(epoch):
            if number < STEPS:
                trainer.step(number, planned)
                number += 1
    assert number == STEPS, f"the plan has {number} steps"
    modules = trainer.checkpoint_modules
    return {prefix + name: tensor for prefix, module in modules.items() for name, tensor in module.state_dict().items()}


def main(folder: Path, rank: int, size: int) -> None:
    torch.set_num_threads(1)
    dist.init_process_group("gloo", init_method=f"file://{folder}/meeting-{size}", rank=rank, world_size=size)
    for name, recipe in json.loads((folder / "cases.json").read_text()).items():
        torch.save(train_in_float64(recipe, find_world()), folder / f"{name}-{size}-{rank}.pt")
    dist.destroy_process_group()


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3]))
