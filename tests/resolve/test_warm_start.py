"""A run that starts from a plait model keeps its heads, adds tasks, and scores the old ones before and after."""

import shutil

import pytest
import torch
from safetensors.torch import load_file

import plait
from plait.errors import PlaitError, RecipeError
from plait.model.directory.record import open_directory
from plait.runs.origins import find_split
from plait.training.train import Stopped, resume
from small_runs import metrics_lines, result_json, stop_after
from tiny import sentences, write_csv


@pytest.fixture
def first(tiny_recipe, tmp_path):
    """A trained model of three tasks."""
    return plait.train(tiny_recipe(steps=3, epochs=None), tmp_path / "first", baselines=False)


@pytest.fixture
def fourth(tmp_path):
    """A task that the model does not have."""
    for split, seed in (("train", 5), ("dev", 6)):
        texts = sentences(24, seed)
        rows = [[text, "long" if len(text.split()) > 6 else "short"] for text in texts]
        write_csv(tmp_path / f"length-{split}.csv", ["words", "size"], rows)
    files = {split: str(tmp_path / f"length-{split}.csv") for split in ("train", "dev")}
    return {**files, "text": "words", "label": "size"}


def recipe_from_model(first, tasks, **keys):
    same = {"epochs": 2, "batch_size": 8, "batches": "sorted", "lr": 1e-3}
    return {"encoder": str(first.model), "tasks": tasks, **same, **keys}


def train_from(first, tasks, out, **keys):
    return plait.train(recipe_from_model(first, tasks, **keys), out, baselines=False)


def test_a_task_is_added_and_the_old_heads_stay_unchanged(first, fourth, tmp_path):
    result = train_from(first, {"length": fourth}, tmp_path / "second")
    model = plait.load(result.model)
    assert list(model.tasks) == [*plait.load(first.model).tasks, "length"]
    before, after = (load_file(folder / "heads.safetensors") for folder in (first.model, result.model))
    assert before.keys() < after.keys()
    for name, tensor in before.items():
        assert torch.equal(tensor, after[name]), name
    encoders = [load_file(folder / "model.safetensors") for folder in (first.model, result.model)]
    assert any(not torch.equal(encoders[0][name], encoders[1][name]) for name in encoders[0])
    for task, spec in model.tasks.items():
        example = ("a good film", "a bad film")[: len(spec.text)]
        assert model.predict(task, [example[0] if len(example) == 1 else example])[0].score is not None


def test_old_tasks_are_scored_before_and_after(first, fourth, tmp_path):
    result = train_from(first, {"length": fourth}, tmp_path / "second")
    old = list(plait.load(first.model).tasks)
    assert result.kept == tuple(old)
    metrics = {name: spec.metric for name, spec in plait.load(first.model).tasks.items()}
    assert result.baselines["dev"]["before"] == {name: first.scores[name][metrics[name]] for name in old}
    assert set(result.scores) == {*old, "length"}
    lines = metrics_lines(result.run)
    assert [set(line["kept"]) for line in lines if line["kind"] == "scores"] == [set(old)] * 3  # start, two epochs


def test_only_the_tasks_of_the_recipe_select_the_best_model(first, fourth, tmp_path):
    result = train_from(first, {"length": fourth}, tmp_path / "second")
    lines = metrics_lines(result.run)
    for line in lines:
        if line["kind"] == "scores":
            assert line["mean"] == line["dev"]["length"]["accuracy"]


def test_an_old_task_continues_with_its_head(first, fourth, tiny_recipe, tmp_path):
    mood = tiny_recipe()["tasks"]["mood"]
    result = train_from(first, {"mood": mood, "length": fourth}, tmp_path / "second")
    before, after = (load_file(folder / "heads.safetensors") for folder in (first.model, result.model))
    assert not torch.equal(before["heads.mood.linear.weight"], after["heads.mood.linear.weight"])
    assert result.kept == tuple(name for name in plait.load(first.model).tasks if name != "mood")
    assert result.baselines["dev"]["before"]["mood"] == first.scores["mood"]["accuracy"]


def test_a_frozen_head_stays_unchanged_while_its_task_trains_the_encoder(first, tiny_recipe, tmp_path):
    mood = tiny_recipe()["tasks"]["mood"]
    result = train_from(first, {"mood": mood}, tmp_path / "second", freeze=["mood"])
    before, after = (load_file(folder / "heads.safetensors") for folder in (first.model, result.model))
    for name in before:
        assert torch.equal(before[name], after[name]), name
    assert any(
        not torch.equal(tensor, load_file(result.model / "model.safetensors")[name])
        for name, tensor in load_file(first.model / "model.safetensors").items()
    )


def test_a_warm_started_model_can_be_trained_further_and_evaluated(first, fourth, tmp_path):
    second = train_from(first, {"length": fourth}, tmp_path / "second")
    third = train_from(second, {"again": fourth}, tmp_path / "third")
    assert set(third.scores) == {*second.scores, "again"}
    examples = find_split(open_directory(third.model).record, third.model, "dev", None)
    assert set(examples) == set(third.scores)


def test_a_kept_task_without_dev_data_is_kept_but_not_scored(first, fourth, tmp_path):
    moved = tmp_path / "moved"
    shutil.move(first.model, moved)
    for path in (tmp_path / "data").glob("*-dev.csv"):
        path.unlink()
    recipe = {"encoder": str(moved), "tasks": {"length": fourth}, "epochs": 1}
    result = plait.train(recipe, tmp_path / "second", baselines=False)
    assert set(result.scores) == {"length"}
    assert set(plait.load(result.model).tasks) == {*result.kept, "length"}


def test_an_interrupted_warm_start_ends_with_equal_weights(first, fourth, tmp_path):
    train_from(first, {"length": fourth}, tmp_path / "uninterrupted", checkpoint_every=1)
    recipe = recipe_from_model(first, {"length": fourth}, checkpoint_every=1)
    with pytest.raises(Stopped):
        plait.train(recipe, tmp_path / "resumed", baselines=False, stop=stop_after(3))
    resume(tmp_path / "resumed")
    expected, found = (result_json(tmp_path / run) for run in ("uninterrupted", "resumed"))
    for key in ("last_weights_sha256", "baselines", "steps", "scores"):
        assert found[key] == expected[key], key


@pytest.mark.parametrize(
    ("keys", "what"),
    [
        ({"freeze": ["moods"]}, "freeze: the model has no task 'moods'; did you mean 'mood'?"),
        ({"pooling": "max"}, "pooling: the model uses mean pooling, and its heads rely on it"),
        ({"shared_layer": "tanh"}, "shared_layer: the model has no shared layer, and its heads rely on it"),
    ],
)
def test_settings_that_contradict_the_old_heads_are_refused(first, fourth, tmp_path, keys, what):
    with pytest.raises(RecipeError) as caught:
        train_from(first, {"length": fourth}, tmp_path / "second", **keys)
    assert [mistake.rpartition("recipe: ")[2] for mistake in caught.value.mistakes] == [what]
    assert not (tmp_path / "second" / "run.json").exists()


def test_freeze_needs_a_plait_model(tiny_recipe, tmp_path):
    with pytest.raises(RecipeError, match="freeze: the encoder is not a plait model, so it has no heads to freeze"):
        plait.train(tiny_recipe(freeze=["mood"]), tmp_path / "run")


def test_a_task_of_the_same_name_with_other_classes_is_refused(first, fourth, tmp_path):
    other = {**fourth, "label": {"column": "size", "classes": ["long", "short"]}}
    with pytest.raises(PlaitError, match="the model has a task of this name with a different"):
        train_from(first, {"mood": other}, tmp_path / "second")


@pytest.mark.parametrize(
    ("name", "keys", "what"),
    [
        (
            "mood",
            {"label": None, "loss": "simcse_unsupervised"},
            "head linear, which needs a label; give one,",
        ),
        (
            "near",
            {"label": None, "loss": "multiple_negatives"},
            "head cosine, which needs a label; give one,",
        ),
        (
            "same",
            {"loss": "multiple_negatives"},
            "head difference_product, which none of these losses trains; add a loss on predictions",
        ),
    ],
)
def test_losses_that_do_not_train_an_old_head_are_refused(first, tiny_recipe, tmp_path, name, keys, what):
    task = {**tiny_recipe()["tasks"][name], **keys}
    with pytest.raises(PlaitError) as caught:
        train_from(first, {name: task}, tmp_path / "second")
    (mistake,) = caught.value.mistakes
    assert f"tasks.{name}: the model has a task of this name with the {what}" in mistake


def test_a_run_directory_means_its_best_model(first, fourth, tmp_path):
    recipe = {"encoder": str(first.run), "tasks": {"length": fourth}, "epochs": 1}
    assert set(plait.train(recipe, tmp_path / "second", baselines=False).scores) == {*first.scores, "length"}


def test_a_modified_model_is_refused(first, fourth, tmp_path):
    with (first.model / "heads.safetensors").open("ab") as file:
        file.write(b"x")
    with pytest.raises(RecipeError, match=r"heads\.safetensors: modified after the model was saved"):
        train_from(first, {"length": fourth}, tmp_path / "second")
