"""Optuna chooses which points of a grid are tried; imported only where a search is asked for.

The study lies in search.sqlite, where several processes may share it. A trial is held by a lock on a file of its own,
which ends with its process: a trial that runs and is held by nobody was broken off, and is taken up again.
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
    Grid,
    Measure,
    Note,
    Point,
    Search,
    State,
    Trial,
    Tried,
    check_same,
    locked,
    points_of,
    tell_trial,
    try_one,
)

__all__ = ["try_some"]

NAME = "settings"
PRUNERS: Mapping[str, optuna.pruners.BasePruner] = {
    "none": optuna.pruners.NopPruner(),
    "median": optuna.pruners.MedianPruner(),
    "halving": optuna.pruners.SuccessiveHalvingPruner(min_resource=1, reduction_factor=2),
}
STATES: Mapping[State, TrialState] = {
    "complete": TrialState.COMPLETE,
    "pruned": TrialState.PRUNED,
    "failed": TrialState.FAIL,
}
NAMES = {state: name for name, state in STATES.items()}


def try_some(
    grid: Grid, search: Search, folder: Path, measure: Measure, note: Note, of: Mapping[str, Any]
) -> list[Tried]:
    """As many trials as were asked for, with those of other processes; ends when the last of them has ended."""
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    shared = open_study(grid, search, folder, of)
    try:
        while True:
            with ExitStack() as held:
                trial = shared.take(held)
                if trial is None:
                    break
                tried = try_one(trial, measure)
                shared.tell(tried)
                note(tell_trial(tried, shared.count))
        return shared.tried()
    finally:
        shared.storage.remove_session()
        shared.storage.engine.dispose()


@dataclass(frozen=True)
class Shared:
    """A study that several processes work on."""

    study: optuna.Study
    storage: optuna.storages.RDBStorage
    folder: Path
    grid: Grid
    count: int  # trials in all

    def take(self, held: ExitStack) -> Trial | None:
        """A trial that was broken off, or a new one; None when all have ended. It is held until `held` closes."""
        while True:
            with locked(self.folder / ".search.lock"):  # nobody sees a new trial before it is held
                trials = self.study.get_trials(deepcopy=False)
                running = [trial.number for trial in trials if trial.state == TrialState.RUNNING]
                for number in running:
                    if held.enter_context(locked(self.lock_of(number), wait=False)):
                        if self.study.get_trials(deepcopy=False)[number].state == TrialState.RUNNING:
                            return self.trial_of(number)
                        held.close()  # it ended after it was looked up
                if len(trials) < self.count:
                    number = self.study.ask().number
                    held.enter_context(locked(self.lock_of(number)))
                    return self.trial_of(number)
            if not running:
                return None
            with locked(self.lock_of(running[0])):  # until its process has ended it, or has itself ended
                pass

    def lock_of(self, number: int) -> Path:
        """The file that whoever measures a trial has locked."""
        return self.folder / f".trial-{number}.lock"

    def trial_of(self, number: int) -> Trial:
        """A running trial by its number, with the values that it has or now gets."""
        study_id = self.storage.get_study_id_from_name(NAME)
        trial_id = self.storage.get_trial_id_from_study_id_trial_number(study_id, number)
        asked = optuna.trial.Trial(self.study, trial_id)
        places = {key: suggest(asked, key, values) for key, values in self.grid.items()}
        told = set(self.study.get_trials(deepcopy=False)[number].intermediate_values)

        def tell(score: float, epoch: int) -> bool:
            if epoch not in told:  # a run that goes on may come past an epoch twice
                told.add(epoch)
                asked.report(score, epoch)
            return asked.should_prune()

        return Trial(number, point_at(self.grid, places), tell)

    def tell(self, tried: Tried) -> None:
        """Write down how a trial ended."""
        self.study.tell(tried.number, tried.score, state=STATES[tried.state])

    def tried(self) -> list[Tried]:
        """All trials as they ended."""
        return [
            Tried(
                trial.number,
                point_at(self.grid, trial.params),
                trial.value if trial.state == TrialState.COMPLETE else None,  # Optuna gives a pruned one its last
                NAMES[trial.state],
            )
            for trial in self.study.get_trials(deepcopy=False)
        ]


def open_study(grid: Grid, search: Search, folder: Path, of: Mapping[str, Any]) -> Shared:
    """The study of a folder, new or as it was begun."""
    place = folder / "search.sqlite"
    points = points_of(grid)
    count = min(search.trials or len(points), len(points))
    with locked(folder / ".search.lock"):
        storage = optuna.storages.RDBStorage(  # a folder of any name; in an address, some letters would need quoting
            "sqlite:///search.sqlite",
            {"creator": lambda: sqlite3.connect(place, timeout=60, check_same_thread=False)},
        )
        study = optuna.create_study(
            storage=storage,
            study_name=NAME,
            direction="maximize",
            sampler=EachPointOnce(grid, search, count),
            pruner=PRUNERS[search.pruner],
            load_if_exists=True,
        )
        settings = {"grid": grid, "sampler": search.sampler, "seed": search.seed, "recipe": of}
        check_same(folder, study.user_attrs.get("begun", settings), settings)
        study.set_user_attr("begun", settings)
    return Shared(study, storage, folder, grid, count)


class EachPointOnce(BaseSampler):
    """Draws by the trial's number, not by what this process drew before, and never a point that was drawn already."""

    def __init__(self, grid: Grid, search: Search, count: int) -> None:
        self.spaces = {key: space_of(values) for key, values in grid.items()}
        self.places = points_of({key: range(len(values)) for key, values in grid.items()})
        self.search = search
        self.count = count
        if search.sampler != "grid":
            random.Random(search.seed).shuffle(self.places)

    def infer_relative_search_space(self, study: optuna.Study, trial: FrozenTrial) -> dict[str, BaseDistribution]:
        """All keys are drawn together."""
        return self.spaces

    def sample_relative(
        self, study: optuna.Study, trial: FrozenTrial, search_space: dict[str, BaseDistribution]
    ) -> dict[str, Any]:
        """The places of a point's values."""
        if self.search.sampler != "tpe":
            return self.places[trial.number]
        others = [other.params for other in study.get_trials(deepcopy=False) if other.number != trial.number]
        drawn = self.draw_by_tpe(study, trial)
        return drawn if drawn not in others else next(place for place in self.places if place not in others)

    def draw_by_tpe(self, study: optuna.Study, trial: FrozenTrial) -> Point:
        """What Optuna's sampler draws for a trial, with a seed of this trial's own."""
        seed = random.Random(f"{self.search.seed} {trial.number}").randrange(2**32)
        sampler = TPESampler(seed=seed, n_startup_trials=min(10, self.count // 2))  # at most half are drawn blindly
        drawn = sampler.sample_relative(study, trial, sampler.infer_relative_search_space(study, trial))
        for key, space in self.spaces.items():
            if key not in drawn:
                drawn[key] = sampler.sample_independent(study, trial, key, space)
        return {key: drawn[key] for key in self.spaces}

    def sample_independent(
        self, study: optuna.Study, trial: FrozenTrial, param_name: str, param_distribution: BaseDistribution
    ) -> Any:
        """Never asked for: every key is drawn with the others."""
        return RandomSampler(seed=trial.number).sample_independent(study, trial, param_name, param_distribution)


def space_of(values: Sequence[Any]) -> BaseDistribution:
    """Places in a list of values; those of numbers in order are near each other, those of others are only different."""
    numbers = all(isinstance(value, int | float) and not isinstance(value, bool) for value in values)
    if numbers and list(values) in (sorted(values), sorted(values, reverse=True)):
        return IntDistribution(0, len(values) - 1)
    return CategoricalDistribution(tuple(range(len(values))))


def suggest(trial: optuna.Trial, key: str, values: Sequence[Any]) -> int:
    """The place of a trial's value for a key."""
    space = space_of(values)
    if isinstance(space, IntDistribution):
        return trial.suggest_int(key, space.low, space.high)
    return int(trial.suggest_categorical(key, list(range(len(values)))))


def point_at(grid: Grid, places: Mapping[str, int]) -> Point:
    """The values at these places."""
    return {key: values[places[key]] for key, values in grid.items()}
