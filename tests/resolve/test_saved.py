"""Saved recipes compared with those of today: only a change of meaning is a difference."""

import copy

import pytest

from plait.heads import HEADS
from plait.resolve.saved import as_saved, differences, recipe_differences
from plait.training.given_recipe import as_recipe
from small_runs import resolve


@pytest.fixture
def saved(tiny_recipe) -> dict:
    """A complete recipe as run.json holds it."""
    return resolve(tiny_recipe()).recipe.model_dump(mode="json")


def changed(recipe: dict, *path: str | int, value: object) -> dict:
    """A copy with another value."""
    new = copy.deepcopy(recipe)
    place = new
    for key in path[:-1]:
        place = place[key]
    place[path[-1]] = value
    return new


def without(recipe: dict, *path: str | int) -> dict:
    """A copy without a key."""
    new = changed(recipe, *path, value=None)
    place = new
    for key in path[:-1]:
        place = place[key]
    del place[path[-1]]
    return new


def test_differences_by_hand():
    old = {"a": 1, "b": {"c": [1, 2], "d": None}, "e": [1]}
    new = {"a": 1, "b": {"c": [1, 3]}, "e": [1, 2], "f": "x"}
    assert list(differences(old, old)) == []
    assert list(differences(old, new)) == ["b.c.1: 2 → 3", "e: [1] → [1, 2]", "f: None → 'x'"]
    assert list(differences(new, old)) == ["b.c.1: 3 → 2", "e: [1, 2] → [1]", "f: 'x' → None"]


def test_a_recipe_does_not_differ_from_itself(saved):
    assert recipe_differences(saved, saved) == []


def test_moved_files_are_no_difference(saved):
    moved = changed(saved, "encoder", value="/elsewhere/" + saved["encoder"].rpartition("/")[2])
    moved = changed(moved, "tasks", "mood", "train", value=["/elsewhere/mood-train.csv"])
    assert recipe_differences(saved, moved) == []
    renamed = changed(saved, "tasks", "mood", "train", value=["/elsewhere/other.csv"])
    assert recipe_differences(saved, renamed) == ["tasks.mood.train.0: 'mood-train.csv' → 'other.csv'"]


@pytest.mark.parametrize(
    ("path", "value", "line"),
    [
        (("lr",), 0.5, "lr: 0.001 → 0.5"),
        (("tasks", "mood", "weight"), 2.0, "tasks.mood.weight: 1.0 → 2.0"),
        (("tasks", "same", "head"), "concat", "tasks.same.head: {'name': 'difference_product', 'hidden': None} → "),
        (("schedule", "combine"), "mean", "schedule.combine: 'sum' → 'mean'"),
        (("lr_schedule", "warmup"), 0.2, "lr_schedule.warmup: 0.1 → 0.2"),
    ],
)
def test_a_change_is_a_difference(saved, path, value, line):
    (found,) = recipe_differences(saved, changed(saved, *path, value=value))
    assert found.startswith(line)


@pytest.mark.parametrize(
    "path",
    [
        ("precision",),
        ("early_stopping",),
        ("conflict_every",),
        ("tasks", "mood", "learn"),
        ("tasks", "mood", "derive"),
        ("tasks", "mood", "label", "separator"),
        ("tasks", "same", "head", "hidden"),
        ("tasks", "near", "head", "scale"),
        ("tasks", "same", "loss", 0, "threshold"),
        ("schedule", "epoch"),
        ("optimizer", "eps"),
    ],
    ids=lambda path: ".".join(map(str, path)),
)
def test_a_key_or_option_that_was_added_since_has_its_default(saved, path):
    assert recipe_differences(without(saved, *path), saved) == []
    assert recipe_differences(saved, without(saved, *path)) == []


def test_an_added_key_with_another_value_is_a_difference(saved):
    now = changed(saved, "early_stopping", value=2)
    assert recipe_differences(without(saved, "early_stopping"), now) == ["early_stopping: None → 2"]


def test_renamed_keys_are_no_difference(saved):
    old = without(saved, "conflict_every") | {"watch_conflict": None}
    old["tasks"] = {name: without(task, "derive") | {"make": None} for name, task in old["tasks"].items()}
    assert recipe_differences(old, saved) == []
    assert recipe_differences({**old, "watch_conflict": 2}, saved) == ["conflict_every: 2 → None"]


def test_stages_are_compared_one_by_one(tiny_recipe):
    stages = [{"tasks": ["near"]}, {"tasks": ["mood", "same"]}]
    saved = resolve(tiny_recipe(stages=stages)).recipe.model_dump(mode="json")
    old = without(without(saved, "stages", 0, "clip"), "stages", 1, "tasks", "same", "head", "hidden")
    assert recipe_differences(old, saved) == []
    now = changed(saved, "stages", 1, "lr", value=0.5)
    assert recipe_differences(old, now) == ["stages.1.lr: 0.001 → 0.5"]


def test_a_recipe_of_a_newer_plait_is_compared_as_it_is_written(saved):
    newer = {**saved, "momentum": 0.9}
    assert "momentum: 0.9 → None" in recipe_differences(newer, saved)


def test_a_saved_recipe_names_files_without_folders(tiny_recipe):
    found = as_saved(as_recipe(tiny_recipe(), None, None, ()))
    assert found["tasks"]["mood"]["train"] == ["mood-train.csv"] and found["encoder"] == "bert"


def test_a_bare_name_means_the_version_that_was_recorded(saved, newer_linear):
    assert HEADS.versioned("linear") == "linear.v2"
    old = {"head linear": "linear.v1"}
    first, second = (changed(saved, "tasks", "mood", "head", value=name) for name in ("linear.v1", "linear.v2"))
    (found,) = recipe_differences(saved, saved, old)
    assert found == "tasks.mood.head: 'linear.v1' → {'name': 'linear', 'scale': 2.0}"
    assert recipe_differences(saved, first, old) == []
    assert recipe_differences(saved, saved, {"head linear": "linear.v2"}) == []
    assert recipe_differences(saved, second, {"head linear": "linear.v2"}) == []
    assert recipe_differences(saved, saved, {}) == recipe_differences(saved, saved, old)  # unlisted: version 1
