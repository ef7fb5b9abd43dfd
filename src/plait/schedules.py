"""Which task the next step trains, and on which rows: pure functions of the seed.

A schedule gives the tasks of every step of every epoch; `Plan` adds the rows. A step names the tasks that it trains:
one in most schedules, all of them in `together`.
"""

import math
import random
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from itertools import accumulate, chain, groupby, islice
from typing import Annotated, Literal

import numpy as np
from annotated_types import Ge, Gt, Le, Lt

from plait.errors import RecipeError
from plait.registry import Registry

__all__ = [
    "LR_SCHEDULES",
    "SCHEDULES",
    "Plan",
    "Schedule",
    "TaskRows",
    "alternate",
    "check_length",
    "constant",
    "cosine",
    "linear",
    "round_robin",
    "sampled",
    "sequential",
    "together",
]

_Step = tuple[str, ...]  # the tasks that it trains
_Epochs = list[list[_Step]]  # the steps of every epoch
_Batches = Mapping[str, int]  # task → number of batches in one pass over its rows

_Share = Annotated[float, Ge(0), Lt(1)]

_MOST_EPOCHS, _MOST_STEPS = 1_000_000, 20_000_000  # of a stage; such a plan takes 200 MB
_WINDOWS = {"random": 1, "sorted": 32}  # how batches are made → batches whose rows are sorted by length as one


@dataclass(frozen=True)
class Schedule:
    """A schedule and how it drives a run."""

    function: Callable[..., _Epochs]  # (batches, epochs, seed, *, options) → the steps of every epoch
    task_by_task: bool = False  # each task has its own epochs: `steps` is refused, the learning rate restarts


def sequential(batches: _Batches, epochs: int, seed: str, *, order: tuple[str, ...] | None = None) -> _Epochs:
    """One task for all its epochs, then the next; each pass over a task counts as an epoch (robust-embeddings ST).

    The learning rate restarts for each task.
    """
    return [[(task,)] * batches[task] for task in order or batches for _ in range(epochs)]


def round_robin(batches: _Batches, epochs: int, seed: str, *, order: tuple[str, ...] | None = None) -> _Epochs:
    """In each epoch one pass over each task in the order given; a task may occur more than once."""
    return [[step for task in order or batches for step in [(task,)] * batches[task]] for _ in range(epochs)]


def sampled(
    batches: _Batches,
    epochs: int,
    seed: str,
    *,
    by: Literal["size", "equal", "temperature"] = "size",
    weights: dict[str, Annotated[float, Gt(0), Le(1e6)]] | None = None,
    t: Annotated[float, Ge(0.1)] | None = None,
) -> _Epochs:
    """MT-DNN (Liu 2019): the batches of all tasks merged and shuffled (`size`), or the task of each step drawn.

    `equal` draws by `weights` (default 1 each), `temperature` by size^(1/t) × weight (default t = 2). An epoch has as
    many steps as all tasks have batches together.
    """
    chosen = weights or {}
    plans: _Epochs = []
    for epoch in range(epochs):
        generator = random.Random(f"{seed}/sampled/{epoch}")
        if by == "size":
            repeats = {task: max(1, round(count * chosen.get(task, 1.0))) for task, count in batches.items()}
            check_length(epochs, epochs * sum(repeats.values()))
            steps: list[_Step] = [step for task, count in repeats.items() for step in [(task,)] * count]
            generator.shuffle(steps)
        else:
            power = 0.0 if by == "equal" else 1 / (t or 2.0)
            shares = [count**power * chosen.get(task, 1.0) for task, count in batches.items()]
            steps = generator.choices([(task,) for task in batches], shares, k=sum(batches.values()))
        plans.append(steps)
    return plans


def alternate(
    batches: _Batches, epochs: int, seed: str, *, order: tuple[str, ...] | None = None, epoch: str = "longest"
) -> _Epochs:
    """One batch of each task in turn, which other tools call round robin."""
    steps: list[_Step] = [(task,) for task in order or batches]
    return [steps * _epoch_length(batches, epoch) for _ in range(epochs)]


def together(batches: _Batches, epochs: int, seed: str, *, combine: str = "sum", epoch: str = "longest") -> _Epochs:
    """One batch of every task in each step, their gradients combined; shorter tasks repeat, reshuffled."""
    return [[tuple(batches)] * _epoch_length(batches, epoch) for _ in range(epochs)]


def check_length(epochs: int, steps: int) -> None:
    """Refuse a plan that is too long to be made."""
    if epochs > _MOST_EPOCHS or steps > _MOST_STEPS:
        raise RecipeError(
            f"the schedule has {epochs:,} epochs and {steps:,} steps, at most {_MOST_EPOCHS:,} and {_MOST_STEPS:,} are "
            "possible; lower epochs, steps or the schedule's weights"
        )


def _epoch_length(batches: _Batches, epoch: str) -> int:
    """Steps for one pass over the longest task, the shortest, or the task of that name."""
    if epoch in ("longest", "shortest"):
        return (max if epoch == "longest" else min)(batches.values())
    return batches[epoch]


SCHEDULES: Registry[Schedule] = Registry(
    "schedule",
    "plait.schedules",
    {
        "sequential": Schedule(sequential, task_by_task=True),
        "round_robin": Schedule(round_robin),
        "sampled": Schedule(sampled),
        "alternate": Schedule(alternate),
        "together": Schedule(together),
    },
    expects=Schedule,
)


@dataclass(frozen=True)
class TaskRows:
    """What the plan needs to know about a task's training rows."""

    lengths: np.ndarray  # tokens of each row
    batch_size: int
    take: float  # share of the rows in one pass
    made: str = "random"  # how its batches are made

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
        schedule: Callable[..., _Epochs],
        epochs: int,
        seed: int,
        stage: int = 0,
    ) -> None:
        self.tasks = tasks
        self.seed = f"{seed}/{stage}"
        batches = {name: task.batches for name, task in tasks.items()}
        if epochs > 1:
            check_length(epochs, epochs * sum(map(len, schedule(batches, 1, self.seed))))
        self.epochs = schedule(batches, epochs, self.seed)
        self.pass_batches = lru_cache(maxsize=2 * len(tasks))(self._pass_batches)

    @property
    def steps(self) -> int:
        return sum(map(len, self.epochs))

    @cached_property
    def turns(self) -> list[tuple[int, int]]:
        """The first step of each run of steps that train the same tasks, and the number of steps in it."""
        counts = [len(list(steps)) for _, steps in groupby(chain.from_iterable(self.epochs))]
        return list(zip(accumulate(counts, initial=0), counts, strict=False))

    def drawn_before(self, epoch: int) -> dict[str, int]:
        """Batches of each task that earlier epochs have used."""
        return dict(zip(self.tasks, self._drawn[epoch], strict=True))

    @cached_property
    def _drawn(self) -> list[tuple[int, ...]]:
        """Batches of each task before each epoch, and after the last."""
        counts = Counter(dict.fromkeys(self.tasks, 0))
        drawn = [tuple(counts.values())]
        for steps in self.epochs:
            counts.update(chain.from_iterable(steps))
            drawn.append(tuple(counts.values()))
        return drawn

    def drawn(self, steps: int) -> dict[str, tuple[int, int]]:
        """How many batches and rows of each task the first steps draw."""
        counts = Counter(chain.from_iterable(islice(chain.from_iterable(self.epochs), steps)))
        found = {}
        for task, rows in self.tasks.items():
            passes, rest = divmod(counts[task], rows.batches)
            last = self.pass_batches(task, passes)[:rest] if rest else []
            found[task] = counts[task], passes * rows.taken + sum(map(len, last))
        return found

    def epoch_plan(self, epoch: int) -> Iterator[list[tuple[str, tuple[int, ...]]]]:
        """The tasks and row ids of each step of an epoch; each task draws from its own endless reshuffled stream."""
        counts = self.drawn_before(epoch)
        for step in self.epochs[epoch]:
            planned = []
            for task in step:
                planned.append((task, self.batch_rows(task, counts[task])))
                counts[task] += 1
            yield planned

    def batch_rows(self, task: str, count: int) -> tuple[int, ...]:
        """The row ids of batch number `count` in a task's stream."""
        number, index = divmod(count, self.tasks[task].batches)
        return self.pass_batches(task, number)[index]

    def _pass_batches(self, task: str, number: int) -> list[tuple[int, ...]]:
        """The batches of one pass: shuffle the rows, take a share, sort by length if asked to, shuffle the batches."""
        rows = self.tasks[task]
        generator = random.Random(f"{self.seed}/{task}/{number}")
        shuffled = list(range(len(rows.lengths)))
        generator.shuffle(shuffled)
        window = _WINDOWS[rows.made]
        batches = [
            batch
            for some in _split(shuffled[: rows.taken], rows.batch_size * window)
            for batch in _split(sorted(some, key=rows.lengths.__getitem__) if window > 1 else some, rows.batch_size)
        ]
        generator.shuffle(batches)
        return batches


def _split(rows: Sequence[int], size: int) -> list[tuple[int, ...]]:
    """Batches of `size` rows; the last may be smaller."""
    return [tuple(rows[start : start + size]) for start in range(0, len(rows), size)]


def constant(step: int, steps: int, *, warmup: _Share = 0.0) -> float:
    """The factor on the learning rate at a step: rises over the first `warmup` share of the steps, then stays 1."""
    return _warm_up(step, steps, warmup)


def linear(step: int, steps: int, *, warmup: _Share = 0.1) -> float:
    """Rises, then falls linearly to 0."""
    return min(_warm_up(step, steps, warmup), (1 - _decay_progress(step, steps, warmup)))


def cosine(step: int, steps: int, *, warmup: _Share = 0.0) -> float:
    """Rises, then falls to 0 along half a cosine."""
    return min(_warm_up(step, steps, warmup), (1 + math.cos(math.pi * _decay_progress(step, steps, warmup))) / 2)


def _warm_up(step: int, steps: int, warmup: float) -> float:
    """Rises from 1/w to 1 over the w steps of the warm-up."""
    return min(1.0, (step + 1) / max(1.0, warmup * steps))


def _decay_progress(step: int, steps: int, warmup: float) -> float:
    """The share of the steps after the warm-up that have passed."""
    first = warmup * steps
    return max(0.0, (step - first) / max(1.0, steps - first))


LR_SCHEDULES: Mapping[str, Callable[..., float]] = {"constant": constant, "linear": linear, "cosine": cosine}
