"""plait.compare and plait.compare_single_task from Python."""

from pathlib import Path

import pytest

import plait
from plait.errors import RequestError, RunError
from tiny import write_tasks


@pytest.fixture(scope="module")
def runs(tiny_bert, tmp_path_factory) -> Path:
    """The runs first and second on the same data, the first with single-task models."""
    folder = tmp_path_factory.mktemp("compared")
    recipe = write_tasks(folder / "data", tiny_bert)
    plait.train(recipe, folder / "first", baselines=False, single_task=True)
    changed = {**recipe, "lr": 3e-3, "epochs": 3}
    changed["tasks"] = {name: recipe["tasks"][name] for name in ("mood", "near")}
    plait.train(changed, folder / "second", baselines=False)
    return folder


def test_scores_are_those_of_evaluate(runs):
    found = plait.compare(runs / "first", runs / "second")
    first, second = (plait.evaluate(runs / name).scores for name in ("first", "second"))
    assert list(found.tasks) == ["mood", "near"]
    for task, one in found.tasks.items():
        assert (one.first, one.second) == (first[task].value, second[task].value) and one.rows == 24
        assert one.interval[0] <= one.difference <= one.interval[1]
        assert one.p <= one.corrected_p <= 1
    assert [one.test for one in found.tasks.values()] == ["McNemar", "paired bootstrap"]
    assert found.notes == [f"same: not compared, only {runs}/first is scored on it"]


def test_a_model_equals_itself(runs):
    found = plait.compare(runs / "first", plait.load(runs / "first"))
    assert {one.verdict for one in found.tasks.values()} == {"no difference shown"}
    assert {one.difference for one in found.tasks.values()} == {0}


def test_other_data_is_compared(runs):
    found = plait.compare(runs / "first", runs / "second", {"mood": runs / "data/mood-train.csv"})
    assert list(found.tasks) == ["mood"] and found.data == "the data given"
    assert found.to_json()["tasks"]["mood"]["verdict"] == found.tasks["mood"].verdict


def test_only_shared_rows_are_compared(runs, tiny_bert, tmp_path):
    recipe = write_tasks(runs / "data", tiny_bert)
    mood = {**recipe["tasks"]["mood"], "dev_rows": 10}
    plait.train({**recipe, "tasks": {"mood": mood}}, tmp_path / "fewer", baselines=False)
    found = plait.compare(runs / "first", tmp_path / "fewer")
    assert found.tasks["mood"].rows == 10
    assert "mood: the models have 24 and 10 dev rows; the 10 of both are compared" in found.notes


def test_mistakes_are_named(runs):
    with pytest.raises(RequestError, match="second has no task 'same'; allowed: mood, near"):
        plait.compare(runs / "first", runs / "second", {"same": runs / "data/same-dev.csv"})
    with pytest.raises(RunError, match="second: has no single-task models; train it with `single_task`"):
        plait.compare_single_task(runs / "second")
    with pytest.raises(RunError, match="not a run"):
        plait.compare_single_task(runs / "data")


def test_single_task_models_are_the_first(runs):
    found = plait.compare_single_task(runs / "first")
    alone = {task: plait.evaluate(runs / "first/single_task" / task).scores[task].value for task in found.tasks}
    assert list(alone) == ["mood", "same", "near"]
    assert {task: one.first for task, one in found.tasks.items()} == alone
    together = plait.evaluate(runs / "first").scores
    assert {task: one.second for task, one in found.tasks.items()} == {
        task: scores.value for task, scores in together.items()
    }
    assert (found.first, found.second) == ("single task", "together")


def test_a_comparison_shows_as_a_table(runs):
    shown = plait.compare_single_task(runs / "first")._repr_html_()
    assert "together compared with single task on dev" in shown and "mood" in shown
