"""Recipes with stages on the command line."""

import json

import pytest
from ruamel.yaml import YAML


@pytest.fixture
def recipe_file(tiny_recipe, tmp_path):
    stages = [{"tasks": ["near", "same"], "epochs": 1, "conflict_every": 1}, {"tasks": ["mood", "same"], "steps": 4}]
    YAML().dump(tiny_recipe(stages=stages), tmp_path / "recipe.yaml")
    return tmp_path / "recipe.yaml"


def test_check_shows_each_stage_and_the_whole_run(plait, recipe_file):
    out, _ = plait("check", recipe_file)
    first, second = out.index("stage 1 of 2: 3 steps, epochs: 1, schedule: together, about "), out.index("stage 2 of 2")
    assert first < out.index("near: score") < second < out.index("mood: classes")
    assert "stage 2 of 2: 4 steps, epochs: 2, schedule: together, about " in out
    assert "steps: 7 in all\nestimated from 4 real steps of each stage: " in out


def test_check_prints_the_same_as_json(plait, recipe_file):
    found = json.loads(plait("check", recipe_file, "--json")[0])
    assert found["steps"] == 7 and [stage["steps"] for stage in found["stages"]] == [3, 4]
    assert [[task["task"] for task in stage["tasks"]] for stage in found["stages"]] == [
        ["near", "same"],
        ["mood", "same"],
    ]
    costs = [stage["cost"] for stage in found["stages"]]
    assert found["cost"]["seconds"] == sum(cost["seconds"] for cost in costs)
    assert found["cost"]["peak_memory"] == max(cost["peak_memory"] for cost in costs)
    per_step = (3 * costs[0]["seconds_per_step"] + 4 * costs[1]["seconds_per_step"]) / 7
    assert found["cost"]["seconds_per_step"] == pytest.approx(per_step)
    assert "tasks" not in found and json.loads(plait("check", recipe_file, "--json", "--no-trial")[0])["cost"] is None


def test_train_shows_each_stage_and_the_scores_of_earlier_tasks(plait, recipe_file, tmp_path):
    out, log = plait("train", recipe_file, "--out", tmp_path / "run", "--no-baselines", "--no-report")
    assert "training, stage 1 of 2 (3)" in log and "training, stage 2 of 2 (4)" in log
    assert "stage 1, epoch 1, step 3: near pearson " in log and "stage 2, epoch 1, step 6: mood accuracy " in log
    trained, _, kept = out.partition(", tasks that the model had before")
    assert "  mood " in trained and "after its own stage" not in trained
    assert "after its own stage" in kept and "  near " in kept
    assert "in stage 1, cosines between the tasks' gradients" in out and "in stage 2, cosines" not in out
    assert "7 steps (3 + 4 in stages) in " in out


def test_train_prints_the_same_as_json(plait, recipe_file, tmp_path):
    out, _ = plait("train", recipe_file, "--out", tmp_path / "run", "--no-baselines", "--no-report", "--json")
    *lines, result = map(json.loads, out.splitlines())
    assert [line["what"] for line in lines if line["kind"] == "begin"] == [
        "training, stage 1 of 2",
        "training, stage 2 of 2",
    ]
    assert [line["stage"] for line in lines if line["kind"] == "scores"] == [0, 1, 1]
    assert [(stage["tasks"], stage["steps"]) for stage in result["stages"]] == [
        (["near", "same"], 3),
        (["mood", "same"], 4),
    ]
    assert list(result["stages"][0]["conflicts"]) == ["near/same"] and result["conflicts"] == {}
    assert result["kept"] == ["near"]


def test_mistakes_in_stages_are_reported_together(plait, recipe_file):
    changes = ("--set", "stages.0.pooling=max", "--set", "stages.1.lr=fast", "--set", "lr=-1")
    _, errors = plait("check", recipe_file, *changes, code=2)
    assert [line.partition(": ")[2] for line in errors.splitlines()] == [
        "--set stages.0.pooling=max: stages.0.pooling: applies to the whole run; move it to the top level",
        "--set lr=-1: lr: expected a number greater than 0, found -1 (in stages.0)",
        "--set stages.1.lr=fast: stages.1.lr: expected a number, found 'fast'",
    ]
