"""Runs with one fold held out: the same rows for training, resuming and evaluation."""

from pathlib import Path

import pytest

import plait
from plait.data.partition import normal_form
from plait.errors import PlaitError
from plait.model.directory.record import Provenance, open_directory
from plait.model.ensemble_build import _same_rows
from plait.recipe.read import recipe_from, recipe_text
from plait.recipe.tree import read_yaml
from plait.resolve.variants import VARIANTS
from plait.runs.origins import find_split
from plait.training.train import Stopped, resume
from small_runs import resolve, result_json


def folded(recipe: dict, **changes) -> dict:
    """The recipe with a share for dev in every task."""
    tasks = {name: {**task, "dev": 0.2} for name, task in recipe["tasks"].items()}
    return {**recipe, "tasks": tasks, "epochs": 1, **changes}


def rows_of(recipe: dict) -> dict[str, dict[str, list[str]]]:
    resolved = resolve(recipe).stages[-1]
    return {name: {split: part.origins for split, part in task.splits.items()} for name, task in resolved.tasks.items()}


def mistakes_of(recipe: dict) -> list[str]:
    with pytest.raises(PlaitError) as caught:
        resolve(recipe)
    return list(caught.value.mistakes)


def test_the_test_rows_of_all_folds_are_the_rows_of_the_run_without_folds(tiny_recipe):
    whole = {name: set(splits["train"]) for name, splits in rows_of(tiny_recipe(rows=20)).items()}
    runs = [rows_of(folded(tiny_recipe(rows=20), fold=f"{number}/4")) for number in range(1, 5)]
    for name, rows in whole.items():
        held = [where for run in runs for where in run[name]["test"]]
        assert len(held) == 20 and set(held) == rows
        for run in runs:
            lines = [where for split in ("train", "dev", "test") for where in run[name][split]]
            assert len(lines) == 20 and set(lines) == rows


def test_folds_depend_on_the_seed(tiny_recipe):
    recipe = folded(tiny_recipe(), fold="1/3")
    assert rows_of(recipe) == rows_of(recipe)
    assert rows_of(recipe) != rows_of({**recipe, "seed": 1})


def test_a_run_with_a_fold_is_scored_on_exactly_that_fold(tiny_recipe, tmp_path):
    recipe = folded(tiny_recipe(rows=20), fold="2/4")
    resolved = resolve(recipe).stages[-1]
    result = plait.train(recipe, tmp_path / "run")
    record = open_directory(result.model).record
    for split in ("train", "dev", "test"):
        for name, found in find_split(record, result.model, split, None).items():
            assert found.origins == resolved.tasks[name].splits[split].origins
            assert found.labels.tolist() == resolved.tasks[name].splits[split].labels.tolist()
    assert result.baselines["test"].keys() == {"majority or mean", "zero-shot cosine", "frozen encoder"}


def test_bad_rows_are_skipped_before_the_folds_are_made(tiny_recipe, tmp_path):
    recipe = folded(tiny_recipe(bad_rows="skip"), fold="1/3")
    with Path(recipe["tasks"]["mood"]["train"]).open("a") as file:
        file.write(",low\n")
    result = plait.train(recipe, tmp_path / "run", baselines=False)
    found = find_split(open_directory(result.model).record, result.model, "test", None)
    assert found["mood"].origins == rows_of(recipe)["mood"]["test"]
    assert "mood-train.csv:26" not in str(rows_of(recipe))
    assert mistakes_of({**recipe, "bad_rows": "stop"}) == ["mood-train.csv:26: the text in column 'sentence' is empty"]


def test_a_resumed_run_with_a_fold_ends_with_equal_weights(tiny_recipe, tmp_path):
    recipe = folded(tiny_recipe(), fold="3/3")
    once = plait.train(recipe, tmp_path / "once", baselines=False)
    with pytest.raises(Stopped):
        plait.train(recipe, tmp_path / "twice", baselines=False, stop=lambda: True)
    again = resume(tmp_path / "twice")
    assert result_json(again.run)["last_weights_sha256"] == result_json(once.run)["last_weights_sha256"]


def test_a_warm_start_keeps_the_fold_of_old_tasks(tiny_recipe, tmp_path):
    recipe = folded(tiny_recipe(), fold="2/3")
    first = plait.train(recipe, tmp_path / "first", baselines=False)
    mood = {"added": {**tiny_recipe()["tasks"]["mood"]}}
    second = plait.train({**recipe, "encoder": str(first.model), "tasks": mood, "fold": None}, tmp_path / "second")
    found = find_split(open_directory(second.model).record, second.model, "test", None)
    assert {name: part.origins for name, part in found.items()} == {
        name: splits["test"] for name, splits in rows_of(recipe).items()
    }


def test_dev_and_test_share_no_text(tiny_recipe):
    recipe = folded(tiny_recipe(), fold="2/3")
    resolved = resolve(recipe).stages[-1]
    for task in resolved.tasks.values():
        seen = {s: {normal_form(t) for column in part.texts for t in column} for s, part in task.splits.items()}
        assert not seen["dev"] & seen["test"] and not seen["train"] & seen["test"]


@pytest.mark.parametrize("fold", ["0/5", "6/5", "1/1", "2", 2, 0.4, [2, 5], {"number": 2, "of": 5}, "2/5/6", "a/5"])
def test_an_invalid_fold_is_refused(tiny_recipe, fold):
    assert mistakes_of(tiny_recipe(fold=fold)) == [
        f"recipe: fold: expected which fold of how many, such as 2/5, found {fold!r}"
    ]


def test_a_fold_is_saved_as_it_is_written(tiny_recipe, tmp_path):
    complete = resolve(folded(tiny_recipe(), fold="2/3")).recipe
    (tmp_path / "recipe.yaml").write_text(recipe_text(complete.model_dump(mode="json")))
    assert "\nfold: 2/3\n" in (tmp_path / "recipe.yaml").read_text()
    assert recipe_from(read_yaml(tmp_path / "recipe.yaml"), VARIANTS).fold == "2/3"


@pytest.mark.parametrize("test", [0.1, "mood-dev.csv"])
def test_a_task_with_its_own_test_data_is_refused(tiny_recipe, tmp_path, test):
    recipe = tiny_recipe(fold="1/3")
    recipe["tasks"]["mood"]["test"] = str(tmp_path / "data" / test) if isinstance(test, str) else test
    (tmp_path / "recipe.yaml").write_text(recipe_text(recipe))
    (mistake,) = mistakes_of(tmp_path / "recipe.yaml")
    where, _, what = mistake.partition(": ")
    assert what == "tasks.mood.test: with fold, the test data is a fold of train; remove test or fold"
    line = int(where.rpartition(":")[2])
    assert "test:" in (tmp_path / "recipe.yaml").read_text().splitlines()[line - 1]


def test_a_task_without_a_head_has_no_folds(tiny_recipe):
    recipe = folded(tiny_recipe(), fold="1/3")
    recipe["tasks"]["near"] = {
        "train": recipe["tasks"]["near"]["train"],
        "text": ["one", "two"],
        "loss": "multiple_negatives",
    }
    parts = rows_of(recipe)
    assert {split: len(rows) for split, rows in parts["near"].items()} == {"train": 24}
    assert parts["mood"].keys() == {"train", "dev", "test"}


def test_too_few_rows_for_the_folds_are_reported_by_task(tiny_recipe):
    recipe = folded(tiny_recipe(rows=2), fold="3/3")
    assert mistakes_of(recipe) == [
        f"tasks.{name}: fold: 2 training rows cannot be divided into 3 folds; give more rows"
        for name in recipe["tasks"]
    ]


def test_stages_with_different_folds_are_refused(tiny_recipe):
    recipe = folded(tiny_recipe(), fold="1/3", stages=[{"tasks": ["mood"], "rows": 12}, {"tasks": ["mood", "same"]}])
    del recipe["tasks"]["near"]
    (mistake, *_) = mistakes_of(recipe)
    assert mistake == (
        "tasks.mood: one stage trains on rows that another holds out; with fold, give the task the same train and rows "
        "in every stage"
    )
    assert rows_of({**recipe, "stages": [{"tasks": ["mood"]}, {}]}).keys() == {"mood", "same"}


def test_models_of_different_folds_do_not_share_their_test_rows(tiny_recipe):
    def provenance(**changes) -> Provenance:
        resolved = resolve(folded(tiny_recipe(), **changes))
        return Provenance(resolved.recipe.model_dump(mode="json"), resolved.fingerprints)

    one, other = provenance(fold="1/3"), provenance(fold="2/3")
    assert _same_rows(one, provenance(fold="1/3", lr=1e-4), "mood", "test")
    for split in ("train", "dev", "test"):
        assert not _same_rows(one, other, "mood", split)
        assert not _same_rows(one, provenance(fold="1/3", seed=5), "mood", split)
    assert not _same_rows(provenance(fold="1/3", rows=20), provenance(fold="1/3", rows=21), "mood", "dev")
