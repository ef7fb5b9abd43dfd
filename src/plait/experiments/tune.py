"""The choice of settings inside one cell: every point of a grid is tried, or Optuna chooses which.

A grid maps dotted keys of a recipe to the values they may take; a point has one value for each key.
"""

import fcntl
import itertools
import json
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Annotated, Any, Literal, TypeVar

from annotated_types import Gt
from pydantic import ConfigDict

from plait.errors import NotFiniteError, RequestError, RunError
from plait.model.files import whole_file
from plait.model.save import write_json
from plait.model.watch import Watcher
from plait.recipe.words import quoted
from plait.training.run import differences
from plait.training.stage import Stopped

__all__ = ["Choice", "EpochScores", "Search", "Trial", "Tried", "choose_settings", "locked", "points_of", "run_trial"]

Grid = Mapping[str, Sequence[Any]]
Point = dict[str, Any]
State = Literal["complete", "pruned", "failed"]


@dataclass(frozen=True)
class Search:
    """Which points of the grid are tried, and which trials are given up early.

    A point is tried once. `grid` takes them in order, `random` in an order drawn from the seed, `tpe` where good scores
    are likely after the ones so far. `median` gives a trial up that is below the median of the others at the same
    epoch, once five are complete; `halving` lets the better half go on after 1, 2, 4, … epochs.
    """

    __pydantic_config__ = ConfigDict(extra="forbid")  # when a suite is read

    trials: Annotated[int, Gt(0)] | None = None  # None: as many as the grid has points
    sampler: Literal["grid", "random", "tpe"] = "tpe"
    pruner: Literal["none", "median", "halving"] = "none"
    seed: int = 0


@dataclass
class Trial:
    """One point that is being measured."""

    number: int  # from 0; the same again when a broken trial is taken up, so that its run can go on
    values: Point
    tell: Callable[[float, int], bool] = field(default=lambda score, epoch: False, repr=False)
    pruned: bool = False

    @property
    def assignments(self) -> list[str]:
        """The values as `--set` takes them."""
        return [f"{key}={as_yaml(value)}" for key, value in self.values.items()]

    def report(self, score: float, epoch: int) -> bool:
        """Tell the dev score after so many epochs; true if the trial is not worth going on with."""
        self.pruned = self.pruned or self.tell(score, epoch)
        return self.pruned


@dataclass(frozen=True)
class Tried:
    """A trial that is over."""

    number: int
    values: Point
    score: float | None  # only a complete trial has one
    state: State


@dataclass(frozen=True)
class Choice:
    """The best trial, the first of equals, and all of them."""

    number: int
    values: Point
    score: float
    trials: tuple[Tried, ...]

    @property
    def assignments(self) -> list[str]:
        """The best values as `--set` takes them."""
        return Trial(self.number, self.values).assignments


Measure = Callable[[Trial], float]
Note = Callable[[str], None]
Stop = Callable[[], bool]
Outcome = TypeVar("Outcome")


def choose_settings(
    grid: Grid,
    search: Search | None,
    folder: Path,
    measure: Measure,
    note: Note = lambda message: None,
    *,
    of: Mapping[str, Any] | None = None,
) -> Choice:
    """The point of a grid with the highest score; what the folder remembers of earlier trials is not measured again.

    Without a search every point is tried in order. A trial has failed where `measure` meets or returns a number that is
    not finite; the others go on. Whatever else `measure` raises ends the choice, which goes on there when it is called
    again. `of` is the recipe below the grid: trials of another one are refused.
    """
    for key, values in grid.items():
        if not values or isinstance(values, str):
            raise RequestError(f"grid: {key}: expected a list of values, found {values!r}")
    folder.mkdir(parents=True, exist_ok=True)
    if search is None:
        trials = try_all(grid, folder, measure, note, of or {})
    else:
        try:
            import optuna  # noqa: F401  # an extra, and slow to import
        except ImportError:
            raise RequestError('a search needs the package optuna; pip install "plait[tune]"') from None
        from plait.experiments.optuna_search import try_some

        trials = try_some(grid, search, folder, measure, note, of or {})
    complete = [trial for trial in trials if trial.score is not None]
    if not complete:
        raise NotFiniteError(
            f"{folder}: none of {len(trials)} trials came to a finite score; try other values, such as a lower lr"
        )
    best = max(complete, key=lambda trial: (trial.score, -trial.number))
    assert best.score is not None
    told = " ".join(Trial(best.number, best.values).assignments)
    note(f"best of {len(trials)} trials: {told} with {best.score:.4f}" if told else f"one trial: {best.score:.4f}")
    return Choice(best.number, best.values, best.score, tuple(trials))


def points_of(grid: Grid) -> list[Point]:
    """Every combination of the values; the last key changes fastest."""
    return [dict(zip(grid, values, strict=True)) for values in itertools.product(*grid.values())]


def try_all(grid: Grid, folder: Path, measure: Measure, note: Note, of: Mapping[str, Any]) -> list[Tried]:
    """Every point in order; trials.json remembers the finished ones."""
    place = folder / "trials.json"
    points = points_of(grid)
    with locked(folder / ".trials.lock", wait=False) as free:
        if not free:
            raise RunError(f"{folder}: another process is trying these settings")
        settings = {"grid": grid, "recipe": of}
        begun, trials = read_trials(place) if place.is_file() else (settings, [])
        check_same(folder, begun, settings)
        for number in range(len(trials), len(points)):
            tried = try_one(Trial(number, points[number]), measure)
            trials.append(tried)
            with whole_file(place) as aside:
                write_json(aside, {**settings, "trials": [asdict(trial) for trial in trials]})
            note(tell_trial(tried, len(points)))
    return trials


def read_trials(place: Path) -> tuple[dict[str, Any], list[Tried]]:
    """What was to be tried when the first trial began, and the trials so far."""
    try:
        begun = json.loads(place.read_text(encoding="utf-8"))
        trials = [Tried(**trial) for trial in begun.pop("trials")]
    except (ValueError, TypeError, KeyError, AttributeError):
        raise RunError(f"{place}: is damaged; remove it, and its trials are scored again") from None
    return begun, trials


def try_one(trial: Trial, measure: Measure) -> Tried:
    """How a trial ends."""
    try:
        score = measure(trial)
    except NotFiniteError:
        score = math.nan
    if trial.pruned:
        return Tried(trial.number, trial.values, None, "pruned")
    if not math.isfinite(score):
        return Tried(trial.number, trial.values, None, "failed")
    return Tried(trial.number, trial.values, float(score), "complete")


def tell_trial(tried: Tried, count: int) -> str:
    """A finished trial in a sentence."""
    ends = {
        "complete": f"{tried.score:.4f}" if tried.score is not None else "",
        "pruned": "given up early, others are better",
        "failed": "failed, its score is not finite",
    }
    told = " ".join(Trial(tried.number, tried.values).assignments)
    return f"trial {tried.number + 1} of {count}: {told}: {ends[tried.state]}"


def check_same(folder: Path, begun: Mapping[str, Any], now: Mapping[str, Any]) -> None:
    """Refuse to mix the trials of two grids, whose numbers mean other points."""
    changed = list(differences(begun, json.loads(json.dumps(now))))
    if changed:
        raise RunError(
            *(f"{folder}: the settings to try were changed: {line}" for line in changed),
            "trials go on only as they began; choose another folder, or remove this one",
        )


@contextmanager
def locked(path: Path, *, wait: bool = True) -> Iterator[bool]:
    """A lock that ends with the process; false if another has it and there is no waiting."""
    with path.open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | (0 if wait else fcntl.LOCK_NB))
        except BlockingIOError:
            yield False
        else:
            yield True


def as_yaml(value: object) -> str:
    """A value in one line, as YAML reads it back."""
    return quoted(value) if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def run_trial(
    trial: Trial,
    start: Callable[[Watcher, Stop], Outcome],
    *,
    watcher: Watcher,
    stop: Stop = lambda: False,
    best_by: str = "mean",
    last_stage: int = 0,
) -> Outcome | None:
    """A trial as a run, by `start`, that ends early where it is not worth going on with; there is no outcome then.

    `best_by` is that of the recipe, `last_stage` the number of its last stage, from 0: earlier stages are not compared.
    """
    scores = EpochScores(trial, watcher, best_by, last_stage)
    try:
        return start(scores, lambda: trial.pruned or stop())
    except Stopped:
        if not trial.pruned:
            raise
        return None


@dataclass(frozen=True)
class EpochScores:
    """Reports the dev scores of the last stage to a trial, and passes on all that a run tells."""

    trial: Trial
    inner: Watcher
    best_by: str
    last_stage: int

    def scores(self, record: dict[str, Any]) -> None:
        """An evaluation, as metrics.jsonl holds it."""
        self.inner.scores(record)
        score = record["mean"]
        if self.best_by in record["dev"]:
            score = record["dev"][self.best_by].get(record["metrics"][self.best_by])
        if score is not None and math.isfinite(score) and record.get("stage", 0) == self.last_stage:
            self.trial.report(score, record["epoch"] + 1)

    def begin(self, what: str, total: int, done: int = 0) -> None:
        """Passed on."""
        self.inner.begin(what, total, done)

    def advance(self, count: int = 1, **facts: Any) -> None:
        """Passed on."""
        self.inner.advance(count, **facts)

    def end(self) -> None:
        """Passed on."""
        self.inner.end()

    def note(self, message: str) -> None:
        """Passed on."""
        self.inner.note(message)
