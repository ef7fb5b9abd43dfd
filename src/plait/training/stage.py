"""One stage of a run: its steps, its evaluations and its checkpoints."""

import json
import os
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from itertools import islice
from typing import Any, TextIO

import numpy as np

from plait.evaluation.evaluate import Scores, mean_score, score_task
from plait.model.about import About, portable
from plait.model.save import save_model
from plait.model.watch import Watcher
from plait.training.checkpoint import Position, save_checkpoint
from plait.training.grow import score_kept
from plait.training.keep import Standing, keep_best
from plait.training.run import Run
from plait.training.settle import SettledRun
from plait.training.trainer import Trainer

__all__ = ["Loop", "Stopped", "Work"]

TRAIN_SAMPLE = 500  # training rows a task that an evaluation looks at, at most as many as dev has


class Stopped(Exception):
    """The run was asked to stop, and did so after a checkpoint."""


@dataclass(frozen=True)
class Work:
    """What all stages of a run have in common."""

    run: Run
    settled: SettledRun
    metrics: TextIO
    baselines: dict[str, Any]
    watcher: Watcher
    stop: Callable[[], bool]

    @property
    def staged(self) -> bool:
        """Whether there is more than one stage to tell apart."""
        return len(self.settled.stages) > 1

    def name_stage(self, number: int) -> str:
        """A stage as people count; nothing where there is only one."""
        return f"stage {number + 1} of {len(self.settled.stages)}" if self.staged else ""


class Loop:
    """The steps of a stage, its evaluations and checkpoints."""

    def __init__(self, work: Work, trainer: Trainer, position: Position) -> None:
        self.work = work
        self.run = work.run
        self.watcher = work.watcher
        self.trainer = trainer
        self.position = position
        last = position.stage + 1 == len(work.settled.stages)
        self.keep: int = work.run.begun().get("keep", 0) if last else 0
        self.started = time.monotonic() - position.seconds

    def go(self) -> None:
        """Train until the plan, the steps or the patience is at its end."""
        position, trainer = self.position, self.trainer
        stage = self.work.name_stage(position.stage)
        self.watcher.begin(f"training, {stage}" if stage else "training", trainer.steps, position.step_in_stage)
        while position.step_in_stage < trainer.steps and not position.stopped_early:
            epoch = trainer.plan.epochs[position.epoch]
            for planned in islice(trainer.plan.epoch_plan(position.epoch), position.step_in_epoch, None):
                losses = trainer.step(position.step_in_stage, planned)
                position.step += 1
                position.step_in_epoch += 1
                ends = position.step_in_epoch == len(epoch) or position.step_in_stage == trainer.steps
                self.record("train", epoch=position.epoch, loss=losses)
                if trainer.cosines:
                    self.record("conflict", cosines=trainer.cosines)
                examples = sum(len(rows) for _, rows in planned)
                self.watcher.advance(examples=examples, loss=losses, epoch=position.epoch)
                self.after_step(ends)
                if ends or position.stopped_early:
                    break
        position.seconds = time.monotonic() - self.started
        self.watcher.end()

    def after_step(self, epoch_ends: bool) -> None:
        """Evaluate and save where it is due."""
        position, recipe = self.position, self.trainer.recipe
        if epoch_ends or (recipe.evaluate_every != "epoch" and position.step_in_stage % recipe.evaluate_every == 0):
            self.evaluate(f"epoch{position.epoch + 1}" if epoch_ends else f"step{position.step}")
        if epoch_ends:
            position.epoch += 1
            position.step_in_epoch = 0
        every = recipe.checkpoint_every
        due = epoch_ends if every == "epoch" else position.step_in_stage % every == 0
        stopping = self.work.stop()
        if due or stopping:
            position.seconds = time.monotonic() - self.started
            self.save()
        if stopping:
            raise Stopped(f"stopped after step {position.step:,}; plait train --resume {self.run.folder} goes on")

    def save(self) -> None:
        """Write a checkpoint, and every line of metrics before it."""
        self.work.metrics.flush()
        os.fsync(self.work.metrics.fileno())
        save_checkpoint(self.run.checkpoints, self.trainer.learning, self.trainer.optimizer, self.position)

    def evaluate(self, name: str) -> None:
        """Score train and dev, keep the model if it is the best so far, or one of the best, under this name."""
        position, recipe = self.position, self.trainer.recipe
        scores = self.score("dev")
        kept = score_kept(self.trainer.model, self.trainer.settled.kept)
        mean = mean_score(scores) if scores else None
        record = self.record(
            "scores",
            epoch=position.epoch,
            dev={name: task.values for name, task in scores.items()},
            kept={name: task.values for name, task in kept.items()},
            per_class={name: task.per_class for name, task in scores.items() if task.per_class},
            train={name: task.values for name, task in self.score("train").items()},
            mean=mean,
        )
        judged = scores[recipe.best_by].value if recipe.best_by in scores else mean
        better = judged is None or position.best_score is None or judged > position.best_score
        if better:
            position.best_step, position.best_score, position.patience = position.step, judged, 0
            save_model(self.trainer.model, self.run.best, self.about({**scores, **kept}))
        if self.keep:
            position.kept = keep_best(
                self.run.kept,
                position.kept,
                Standing(name, position.step, judged),
                self.keep,
                lambda folder: save_model(self.trainer.model, folder, self.about({**scores, **kept})),
            )
        if not better:
            position.patience += 1
            position.stopped_early = recipe.early_stopping is not None and position.patience >= recipe.early_stopping
        self.watcher.scores(
            {**record, "best": better, "metrics": {n: s.metric for n, s in self.trainer.settled.specs.items()}}
        )
        if position.stopped_early:
            self.watcher.note(f"no better score in {position.patience} evaluations: stopping early")

    def score(self, split: str) -> dict[str, Scores]:
        """The scores of the tasks that have dev data, on dev or on a sample of train."""
        scores = {}
        for name, task in self.trainer.settled.tasks.items():
            if "dev" not in task.splits:
                continue
            examples = task.splits[split]
            if split == "train":
                count = min(TRAIN_SAMPLE, len(examples), len(task.splits["dev"]))
                examples = examples.chosen(np.linspace(0, len(examples) - 1, count).astype(int).tolist())
            scores[name] = score_task(self.trainer.model, name, examples)
        return scores

    def about(self, scores: Mapping[str, Scores]) -> About:
        """What the model directory tells of its making."""
        return About(
            recipe=portable(self.work.settled.recipe.model_dump(mode="json")),
            data=self.work.settled.fingerprints,
            scores={name: task.values for name, task in scores.items()},
            baselines=self.work.baselines,
            step=self.position.step,
            kept=self.work.settled.kept_origins(folders=False),
        )

    def record(self, kind: str, **facts: Any) -> dict[str, Any]:
        """A line of metrics.jsonl."""
        stage = {"stage": self.position.stage} if self.work.staged else {}
        line = {"kind": kind, "step": self.position.step, **stage, **facts}
        self.work.metrics.write(json.dumps(line) + "\n")
        return line
