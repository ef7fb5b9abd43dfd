"""Optuna chooses which points of a grid are tried; imported only if a search is requested.

The study is in search.sqlite, where several processes can share it. Each trial has a lock file, and the lock ends with
its process: a trial that is running but not locked was interrupted, and is resumed.
"""

import random
import sqlite3
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import optuna
from optuna.distributions import BaseDistribution, CategoricalDistribution, IntDistribution
from optuna.samplers import BaseSampler, RandomSampler, TPESampler
from optuna.trial import FrozenTrial, TrialState

from plait.experiments.tune import (
    FinishedTrial,
    Grid,
    Measure,
    Note,
    Point,
    State,
    Trial,
    check_same_settings,
    describe_trial,
    grid_points,
    measure_trial,
)
from plait.files import lock
from plait.recipe.suite import Search

__all__ = ["run_search"]

_STUDY = "settings"
_PRUNERS: Mapping[str, optuna.pruners.BasePruner] = {
    "none": optuna.pruners.NopPruner(),
    "median": optuna.pruners.MedianPruner(),
    "halving": optuna.pruners.SuccessiveHalvingPruner(min_resource=1, reduction_factor=2),
}
_OPTUNA_STATES: Mapping[State, TrialState] = {
    "complete": TrialState.COMPLETE,
    "pruned": TrialState.PRUNED,
    "failed": TrialState.FAIL,
}
_STATES = {optuna_state: state for state, optuna_state in _OPTUNA_STATES.items()}


def run_search(
    grid: Grid, search: Search, folder: Path, measure: Measure, note: Note, recipe: Mapping[str, Any]
) -> list[FinishedTrial]:
    """All trials of a search, including those of other processes; returns once the last of them has ended."""
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    shared = _open_study(grid, search, folder, recipe)
    try:
        while True:
            with ExitStack() as locks:
                trial = shared.take(locks)
                if trial is None:
                    break
                finished = measure_trial(trial, measure)
                shared.finish(finished)
                note(describe_trial(finished, shared.count))
        return shared.finished()
    finally:
        shared.storage.remove_session()
        shared.storage.engine.dispose()


@dataclass(frozen=True)
class _SharedStudy:
    """A study that several processes work on."""

    study: optuna.Study
    storage: optuna.storages.RDBStorage
    folder: Path
    grid: Grid
    count: int  # of all trials

    def take(self, locks: ExitStack) -> Trial | None:
        """An interrupted trial, or a new one, locked until `locks` closes; None if all trials have ended."""
        while True:
            with lock(self.folder / ".search.lock"):  # no process sees a new trial before it is locked
                trials = self.study.get_trials(deepcopy=False)
                running = [trial.number for trial in trials if trial.state == TrialState.RUNNING]
                for number in running:
                    if locks.enter_context(lock(self._lock_file(number), wait=False)):
                        if self.study.get_trials(deepcopy=False)[number].state == TrialState.RUNNING:
                            return self._trial(number)
                        locks.close()  # it ended after the states were read
                if len(trials) < self.count:
                    number = self.study.ask().number
                    locks.enter_context(lock(self._lock_file(number)))
                    return self._trial(number)
            if not running:
                return None
            with lock(self._lock_file(running[0])):  # wait until its process ends the trial, or dies
                pass

    def _lock_file(self, number: int) -> Path:
        return self.folder / f".trial-{number}.lock"

    def _trial(self, number: int) -> Trial:
        """A running trial with its values, which are drawn now if it is new."""
        study_id = self.storage.get_study_id_from_name(_STUDY)
        trial_id = self.storage.get_trial_id_from_study_id_trial_number(study_id, number)
        trial = optuna.trial.Trial(self.study, trial_id)
        indices = {key: _suggest(trial, key, values) for key, values in self.grid.items()}
        reported = set(self.study.get_trials(deepcopy=False)[number].intermediate_values)

        def should_prune(score: float, epoch: int) -> bool:
            if epoch not in reported:  # a resumed run may pass the same epoch again
                reported.add(epoch)
                trial.report(score, epoch)
            return trial.should_prune()

        return Trial(number, _point_at(self.grid, indices), should_prune)

    def finish(self, trial: FinishedTrial) -> None:
        self.study.tell(trial.number, trial.score, state=_OPTUNA_STATES[trial.state])

    def finished(self) -> list[FinishedTrial]:
        return [
            FinishedTrial(
                trial.number,
                _point_at(self.grid, trial.params),
                trial.value if trial.state == TrialState.COMPLETE else None,  # Optuna gives a pruned trial its last
                _STATES[trial.state],
            )
            for trial in self.study.get_trials(deepcopy=False)
        ]


def _open_study(grid: Grid, search: Search, folder: Path, recipe: Mapping[str, Any]) -> _SharedStudy:
    """The study of a folder, new or as it was begun."""
    file = folder / "search.sqlite"
    points = grid_points(grid)
    count = min(search.trials or len(points), len(points))
    with lock(folder / ".search.lock"):
        storage = optuna.storages.RDBStorage(  # the folder may have any name; in a URL, some characters need quoting
            "sqlite:///search.sqlite",
            {"creator": lambda: sqlite3.connect(file, timeout=60, check_same_thread=False)},
        )
        study = optuna.create_study(
            storage=storage,
            study_name=_STUDY,
            direction="maximize",
            sampler=_EachPointOnce(grid, search, count),
            pruner=_PRUNERS[search.pruner],
            load_if_exists=True,
        )
        settings = {"grid": grid, "sampler": search.sampler, "seed": search.seed, "recipe": recipe}
        check_same_settings(folder, study.user_attrs.get("begun", settings), settings)
        study.set_user_attr("begun", settings)
    return _SharedStudy(study, storage, folder, grid, count)


class _EachPointOnce(BaseSampler):
    """Draws by the trial's number, not by what this process drew before, and never a point twice."""

    def __init__(self, grid: Grid, search: Search, count: int) -> None:
        self.spaces = {key: _space(values) for key, values in grid.items()}
        self.indices = grid_points({key: range(len(values)) for key, values in grid.items()})
        self.search = search
        self.count = count
        if search.sampler != "grid":
            random.Random(search.seed).shuffle(self.indices)

    def infer_relative_search_space(self, study: optuna.Study, trial: FrozenTrial) -> dict[str, BaseDistribution]:
        """All keys are drawn together."""
        return self.spaces

    def sample_relative(
        self, study: optuna.Study, trial: FrozenTrial, search_space: dict[str, BaseDistribution]
    ) -> dict[str, Any]:
        """The index of the value of each key."""
        if self.search.sampler != "tpe":
            return self.indices[trial.number]
        others = [other.params for other in study.get_trials(deepcopy=False) if other.number != trial.number]
        drawn = self._draw_by_tpe(study, trial)
        return drawn if drawn not in others else next(indices for indices in self.indices if indices not in others)

    def _draw_by_tpe(self, study: optuna.Study, trial: FrozenTrial) -> Point:
        """What Optuna's sampler draws for a trial, with the trial's own seed."""
        seed = random.Random(f"{self.search.seed} {trial.number}").randrange(2**32)
        sampler = TPESampler(seed=seed, n_startup_trials=min(10, self.count // 2))  # at most half are drawn at random
        drawn = sampler.sample_relative(study, trial, sampler.infer_relative_search_space(study, trial))
        for key, space in self.spaces.items():
            if key not in drawn:
                drawn[key] = sampler.sample_independent(study, trial, key, space)
        return {key: drawn[key] for key in self.spaces}

    def sample_independent(
        self, study: optuna.Study, trial: FrozenTrial, param_name: str, param_distribution: BaseDistribution
    ) -> Any:
        """Required by Optuna, but never called: all keys are drawn together."""
        return RandomSampler(seed=trial.number).sample_independent(study, trial, param_name, param_distribution)


def _space(values: Sequence[Any]) -> BaseDistribution:
    """Indices into a list of values: ordered for sorted numbers, otherwise categories."""
    numbers = all(isinstance(value, int | float) and not isinstance(value, bool) for value in values)
    if numbers and list(values) in (sorted(values), sorted(values, reverse=True)):
        return IntDistribution(0, len(values) - 1)
    return CategoricalDistribution(tuple(range(len(values))))


def _suggest(trial: optuna.Trial, key: str, values: Sequence[Any]) -> int:
    """The index of a trial's value for a key."""
    space = _space(values)
    if isinstance(space, IntDistribution):
        return trial.suggest_int(key, space.low, space.high)
    return int(trial.suggest_categorical(key, list(range(len(values)))))


def _point_at(grid: Grid, indices: Mapping[str, int]) -> Point:
    return {key: values[indices[key]] for key, values in grid.items()}
