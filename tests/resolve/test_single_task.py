"""Each task trained alone beside the multi-task run, under the same settings."""

import json

import pytest

import plait
from plait.errors import RunError
from plait.recipe.read import recipe_from
from plait.recipe.tree import Tree
from plait.resolve.single_task import restrict_to_tasks
from plait.resolve.variants import VARIANTS
from plait.runs.directory import RunDirectory
from plait.training.train import Stopped, resume
from small_runs import result_json, stop_after


def test_a_task_trained_alone_equals_its_own_run(tiny_recipe, tmp_path):
    recipe = tiny_recipe(epochs=2)
    result = plait.train(recipe, tmp_path / "run", baselines=False, single_task=True)
    assert list(result.single_task) == list(recipe["tasks"])
    for name, task in recipe["tasks"].items():
        own = plait.train({**recipe, "tasks": {name: task}}, tmp_path / name, baselines=False)
        found = result_json(tmp_path / "run/single_task" / name)
        assert found["last_weights_sha256"] == result_json(own.run)["last_weights_sha256"]
        metric = plait.load(own.model).tasks[name].metric
        assert result.single_task[name] == own.scores[name][metric]
    assert json.loads((tmp_path / "run/single_task.json").read_text())["scores"] == result.single_task


def test_the_multi_task_run_does_not_depend_on_single_task_runs(tiny_recipe, tmp_path):
    runs = [plait.train(tiny_recipe(epochs=1), tmp_path / str(flag), single_task=flag).run for flag in (True, False)]
    with_tasks, without = map(result_json, runs)
    assert with_tasks["last_weights_sha256"] == without["last_weights_sha256"]
    assert with_tasks["scores"] == without["scores"]


def test_a_run_stopped_in_a_single_task_resumes_there(tiny_recipe, tmp_path):
    recipe = tiny_recipe(epochs=1, checkpoint_every=1)
    whole = plait.train(recipe, tmp_path / "whole", baselines=False, single_task=True)
    stop = stop_after(whole.steps + 2)  # in the second step of the first single task
    with pytest.raises(Stopped):
        plait.train(recipe, tmp_path / "run", baselines=False, single_task=True, stop=stop)
    assert (tmp_path / "run/result.json").is_file() and not (tmp_path / "run/single_task.json").exists()
    assert resume(tmp_path / "run").single_task == whole.single_task
    with pytest.raises(RunError, match="already finished"):
        resume(tmp_path / "run")


def test_a_single_task_resumes_with_moved_data(tiny_recipe, tmp_path):
    recipe = tiny_recipe(epochs=1, checkpoint_every=1)
    for name, task in recipe["tasks"].items():
        task.update(train=f"{name}-train.csv", dev=f"{name}-dev.csv")
    data, moved = tmp_path / "data", tmp_path / "moved"
    whole = plait.train(recipe, tmp_path / "whole", data=data, baselines=False, single_task=True)
    message = f"stopped while training mood alone; resume with plait train --resume {tmp_path}/run"
    with pytest.raises(Stopped, match=message):
        stop = stop_after(whole.steps + 2)
        plait.train(recipe, tmp_path / "run", data=data, baselines=False, single_task=True, stop=stop)
    data.rename(moved)
    assert resume(tmp_path / "run", data=moved).single_task == whole.single_task


@pytest.mark.parametrize(
    ("schedule", "expected"),
    [
        ({"name": "round_robin", "order": ["mood", "near", "mood", "same"]}, {"order": ("mood", "mood")}),
        ({"name": "sampled", "by": "equal", "weights": {"same": 2.0}}, {"by": "equal", "weights": None, "t": None}),
        ({"name": "sampled", "by": "equal", "weights": {"mood": 2.0, "same": 3.0}}, None),
        ({"name": "together", "epoch": "same"}, {"combine": "sum", "epoch": "longest"}),
    ],
)
def test_a_schedule_no_longer_mentions_the_other_tasks(tiny_recipe, schedule, expected):
    recipe = recipe_from(Tree(tiny_recipe(schedule=schedule, best_by="same")), VARIANTS)
    single = restrict_to_tasks(recipe, ["mood"])
    assert list(single.tasks) == ["mood"] and single.best_by == "mean"
    wanted = {"by": "equal", "weights": {"mood": 2.0}, "t": None} if expected is None else expected
    assert single.schedule.options == wanted
    again = recipe_from(Tree(single.model_dump(mode="json")), VARIANTS)
    assert again == single


def test_a_task_with_nothing_to_train_alone_is_skipped(tiny_recipe, tmp_path):
    recipe = tiny_recipe(train_encoder=False, epochs=1)
    weightless = [name for name, task in recipe["tasks"].items() if task.get("head", "") == "cosine" or name == "near"]
    result = plait.train(recipe, tmp_path / "run", baselines=False, single_task=True)
    assert set(result.single_task) == set(recipe["tasks"]) - set(weightless)


def test_a_task_without_dev_data_is_not_trained_alone(tiny_recipe, tmp_path):
    recipe = tiny_recipe(epochs=1)
    del recipe["tasks"]["same"]["dev"]
    result = plait.train(recipe, tmp_path / "run", baselines=False, single_task=True)
    assert list(result.single_task) == ["mood", "near"]
    assert not (tmp_path / "run/single_task/same").exists()


def test_single_task_runs_of_plait_0_1_are_found_under_their_former_names(tiny_recipe, tmp_path):
    recipe = tiny_recipe(epochs=1)
    whole = plait.train(recipe, tmp_path / "run", baselines=False, single_task=True)
    (whole.run / "single_task").rename(whole.run / "alone")
    (whole.run / "single_task.json").rename(whole.run / "alone.json")
    assert RunDirectory(whole.run).is_finished()
    (whole.run / "alone.json").unlink()
    before = [path.stat().st_mtime_ns for path in sorted((whole.run / "alone").glob("*/result.json"))]
    assert resume(whole.run).single_task == whole.single_task
    after = [path.stat().st_mtime_ns for path in sorted((whole.run / "alone").glob("*/result.json"))]
    assert len(before) == 3 and after == before  # nothing was trained again
    assert not (whole.run / "single_task").exists()
