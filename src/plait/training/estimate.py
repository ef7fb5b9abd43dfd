"""What a recipe would train: rows, labels, steps, repeats, memory and time."""

import resource
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from plait.data.batch import tokenize_views
from plait.data.tokenize import TokenTable
from plait.recipe.task import SPLITS
from plait.resolve.run import ResolvedRun
from plait.resolve.task import ResolvedTask
from plait.training.baselines import FROZEN_TIMES
from plait.training.trainer import Trainer, build_start_model
from plait.training.warm_heads import MOST_ROWS

__all__ = [
    "TRIED",
    "CostEstimate",
    "StagePreview",
    "TaskPreview",
    "preview_run",
    "preview_tasks",
    "total_cost",
    "try_steps",
]

TRIED = 4  # steps that are really trained: the longest twice, and two of typical length
_EXAMINED = 20_000  # steps that are looked at to find the longest and the typical ones
_INFERENCE = 0.35  # time to encode a token, as a share of the time to train on it
_CHOOSING = "choosing"  # dev rows that choose the best model and are not scored
_HEAD_STEP = 0.002  # seconds per step of heads on stored embeddings
_SOLVED_ROW = 0.006  # seconds per training row of a head that is solved


@dataclass(frozen=True)
class TaskPreview:
    """What would be trained for one task."""

    task: str
    rows: dict[str, int]  # by split
    kind: str
    labels: str  # classes or range
    majority: float | None  # share of the most common class in train
    tokens_median: float
    tokens_95: float
    truncated: int  # inputs
    inputs: int  # of all splits
    limit: int
    steps_per_epoch: float
    samples_per_epoch: float
    seen: float  # how often each row is seen in the whole stage
    head: str
    loss: str
    learns: bool  # False: it is only scored


@dataclass(frozen=True)
class CostEstimate:
    """What a run would cost, estimated from a few real steps."""

    peak_memory: int  # bytes
    seconds_per_step: float
    seconds: float  # of the whole stage or run, evaluation and baselines included


@dataclass(frozen=True)
class StagePreview:
    """What would be trained in one stage."""

    tasks: list[TaskPreview]
    steps: int
    epochs: int
    schedule: str
    cost: CostEstimate | None


def preview_run(resolved: ResolvedRun, *, trial: bool, baselines: bool = True) -> list[StagePreview]:
    """A preview of every stage; with `trial`, some steps of each are trained to estimate its cost."""
    model = build_start_model(resolved)
    return [
        _preview_stage(Trainer(stage, model), trial=trial, baselines=baselines and stage is resolved.stages[-1])
        for stage in resolved.stages
    ]


def _preview_stage(trainer: Trainer, *, trial: bool, baselines: bool) -> StagePreview:
    return StagePreview(
        preview_tasks(trainer),
        trainer.steps,
        len(trainer.plan.epochs),
        trainer.recipe.schedule.name,
        try_steps(trainer, baselines=baselines) if trial else None,
    )


def total_cost(stages: Sequence[StagePreview]) -> CostEstimate | None:
    """The cost of the whole run."""
    tried = [(stage.steps, stage.cost) for stage in stages if stage.cost]
    if not tried:
        return None
    per_step = sum(steps * cost.seconds_per_step for steps, cost in tried) / sum(steps for steps, _ in tried)
    return CostEstimate(max(cost.peak_memory for _, cost in tried), per_step, sum(cost.seconds for _, cost in tried))


def preview_tasks(trainer: Trainer) -> list[TaskPreview]:
    drawn = trainer.plan.drawn(trainer.steps)
    epochs = max(1, len(trainer.plan.epochs))
    facts = []
    for name, task in trainer.resolved.tasks.items():
        tables = [table for split in (*task.splits, _CHOOSING) for table in _split_tokens(trainer, task, split)]
        lengths = np.concatenate([table.lengths for table in tables])
        labels = task.spec.labels
        counts = labels.about.class_counts(task.splits["train"].labels)
        batches, rows = drawn.get(name, (0, 0))
        facts.append(
            TaskPreview(
                task=name,
                rows={
                    **{split: len(examples) for split, examples in task.splits.items()},
                    **({_CHOOSING: len(task.choosing)} if task.choosing else {}),
                },
                kind=labels.kind,
                labels=labels.describe(),
                majority=None if counts is None else float(counts.max() / len(task.splits["train"])),
                tokens_median=float(np.median(lengths)),
                tokens_95=float(np.percentile(lengths, 95)),
                truncated=sum(int(table.is_truncated.sum()) for table in tables),
                inputs=len(lengths),
                limit=task.spec.max_length,
                steps_per_epoch=batches / epochs,
                samples_per_epoch=rows / epochs,
                seen=rows / len(task.splits["train"]),
                head=task.spec.head_words or "none",
                loss=", ".join(loss.name for loss in task.losses),
                learns=task.settings.learn,
            )
        )
    return facts


def try_steps(trainer: Trainer, *, baselines: bool = True) -> CostEstimate:
    """Train a few steps, including the longest of the run; the trainer is of no use afterwards."""
    apart = -(-trainer.steps // _EXAMINED)  # of a long run, one epoch in so many
    chosen = range(0, len(trainer.plan.epochs), apart)
    planned = [step for epoch in chosen for step in trainer.plan.epoch_plan(epoch)][: trainer.steps]
    tokens = [sum(int(trainer.plan.tasks[task].lengths[list(rows)].sum()) for task, rows in step) for step in planned]
    typical = np.argsort(np.abs(np.array(tokens) - np.mean(tokens)), kind="stable")[: TRIED - 2].tolist()
    for number in range(2):  # the optimizer's averages are in memory from the second step on
        trainer.step(number, planned[int(np.argmax(tokens))])
    started = time.perf_counter()
    for number, index in enumerate(typical, start=2):
        trainer.step(number, planned[index])
    per_token = (time.perf_counter() - started) / max(1, sum(tokens[index] for index in typical))
    recipe, tasks = trainer.recipe, trainer.resolved.tasks.values()
    train, dev, test = (
        sum(
            len(table.ids)
            for task in tasks
            if task.settings.learn or split != "train"
            for part in ((split, _CHOOSING) if split == "dev" else (split,))
            for table in _split_tokens(trainer, task, part)
        )
        for split in SPLITS
    )
    epochs = len(trainer.plan.epochs)
    evaluations = epochs if recipe.evaluate_every == "epoch" else trainer.steps // recipe.evaluate_every + epochs
    solves = recipe.head_start == "frozen"
    encoded = 2 * dev * evaluations  # train is sampled to the size of dev
    encoded += (train if baselines or solves else 0) + (dev + test if baselines else 0)
    # With a frozen encoder every text is encoded once, as a step of the trial did.
    trained = sum(tokens) / len(tokens) * trainer.steps * (2 if recipe.refit else 1)
    seconds = per_token * (trained + _INFERENCE * encoded if recipe.train_encoder else train + encoded)
    if solves:
        heads = [len(task.splits["train"]) for task in tasks if task.settings.learn and task.spec.head]
        seconds += _SOLVED_ROW * sum(min(rows, MOST_ROWS) for rows in heads) * (2 if recipe.refit else 1)
    elif baselines:
        seconds += _HEAD_STEP * trainer.steps * FROZEN_TIMES
    return CostEstimate(_peak_memory(), per_token * float(np.mean(tokens)), seconds)


def _split_tokens(trainer: Trainer, task: ResolvedTask, split: str) -> list[TokenTable]:
    """The tokenized inputs of a split of a task."""
    examples = task.choosing if split == _CHOOSING else task.splits.get(split)
    if examples is None:
        return []
    if split == "train" and task.settings.learn:
        return list(trainer.tokens[task.spec.name].values())
    return list(tokenize_views(trainer.model.tokenizer, examples.texts, task.spec.views, task.spec.max_length).values())


def _peak_memory() -> int:
    """The peak memory of this process so far, in bytes."""
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak if sys.platform == "darwin" else 1024 * peak
