"""What metrics.jsonl says about a run: losses, scores, which task was trained when, and gradient conflicts."""

import math
import statistics
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise

from plait.runs.records import ConflictLine, MetricsLine, ScoresLine, TrainLine

__all__ = ["CosinePoint", "CurvePoint", "Curves", "Turn", "read_curves"]

_BINS = 120  # points of a curve, at most


@dataclass(frozen=True)
class CurvePoint:
    """A value of one task at a step."""

    task: str
    step: int
    value: float
    of: str  # loss, dev, train, choose


@dataclass(frozen=True)
class Turn:
    """How much of some steps trained a task."""

    task: str
    first: int  # step
    last: int
    share: float  # of these steps


@dataclass(frozen=True)
class CosinePoint:
    """The cosine between two tasks' gradients at a step."""

    pair: str
    step: int
    value: float


@dataclass(frozen=True)
class Curves:
    """A run over its steps."""

    losses: list[CurvePoint]
    scores: list[CurvePoint]  # each task by its own metric
    turns: list[Turn]
    cosines: list[CosinePoint]
    epochs: list[int]  # the first step of each epoch but the first
    stages: list[int]  # the same for stages
    last: int  # step


def read_curves(lines: Iterable[MetricsLine], metrics: dict[str, str]) -> Curves:
    """The curves of a run; `metrics` names each task's own."""
    known = list(lines)
    steps = [line for line in known if isinstance(line, TrainLine)]
    scored = [line for line in known if isinstance(line, ScoresLine)]
    return Curves(
        losses=_losses(steps),
        scores=[point for line in scored for point in _scores(line, metrics)],
        turns=_turns(steps),
        cosines=[
            CosinePoint(pair, line.step, value)
            for line in known
            if isinstance(line, ConflictLine)
            for pair, value in line.cosines.items()
            if value is not None
        ],
        epochs=_changes([((line.stage, line.epoch), line.step) for line in steps]),
        stages=_changes([(line.stage, line.step) for line in steps]),
        last=max((line.step for line in known), default=0),
    )


def _bins(steps: Sequence[TrainLine]) -> Iterable[Sequence[TrainLine]]:
    """Consecutive steps, at most so many groups."""
    size = -(-len(steps) // _BINS) or 1
    return (steps[start : start + size] for start in range(0, len(steps), size))


def _losses(steps: Sequence[TrainLine]) -> list[CurvePoint]:
    """The mean loss of each task over consecutive steps."""
    found = []
    for group in _bins(steps):
        values: dict[str, list[float]] = {}
        for line in group:
            for task, loss in line.loss.items():
                values.setdefault(task, []).append(loss)
        found += [CurvePoint(task, group[-1].step, statistics.fmean(losses), "loss") for task, losses in values.items()]
    return found


def _turns(steps: Sequence[TrainLine]) -> list[Turn]:
    """The share of consecutive steps that trained each task."""
    tasks = list(dict.fromkeys(task for line in steps for task in line.loss))
    return [
        Turn(task, group[0].step, group[-1].step, sum(task in line.loss for line in group) / len(group))
        for group in _bins(steps)
        for task in tasks
    ]


def _scores(line: ScoresLine, metrics: dict[str, str]) -> Iterable[CurvePoint]:
    parts = {"dev": {**line.kept, **line.dev}, "train": line.train, "choose": line.choose}
    for of, tasks in parts.items():
        for task, values in tasks.items():
            value = values.get(metrics.get(task, ""))
            if value is not None and not math.isnan(value):
                yield CurvePoint(task, line.step, value, of)


def _changes(marked: Sequence[tuple[object, int]]) -> list[int]:
    """The steps at which the mark differs from that of the step before."""
    return [step for (before, _), (mark, step) in pairwise(marked) if mark != before]
