"""A run with one fold held out: the same rows for training, resuming and evaluation."""

import json
from pathlib import Path

import pytest

import plait
from plait.data.folds import normal_form
from plait.errors import PlaitError
from plait.evaluation.find import find_split
from plait.model.about import read_about
from plait.model.gather import same_rows
from plait.model.load import load_model
from plait.recipe.read import recipe_from, recipe_text
from plait.recipe.tree import read_yaml
from plait.training.loop import Stopped, as_recipe, resume
from plait.training.settle import settle_run
from plait.training.tables import TABLES


def folded(recipe: dict, **changes) -> dict:
    """The recipe with a share of dev in every task."""
    tasks = {name: {**task, "dev": 0.2} for name, task in recipe["tasks"].items()}
    return {**recipe, "tasks": tasks, "epochs": 1, **changes}


def parts_of(recipe: dict) -> dict[str, dict[str, list[str]]]:
    settled = settle_run(as_recipe(recipe, None, None, ())).last
    return {name: {split: part.origins for split, part in task.splits.items()} for name, task in settled.tasks.items()}


def mistakes_of(recipe: dict) -> list[str]:
    with pytest.raises(PlaitError) as caught:
        settle_run(as_recipe(recipe, None, None, ()))
    return list(caught.value.mistakes)


def test_the_tests_of_all_folds_are_the_rows_of_the_run_without_one(tiny_recipe):
    whole = {name: set(splits["train"]) for name, splits in parts_of(tiny_recipe(rows=20)).items()}
    runs = [parts_of(folded(tiny_recipe(rows=20), fold=f"{number}/4")) for number in range(1, 5)]
    for name, rows in whole.items():
        held = [where for run in runs for where in run[name]["test"]]
        assert len(held) == 20 and set(held) == rows
        for run in runs:
            lines = [where for split in ("train", "dev", "test") for where in run[name][split]]
            assert len(lines) == 20 and set(lines) == rows


def test_the_folds_are_those_of_the_seed(tiny_recipe):
    recipe = folded(tiny_recipe(), fold="1/3")
    assert parts_of(recipe) == parts_of(recipe)
    assert parts_of(recipe) != parts_of({**recipe, "seed": 1})


def test_a_run_with_a_fold_is_scored_on_exactly_that_fold(tiny_recipe, tmp_path):
    recipe = folded(tiny_recipe(rows=20), fold="2/4")
    settled = settle_run(as_recipe(recipe, None, None, ())).last
    result = plait.train(recipe, tmp_path / "run")
    model, about = load_model(result.run, device="cpu"), read_about(result.model)
    for split in ("train", "dev", "test"):
        for name, found in find_split(model, result.run, about, split, None).items():
            assert found.origins == settled.tasks[name].splits[split].origins
            assert found.labels.tolist() == settled.tasks[name].splits[split].labels.tolist()
    assert result.baselines["test"].keys() == {"majority or mean", "zero-shot cosine", "frozen encoder"}


def test_bad_rows_are_left_out_before_the_folds_are_made(tiny_recipe, tmp_path):
    recipe = folded(tiny_recipe(bad_rows="skip"), fold="1/3")
    with Path(recipe["tasks"]["mood"]["train"]).open("a") as file:
        file.write(",low\n")
    result = plait.train(recipe, tmp_path / "run", baselines=False)
    model, about = load_model(result.run, device="cpu"), read_about(result.model)
    assert find_split(model, result.run, about, "test", None)["mood"].origins == parts_of(recipe)["mood"]["test"]
    assert "mood-train.csv:26" not in str(parts_of(recipe))
    assert mistakes_of({**recipe, "bad_rows": "stop"}) == ["mood-train.csv:26: the text in column 'sentence' is empty"]


def test_a_run_with_a_fold_goes_on_to_the_same_bits(tiny_recipe, tmp_path):
    recipe = folded(tiny_recipe(), fold="3/3")
    once = plait.train(recipe, tmp_path / "once", baselines=False)
    with pytest.raises(Stopped):
        plait.train(recipe, tmp_path / "twice", baselines=False, stop=lambda: True)
    again = resume(tmp_path / "twice")
    ends = [json.loads((run / "result.json").read_text())["last_weights_sha256"] for run in (once.run, again.run)]
    assert ends[0] == ends[1]


def test_a_model_that_grew_keeps_the_fold_of_the_tasks_it_had(tiny_recipe, tmp_path):
    recipe = folded(tiny_recipe(), fold="2/3")
    first = plait.train(recipe, tmp_path / "first", baselines=False)
    mood = {"grown": {**tiny_recipe()["tasks"]["mood"]}}
    second = plait.train({**recipe, "encoder": str(first.model), "tasks": mood, "fold": None}, tmp_path / "second")
    model, about = load_model(second.run, device="cpu"), read_about(second.model)
    found = find_split(model, second.run, about, "test", None)
    assert {name: part.origins for name, part in found.items()} == {
        name: splits["test"] for name, splits in parts_of(recipe).items()
    }


def test_dev_and_test_share_no_text(tiny_recipe):
    recipe = folded(tiny_recipe(), fold="2/3")
    settled = settle_run(as_recipe(recipe, None, None, ())).last
    for task in settled.tasks.values():
        seen = {s: {normal_form(t) for column in part.texts for t in column} for s, part in task.splits.items()}
        assert not seen["dev"] & seen["test"] and not seen["train"] & seen["test"]


@pytest.mark.parametrize("fold", ["0/5", "6/5", "1/1", "2", 2, 0.4, [2, 5], {"number": 2, "of": 5}, "2/5/6", "a/5"])
def test_what_is_no_fold_is_refused(tiny_recipe, fold):
    assert mistakes_of(tiny_recipe(fold=fold)) == [
        f"recipe: fold: expected which fold of how many, such as 2/5, found {fold!r}"
    ]


def test_a_fold_is_saved_as_it_is_spelled(tiny_recipe, tmp_path):
    complete = settle_run(as_recipe(folded(tiny_recipe(), fold="2/3"), None, None, ())).recipe
    (tmp_path / "recipe.yaml").write_text(recipe_text(complete.model_dump(mode="json")))
    assert "\nfold: 2/3\n" in (tmp_path / "recipe.yaml").read_text()
    assert recipe_from(read_yaml(tmp_path / "recipe.yaml"), TABLES).fold == "2/3"


@pytest.mark.parametrize("test", [0.1, "mood-dev.csv"])
def test_with_a_fold_no_task_has_a_test_of_its_own(tiny_recipe, tmp_path, test):
    recipe = tiny_recipe(fold="1/3")
    recipe["tasks"]["mood"]["test"] = str(tmp_path / "data" / test) if isinstance(test, str) else test
    (tmp_path / "recipe.yaml").write_text(recipe_text(recipe))
    (mistake,) = mistakes_of(tmp_path / "recipe.yaml")
    where, _, what = mistake.partition(": ")
    assert what == "tasks.mood.test: with fold the test data is a fold of train; take it away, or the fold"
    line = int(where.rpartition(":")[2])
    assert "test:" in (tmp_path / "recipe.yaml").read_text().splitlines()[line - 1]


def test_a_task_without_a_head_is_not_parted(tiny_recipe):
    recipe = folded(tiny_recipe(), fold="1/3")
    recipe["tasks"]["near"] = {
        "train": recipe["tasks"]["near"]["train"],
        "text": ["one", "two"],
        "loss": "multiple_negatives",
    }
    parts = parts_of(recipe)
    assert {split: len(rows) for split, rows in parts["near"].items()} == {"train": 24}
    assert parts["mood"].keys() == {"train", "dev", "test"}


def test_too_few_rows_for_the_folds_are_told_by_task(tiny_recipe):
    recipe = folded(tiny_recipe(rows=2), fold="3/3")
    assert mistakes_of(recipe) == [
        f"tasks.{name}: fold: 2 training rows cannot be parted into 3 folds; give more rows" for name in recipe["tasks"]
    ]


def test_stages_that_part_other_rows_are_refused(tiny_recipe):
    recipe = folded(tiny_recipe(), fold="1/3", stages=[{"tasks": ["mood"], "rows": 12}, {"tasks": ["mood", "same"]}])
    del recipe["tasks"]["near"]
    (mistake, *_) = mistakes_of(recipe)
    why = "a stage trains on rows that another holds out; with fold, give it one train and one rows"
    assert mistake.endswith(why) and "mood" in mistake
    assert parts_of({**recipe, "stages": [{"tasks": ["mood"]}, {}]}).keys() == {"mood", "same"}


def test_models_of_different_folds_do_not_share_their_test_rows(tiny_recipe):
    def about(**changes) -> dict:
        settled = settle_run(as_recipe(folded(tiny_recipe(), **changes), None, None, ()))
        return {"recipe": settled.recipe.model_dump(mode="json"), "data": settled.fingerprints}

    one, other = about(fold="1/3"), about(fold="2/3")
    assert same_rows(one, about(fold="1/3", lr=1e-4), "mood", "test")
    for split in ("train", "dev", "test"):
        assert not same_rows(one, other, "mood", split)
        assert not same_rows(one, about(fold="1/3", seed=5), "mood", split)
    assert not same_rows(about(fold="1/3", rows=20), about(fold="1/3", rows=21), "mood", "dev")
