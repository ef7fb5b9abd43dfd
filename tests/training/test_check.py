"""plait.check from Python."""

from dataclasses import asdict

import pandas
import pytest

import plait
from plait.errors import PlaitError


def test_a_recipe_is_previewed(tiny_recipe):
    found = plait.check(tiny_recipe(), trial=False)
    (stage,) = found.stages
    assert [(task.task, task.rows) for task in stage.tasks] == [
        (name, {"train": 24, "dev": 24}) for name in ("mood", "same", "near")
    ]
    assert found.steps == stage.steps > 0 and found.cost is None and found.bad_rows == []
    assert asdict(found.overlaps).keys() == {"within", "between"} and isinstance(found.notes, list)


def test_a_trial_estimates_the_cost(tiny_recipe):
    cost = plait.check(tiny_recipe()).cost
    assert cost.seconds > 0 and cost.peak_memory > 2**20


def test_every_mistake_is_raised_at_once(tiny_recipe):
    with pytest.raises(PlaitError) as caught:
        plait.check(tiny_recipe(lr="fast", epochs=0), overrides=["seed=x"])
    assert len(caught.value.mistakes) == 3
    assert any(mistake.startswith("`overrides` seed=x: ") for mistake in caught.value.mistakes)


def test_tables_are_checked_and_nothing_is_written(tiny_recipe, tmp_path, monkeypatch):
    recipe = tiny_recipe(bad_rows="skip")
    before = sorted(tmp_path.rglob("*"))
    monkeypatch.chdir(tmp_path)
    recipe["tasks"]["mood"]["dev"] = pandas.DataFrame(
        {"sentence": ["a dog", None, "a good cat", "a storm"], "mood": ["low", "low", "high", "odd"]}
    )
    found = plait.check(recipe, trial=False)
    assert found.stages[0].tasks[0].rows == {"train": 24, "dev": 2}
    assert (found.bad_rows[0].where, found.bad_rows[0].problem) == (
        "tasks.mood.dev: row 1",
        "the text in column 'sentence' is empty",
    )
    with pytest.raises(PlaitError) as caught:
        plait.check({**recipe, "bad_rows": "stop"}, trial=False)
    assert caught.value.mistakes[0] == "tasks.mood.dev: row 1: the text in column 'sentence' is empty"
    assert sorted(tmp_path.rglob("*")) == before
