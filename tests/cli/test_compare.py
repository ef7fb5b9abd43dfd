"""`plait compare` on the command line."""

import json
from pathlib import Path

import pytest

import plait as library
from plait.cli.comparison_tables import draw_interval
from plait.evaluation.paired import TaskComparison
from tiny import write_tasks


@pytest.fixture(scope="module")
def runs(tiny_bert, tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("compared")
    recipe = write_tasks(folder / "data", tiny_bert)
    recipe["tasks"] = {name: recipe["tasks"][name] for name in ("mood", "same")}
    library.train(recipe, folder / "first", baselines=False, single_task=True)
    library.train({**recipe, "lr": 3e-3}, folder / "second", baselines=False)
    return folder


def test_two_runs(runs, plait):
    out, _ = plait("compare", runs / "first", runs / "second", "--json")
    result = json.loads(out.splitlines()[-1])
    assert result["kind"] == "result" and list(result["tasks"]) == ["mood", "same"]
    out, _ = plait("compare", runs / "first", runs / "second")
    assert f"{runs}/second compared with {runs}/first on dev" in out
    for task, one in result["tasks"].items():
        assert f"{one['difference']:+.3f}" in out and one["verdict"] in out and one["test"] == "McNemar"
        assert [line for line in out.splitlines() if line.startswith(f"  {task}  ") and "●" in line]
    assert "p of mood, same: McNemar, corrected for 2 tasks (Holm)" in out


def test_other_files(runs, plait):
    file = f"mood={runs}/data/mood-train.csv"
    out, _ = plait("compare", runs / "first", runs / "second", "--on", file, "--json")
    assert list(json.loads(out.splitlines()[-1])["tasks"]) == ["mood"]
    _, errors = plait("compare", runs / "first", runs / "second", "--on", "mod=x.csv", code=2)
    assert "the model has no task 'mod'; did you mean 'mood'?" in errors


def test_single_task_and_transfer(runs, plait):
    out, _ = plait("compare", runs / "first", "--single-task")
    assert "together compared with single task on dev" in out and "●" in out
    out, _ = plait("compare", runs / "first", "--transfer")
    assert "with mood" in out and "with same" in out
    out, _ = plait("compare", runs / "first", "--transfer", "--json")
    assert list(json.loads(out.splitlines()[-1])["gains"]["mood"]) == ["same"]
    _, errors = plait("compare", runs / "second", "--single-task", code=2)
    assert "has no single-task models; train it with --single-task, or measure its --transfer" in errors


def test_usage_errors(runs, plait):
    first, second = runs / "first", runs / "second"
    for arguments, message in [
        ((first,), "give two models to compare, not 1; or one run with --single-task"),
        ((first, second, first), "give two models to compare, not 3"),
        ((first, second, "--single-task"), f"--single-task is for one run and its own data; drop {second}"),
        ((first, "--transfer", "--on", "mood=x.csv"), "--transfer is for one run and its own data; drop --on"),
        ((first, "--transfer", "--single-task"), "choose --single-task or --transfer"),
        ((first, "--transfer", "--split", "train"), "--transfer is measured on dev or test"),
    ]:
        _, errors = plait("compare", *arguments, code=2)
        assert message in " ".join(errors.split())


def test_an_interval_is_drawn_to_scale():
    def drawn(low: float, difference: float, high: float) -> str:
        one = TaskComparison("t", "accuracy", 9, 0.0, difference, (low, high), "McNemar", 0.1, 0.1)
        return draw_interval(one, 0.3)

    assert drawn(-0.3, 0.0, 0.3) == "├" + "─" * 14 + "●" + "─" * 14 + "┤"
    assert drawn(0.1, 0.2, 0.3) == " " * 15 + "│" + " " * 4 + "├────●────┤"
    assert drawn(-0.2, -0.1, 0.1) == " " * 5 + "├────●────┼────┤"
