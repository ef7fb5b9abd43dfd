"""Which task helps which."""

import re

import pytest

import plait
from plait.errors import RequestError
from plait.training.train import Stopped
from small_runs import Recorder, stop_after

TRAINS = re.compile("training (it alone|them without the others)")


def test_every_pair_is_compared_with_each_task_alone(tiny_recipe, tmp_path):
    run = plait.train(tiny_recipe(epochs=1), tmp_path / "run", baselines=False).run
    progress = Recorder()
    found = plait.transfer(run, progress=progress)
    names = ["mood", "same", "near"]
    assert {task: list(row) for task, row in found.gains.items()} == {
        task: [other for other in names if other != task] for task in names
    }
    for task, row in found.gains.items():
        alone = plait.evaluate(run / "single_task" / task).scores[task].value
        for other, one in row.items():
            pair = next(
                run / "pairs" / name
                for name in (f"{task}+{other}", f"{other}+{task}")
                if (run / "pairs" / name).is_dir()
            )
            assert (one.first, one.second) == (alone, plait.evaluate(pair).scores[task].value)
            assert one.corrected_p >= one.p
    assert len([note for note in progress.notes if TRAINS.search(note)]) == 6
    headings, rows = found.table()
    assert headings == ["task", "with mood", "with same", "with near"]
    assert [row[1 + place] for place, row in enumerate(rows)] == ["–"] * 3
    again = Recorder()
    assert plait.transfer(run, progress=again).gains == found.gains
    assert not [note for note in again.notes if TRAINS.search(note)]


def test_a_run_of_two_tasks_is_its_own_pair(tiny_recipe, tmp_path):
    recipe = tiny_recipe(epochs=1)
    del recipe["tasks"]["near"]
    run = plait.train(recipe, tmp_path / "run", baselines=False, single_task=True).run
    progress = Recorder()
    found = plait.transfer(run, progress=progress)
    assert not progress.notes and not (run / "pairs").exists()
    assert found.gains["mood"]["same"].second == plait.evaluate(run).scores["mood"].value


def test_an_interrupted_measurement_continues(tiny_recipe, tmp_path):
    recipe = tiny_recipe(epochs=1, checkpoint_every=1)
    del recipe["tasks"]["near"]
    run = plait.train(recipe, tmp_path / "run", baselines=False).run
    with pytest.raises(Stopped, match=f"while training mood alone; resume with plait compare {run} --transfer"):
        plait.transfer(run, stop=stop_after(2))
    assert plait.transfer(run).gains["same"].keys() == {"mood"}


def test_one_task_has_no_transfer(tiny_recipe, tmp_path):
    recipe = tiny_recipe(epochs=1)
    recipe["tasks"] = {"mood": recipe["tasks"]["mood"]}
    run = plait.train(recipe, tmp_path / "run", baselines=False).run
    with pytest.raises(RequestError, match="transfer needs two trained tasks with dev data, found 1"):
        plait.transfer(run)
