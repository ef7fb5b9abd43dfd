"""Few training rows, drawn once dev, test and the fold are held out."""

from collections import Counter

import pytest

import plait
from plait.errors import RecipeError
from plait.model.directory.record import open_directory
from plait.runs.origins import find_split
from reading import resolve


def train_rows(recipe: dict, task: str = "mood", **keys: object) -> list[str]:
    return resolve({**recipe, **keys}).tasks[task].splits["train"].origins


def test_test_part_of_a_fold_is_that_of_all_rows(tiny_recipe):
    recipe = tiny_recipe(fold="1/3")
    recipe["tasks"]["mood"]["dev"] = 0.25
    whole, cut = (resolve({**recipe, **keys}).tasks["mood"].splits for keys in ({}, {"train_rows": 6}))
    assert cut["test"].origins == whole["test"].origins and cut["dev"].origins == whole["dev"].origins
    assert len(cut["train"]) == 6 and set(cut["train"].origins) < set(whole["train"].origins)
    before = resolve({**recipe, "rows": 6}).tasks["mood"].splits
    assert sum(map(len, before.values())) == 6  # rows are counted before the fold


def test_classes_keep_their_proportions_and_small_draws_are_part_of_large_ones(tiny_recipe):
    recipe = tiny_recipe(draw=1)
    drawn = {count: resolve({**recipe, "train_rows": count}).tasks["mood"].splits["train"] for count in (4, 8, 16)}
    assert set(drawn[4].origins) < set(drawn[8].origins) < set(drawn[16].origins)
    whole = Counter(resolve(tiny_recipe()).tasks["mood"].splits["train"].labels.tolist())
    for count, examples in drawn.items():
        for label, share in whole.items():
            assert abs(Counter(examples.labels.tolist())[label] - count * share / 24) <= 1


def test_draw_is_independent_of_the_seed(tiny_recipe):
    recipe = tiny_recipe(train_rows=8)
    assert train_rows(recipe, draw=1, seed=1) == train_rows(recipe, draw=1, seed=2)
    assert train_rows(recipe, draw=1) != train_rows(recipe, draw=2)
    assert train_rows(recipe, seed=1) != train_rows(recipe, seed=2)


def test_tasks_may_have_their_own_number(tiny_recipe):
    recipe = tiny_recipe(train_rows=8)
    recipe["tasks"]["near"]["train_rows"] = 5
    assert [len(train_rows(recipe, task)) for task in ("mood", "same", "near")] == [8, 8, 5]
    assert len(train_rows(tiny_recipe(train_rows=1000))) == 24


def test_trained_model_finds_its_rows_again(tiny_recipe, tmp_path):
    recipe = tiny_recipe(train_rows=6, draw=3, epochs=1)
    result = plait.train(recipe, tmp_path / "run", baselines=False)
    found = open_directory(result.model)
    rows = find_split(found.record, found.folder, "train", None)
    assert {task: len(part) for task, part in rows.items()} == {"mood": 6, "same": 6, "near": 6}
    assert rows["mood"].origins == train_rows(recipe)


def test_draw_of_all_rows_is_refused(tiny_recipe):
    with pytest.raises(RecipeError, match="draw: there is nothing to draw; add train_rows, or drop draw"):
        resolve(tiny_recipe(draw=1))
