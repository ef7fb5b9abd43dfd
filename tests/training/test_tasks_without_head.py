"""Tasks that only train the encoder: without a label, or with losses that do not need a head."""

import csv

import pytest
import torch

import plait
from plait.errors import PlaitError, RequestError
from plait.losses.embedding import info_nce
from plait.model.directory.record import open_directory
from plait.runs.origins import find_split, named_files
from small_runs import forward, metrics_lines, resolve, trainer_for


@pytest.fixture
def without_label(tiny_recipe):
    """The tiny recipe with one more task of unlabelled texts, taken from another task's file."""

    def make(task: str, loss: object, **changes) -> dict:
        recipe = tiny_recipe(**changes)
        keys = recipe["tasks"][task]
        recipe["tasks"]["texts"] = {"train": keys["train"], "text": keys["text"], "loss": loss}
        return recipe

    return make


@pytest.mark.parametrize(
    ("task", "loss", "views"),
    [
        ("mood", "simcse_unsupervised", ("first", "again")),
        ("same", "multiple_negatives", ("first", "second")),
        ("same", {"name": "info_nce", "cached": True, "chunk": 2}, ("first", "second")),
    ],
)
def test_unlabelled_texts_train_the_encoder_and_add_no_task_to_the_model(without_label, tmp_path, task, loss, views):
    recipe = without_label(task, loss, epochs=1)
    trainer = trainer_for(recipe)
    assert trainer.views("texts") == views
    result = plait.train(recipe, tmp_path / "run")
    assert set(result.scores) == {"mood", "same", "near"}
    assert "texts" not in result.baselines["dev"]["frozen encoder"]
    model = plait.load(result.model)
    assert list(model.tasks) == ["mood", "same", "near"]
    assert all("texts" in line["loss"] for line in metrics_lines(result.run) if line["kind"] == "train")
    again = plait.train(tmp_path / "run/recipe.yaml", tmp_path / "again", baselines=False)
    assert again.scores == result.scores


def test_every_unlabelled_pair_is_a_positive(without_label):
    trainer = trainer_for(without_label("same", "info_nce"))
    trainer.model.eval()
    batch, passed = forward(trainer, "texts", (0, 1, 2, 3))
    found = trainer.objectives["texts"](passed, torch.from_numpy(batch.labels))
    torch.testing.assert_close(found, info_nce(passed.views_BD["first"], passed.views_BD["second"]))
    assert passed.outputs_BC is None


def test_a_run_on_texts_alone_gives_a_model_that_embeds(without_label, tmp_path):
    recipe = without_label("mood", "simcse_unsupervised", epochs=1)
    recipe["tasks"] = {"texts": recipe["tasks"]["texts"]}
    result = plait.train(recipe, tmp_path / "run")
    assert (result.scores, result.steps > 0) == ({}, True)
    model = plait.load(result.model)
    assert model.embed(["a good film"]).shape[0] == 1
    assert list(model.tasks) == []
    card = (result.model / "README.md").read_text()
    assert "# An encoder without tasks\n" in card and "## Data" in card
    assert "## Tasks" not in card and "Scores" not in card


def test_a_model_without_tasks_has_nothing_to_score(without_label, tmp_path):
    recipe = without_label("mood", "simcse_unsupervised", epochs=1)
    recipe["tasks"] = {"texts": recipe["tasks"]["texts"]}
    run = plait.train(recipe, tmp_path / "run").run
    record = open_directory(run).record
    with pytest.raises(RequestError, match="run: no task to score; it is a plain encoder, which only embeds"):
        find_split(record, run, "dev", None)
    with pytest.raises(RequestError, match="has no task 'texts'; it is a plain encoder, which only embeds"):
        named_files(record.tasks, ["texts=texts.csv"])


def test_a_run_can_start_from_a_model_without_tasks(without_label, tmp_path):
    recipe = without_label("mood", "simcse_unsupervised", epochs=1)
    texts = recipe["tasks"].pop("texts")
    first = plait.train({**recipe, "tasks": {"texts": texts}}, tmp_path / "first")
    second = plait.train({**recipe, "encoder": str(first.model)}, tmp_path / "second", baselines=False)
    assert set(second.scores) == {"mood", "same", "near"}


def test_labelled_pairs_without_a_head_train_on_positives_only(tiny_recipe):
    recipe = tiny_recipe()
    keys = recipe["tasks"]["same"]
    recipe["tasks"]["pairs"] = {"train": keys["train"], "text": keys["text"], "label": keys["label"]}
    recipe["tasks"]["pairs"]["loss"] = "multiple_negatives"
    resolved = resolve(recipe).stages[-1]
    task = resolved.tasks["pairs"]
    assert task.settings.head is None and "pairs" not in resolved.specs
    assert set(task.splits["train"].labels.tolist()) == {1}
    assert len(task.splits["train"]) == int((resolved.tasks["same"].splits["train"].labels == 1).sum())


def test_positive_label_selects_the_rows_of_a_task_without_a_head(tiny_recipe, tmp_path):
    """Three classes, one of them positive; the default head would have weights that no loss trains."""
    path = tmp_path / "nli.csv"
    with path.open("w", newline="") as file:
        rows = csv.writer(file)
        rows.writerow(["a", "b", "label"])
        rows.writerows(
            (f"text {i}", f"other {i}", ("entailment", "neutral", "contradiction")[i % 3]) for i in range(30)
        )
    recipe = tiny_recipe()
    loss = {"name": "multiple_negatives", "positive_label": "entailment"}
    recipe["tasks"]["nli"] = {"train": str(path), "text": ["a", "b"], "label": "label", "loss": loss}
    resolved = resolve(recipe).stages[-1]
    assert resolved.tasks["nli"].splits["train"].texts[0] == [f"text {i}" for i in range(0, 30, 3)]


def test_a_score_keeps_its_head_if_that_has_no_weights(tiny_recipe):
    recipe = tiny_recipe()
    recipe["tasks"] = {"near": {**recipe["tasks"]["near"], "loss": {"name": "info_nce", "positive_above": 0.5}}}
    assert resolve(recipe).stages[-1].tasks["near"].spec.head_name == "cosine"


def test_tasks_without_a_head_are_not_trained_alone(without_label, tmp_path):
    result = plait.train(without_label("mood", "simcse_unsupervised", epochs=1), tmp_path / "run", single_task=True)
    assert set(result.single_task) == {"mood", "same", "near"}


# ---------------------------------------------------------------- after the head's projection


def test_info_nce_on_the_head_compares_projected_embeddings(tiny_recipe):
    recipe = tiny_recipe()
    loss = ["mse", {"name": "info_nce", "positive_above": 0.5, "on": "head", "temperature": 0.1}]
    recipe["tasks"] = {"near": {**recipe["tasks"]["near"], "head": {"name": "dot", "rank": 4}, "loss": loss}}
    trainer = trainer_for(recipe)
    trainer.model.eval()
    batch, passed = forward(trainer, "near", range(10))
    label_B = torch.from_numpy(batch.labels)
    project = trainer.model.heads["near"].project
    u_BR, v_BR = (project(passed.views_BD[view]) for view in ("first", "second"))
    squared_error = torch.nn.functional.mse_loss(passed.outputs_BC[:, 0], label_B)
    expected = squared_error + info_nce(u_BR, v_BR, label_B >= 0.5, temperature=0.1)
    torch.testing.assert_close(trainer.objectives["near"](passed, label_B), expected.to(torch.float32))


# ---------------------------------------------------------------- invalid combinations


@pytest.mark.parametrize(
    ("task", "keys", "what"),
    [
        ("mood", {"loss": "cross_entropy"}, "cross_entropy cannot learn from rows without a label; suitable: simcse_"),
        ("same", {"loss": "contrastive"}, "cannot learn from rows without a label; suitable: info_nce, multiple_neg"),
        ("mood", {"loss": None}, "tasks.texts: missing key 'label'"),
        ("mood", {"loss": "simcse_unsupervised", "head": "linear"}, "without a label there is nothing to predict"),
        ("mood", {"loss": "simcse_unsupervised", "dev": 0.2}, "the task has no head, so there is nothing to score"),
        (
            "mood",
            {"loss": "simcse_unsupervised", "metric": "accuracy"},
            "the task has no head, so there is nothing to measure; remove it",
        ),
        (
            "same",
            {"loss": {"name": "info_nce", "positive_label": 1}},
            "info_nce does not distinguish positives; remove positive_above and positive_label",
        ),
    ],
)
def test_an_invalid_combination_is_refused(without_label, task, keys, what):
    recipe = without_label(task, "simcse_unsupervised")
    recipe["tasks"]["texts"].update(keys)
    with pytest.raises(PlaitError) as caught:
        resolve(recipe)
    assert any(what in mistake for mistake in caught.value.mistakes), caught.value.mistakes


@pytest.mark.parametrize("key", [{"class_weights": "balanced"}, {"label_smoothing": 0.1}])
def test_options_for_predictions_are_refused_if_nothing_is_predicted(tiny_recipe, key):
    recipe = tiny_recipe()
    same = {name: recipe["tasks"]["same"][name] for name in ("train", "text", "label")}
    recipe["tasks"] = {"same": {**same, "loss": "multiple_negatives", **key}}
    with pytest.raises(PlaitError, match="is for losses on predictions, and the task has none; remove it"):
        resolve(recipe)


def test_data_without_positives_is_refused(tiny_recipe, tmp_path):
    path = tmp_path / "no.csv"
    path.write_text("a,b,same\nx y,z,0\nu,v w,0\n")
    recipe = tiny_recipe()
    recipe["tasks"]["pairs"] = {"train": str(path), "text": ["a", "b"], "label": "same", "loss": "info_nce"}
    with pytest.raises(PlaitError, match="info_nce needs positive pairs, and none of 2 training rows is one"):
        resolve(recipe)


def test_triplets_after_a_shared_layer_train_the_encoder_without_a_head(tiny_recipe, tmp_path):
    path = tmp_path / "three.csv"
    path.write_text("a,p,n\n" + "".join(f"good {word},great {word},bad {word}\n" for word in ("dog", "cat", "song")))
    recipe = tiny_recipe(shared_layer="tanh", epochs=1)
    recipe["tasks"] = {"mood": recipe["tasks"]["mood"], "three": {"train": str(path), "text": ["a", "p", "n"]}}
    resolved = resolve(recipe).stages[-1]
    assert resolved.tasks["three"].spec.head == "" and list(resolved.specs) == ["mood"]
    assert [loss.name for loss in resolved.tasks["three"].settings.loss] == ["simcse_supervised"]
    plait.train(recipe, tmp_path / "run", baselines=False)
