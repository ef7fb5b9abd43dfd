"""Every recipe has a profile `quick`, whether it defines one or not."""

import pytest

from plait.errors import RecipeError
from plait.recipe.read import recipe_from
from plait.recipe.tree import Tree, use_profile
from plait.resolve.variants import VARIANTS


def quick(**values: object) -> dict:
    return use_profile(Tree(values), "quick").values


def test_rows_and_epochs_are_limited():
    assert quick(lr=1) == {"lr": 1, "rows": 500, "dev_rows": 200, "epochs": 2}
    assert quick(rows=1000, dev_rows=None, epochs=9) == {"rows": 500, "dev_rows": 200, "epochs": 2}
    assert quick(rows=20, dev_rows=30, epochs=1) == {"rows": 20, "dev_rows": 30, "epochs": 1}


def test_epochs_replace_steps_and_dev_is_not_divided():
    found = quick(steps=10_000, choose_rows=300)
    assert (found["steps"], found["epochs"], found["choose_rows"]) == (None, 2, None)


def test_the_own_rows_of_a_task_are_limited_too():
    found = quick(tasks={"a": {"rows": 4000, "text": "x"}, "b": {"rows": 7}, "c": {"dev_rows": 900, "choose_rows": 5}})
    assert found["tasks"] == {
        "a": {"rows": 500, "text": "x"},
        "b": {"rows": 7},
        "c": {"dev_rows": 200, "choose_rows": None},
    }


def test_stages_are_limited_too():
    found = quick(stages=[{"steps": 500, "tasks": {"a": {"rows": 4000}}}, {"epochs": 9, "lr": 1}, {"lr": 2}])
    assert found["stages"] == [
        {"steps": None, "epochs": 2, "tasks": {"a": {"rows": 500}}},
        {"epochs": 2, "lr": 1},
        {"lr": 2},
    ]


def test_the_profile_of_the_recipe_wins():
    assert quick(profiles={"quick": {"epochs": 7}}) == {"epochs": 7}


def test_the_profile_laptop_comes_first():
    assert quick(encoder="big", profiles={"laptop": {"encoder": "small", "rows": 40, "epochs": 4}}) == {
        "encoder": "small",
        "rows": 40,
        "dev_rows": 200,
        "epochs": 2,
    }


def test_mistakes_of_the_recipe_stay():
    with pytest.raises(RecipeError, match="rows: expected an integer"):
        recipe_from(use_profile(Tree({"encoder": "x", "tasks": {}, "rows": "many"}), "quick"), VARIANTS)
