"""Helpers for tests that resolve and train recipes on the tiny encoder."""

import json
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from plait.data.batch import Batch, make_batch
from plait.model.model import Model
from plait.progress import SilentProgress
from plait.resolve.run import ResolvedRun, resolve_run
from plait.training.backward import _forward
from plait.training.given_recipe import as_recipe
from plait.training.objective import Pass
from plait.training.stages import _weights_digest
from plait.training.step import StepParts
from plait.training.trainer import Trainer, build_start_model


def resolve(recipe: Any) -> ResolvedRun:
    return resolve_run(as_recipe(recipe, None, None, ()))


def trainer_for(recipe: Any) -> Trainer:
    """The trainer of the last stage, before its first step."""
    resolved = resolve(recipe)
    return Trainer(resolved.stages[-1], build_start_model(resolved))


def batch_of(trainer: Trainer, task: str, rows: Sequence[int]) -> Batch:
    """The batch that a step makes of these training rows."""
    return make_batch(task, tuple(rows), trainer.resolved.learning[task].splits["train"].labels, trainer.tokens[task])


def forward(trainer: Trainer, task: str, rows: Sequence[int]) -> tuple[Batch, Pass]:
    """A batch, and what the losses of its task get to see; in the model's current mode."""
    batch = batch_of(trainer, task, rows)
    return batch, _forward(trainer.model, trainer.objectives[task], batch, trainer.model.encode(batch))


def step_parts(trainer: Trainer, **changes: Any) -> StepParts:
    """What the steps of a trainer work with, some of it changed."""
    return replace(trainer._parts, **changes)


def weights_digest(model: Model) -> str:
    """The digest that result.json has for the last weights of a run."""
    return _weights_digest(model)


def stop_after(steps: int) -> Callable[[], bool]:
    """A `stop` that ends a run after this many steps."""
    asked = 0

    def stop() -> bool:
        nonlocal asked
        asked += 1
        return asked == steps

    return stop


def metrics_lines(run: Path) -> list[dict]:
    return [json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()]


def result_json(run: Path) -> dict:
    return json.loads((run / "result.json").read_text())


class Recorder(SilentProgress):
    """Remembers everything that a run reports."""

    def __init__(self) -> None:
        self.parts: list[tuple[str, int, int]] = []
        self.notes: list[str] = []
        self.evaluations: list[dict] = []

    def begin(self, what: str, total: int, done: int = 0) -> None:
        self.parts.append((what, total, done))

    def note(self, message: str) -> None:
        self.notes.append(message)

    def scores(self, record: dict) -> None:
        self.evaluations.append(record)
