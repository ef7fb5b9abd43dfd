"""The choice of settings from a grid, and what a run reports to its trial."""

import json
import math

import pytest

from plait.errors import NotFiniteError, RequestError, RunError
from plait.experiments.tune import Trial, choose_settings, grid_points, run_trial
from plait.files import lock
from plait.progress import SilentProgress
from plait.recipe.suite import Search
from plait.recipe.tree import Tree, set_keys
from plait.training.stage import Stopped
from plait.training.train import train

GRID = {"lr": [1e-5, 1e-4], "tasks.sentiment.loss.gamma": [0.01, 0.1, 1]}


class Measured:
    """Takes scores from a list and records which trials it measured."""

    def __init__(self, scores: list[float]) -> None:
        self.scores = scores
        self.numbers: list[int] = []

    def __call__(self, trial: Trial) -> float:
        self.numbers.append(trial.number)
        return self.scores[trial.number]


def test_all_points_are_tried_in_order_and_the_best_is_chosen(tmp_path):
    seen, notes = [], []

    def measure(trial: Trial) -> float:
        seen.append((trial.number, trial.overrides))
        return [0.5, 0.7, 0.6, 0.9, 0.8, 0.1][trial.number]

    choice = choose_settings(GRID, None, tmp_path, measure, notes.append)
    assert seen == [
        (0, ["lr=1e-05", "tasks.sentiment.loss.gamma=0.01"]),
        (1, ["lr=1e-05", "tasks.sentiment.loss.gamma=0.1"]),
        (2, ["lr=1e-05", "tasks.sentiment.loss.gamma=1"]),
        (3, ["lr=0.0001", "tasks.sentiment.loss.gamma=0.01"]),
        (4, ["lr=0.0001", "tasks.sentiment.loss.gamma=0.1"]),
        (5, ["lr=0.0001", "tasks.sentiment.loss.gamma=1"]),
    ]
    assert (choice.number, choice.score) == (3, 0.9)
    assert choice.values == {"lr": 1e-4, "tasks.sentiment.loss.gamma": 0.01}
    assert choice.overrides == seen[3][1]
    assert [trial.score for trial in choice.trials] == [0.5, 0.7, 0.6, 0.9, 0.8, 0.1]
    assert {trial.state for trial in choice.trials} == {"complete"}
    assert notes[1] == "trial 2 of 6: lr=1e-05 tasks.sentiment.loss.gamma=0.1: 0.7000"
    assert notes[-1] == "best of 6 trials: lr=0.0001 tasks.sentiment.loss.gamma=0.01 with 0.9000"


def test_the_first_of_equals_is_chosen(tmp_path):
    assert choose_settings(GRID, None, tmp_path, Measured([0.1, 0.4, 0.4, 0.3, 0.4, 0.2])).number == 1


def test_finished_trials_are_not_measured_again(tmp_path):
    class Broken(Exception):
        pass

    def break_off(trial: Trial) -> float:
        if trial.number == 2:
            raise Broken
        return 0.5

    with pytest.raises(Broken):
        choose_settings(GRID, None, tmp_path, break_off)
    measured = Measured([9, 9, 0.2, 0.3, 0.6, 0.1])
    choice = choose_settings(GRID, None, tmp_path, measured)
    assert measured.numbers == [2, 3, 4, 5]
    assert [trial.score for trial in choice.trials] == [0.5, 0.5, 0.2, 0.3, 0.6, 0.1]
    again = Measured([])
    assert choose_settings(GRID, None, tmp_path, again) == choice
    assert again.numbers == []


def test_trials_of_another_grid_are_refused(tmp_path):
    choose_settings({"lr": [1, 2]}, None, tmp_path, Measured([0, 1]))
    with pytest.raises(RunError, match=r"the settings to try have changed: grid.lr.1: 2 → 3"):
        choose_settings({"lr": [1, 3]}, None, tmp_path, Measured([0, 1]))


def test_second_process_on_the_same_grid_is_refused(tmp_path):
    with lock(tmp_path / ".trials.lock"), pytest.raises(RunError, match="another process is trying these settings"):
        choose_settings({"lr": [1]}, None, tmp_path, Measured([0]))


def test_trial_without_a_finite_score_fails_and_the_others_continue(tmp_path):
    def measure(trial: Trial) -> float:
        if trial.number == 0:
            raise NotFiniteError("the loss is not finite")
        return [0, math.nan, 0.2, math.inf][trial.number]

    notes = []
    choice = choose_settings({"lr": [1, 2, 3, 4]}, None, tmp_path, measure, notes.append)
    assert choice.number == 2
    assert [trial.state for trial in choice.trials] == ["failed", "failed", "complete", "failed"]
    assert notes[0] == "trial 1 of 4: lr=1: failed, its score is not finite"
    json.loads((tmp_path / "trials.json").read_text(), parse_constant=lambda word: pytest.fail(f"{word} is not JSON"))


def test_a_changed_score_of_a_trial_is_reported(tmp_path):
    choose_settings({"lr": [1, 2]}, None, tmp_path, Measured([0.25, 0.5]))
    file = tmp_path / "trials.json"
    file.write_text(file.read_text().replace("0.25", "0.75"))
    with pytest.raises(RunError, match=r"trials\.json: damaged; remove it to score its trials again"):
        choose_settings({"lr": [1, 2]}, None, tmp_path, Measured([0.25, 0.5]))


def test_failure_of_all_trials_is_reported(tmp_path):
    with pytest.raises(NotFiniteError, match="none of 2 trials reached a finite score; try other values"):
        choose_settings({"lr": [1, 2]}, None, tmp_path, Measured([math.nan, math.nan]))


def test_key_without_values_is_refused(tmp_path):
    for values in ([], "1e-5"):
        with pytest.raises(RequestError, match="grid: lr: expected a list of values"):
            choose_settings({"lr": values}, None, tmp_path, Measured([]))


def test_empty_grid_has_one_point(tmp_path):
    assert grid_points({}) == [{}]
    assert choose_settings({}, None, tmp_path, Measured([0.3])).overrides == []


@pytest.mark.parametrize("value", [1e-5, 3, True, None, "linear", "yes", "0.5", {"name": "cosine", "scale": 20}, ["a"]])
def test_override_of_a_trial_sets_exactly_its_value(value):
    trial = Trial(0, {"key": value})
    assert set_keys(Tree({"key": "before"}, {}), trial.overrides).values == {"key": value}


def test_search_without_optuna_names_the_extra(tmp_path, monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "optuna", None)
    with pytest.raises(RequestError, match=r'needs the package optuna; pip install "plait\[tune\]"'):
        choose_settings({"lr": [1]}, Search(), tmp_path, Measured([0]))


# A run as a trial


def reported(best_by: str = "mean", last_stage: int = 0, **record: object) -> list[tuple[float, int]]:
    reports = []
    trial = Trial(0, {}, lambda score, epoch: reports.append((score, epoch)) or False)
    whole = {"epoch": 2, "dev": {"a": {"f1": 0.3, "accuracy": 0.4}}, "metrics": {"a": "f1"}, "mean": 0.7, **record}
    run_trial(
        trial,
        lambda progress, stop: progress.scores(whole),
        progress=SilentProgress(),
        best_by=best_by,
        last_stage=last_stage,
    )
    return reports


def test_evaluations_are_reported_by_the_score_that_selects_the_best_model():
    assert reported() == [(0.7, 3)]
    assert reported(best_by="a") == [(0.3, 3)]
    assert reported(mean=None) == reported(mean=math.nan) == []


def test_only_the_last_stage_is_reported():
    assert reported(stage=0, last_stage=1) == []
    assert reported(stage=1, last_stage=1) == [(0.7, 3)]


def test_pruned_run_ends_after_its_epoch(tiny_recipe, tmp_path):
    reports = []
    trial = Trial(0, {"lr": 1e-3}, lambda score, epoch: reports.append(epoch) or epoch == 2)
    recipe = tiny_recipe(epochs=5)
    outcome = run_trial(
        trial,
        lambda progress, stop: train(
            recipe, tmp_path / "run", overrides=trial.overrides, baselines=False, progress=progress, stop=stop
        ),
        progress=SilentProgress(),
    )
    assert outcome is None
    assert trial.pruned
    assert reports == [1, 2]
    assert not (tmp_path / "run" / "result.json").exists()


def test_stopped_run_is_not_pruned():
    def start(progress, stop):
        assert stop()
        raise Stopped("stopped")

    trial = Trial(0, {})
    with pytest.raises(Stopped):
        run_trial(trial, start, progress=SilentProgress(), stop=lambda: True)
    assert not trial.pruned


def test_progress_of_a_run_is_forwarded():
    calls = []

    class Recorder(SilentProgress):
        def begin(self, what, total, done=0):
            calls.append(("begin", what, total, done))

        def advance(self, count=1, **facts):
            calls.append(("advance", count, facts))

        def end(self):
            calls.append(("end",))

        def note(self, message):
            calls.append(("note", message))

    def start(progress, stop):
        progress.begin("training", 5, 1)
        progress.advance(2, loss=0.1)
        progress.note("a sentence")
        progress.end()
        return 7

    assert run_trial(Trial(0, {}), start, progress=Recorder()) == 7
    assert calls == [("begin", "training", 5, 1), ("advance", 2, {"loss": 0.1}), ("note", "a sentence"), ("end",)]
