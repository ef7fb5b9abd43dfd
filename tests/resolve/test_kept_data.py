"""A run that starts from a model reads the data of its other tasks only if it can change their scores, and once."""

import shutil

import pytest

import plait
from plait.resolve import warm_start
from plait.runs.origins import split_examples
from small_runs import metrics_lines, resolve
from tiny import sentences, write_csv


@pytest.fixture
def first(tiny_recipe, tmp_path):
    """A trained model of three tasks."""
    return plait.train(tiny_recipe(steps=3, epochs=None), tmp_path / "first", baselines=False)


@pytest.fixture
def recipe(first, tmp_path):
    """A recipe that adds a task to it."""
    texts = sentences(24, 5)
    write_csv(
        tmp_path / "length.csv",
        ["words", "size"],
        [(text, "long" if len(text.split()) > 6 else "short") for text in texts],
    )
    task = {"train": str(tmp_path / "length.csv"), "dev": 0.25, "text": "words", "label": "size"}
    return {"encoder": str(first.model), "tasks": {"length": task}, "epochs": 2}


@pytest.fixture
def read(monkeypatch):
    """The tasks of start models whose data was read."""
    names = []

    def counted(spec, *arguments):
        names.append(spec.name)
        return split_examples(spec, *arguments)

    monkeypatch.setattr(warm_start, "split_examples", counted)
    return names


def test_a_frozen_encoder_needs_no_data_of_the_other_tasks(first, recipe, tmp_path):
    shutil.rmtree(tmp_path / "data")
    result = plait.train({**recipe, "train_encoder": False}, tmp_path / "second", baselines=False)
    assert {name: result.scores[name] for name in first.scores} == first.scores
    metrics = {name: spec.metric for name, spec in plait.load(first.model).tasks.items()}
    assert result.baselines["dev"]["before"] == {name: first.scores[name][metrics[name]] for name in metrics}
    scored = [line["kept"] for line in metrics_lines(result.run) if line["kind"] == "scores"]
    assert scored == [first.scores] * 3  # at the start and after both epochs
    third = plait.train(
        {**recipe, "encoder": str(result.model), "tasks": {"again": recipe["tasks"]["length"]}, "train_encoder": False},
        tmp_path / "third",
        baselines=False,
    )
    assert {name: third.scores[name] for name in first.scores} == first.scores


def test_scores_that_are_taken_over_are_those_that_would_be_measured(first, recipe, tmp_path, monkeypatch):
    known = plait.train({**recipe, "train_encoder": False}, tmp_path / "known", baselines=False)
    monkeypatch.setattr(warm_start, "_unchanged_tasks", lambda stages, tasks: set())
    measured = plait.train({**recipe, "train_encoder": False}, tmp_path / "measured", baselines=False)
    assert known.scores == measured.scores and known.baselines == measured.baselines


def test_data_is_read_if_the_encoder_is_trained(recipe, read):
    resolve(recipe)
    assert read == ["mood", "same", "near"]


def test_data_is_read_for_a_head_that_another_task_trains(tiny_recipe, recipe, read):
    near = tiny_recipe()["tasks"]["near"]
    again = {**near, "head": {"same_as": "near"}}
    resolve({**recipe, "train_encoder": False, "tasks": {**recipe["tasks"], "nearer": again}})
    assert read == ["near"]


def test_several_stages_read_the_data_once(recipe, read):
    resolve({**recipe, "stages": [{"epochs": 1}, {"epochs": 2, "lr": 1e-4}]})
    assert read == ["mood", "same", "near"]
    resolve({**recipe, "stages": [{"epochs": 1, "train_encoder": False}, {"epochs": 2}]})
    assert read == ["mood", "same", "near"] * 2
