"""The settings of one cell: every point of a grid is tried, or Optuna chooses which.

A grid maps dotted keys of a recipe to the values that they may take; a point has one value per key.
"""

import itertools
import json
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Literal, TypeVar

from plait.errors import NotFiniteError, RequestError, RunError
from plait.files import lock, read_json_with_digest, write_json_with_digest
from plait.progress import Progress
from plait.recipe.suite import Search
from plait.recipe.yaml_quote import quoted
from plait.resolve.saved import differences, recipe_differences
from plait.training.stage import Stopped

__all__ = [
    "BestTrial",
    "FinishedTrial",
    "Grid",
    "Measure",
    "Note",
    "Point",
    "State",
    "Trial",
    "check_same_settings",
    "choose_settings",
    "describe_trial",
    "grid_points",
    "measure_trial",
    "run_trial",
]

Grid = Mapping[str, Sequence[Any]]
Point = dict[str, Any]
State = Literal["complete", "pruned", "failed"]


@dataclass
class Trial:
    """One point while it is measured."""

    number: int  # from 0; an interrupted trial keeps its number, so that its run can be resumed
    values: Point
    should_prune: Callable[[float, int], bool] = field(default=lambda score, epoch: False, repr=False)
    pruned: bool = False

    @property
    def overrides(self) -> list[str]:
        """The values as `--set` takes them."""
        return [f"{key}={_as_yaml(value)}" for key, value in self.values.items()]

    def report(self, score: float, epoch: int) -> bool:
        """Report the dev score after this many epochs; True if the trial is pruned."""
        self.pruned = self.pruned or self.should_prune(score, epoch)
        return self.pruned


@dataclass(frozen=True)
class FinishedTrial:
    """A trial that has ended."""

    number: int
    values: Point
    score: float | None  # only of a complete trial
    state: State


@dataclass(frozen=True)
class BestTrial:
    """The best trial (the first of equals), and all trials."""

    number: int
    values: Point
    score: float
    trials: tuple[FinishedTrial, ...]

    @property
    def overrides(self) -> list[str]:
        """The best values as `--set` takes them."""
        return Trial(self.number, self.values).overrides


Measure = Callable[[Trial], float]
Note = Callable[[str], None]
_Stop = Callable[[], bool]
_Outcome = TypeVar("_Outcome")


def choose_settings(
    grid: Grid,
    search: Search | None,
    folder: Path,
    measure: Measure,
    note: Note = lambda message: None,
    *,
    recipe: Mapping[str, Any] | None = None,
) -> BestTrial:
    """The point of a grid with the highest score; trials that the folder records are not measured again.

    Without a search, every point is tried in order. A trial fails if `measure` raises NotFiniteError or returns a
    number that is not finite; the others continue. Anything else that `measure` raises interrupts the choice, and the
    next call resumes it. `recipe` is what the grid is laid over: trials of another recipe are refused.
    """
    for key, values in grid.items():
        if not values or isinstance(values, str):
            raise RequestError(f"grid: {key}: expected a list of values, found {values!r}")
    folder.mkdir(parents=True, exist_ok=True)
    if search is None:
        trials = _try_all(grid, folder, measure, note, recipe or {})
    else:
        try:
            import optuna  # noqa: F401  # an extra, and slow to import
        except ImportError:
            raise RequestError('a search needs the package optuna; pip install "plait[tune]"') from None
        from plait.experiments.optuna_search import run_search

        trials = run_search(grid, search, folder, measure, note, recipe or {})
    complete = [trial for trial in trials if trial.score is not None]
    if not complete:
        raise NotFiniteError(
            f"{folder}: none of {len(trials)} trials reached a finite score; try other values, such as a lower lr"
        )
    best = max(complete, key=lambda trial: (trial.score, -trial.number))
    assert best.score is not None
    point = " ".join(Trial(best.number, best.values).overrides)
    note(f"best of {len(trials)} trials: {point} with {best.score:.4f}" if point else f"one trial: {best.score:.4f}")
    return BestTrial(best.number, best.values, best.score, tuple(trials))


def grid_points(grid: Grid) -> list[Point]:
    """Every combination of the values; the last key changes fastest."""
    return [dict(zip(grid, values, strict=True)) for values in itertools.product(*grid.values())]


def _try_all(grid: Grid, folder: Path, measure: Measure, note: Note, recipe: Mapping[str, Any]) -> list[FinishedTrial]:
    """Every point in order; trials.json records the finished ones."""
    file = folder / "trials.json"
    points = grid_points(grid)
    with lock(folder / ".trials.lock", wait=False) as held:
        if not held:
            raise RunError(f"{folder}: another process is trying these settings")
        settings = {"grid": grid, "recipe": recipe}
        begun, trials = _read_trials(file) if file.is_file() else (settings, [])
        check_same_settings(folder, begun, settings)
        for number in range(len(trials), len(points)):
            finished = measure_trial(Trial(number, points[number]), measure)
            trials.append(finished)
            write_json_with_digest(file, {**settings, "trials": [asdict(trial) for trial in trials]})
            note(describe_trial(finished, len(points)))
    return trials


def _read_trials(file: Path) -> tuple[dict[str, Any], list[FinishedTrial]]:
    """The settings that the first trial began with, and the trials so far."""
    try:
        begun, _ = read_json_with_digest(file)
        trials = [FinishedTrial(**trial) for trial in begun.pop("trials")]
    except (ValueError, TypeError, KeyError, AttributeError):
        raise RunError(f"{file}: damaged; remove it to score its trials again") from None
    return begun, trials


def measure_trial(trial: Trial, measure: Measure) -> FinishedTrial:
    """Measure a trial to its end."""
    try:
        score = measure(trial)
    except NotFiniteError:
        score = math.nan
    if trial.pruned:
        return FinishedTrial(trial.number, trial.values, None, "pruned")
    if not math.isfinite(score):
        return FinishedTrial(trial.number, trial.values, None, "failed")
    return FinishedTrial(trial.number, trial.values, float(score), "complete")


def describe_trial(trial: FinishedTrial, count: int) -> str:
    """A finished trial in one line."""
    outcomes = {
        "complete": f"{trial.score:.4f}" if trial.score is not None else "",
        "pruned": "pruned, other trials are better",
        "failed": "failed, its score is not finite",
    }
    point = " ".join(Trial(trial.number, trial.values).overrides)
    return f"trial {trial.number + 1} of {count}: {point}: {outcomes[trial.state]}"


def check_same_settings(folder: Path, begun: Mapping[str, Any], now: Mapping[str, Any]) -> None:
    """Refuse to mix the trials of two grids, whose numbers mean different points."""
    before, after = dict(begun), json.loads(json.dumps(now))
    recipes = before.pop("recipe", {}), after.pop("recipe", {})
    changed = [*differences(before, after), *(recipe_differences(*recipes) if all(recipes) else ())]
    if changed:
        raise RunError(
            *(f"{folder}: the settings to try have changed: {line}" for line in changed),
            "trials resume only as they began; choose another folder, or remove this one",
        )


def _as_yaml(value: object) -> str:
    """A value in one line, as YAML reads it back."""
    return quoted(value) if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def run_trial(
    trial: Trial,
    start: Callable[[Progress, _Stop], _Outcome],
    *,
    progress: Progress,
    stop: _Stop = lambda: False,
    best_by: str = "mean",
    last_stage: int = 0,
) -> _Outcome | None:
    """The outcome of a run that `start` begins and that ends early if its trial is pruned; then it is None.

    `best_by` is the recipe's, `last_stage` the number of its last stage, from 0: earlier stages are not compared.
    """
    scores = _EpochScores(trial, progress, best_by, last_stage)
    try:
        return start(scores, lambda: trial.pruned or stop())
    except Stopped:
        if not trial.pruned:
            raise
        return None


@dataclass(frozen=True)
class _EpochScores:
    """Reports the dev scores of the last stage to a trial, and forwards all progress."""

    trial: Trial
    inner: Progress
    best_by: str
    last_stage: int

    def scores(self, record: dict[str, Any]) -> None:
        self.inner.scores(record)
        score = record["mean"]
        judging = {**record["dev"], **record.get("choose", {})}
        if self.best_by in judging:
            score = judging[self.best_by].get(record["metrics"][self.best_by])
        if score is not None and math.isfinite(score) and record.get("stage", 0) == self.last_stage:
            self.trial.report(score, record["epoch"] + 1)

    def begin(self, what: str, total: int, done: int = 0) -> None:
        self.inner.begin(what, total, done)

    def advance(self, count: int = 1, **facts: Any) -> None:
        self.inner.advance(count, **facts)

    def end(self) -> None:
        self.inner.end()

    def note(self, message: str) -> None:
        self.inner.note(message)
