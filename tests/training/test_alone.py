"""Each task alone beside the multi-task run, under the same settings."""

import json

import pytest

import plait
from plait.errors import RunError
from plait.recipe.read import recipe_from
from plait.recipe.tree import Tree
from plait.training.alone import with_tasks
from plait.training.loop import Stopped, resume, train
from plait.training.tables import TABLES


def test_each_task_is_trained_alone_as_a_run_of_its_own_would_be(tiny_recipe, tmp_path):
    recipe = tiny_recipe(epochs=2)
    result = plait.train(recipe, tmp_path / "run", baselines=False, single_task=True)
    assert list(result.alone) == list(recipe["tasks"])
    for name, task in recipe["tasks"].items():
        by_itself = plait.train({**recipe, "tasks": {name: task}}, tmp_path / name, baselines=False)
        folders = (tmp_path / name, tmp_path / "run/alone" / name)
        told = [json.loads((folder / "result.json").read_text()) for folder in folders]
        assert told[0]["last_weights_sha256"] == told[1]["last_weights_sha256"]
        metric = plait.load(by_itself.model).tasks[name].metric
        assert result.alone[name] == by_itself.scores[name][metric]
    assert json.loads((tmp_path / "run/alone.json").read_text()) == result.alone


def test_the_run_itself_is_what_it_would_be_without(tiny_recipe, tmp_path):
    runs = [plait.train(tiny_recipe(epochs=1), tmp_path / str(flag), single_task=flag).run for flag in (True, False)]
    told = [json.loads((run / "result.json").read_text()) for run in runs]
    assert told[0]["last_weights_sha256"] == told[1]["last_weights_sha256"]
    assert told[0]["scores"] == told[1]["scores"]


def test_a_run_that_was_broken_off_in_a_task_alone_goes_on_there(tiny_recipe, tmp_path):
    recipe = tiny_recipe(epochs=1, checkpoint_every=1)
    whole = plait.train(recipe, tmp_path / "whole", baselines=False, single_task=True)
    steps = whole.steps
    asked = 0

    def stop() -> bool:
        nonlocal asked
        asked += 1
        return asked == steps + 2  # in the second step of the first task alone

    with pytest.raises(Stopped):
        train(recipe, tmp_path / "run", baselines=False, single_task=True, stop=stop)
    assert (tmp_path / "run/result.json").is_file() and not (tmp_path / "run/alone.json").exists()
    assert resume(tmp_path / "run").alone == whole.alone
    with pytest.raises(RunError, match="is finished"):
        resume(tmp_path / "run")


def test_a_task_alone_goes_on_with_data_that_has_moved(tiny_recipe, tmp_path):
    recipe = tiny_recipe(epochs=1, checkpoint_every=1)
    for name, task in recipe["tasks"].items():
        task.update(train=f"{name}-train.csv", dev=f"{name}-dev.csv")
    data, moved = tmp_path / "data", tmp_path / "moved"
    whole = plait.train(recipe, tmp_path / "whole", data=data, baselines=False, single_task=True)
    asked = 0

    def stop() -> bool:
        nonlocal asked
        asked += 1
        return asked == whole.steps + 2

    with pytest.raises(Stopped, match=f"while mood was trained alone; plait train --resume {tmp_path}/run goes on"):
        train(recipe, tmp_path / "run", data=data, baselines=False, single_task=True, stop=stop)
    data.rename(moved)
    assert resume(tmp_path / "run", data=moved).alone == whole.alone


@pytest.mark.parametrize(
    ("schedule", "expected"),
    [
        ({"name": "round_robin", "order": ["mood", "near", "mood", "same"]}, {"order": ("mood", "mood")}),
        ({"name": "sampled", "by": "equal", "weights": {"same": 2.0}}, {"by": "equal", "weights": None, "t": None}),
        ({"name": "sampled", "by": "equal", "weights": {"mood": 2.0, "same": 3.0}}, None),
        ({"name": "together", "epoch": "same"}, {"combine": "sum", "epoch": "longest"}),
    ],
)
def test_a_schedule_forgets_the_other_tasks(tiny_recipe, schedule, expected):
    recipe = recipe_from(Tree(tiny_recipe(schedule=schedule, best_by="same")), TABLES)
    alone = with_tasks(recipe, ["mood"])
    assert list(alone.tasks) == ["mood"] and alone.best_by == "mean"
    wanted = {"by": "equal", "weights": {"mood": 2.0}, "t": None} if expected is None else expected
    assert alone.schedule.options == wanted
    again = recipe_from(Tree(alone.model_dump(mode="json")), TABLES)
    assert again == alone


def test_a_task_that_has_nothing_to_learn_alone_is_passed_over(tiny_recipe, tmp_path):
    recipe = tiny_recipe(train_encoder=False, epochs=1)
    weightless = [name for name, task in recipe["tasks"].items() if task.get("head", "") == "cosine" or name == "near"]
    result = plait.train(recipe, tmp_path / "run", baselines=False, single_task=True)
    assert set(result.alone) == set(recipe["tasks"]) - set(weightless)


def test_a_task_that_cannot_be_scored_is_not_trained_alone(tiny_recipe, tmp_path):
    recipe = tiny_recipe(epochs=1)
    del recipe["tasks"]["same"]["dev"]
    result = plait.train(recipe, tmp_path / "run", baselines=False, single_task=True)
    assert list(result.alone) == ["mood", "near"]
    assert not (tmp_path / "run/alone/same").exists()
