"""What a recipe would train, before it does: rows, labels, steps, repeats, memory and time."""

import resource
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from plait.data.batch import tokenize_views
from plait.data.tokenize import TokenTable
from plait.recipe.schema import SPLITS
from plait.schedules import Plan
from plait.training.baselines import FROZEN_TIMES
from plait.training.settle import SettledRun
from plait.training.task_data import TaskData
from plait.training.trainer import Trainer, begin_model

__all__ = ["TRIED", "StageFacts", "TaskFacts", "Trial", "run_facts", "task_facts", "try_steps", "whole_trial"]

TRIED = 3  # steps of a trial
INFERENCE = 0.35  # of the time that training takes for the same tokens
HEAD_STEP = 0.002  # seconds that a step of heads on stored embeddings takes


@dataclass(frozen=True)
class TaskFacts:
    """What would be trained of one task."""

    task: str
    rows: dict[str, int]  # by split
    kind: str
    labels: str  # classes or range
    commonest: float | None  # share of the commonest class in train
    tokens_median: float
    tokens_95: float
    truncated: int  # inputs that are cut
    inputs: int  # of all splits
    limit: int
    steps_per_epoch: float
    samples_per_epoch: float
    seen: float  # times that each row is seen in the whole stage
    head: str
    loss: str
    learns: bool  # or is only scored


@dataclass(frozen=True)
class Trial:
    """What a few real steps cost, and what the run would."""

    peak_memory: int  # bytes
    seconds_per_step: float
    seconds: float  # of the whole stage or run, evaluation and baselines included


@dataclass(frozen=True)
class StageFacts:
    """What would be trained in one stage of a run."""

    tasks: list[TaskFacts]
    steps: int
    epochs: int
    schedule: str
    trial: Trial | None


def run_facts(settled: SettledRun, *, trial: bool, baselines: bool = True) -> list[StageFacts]:
    """The facts of every stage, with a trial of each if one is wanted; its time with baselines or without."""
    model = begin_model(settled)
    return [
        stage_facts(Trainer(stage, model), trial=trial, baselines=baselines and stage is settled.last)
        for stage in settled.stages
    ]


def stage_facts(trainer: Trainer, *, trial: bool, baselines: bool) -> StageFacts:
    """The facts of one stage."""
    return StageFacts(
        task_facts(trainer),
        trainer.steps,
        len(trainer.plan.epochs),
        trainer.recipe.schedule.name,
        try_steps(trainer, baselines=baselines) if trial else None,
    )


def whole_trial(stages: Sequence[StageFacts]) -> Trial | None:
    """What the whole run would cost."""
    tried = [(stage.steps, stage.trial) for stage in stages if stage.trial]
    if not tried:
        return None
    per_step = sum(steps * trial.seconds_per_step for steps, trial in tried) / sum(steps for steps, _ in tried)
    return Trial(max(trial.peak_memory for _, trial in tried), per_step, sum(trial.seconds for _, trial in tried))


def task_facts(trainer: Trainer) -> list[TaskFacts]:
    """The facts of every task."""
    drawn = drawn_rows(trainer.plan, trainer.steps)
    epochs = max(1, len(trainer.plan.epochs))
    facts = []
    for name, task in trainer.settled.tasks.items():
        tables = [table for split in task.splits for table in split_tokens(trainer, task, split)]
        lengths = np.concatenate([table.lengths for table in tables])
        labels = task.spec.labels
        counts = label_counts(labels.kind, task.train.labels)
        batches, rows = drawn.get(name, (0, 0))
        facts.append(
            TaskFacts(
                task=name,
                rows={split: len(examples) for split, examples in task.splits.items()},
                kind=labels.kind,
                labels=labels.describe(),
                commonest=None if counts is None else float(counts.max() / len(task.train)),
                tokens_median=float(np.median(lengths)),
                tokens_95=float(np.percentile(lengths, 95)),
                truncated=sum(table.truncated for table in tables),
                inputs=len(lengths),
                limit=task.spec.max_length,
                steps_per_epoch=batches / epochs,
                samples_per_epoch=rows / epochs,
                seen=rows / len(task.train),
                head=task.spec.head or "none",
                loss=", ".join(loss.name for loss in task.settings.loss or ()),
                learns=task.settings.learn,
            )
        )
    return facts


def label_counts(kind: str, labels: np.ndarray) -> np.ndarray | None:
    """How many rows each class has; None where there are no classes."""
    if kind in ("score", "triplets", "unlabelled"):
        return None
    counts: np.ndarray = labels.sum(axis=0) if kind == "several" else np.bincount(labels)
    return counts


def drawn_rows(plan: Plan, steps: int) -> dict[str, tuple[int, int]]:
    """How many batches and rows of each task a run of so many steps draws."""
    drawn = dict.fromkeys(plan.tasks, (0, 0))
    done = 0
    for epoch in range(len(plan.epochs)):
        for planned in plan.epoch_plan(epoch):
            if done == steps:
                return drawn
            done += 1
            for task, rows in planned:
                batches, total = drawn[task]
                drawn[task] = batches + 1, total + len(rows)
    return drawn


def try_steps(trainer: Trainer, *, baselines: bool = True) -> Trial:
    """Train a few steps, the heaviest of the run among them; the trainer's weights are spent afterwards."""
    planned = [step for epoch in range(len(trainer.plan.epochs)) for step in trainer.plan.epoch_plan(epoch)]
    planned = planned[: trainer.steps]
    tokens = [sum(int(trainer.plan.tasks[task].lengths[list(rows)].sum()) for task, rows in step) for step in planned]
    typical = np.argsort(np.abs(np.array(tokens) - np.mean(tokens)), kind="stable")[: TRIED - 1].tolist()
    trainer.step(0, planned[int(np.argmax(tokens))])
    started = time.perf_counter()
    for number, index in enumerate(typical, start=1):
        trainer.step(number, planned[index])
    per_token = (time.perf_counter() - started) / max(1, sum(tokens[index] for index in typical))
    recipe, tasks = trainer.recipe, trainer.settled.tasks.values()
    train, dev, test = (
        sum(
            len(table.ids)
            for task in tasks
            if task.settings.learn or split != "train"
            for table in split_tokens(trainer, task, split)
        )
        for split in SPLITS
    )
    epochs = len(trainer.plan.epochs)
    evaluations = epochs if recipe.evaluate_every == "epoch" else trainer.steps // recipe.evaluate_every + epochs
    encoded = 2 * dev * evaluations + (train + dev + test if baselines else 0)  # train is sampled like dev
    # With a frozen encoder every text is encoded once, which is what a step of the trial did.
    seconds = per_token * (sum(tokens) + INFERENCE * encoded if recipe.train_encoder else train + encoded)
    seconds += HEAD_STEP * trainer.steps * (FROZEN_TIMES if baselines else 0)
    return Trial(peak_memory(), per_token * float(np.mean(tokens)), seconds)


def split_tokens(trainer: Trainer, task: TaskData, split: str) -> list[TokenTable]:
    """The inputs of the encoder that a split of a task gives."""
    if split not in task.splits:
        return []
    if split == "train" and task.settings.learn:
        return list(trainer.tokens[task.spec.name].values())
    texts = task.splits[split].texts
    return list(tokenize_views(trainer.model.text.tokenizer, texts, task.spec.views, task.spec.max_length).values())


def peak_memory() -> int:
    """The most memory that this process has used so far, in bytes."""
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak if sys.platform == "darwin" else 1024 * peak
