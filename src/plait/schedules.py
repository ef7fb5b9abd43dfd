"""Which task the next step trains, and with which rows: pure functions of the seed.

A schedule gives the tasks of every step of every epoch; `epoch_plan` fills in the rows. A step is the names of the
tasks that it trains, one after the other: one name in most schedules, every task in `together`.
"""

import math
import random
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from itertools import accumulate, chain, groupby
from typing import Annotated, Literal

import numpy as np
from annotated_types import Ge, Gt, Lt

__all__ = ["LR_SCHEDULES", "SCHEDULES", "Plan", "TaskRows"]

Step = tuple[str, ...]
Batches = Mapping[str, int]  # task → how many batches one pass over its rows has

Positive = Annotated[float, Gt(0)]
Share = Annotated[float, Ge(0), Lt(1)]

WINDOW = 32  # batches whose rows are sorted by length together


def sequential(batches: Batches, epochs: int, seed: str, *, order: tuple[str, ...] | None = None) -> list[list[Step]]:
    """One task for all its epochs, then the next; each pass over a task counts as an epoch (robust-embeddings ST).

    The learning rate runs through its schedule anew for each task.
    """
    return [[(task,)] * batches[task] for task in order or batches for _ in range(epochs)]


def round_robin(batches: Batches, epochs: int, seed: str, *, order: tuple[str, ...] | None = None) -> list[list[Step]]:
    """In each epoch one pass over each task in the order given, where a task may stand more than once."""
    return [[(task,) for task in order or batches for _ in range(batches[task])] for _ in range(epochs)]


def sampled(
    batches: Batches,
    epochs: int,
    seed: str,
    *,
    by: Literal["size", "equal", "temperature"] = "size",
    weights: dict[str, Positive] | None = None,
    t: Positive | None = None,
) -> list[list[Step]]:
    """MT-DNN (Liu 2019): the batches of all tasks merged and shuffled (`size`), or the task of each step drawn.

    `equal` draws by `weights` (1 each unless given), `temperature` by size^(1/t) × weight, t being 2 unless
    given; an epoch has as many steps as all tasks have batches.
    """
    chosen = weights or {}
    plans: list[list[Step]] = []
    for epoch in range(epochs):
        generator = random.Random(f"{seed}/sampled/{epoch}")
        if by == "size":
            repeats = {task: max(1, round(count * chosen.get(task, 1.0))) for task, count in batches.items()}
            steps: list[Step] = [(task,) for task, count in repeats.items() for _ in range(count)]
            generator.shuffle(steps)
        else:
            power = 0.0 if by == "equal" else 1 / (t or 2.0)
            shares = [count**power * chosen.get(task, 1.0) for task, count in batches.items()]
            steps = [(task,) for task in generator.choices(list(batches), shares, k=sum(batches.values()))]
        plans.append(steps)
    return plans


def alternate(
    batches: Batches, epochs: int, seed: str, *, order: tuple[str, ...] | None = None, epoch: str = "longest"
) -> list[list[Step]]:
    """One batch of each task in turn; what other tools call round robin."""
    turns = epoch_length(batches, epoch)
    return [[(task,) for _ in range(turns) for task in order or batches] for _ in range(epochs)]


def together(
    batches: Batches, epochs: int, seed: str, *, combine: str = "sum", epoch: str = "longest"
) -> list[list[Step]]:
    """One batch of every task in each step, their gradients combined; shorter tasks cycle, reshuffled."""
    return [[tuple(batches)] * epoch_length(batches, epoch) for _ in range(epochs)]


def epoch_length(batches: Batches, epoch: str) -> int:
    """Steps until the longest or shortest task, or the task of that name, has been through once."""
    if epoch in ("longest", "shortest"):
        return (max if epoch == "longest" else min)(batches.values())
    return batches[epoch]


SCHEDULES: Mapping[str, Callable[..., list[list[Step]]]] = {
    "sequential": sequential,
    "round_robin": round_robin,
    "sampled": sampled,
    "alternate": alternate,
    "together": together,
}


@dataclass(frozen=True)
class TaskRows:
    """What the plan must know of a task's training rows."""

    lengths: np.ndarray  # tokens of each row
    batch_size: int
    take: float  # share of the rows in one pass

    @property
    def taken(self) -> int:
        """Rows in one pass."""
        return max(1, round(len(self.lengths) * self.take))

    @property
    def batches(self) -> int:
        """Batches in one pass."""
        return math.ceil(self.taken / self.batch_size)


class Plan:
    """Every step of one stage: the same for the same seed, rows and schedule."""

    def __init__(
        self,
        tasks: Mapping[str, TaskRows],
        schedule: Callable[..., list[list[Step]]],
        epochs: int,
        seed: int,
        stage: int = 0,
    ) -> None:
        self.tasks = tasks
        self.seed = f"{seed}/{stage}"
        self.epochs = schedule({name: task.batches for name, task in tasks.items()}, epochs, self.seed)
        self.pass_batches = lru_cache(maxsize=2 * len(tasks))(self._pass_batches)

    @property
    def steps(self) -> int:
        """All steps of all epochs."""
        return sum(map(len, self.epochs))

    @cached_property
    def turns(self) -> list[tuple[int, int]]:
        """The first step of each stretch of steps with the same tasks, and how many it has."""
        counts = [len(list(steps)) for _, steps in groupby(chain.from_iterable(self.epochs))]
        return list(zip(accumulate(counts, initial=0), counts, strict=False))

    def drawn_before(self, epoch: int) -> dict[str, int]:
        """How many batches of each task the epochs before this one have used."""
        counts = dict.fromkeys(self.tasks, 0)
        for steps in self.epochs[:epoch]:
            for step in steps:
                for task in step:
                    counts[task] += 1
        return counts

    def epoch_plan(self, epoch: int) -> Iterator[list[tuple[str, tuple[int, ...]]]]:
        """The tasks and row ids of each step of an epoch; a task's rows come from its own endless reshuffled stream."""
        counts = self.drawn_before(epoch)
        for step in self.epochs[epoch]:
            planned = []
            for task in step:
                planned.append((task, self.batch_rows(task, counts[task])))
                counts[task] += 1
            yield planned

    def batch_rows(self, task: str, count: int) -> tuple[int, ...]:
        """The row ids of the batch in a task's stream that comes after so many others."""
        number, index = divmod(count, self.tasks[task].batches)
        return self.pass_batches(task, number)[index]

    def _pass_batches(self, task: str, number: int) -> list[tuple[int, ...]]:
        """The batches of one pass: rows shuffled, a share taken, rows of like length put together, batches shuffled."""
        rows = self.tasks[task]
        generator = random.Random(f"{self.seed}/{task}/{number}")
        shuffled = list(range(len(rows.lengths)))
        generator.shuffle(shuffled)
        taken = shuffled[: rows.taken]
        size = rows.batch_size * WINDOW
        batches = [
            batch
            for start in range(0, len(taken), size)
            for batch in cut(sorted(taken[start : start + size], key=rows.lengths.__getitem__), rows.batch_size)
        ]
        generator.shuffle(batches)
        return batches


def cut(rows: Sequence[int], size: int) -> list[tuple[int, ...]]:
    """Rows in batches of a size; the last may be smaller."""
    return [tuple(rows[start : start + size]) for start in range(0, len(rows), size)]


def constant(step: int, steps: int, *, warmup: Share = 0.0) -> float:
    """The factor on the learning rate at a step: rises over the first `warmup` share of the steps, then stays 1."""
    return rise(step, steps, warmup)


def linear(step: int, steps: int, *, warmup: Share = 0.1) -> float:
    """Rises, then falls in a straight line to 0."""
    return min(rise(step, steps, warmup), (1 - progress(step, steps, warmup)))


def cosine(step: int, steps: int, *, warmup: Share = 0.0) -> float:
    """Rises, then falls along half a cosine to 0."""
    return min(rise(step, steps, warmup), (1 + math.cos(math.pi * progress(step, steps, warmup))) / 2)


def rise(step: int, steps: int, warmup: float) -> float:
    """From 1/w to 1 over the w steps of the warm-up."""
    return min(1.0, (step + 1) / max(1.0, warmup * steps))


def progress(step: int, steps: int, warmup: float) -> float:
    """The share of the steps after the warm-up that is done."""
    first = warmup * steps
    return max(0.0, (step - first) / max(1.0, steps - first))


LR_SCHEDULES: Mapping[str, Callable[..., float]] = {"constant": constant, "linear": linear, "cosine": cosine}
