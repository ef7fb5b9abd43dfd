"""A run that starts from a plait model keeps its heads, adds tasks to it and shows the old ones before and after."""

import json
import shutil

import pytest
import torch
from safetensors.torch import load_file

import plait
from plait.errors import PlaitError, RecipeError
from plait.training.loop import resume
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


def grown(first, tasks, out, **keys):
    recipe = {"encoder": str(first.model), "tasks": tasks, "epochs": 2, "batch_size": 8, "lr": 1e-3, **keys}
    return plait.train(recipe, out, baselines=False)


def test_a_task_is_added_and_the_old_heads_stay_as_they_were(first, fourth, tmp_path):
    result = grown(first, {"length": fourth}, tmp_path / "second")
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


def test_the_report_shows_old_tasks_before_and_after(first, fourth, tmp_path):
    result = grown(first, {"length": fourth}, tmp_path / "second")
    old = list(plait.load(first.model).tasks)
    assert result.kept == tuple(old)
    metrics = {name: spec.metric for name, spec in plait.load(first.model).tasks.items()}
    assert result.baselines["dev"]["before"] == {name: first.scores[name][metrics[name]] for name in old}
    assert set(result.scores) == {*old, "length"}
    lines = [json.loads(line) for line in (result.run / "metrics.jsonl").read_text().splitlines()]
    assert [set(line["kept"]) for line in lines if line["kind"] == "scores"] == [set(old)] * 2


def test_only_the_tasks_of_the_recipe_choose_the_best_model(first, fourth, tmp_path):
    result = grown(first, {"length": fourth}, tmp_path / "second")
    lines = [json.loads(line) for line in (result.run / "metrics.jsonl").read_text().splitlines()]
    for line in lines:
        if line["kind"] == "scores":
            assert line["mean"] == line["dev"]["length"]["accuracy"]


def test_an_old_task_goes_on_with_its_head(first, fourth, tiny_recipe, tmp_path):
    mood = tiny_recipe()["tasks"]["mood"]
    result = grown(first, {"mood": mood, "length": fourth}, tmp_path / "second")
    before, after = (load_file(folder / "heads.safetensors") for folder in (first.model, result.model))
    assert not torch.equal(before["heads.mood.linear.weight"], after["heads.mood.linear.weight"])
    assert result.kept == tuple(name for name in plait.load(first.model).tasks if name != "mood")
    assert result.baselines["dev"]["before"]["mood"] == first.scores["mood"]["accuracy"]


def test_a_frozen_head_stays_while_its_task_trains_the_encoder(first, tiny_recipe, tmp_path):
    mood = tiny_recipe()["tasks"]["mood"]
    result = grown(first, {"mood": mood}, tmp_path / "second", freeze=["mood"])
    before, after = (load_file(folder / "heads.safetensors") for folder in (first.model, result.model))
    for name in before:
        assert torch.equal(before[name], after[name]), name
    assert any(
        not torch.equal(tensor, load_file(result.model / "model.safetensors")[name])
        for name, tensor in load_file(first.model / "model.safetensors").items()
    )


def test_a_grown_model_grows_again_and_can_be_evaluated(first, fourth, tmp_path):
    from plait.evaluation.find import find_split
    from plait.model.about import read_about
    from plait.model.load import load_model

    second = grown(first, {"length": fourth}, tmp_path / "second")
    third = grown(second, {"again": fourth}, tmp_path / "third")
    assert set(third.scores) == {*second.scores, "again"}
    model = load_model(third.model)
    examples = find_split(model, third.model, read_about(third.model), "dev", None)
    assert set(examples) == set(third.scores)


def test_a_kept_task_without_its_data_is_kept_unscored(first, fourth, tmp_path):
    moved = tmp_path / "moved"
    shutil.move(first.model, moved)
    for path in (tmp_path / "data").glob("*-dev.csv"):
        path.unlink()
    recipe = {"encoder": str(moved), "tasks": {"length": fourth}, "epochs": 1}
    result = plait.train(recipe, tmp_path / "second", baselines=False)
    assert set(result.scores) == {"length"}
    assert set(plait.load(result.model).tasks) == {*result.kept, "length"}


def test_a_broken_off_run_that_grows_ends_with_the_same_bits(first, fourth, tmp_path):
    unbroken = grown(first, {"length": fourth}, tmp_path / "unbroken", checkpoint_every=1)
    from plait.training.loop import Stopped, train

    asked = iter([False, False, True])
    keys = {"epochs": 2, "batch_size": 8, "lr": 1e-3, "checkpoint_every": 1}
    with pytest.raises(Stopped):
        train(
            {"encoder": str(first.model), "tasks": {"length": fourth}, **keys},
            tmp_path / "broken",
            baselines=False,
            stop=lambda: next(asked),
        )
    resume(tmp_path / "broken")
    digests = [json.loads((tmp_path / run / "result.json").read_text()) for run in ("unbroken", "broken")]
    assert digests[0]["last_weights_sha256"] == digests[1]["last_weights_sha256"]
    assert digests[0]["baselines"] == digests[1]["baselines"]
    assert unbroken.steps == digests[1]["steps"]


@pytest.mark.parametrize(
    ("keys", "what"),
    [
        ({"freeze": ["moods"]}, "freeze: the model has no task 'moods'; did you mean 'mood'?"),
        ({"pooling": "max"}, "pooling: the model pools by mean, and its heads rely on it"),
        ({"shared_layer": "tanh"}, "shared_layer: the model has no shared layer, and its heads rely on it"),
    ],
)
def test_what_would_break_the_old_heads_is_refused(first, fourth, tmp_path, keys, what):
    with pytest.raises(RecipeError) as caught:
        grown(first, {"length": fourth}, tmp_path / "second", **keys)
    assert [mistake.rpartition("recipe: ")[2] for mistake in caught.value.mistakes] == [what]
    assert not (tmp_path / "second" / "run.json").exists()


def test_freeze_needs_a_plait_model(tiny_recipe, tmp_path):
    with pytest.raises(RecipeError, match="freeze: the encoder is no plait model: it has no heads to freeze"):
        plait.train(tiny_recipe(freeze=["mood"]), tmp_path / "run")


def test_a_task_of_the_same_name_with_other_classes_is_refused(first, fourth, tmp_path):
    other = {**fourth, "label": {"column": "size", "classes": ["long", "short"]}}
    with pytest.raises(PlaitError, match="the model has a task of this name with another"):
        grown(first, {"mood": other}, tmp_path / "second")


@pytest.mark.parametrize(
    ("name", "keys", "what"),
    [
        (
            "mood",
            {"label": None, "loss": "simcse_unsupervised"},
            "head linear, which needs a label; give it, or choose",
        ),
        ("near", {"label": None, "loss": "multiple_negatives"}, "head cosine, which needs a label; give it, or choose"),
        ("same", {"loss": "multiple_negatives"}, "head difference_product, which none of these losses trains; add one"),
    ],
)
def test_losses_that_do_not_train_an_old_head_name_it(first, tiny_recipe, tmp_path, name, keys, what):
    task = {**tiny_recipe()["tasks"][name], **keys}
    with pytest.raises(PlaitError) as caught:
        grown(first, {name: task}, tmp_path / "second")
    (mistake,) = caught.value.mistakes
    assert f"tasks.{name}: the model has a task of this name with the {what}" in mistake


def test_a_run_stands_for_its_best_model(first, fourth, tmp_path):
    recipe = {"encoder": str(first.run), "tasks": {"length": fourth}, "epochs": 1}
    assert set(plait.train(recipe, tmp_path / "second", baselines=False).scores) == {*first.scores, "length"}


def test_a_changed_model_is_no_start(first, fourth, tmp_path):
    with (first.model / "heads.safetensors").open("ab") as file:
        file.write(b"x")
    with pytest.raises(RecipeError, match=r"heads\.safetensors: was changed after the model was saved"):
        grown(first, {"length": fourth}, tmp_path / "second")
