"""A search with Optuna: every point once, reproducible, and resumed after a kill."""

import math
import os
import subprocess
import sys
from pathlib import Path

import pytest

from plait.errors import NotFiniteError, RunError
from plait.experiments.tune import BestTrial, Trial, choose_settings
from plait.files import lock
from plait.recipe.suite import Search

pytest.importorskip("optuna")

GRID = {"lr": [1, 2, 3, 4, 5], "head": ["linear", "cosine"], "loss": [{"name": "a"}, {"name": "b"}]}


def score_of(trial: Trial) -> float:
    """Highest, 5, at lr 4 with a cosine head."""
    return 5 - abs(trial.values["lr"] - 4) - (trial.values["head"] == "linear")


def values_of(choice: BestTrial) -> list[dict]:
    return [trial.values for trial in choice.trials]


@pytest.mark.parametrize("sampler", ["grid", "random", "tpe"])
def test_every_point_is_tried_once(tmp_path, sampler):
    choice = choose_settings(GRID, Search(sampler=sampler), tmp_path, score_of)
    tried = values_of(choice)
    assert len(tried) == 20
    assert all(tried.count(values) == 1 for values in tried)
    assert choice.score == 5
    assert choice.values["lr"] == 4
    assert choice.number == min(trial.number for trial in choice.trials if trial.score == 5)


@pytest.mark.parametrize("sampler", ["grid", "random", "tpe"])
def test_interrupted_search_ends_like_an_uninterrupted_one(tmp_path, sampler):
    class Broken(Exception):
        pass

    search = Search(12, sampler, seed=3)
    whole = choose_settings(GRID, search, tmp_path / "whole", score_of)
    assert len(whole.trials) == 12
    measured: list[int] = []
    for last in (4, 4, 9, 99):  # the fifth trial is interrupted twice, the tenth once

        def measure(trial: Trial, last: int = last) -> float:
            measured.append(trial.number)
            if trial.number == last and measured.count(last) <= (2 if last == 4 else 1):
                raise Broken
            return score_of(trial)

        try:
            broken = choose_settings(GRID, search, tmp_path / "broken", measure)
        except Broken:
            continue
    assert broken == whole
    assert measured == [0, 1, 2, 3, 4, 4, 4, 5, 6, 7, 8, 9, 9, 10, 11]


def test_another_seed_tries_other_points(tmp_path):
    first, same, other = (
        choose_settings(GRID, Search(5, "random", seed=seed), tmp_path / name, score_of)
        for name, seed in (("first", 0), ("same", 0), ("other", 1))
    )
    assert values_of(first) == values_of(same) != values_of(other)


def test_tpe_learns_from_earlier_trials(tmp_path):
    grid = {"lr": list(range(40)), "decay": list(range(40))}
    choice = choose_settings(
        grid, Search(30, "tpe"), tmp_path, lambda trial: -abs(trial.values["lr"] - 31) - abs(trial.values["decay"] - 7)
    )
    scores = [trial.score for trial in choice.trials]
    # a random point scores -27 on average
    assert sum(scores[20:]) / 10 > sum(scores[:10]) / 10 + 10


KILLED = """
import os, signal, sys
from pathlib import Path
from plait.experiments.tune import choose_settings
from plait.recipe.suite import Search

def measure(trial):
    if trial.number == 2:
        os.kill(os.getpid(), signal.SIGKILL)
    return trial.values["lr"]

choose_settings({"lr": [1, 2, 3, 4, 5]}, Search(sampler="random", seed=1), Path(sys.argv[1]), measure)
"""


def python(code: str, *arguments: str) -> subprocess.Popen:
    return subprocess.Popen([sys.executable, "-c", code, *arguments], env={**os.environ, "PYTHONWARNINGS": "ignore"})


def test_trial_of_a_killed_process_is_resumed_under_its_number(tmp_path):
    assert python(KILLED, str(tmp_path)).wait(100) == -9
    seen = []

    def measure(trial: Trial) -> float:
        seen.append(trial.number)
        return trial.values["lr"]

    choice = choose_settings({"lr": [1, 2, 3, 4, 5]}, Search(sampler="random", seed=1), tmp_path, measure)
    assert seen == [2, 3, 4]
    assert choice.score == 5
    assert sorted(values["lr"] for values in values_of(choice)) == [1, 2, 3, 4, 5]
    assert {trial.state for trial in choice.trials} == {"complete"}


SHARING = """
import os, sys, time
from pathlib import Path
from plait.experiments.tune import choose_settings
from plait.recipe.suite import Search

folder, me, other = Path(sys.argv[1]), sys.argv[2], sys.argv[3]

def measure(trial):
    (folder / f"{me}-{trial.number}").touch()
    while not list(folder.glob(f"{other}-*")):  # both have a trial before either ends one
        time.sleep(0.01)
    return trial.values["lr"]

choice = choose_settings({"lr": list(range(12))}, Search(sampler="tpe"), folder, measure)
(folder / f"choice.{me}").write_text(repr(choice))
"""


def test_two_processes_share_a_search_and_agree(tmp_path):
    first, second = python(SHARING, str(tmp_path), "a", "b"), python(SHARING, str(tmp_path), "b", "a")
    assert (first.wait(100), second.wait(100)) == (0, 0)
    numbers = [int(path.name.split("-")[1]) for path in tmp_path.glob("[ab]-*")]
    assert sorted(numbers) == list(range(12))
    choices = [(tmp_path / f"choice.{name}").read_text() for name in "ab"]
    assert choices[0] == choices[1]
    assert "score=11.0" in choices[0]


def test_trial_is_locked_while_it_is_measured(tmp_path):
    inside = []

    def measure(trial: Trial) -> float:
        with lock(tmp_path / f".trial-{trial.number}.lock", wait=False) as free:
            inside.append(free)
        return 1

    choose_settings({"lr": [1, 2]}, Search(), tmp_path, measure)
    assert inside == [None, None]


@pytest.mark.parametrize("pruner", ["median", "halving"])
def test_trial_below_the_others_is_pruned_and_counted(tmp_path, pruner):
    def measure(trial: Trial) -> float:
        for epoch in range(1, 5):
            if trial.report(trial.values["lr"] + epoch, epoch):
                return math.nan
        return trial.values["lr"] + 4

    notes: list[str] = []
    grid = {"lr": [9, 8, 7, 6, 5, 4, 3, 2]}
    choice = choose_settings(grid, Search(sampler="grid", pruner=pruner), tmp_path, measure, notes.append)
    states = [trial.state for trial in choice.trials]
    assert choice.score == 13
    assert states == (["complete"] * 5 + ["pruned"] * 3 if pruner == "median" else ["complete"] + ["pruned"] * 7)
    assert [trial.score for trial in choice.trials if trial.state == "pruned"] == [None] * states.count("pruned")
    assert notes[7] == "trial 8 of 8: lr=2: pruned, other trials are better"


def test_resumed_trial_may_report_an_epoch_twice(tmp_path):
    class Broken(Exception):
        pass

    def measure(trial: Trial, broken: bool) -> float:
        for epoch in (1, 2):
            assert not trial.report(0.5, epoch)
        if broken:
            raise Broken
        return 0.5

    search = Search(pruner="median")
    with pytest.raises(Broken):
        choose_settings({"lr": [1]}, search, tmp_path, lambda trial: measure(trial, True))
    assert choose_settings({"lr": [1]}, search, tmp_path, lambda trial: measure(trial, False)).score == 0.5


def test_failed_trials_are_skipped_unless_all_fail(tmp_path):
    grid = {"lr": [1, 2, 3]}
    search = Search(sampler="grid")
    choice = choose_settings(grid, search, tmp_path / "some", lambda trial: [math.nan, 0.2, math.inf][trial.number])
    assert [trial.state for trial in choice.trials] == ["failed", "complete", "failed"]
    assert choice.number == 1
    with pytest.raises(NotFiniteError, match="none of 3 trials reached a finite score"):
        choose_settings(grid, search, tmp_path / "none", lambda trial: math.nan)


def test_more_trials_can_be_requested_later_but_not_another_grid(tmp_path):
    grid = {"lr": [1, 2, 3]}
    assert len(choose_settings(grid, Search(2, "random"), tmp_path, lambda trial: 1).trials) == 2
    assert len(choose_settings(grid, Search(9, "random"), tmp_path, lambda trial: 1).trials) == 3
    with pytest.raises(RunError, match=r"changed: grid.lr.2: 3 → 4"):
        choose_settings({"lr": [1, 2, 4]}, Search(2, "random"), tmp_path, lambda trial: 1)
    with pytest.raises(RunError, match=r"changed: sampler: 'random' → 'tpe'"):
        choose_settings(grid, Search(2, "tpe"), tmp_path, lambda trial: 1)


@pytest.mark.parametrize("name", ["two words", "a#b", "50%", "{x}", "what?"])
def test_folder_may_have_any_name(tmp_path, name):
    folder: Path = tmp_path / name
    choose_settings({"lr": [1, 2]}, Search(), folder, lambda trial: 1)
    assert (folder / "search.sqlite").is_file()
