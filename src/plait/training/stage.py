"""One stage of a run: its steps, evaluations and checkpoints."""

import math
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
from torch import Tensor

from plait.data.batch import tokenize_views
from plait.data.examples import Examples
from plait.data.prediction_arrays import PredictionArrays
from plait.data.tokenize import TokenTable
from plait.errors import NotFiniteError
from plait.evaluation.evaluate import TaskScores, mean_score, score_predictions
from plait.model.directory.record import Provenance, portable
from plait.model.directory.save import save_model
from plait.model.encode_texts import embed_tables, predict_embedded, predict_tables
from plait.progress import Progress
from plait.resolve.run import ResolvedRun
from plait.runs.best_models import RankedModel, update_best_models
from plait.runs.checkpoint import Position, save_checkpoint
from plait.runs.directory import RunDirectory
from plait.runs.metrics_file import MetricsFile
from plait.runs.records import ConflictLine, MetricsLine, ScoresLine, TrainLine
from plait.training.trackers import Trackers
from plait.training.trainer import Trainer
from plait.world import World

__all__ = ["RunContext", "StageRun", "Stopped"]

_CHECKPOINT_PAUSE = 30.0  # seconds from one checkpoint to the next if they are written at the end of epochs
_TRAIN_SAMPLE = 500  # training rows per task that an evaluation scores, and no more than dev has


class Stopped(Exception):
    """The run was asked to stop and did so after a checkpoint."""


@dataclass(frozen=True)
class RunContext:
    """What all stages of a run share."""

    run: RunDirectory
    resolved: ResolvedRun
    metrics: MetricsFile
    baselines: dict[str, Any]
    progress: Progress
    stop: Callable[[], bool]
    world: World = field(default_factory=World)
    trackers: Trackers = field(default_factory=Trackers)

    @property
    def has_stages(self) -> bool:
        return len(self.resolved.stages) > 1

    def stage_name(self, number: int) -> str:
        """A stage for people, counted from 1; empty if there is only one."""
        return f"stage {number + 1} of {len(self.resolved.stages)}" if self.has_stages else ""


class StageRun:
    """The steps of a stage, its evaluations and checkpoints."""

    def __init__(self, context: RunContext, trainer: Trainer, position: Position) -> None:
        self.context = context
        self.run = context.run
        self.progress = context.progress
        self.trainer = trainer
        self.position = position
        last = position.stage + 1 == len(context.resolved.stages)
        self.keep = context.run.record.keep if last else 0
        self._stage = position.stage if context.has_stages else None  # in metrics.jsonl
        self._started = time.monotonic() - position.seconds
        self._saved = time.monotonic()  # when the last checkpoint was written
        self._tables: dict[tuple[str, str], dict[str, TokenTable]] = {}  # task and split → tokens to score
        self._embedded: dict[tuple[str, str], dict[str, Tensor]] = {}  # the same encoded, if the encoder is frozen

    def run_steps(self) -> None:
        """Train until the plan, the steps or the patience ends."""
        position, trainer = self.position, self.trainer
        stage = self.context.stage_name(position.stage)
        self.progress.begin(f"training, {stage}" if stage else "training", trainer.steps, position.step_in_stage)
        while position.step_in_stage < trainer.steps and not position.stopped_early:
            epoch = trainer.plan.epochs[position.epoch]
            trainer.begin_epoch(self.progress, resumed=position.step_in_epoch > 0)
            for planned in islice(trainer.plan.epoch_plan(position.epoch), position.step_in_epoch, None):
                losses = trainer.step(position.step_in_stage, planned)
                position.step += 1
                position.step_in_epoch += 1
                ends = position.step_in_epoch == len(epoch) or position.step_in_stage == trainer.steps
                self._write(TrainLine(position.step, self._stage, position.epoch, losses))
                if trainer.cosines:
                    self._write(ConflictLine(position.step, self._stage, dict(trainer.cosines)))
                examples = sum(len(rows) for _, rows in planned)
                self.progress.advance(examples=examples, loss=losses, epoch=position.epoch)
                self._after_step(ends)
                if ends or position.stopped_early:
                    break
        position.seconds = time.monotonic() - self._started
        self.progress.end()
        self.context.world.wait()  # until the best model is written

    @property
    def has_evaluated(self) -> bool:
        """Whether an evaluation of this stage has scored a model."""
        return self.position.best_step is not None or self.position.patience > 0

    def save(self) -> None:
        """Write a checkpoint, after every line of metrics before it."""
        if not self.context.world.is_main:
            return
        self.trainer.check_weights(self.position.step)
        self.run.check_present()
        self.context.metrics.sync()
        self.position.metrics = self.context.metrics.mark
        save_checkpoint(self.run.checkpoints, self.trainer.checkpoint_modules, self.trainer.optimizer, self.position)
        self._saved = time.monotonic()

    def evaluate(self, name: str) -> None:
        """Score train and dev, and save the model, under this name too, if it is among the best."""
        position, recipe = self.position, self.trainer.recipe
        self.trainer.check_weights(position.step)
        self.trainer.model.eval()
        try:
            scores, choosing, train = self._score("dev"), self._score_choosing(), self._score("train")
            kept = self._score_kept()
        except NotFiniteError as error:
            raise NotFiniteError(
                *(f"evaluation after step {position.step:,}: {line}" for line in error.mistakes)
            ) from None
        judging = {**scores, **choosing}
        ends = position.step_in_stage == self.trainer.steps
        if not scores and not kept and not ends and not self.keep:  # nothing to report or to save
            return
        mean = mean_score(judging) if judging else None
        line = ScoresLine(
            position.step,
            self._stage,
            position.epoch,
            dev={name: task.values for name, task in scores.items()},
            kept=kept,
            recall={name: task.recall for name, task in scores.items() if task.recall},
            train={name: task.values for name, task in train.items()},
            mean=mean,
            choose={name: task.values for name, task in choosing.items()},
        )
        self._write(line)
        judged = judging[recipe.best_by].value if recipe.best_by in judging else mean
        if judged is not None and math.isnan(judged):  # the metric is undefined on these rows
            judged = None
        if judged is None:  # nothing selects a model, so it is the last, unless an earlier one has a score
            better = ends and position.best_score is None
        elif position.best_score is None:
            better = True
        else:  # training is worth no less than the start of the heads
            better = judged > position.best_score or (judged == position.best_score and position.best_step == 0)
        provenance = self._provenance({**{name: task.values for name, task in scores.items()}, **kept})
        if better:
            position.best_step, position.best_score, position.patience = position.step, judged, 0
            self._save_model(self.run.best, provenance)
        if self.keep:
            position.kept = update_best_models(
                self.run.kept,
                position.kept,
                RankedModel(name, position.step, judged),
                self.keep,
                lambda folder: self._save_model(folder, provenance),
            )
        if not better:
            position.patience += 1
            position.stopped_early = recipe.early_stopping is not None and position.patience >= recipe.early_stopping
        metrics = {name: spec.metric for name, spec in self.trainer.resolved.specs.items()}
        self.progress.scores({**line.to_json(), "best": better, "metrics": metrics})
        if position.stopped_early:
            self.progress.note(f"no better score in {position.patience} evaluations: stopping early")

    def _after_step(self, epoch_ends: bool) -> None:
        """Evaluate and save when it is due."""
        position, recipe = self.position, self.trainer.recipe
        if epoch_ends or (recipe.evaluate_every != "epoch" and position.step_in_stage % recipe.evaluate_every == 0):
            self.evaluate(f"epoch{position.epoch + 1}" if epoch_ends else f"step{position.step}")
        if epoch_ends:
            position.epoch += 1
            position.step_in_epoch = 0
        every = recipe.checkpoint_every
        if every == "epoch":
            due = epoch_ends and time.monotonic() - self._saved >= _CHECKPOINT_PAUSE
        else:
            due = position.step_in_stage % every == 0
        stopping = not self.context.world.all(not self.context.stop())
        if due or stopping:
            position.seconds = time.monotonic() - self._started
            self.save()
        if stopping:
            raise Stopped(f"stopped after step {position.step:,}; resume with plait train --resume {self.run.folder}")

    def _score(self, split: str) -> dict[str, TaskScores]:
        """The scores of the tasks that have dev data, on dev or on a sample of train."""
        scores = {}
        for name, task in self.trainer.resolved.tasks.items():
            if "dev" not in task.splits:
                continue
            examples = task.splits[split]
            if split == "train":
                count = min(_TRAIN_SAMPLE, len(examples), len(task.splits["dev"]))
                examples = examples.chosen(np.linspace(0, len(examples) - 1, count).astype(int).tolist())
            scores[name] = self._score_tokenized(name, split, examples)
        return scores

    def _score_choosing(self) -> dict[str, TaskScores]:
        """The scores on dev rows that choose the best model and are not reported, of tasks that have such rows."""
        tasks = self.trainer.resolved.tasks
        return {
            name: self._score_tokenized(name, "choose", task.choosing) for name, task in tasks.items() if task.choosing
        }

    def _score_kept(self) -> dict[str, dict[str, float]]:
        """The dev scores of tasks that the stage keeps and does not train."""
        return {
            name: self._score_tokenized(name, "kept", task.dev).values if task.dev else {**task.scores}
            for name, task in self.trainer.resolved.kept.items()
            if task.dev or task.scores
        }

    def _score_tokenized(self, name: str, split: str, examples: Examples) -> TaskScores:
        """The scores on some examples, which are tokenized at the first evaluation only, and with a frozen encoder
        encoded then too.

        Each process predicts its share of the examples.
        """
        model, world = self.trainer.model, self.context.world
        spec = model.tasks[name]
        if (name, split) not in self._tables:
            own = examples if world.size == 1 else examples.chosen(world.share(len(examples)))
            self._tables[name, split] = tokenize_views(model.tokenizer, own.texts, spec.views, spec.max_length)
        if self.trainer.recipe.train_encoder:
            predicted = predict_tables(model, name, [self._tables[name, split]]).predictions
        else:
            if (name, split) not in self._embedded:
                self._embedded[name, split] = embed_tables(model, self._tables[name, split])
            predicted = predict_embedded(model, name, self._embedded[name, split])
        predictions = PredictionArrays.joined(world.gather(predicted))
        return score_predictions(spec, examples.labels, predictions)

    def _save_model(self, folder: Path, provenance: Provenance) -> None:
        if self.context.world.is_main:
            self.run.check_present()
            save_model(self.trainer.model, folder, provenance)

    def _provenance(self, scores: dict[str, dict[str, float]]) -> Provenance:
        resolved = self.context.resolved
        return Provenance(
            recipe=portable(resolved.recipe.model_dump(mode="json")),
            data=resolved.fingerprints,
            scores=scores,
            baselines=self.context.baselines,
            step=self.position.step,
            kept=resolved.kept_origins(folders=False),
        )

    def _write(self, line: MetricsLine) -> None:
        """Append a line to metrics.jsonl, and send it to the trackers."""
        if self.context.world.is_main:
            self.context.metrics.write(line)
            self.context.trackers.write(line)
