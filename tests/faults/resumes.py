"""A run of 50 steps resumed from each of them: the same batches in the same order, the same dropout, the same bits."""

import json
import shutil
from pathlib import Path
from typing import Any

from faults.bench import Bench, same_files

__all__ = ["STEPS", "check"]

ROW, STEPS = "resumes", 50


def recipe_of(bench: Bench) -> dict[str, Any]:
    schedule = {"name": "together", "combine": "surgery"}
    return bench.recipe(schedule=schedule, dropout=0.3, steps=STEPS, evaluate_every=20, checkpoint_every=1, epochs=None)


def train_and_copy(recipe: dict[str, Any], folder: Path) -> None:
    """The whole run, with a copy of its directory after each step, as a kill would leave it."""
    from plait.training import stage
    from plait.training.train import train

    save = stage.save_checkpoint

    def save_and_copy(place: Path, modules: Any, optimizer: Any, position: Any) -> None:
        save(place, modules, optimizer, position)
        shutil.copytree(folder / "run", folder / f"after-{position.step}")

    stage.save_checkpoint = save_and_copy
    note_batches(folder / "batches.jsonl")
    train(recipe, folder / "run", baselines=False)


def resume(folder: Path) -> None:
    from plait.training.train import resume

    note_batches(folder.parent / "batches.jsonl")
    resume(folder)


def note_batches(path: Path) -> None:
    """Write which rows of which tasks each step trains."""
    from plait.training.trainer import Trainer

    step = Trainer.step

    def noted(self: Trainer, number: int, planned: Any) -> dict[str, float]:
        with path.open("a") as file:
            file.write(json.dumps([number, planned]) + "\n")
        return step(self, number, planned)

    Trainer.step = noted  # type: ignore[method-assign]


def check(bench: Bench, number: int) -> str:
    """Resume after one of the steps."""

    def make(place: Path) -> None:
        place.mkdir()
        ended = bench.start(place, train_and_copy, recipe_of(bench), place).end()
        assert ended.code == 0, ended.log

    made = bench.once(ROW, make)
    run = bench.copy(made / f"after-{number + 1}", ROW, number)
    ended = bench.start(run, resume, run).end()
    if ended.code:
        return f"ended with {ended.code}: {ended.log[-500:]}"
    lines = (made / "batches.jsonl").read_text().splitlines()[number + 1 :]
    found = (run.parent / "batches.jsonl").read_text().splitlines() if lines else []
    return "other batches" if lines != found else same_files(made / "run", run)
