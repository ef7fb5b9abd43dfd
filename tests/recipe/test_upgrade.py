"""Recipes with keys that were renamed since."""

import pytest

from plait.recipe.schema import Recipe
from plait.recipe.task import Label, Task
from plait.recipe.upgrade import FORMER_KEYS, upgrade_origins, upgrade_recipe
from recipe_files import PLAIN, mistakes, read

OLD = {
    "encoder": "tiny",
    "watch_conflict": 3,
    "tasks": {
        "topics": {"train": ["a.csv"], "text": ["one"], "label": {"column": ["t"], "kind": "several"}},
        "closer": {"train": ["b.csv"], "text": ["one", "two"], "label": {"column": ["l"]}, "make": "triplets"},
    },
}


def test_renamed_keys_and_kinds_of_a_saved_recipe_are_upgraded():
    new = upgrade_recipe(OLD)
    assert new["conflict_every"] == 3 and "watch_conflict" not in new
    assert new["tasks"]["topics"]["label"] == {"column": ["t"], "kind": "multilabel"}
    assert new["tasks"]["closer"]["derive"] == "triplets" and "make" not in new["tasks"]["closer"]
    Recipe.model_validate(new)


def test_stages_of_a_saved_recipe_are_upgraded():
    stage = {key: value for key, value in OLD.items() if key != "encoder"}
    upgraded = upgrade_recipe({"encoder": "tiny", "stages": [stage, stage]})
    run_keys = {"encoder": "tiny", "head_start": "random", "precision": "float32"}
    expected = {key: value for key, value in upgrade_recipe(OLD).items() if key not in run_keys}
    assert upgraded == {**run_keys, "stages": [expected, expected]}


def test_heads_of_a_saved_recipe_started_from_random_weights():
    assert upgrade_recipe(OLD)["head_start"] == "random"
    assert upgrade_recipe({**OLD, "head_start": "frozen"})["head_start"] == "frozen"
    assert upgrade_recipe({}) == {}  # a model that was not trained


def test_a_saved_recipe_was_trained_in_float32():
    assert upgrade_recipe(OLD)["precision"] == "float32"
    assert upgrade_recipe({**OLD, "precision": "auto"})["precision"] == "auto"


def test_batches_of_a_saved_recipe_were_sorted_by_length():
    assert upgrade_recipe(OLD)["batches"] == "sorted"
    assert upgrade_recipe({**OLD, "batches": "random"})["batches"] == "random"


def test_upgrading_changes_neither_a_current_recipe_nor_its_argument():
    new = upgrade_recipe(OLD)
    assert upgrade_recipe(new) == new
    assert "make" in OLD["tasks"]["closer"] and OLD["tasks"]["topics"]["label"]["kind"] == "several"


@pytest.mark.parametrize("label", [None, "mood", ["a", "b"], {"column": ["mood"], "kind": None}])
def test_other_labels_are_left_unchanged(label):
    saved = upgrade_recipe({"encoder": "tiny", "tasks": {"mood": {}}})
    saved["tasks"]["mood"]["label"] = label
    assert upgrade_recipe(saved) == saved


def test_the_origins_of_kept_tasks_are_upgraded():
    closer = OLD["tasks"]["closer"]
    origins = upgrade_origins({"closer": {"task": closer, "data": {}, "seed": 1}})
    assert origins["closer"]["task"] == upgrade_recipe(OLD)["tasks"]["closer"]
    assert origins["closer"]["seed"] == 1


def test_every_new_name_is_a_key_of_the_schema_and_no_former_name_is():
    keys = {*Recipe.model_fields, *Task.model_fields, *Label.model_fields}
    assert set(FORMER_KEYS.values()) <= keys and not FORMER_KEYS.keys() & keys


def test_a_users_recipe_with_a_former_key_is_told_its_new_name(folder):
    assert mistakes(folder, PLAIN + "    make: triplets\nwatch_conflict: 2\n") == [
        "recipe.yaml:11: tasks.near: 'make' is now called 'derive'",
        "recipe.yaml:12: 'watch_conflict' is now called 'conflict_every'",
    ]
    found = mistakes(folder, PLAIN + "stages: [{watch_conflict: 2}, {}]\n")
    assert found == ["recipe.yaml:11: stages.0: 'watch_conflict' is now called 'conflict_every'"]


def test_a_former_key_in_the_wrong_place_is_an_unknown_key(folder):
    (found,) = mistakes(folder, PLAIN + "make: triplets\n")
    assert found.startswith("recipe.yaml:11: unknown key 'make'; ")


def test_set_with_a_former_key_is_told_its_new_name(folder):
    assert mistakes(folder, PLAIN, overrides=["watch_conflict=2"]) == [
        "`overrides` watch_conflict=2: 'watch_conflict' is now called 'conflict_every'"
    ]
    assert read(folder, PLAIN, overrides=["conflict_every=2"]).conflict_every == 2
