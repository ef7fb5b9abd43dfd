"""Pairs that are trained in both orders."""

import numpy as np
import pytest

import plait
from plait.data.batch import tokenize_views
from plait.data.examples import Examples
from plait.errors import RecipeError
from small_runs import batch_of, resolve, trainer_for


def same_task(recipe: dict, **keys) -> dict:
    return {**recipe, "tasks": {"same": {**recipe["tasks"]["same"], "both_orders": True, "head": "joined", **keys}}}


def test_every_pair_is_followed_by_itself_the_other_way_round():
    given = Examples((["a", "b"], ["c", "d"]), np.array([0, 1]), ["x:2", "x:3"])
    found = given.in_both_orders()
    assert found.texts == (["a", "b", "c", "d"], ["c", "d", "a", "b"])
    assert found.labels.tolist() == [0, 1, 0, 1]
    assert found.origins == ["x:2", "x:3", "x:2", "x:3"]


def test_steps_see_each_training_pair_in_both_orders(tiny_recipe):
    trainer = trainer_for(same_task(tiny_recipe()))
    train = trainer.resolved.tasks["same"].splits["train"]
    planned = [row for step in trainer.plan.epoch_plan(0) for _, rows in step for row in rows]
    assert sorted(planned) == list(range(2 * len(train)))
    swapped = tokenize_views(trainer.model.tokenizer, train.texts[::-1], ["joined"], 128)["joined"]
    for row in range(len(train)):
        batch = batch_of(trainer, "same", [row, row + len(train)])
        assert batch.ids[1].tolist() == swapped.row(row).tolist()
        assert batch.ids[0].tolist() != batch.ids[1].tolist()
        assert batch.labels.tolist() == [train.labels[row]] * 2


def test_the_data_of_a_task_stays_as_it_is(tiny_recipe, tmp_path):
    given, doubled = resolve(same_task(tiny_recipe(), both_orders=False)), resolve(same_task(tiny_recipe()))
    assert doubled.fingerprints == given.fingerprints
    assert len(doubled.stages[0].tasks["same"].splits["dev"]) == len(given.stages[0].tasks["same"].splits["dev"])
    result = plait.train(same_task(tiny_recipe(head_start="frozen")), tmp_path / "run")
    assert result.steps == 2 * 6  # two epochs of 48 rows in batches of 8


@pytest.mark.parametrize(
    ("task", "keys", "message"),
    [
        ("mood", {}, "tasks.mood.both_orders: is for tasks with two texts, this one has 1"),
        ("same", {"head": "cosine", "label": {"column": "same", "kind": "score"}}, "does not matter to cosine; remove"),
        ("same", {"label": {"column": "same", "kind": "classes"}}, "do not depend on the order of two texts"),
    ],
)
def test_what_has_no_two_orders_is_refused(tiny_recipe, task, keys, message):
    recipe = tiny_recipe()
    recipe["tasks"] = {task: {**recipe["tasks"][task], "both_orders": True, **keys}}
    with pytest.raises(RecipeError) as caught:
        resolve(recipe)
    assert message in "\n".join(caught.value.mistakes)
