"""Folds and tasks with learn: false on the command line."""

import json
from pathlib import Path

from plait.recipe.read import recipe_text
from plait.training.train import train
from small_runs import resolve
from tiny import sentences, write_csv


def test_evaluate_scores_exactly_the_rows_of_the_fold(plait, tiny_recipe, tmp_path):
    recipe = tiny_recipe(epochs=1, rows=20)
    for number in (1, 2, 3):
        held = {**recipe, "fold": f"{number}/3"}
        train(held, tmp_path / str(number), baselines=False)
        out, _ = plait("evaluate", tmp_path / str(number), "--split", "test", "--json")
        resolved = resolve(held).stages[-1]
        rows = {name: task["rows"] for name, task in json.loads(out.splitlines()[-1])["scores"].items()}
        assert rows == {name: len(task.splits["test"]) for name, task in resolved.tasks.items()}


def test_check_and_train_report_a_group_that_is_larger_than_a_fold(plait, tiny_recipe, tmp_path):
    recipe = tiny_recipe(epochs=1, fold="1/4")
    recipe["tasks"] = {"mood": recipe["tasks"]["mood"]}
    others = list(dict.fromkeys(sentences(25, seed=3)))
    rows = [*((text, "high") for text in others), *[("the same", "low")] * 10]
    write_csv(Path(recipe["tasks"]["mood"]["train"]), ["sentence", "mood"], rows)
    (tmp_path / "recipe.yaml").write_text(recipe_text(recipe))
    sentence = "mood: 1 group of 10 rows with shared texts is larger than a fold and was split"
    assert sentence in plait("check", tmp_path / "recipe.yaml", "--no-trial")[0].splitlines()
    shown = "".join(
        plait("train", tmp_path / "recipe.yaml", "--out", tmp_path / "run", "--no-baselines", "--no-report")
    )
    assert sentence in shown


def test_check_shows_a_task_that_is_only_scored(plait, tiny_recipe, tmp_path):
    recipe = tiny_recipe()
    recipe["tasks"]["same"]["learn"] = False
    (tmp_path / "recipe.yaml").write_text(recipe_text(recipe))
    out, _ = plait("check", tmp_path / "recipe.yaml")
    part = out.partition("same: yes_no")[2].partition("near: score")[0]
    assert "not trained, only scored: difference_product, learn: false" in part and "epoch" not in part
    facts = json.loads(plait("check", tmp_path / "recipe.yaml", "--no-trial", "--json")[0])
    found = {task["task"]: (task["learns"], task["seen"]) for task in facts["tasks"]}
    assert found == {"mood": (True, 2.0), "same": (False, 0.0), "near": (True, 2.0)}
