"""A triplet task from its file to its predictions: anchor, positive and hard negative, without a label."""

import csv
import json
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner

import plait
from plait.cli.main import cli
from plait.errors import PlaitError, RequestError
from plait.model.directory.record import open_directory
from plait.recipe.read import read_recipe
from plait.resolve.run import resolve_tasks
from plait.resolve.variants import VARIANTS
from plait.runs.origins import find_split
from plait.training.train import Stopped, resume
from small_runs import metrics_lines, resolve, result_json, trainer_for
from tiny import sentences, write_csv

COLUMNS = ["anchor", "positive", "negative"]
ROWS = {"train": 40, "dev": 24}


def triplets(split: str) -> list[tuple[str, str, str]]:
    """The positive has the anchor's words in another order, the negative has other words."""
    first, others = sentences(ROWS[split], ROWS[split]), sentences(ROWS[split], ROWS[split] + 1)
    return [(text, " ".join(reversed(text.split())) + " too", other) for text, other in zip(first, others, strict=True)]


def recipe_for(folder: Path, encoder: Path, **changes) -> dict:
    folder.mkdir(exist_ok=True)
    files = {}
    for split in ROWS:
        write_csv(folder / f"near-{split}.csv", COLUMNS, triplets(split))
        files[split] = str(folder / f"near-{split}.csv")
    task = {**files, "text": COLUMNS}
    return {"encoder": str(encoder), "tasks": {"near": task}, "epochs": 3, "batch_size": 8, "lr": 3e-3, **changes}


@pytest.fixture(scope="module")
def trained(tiny_bert, tmp_path_factory) -> plait.Result:
    folder = tmp_path_factory.mktemp("triplets")
    return plait.train(recipe_for(folder / "data", tiny_bert), folder / "run")


def test_a_triplet_task_needs_only_its_columns(tiny_bert, tmp_path):
    recipe = recipe_for(tmp_path / "data", tiny_bert)
    task = resolve(recipe).stages[-1].tasks["near"]
    assert (task.spec.labels.kind, task.spec.label, task.spec.head_name, task.spec.link) == (
        "triplets",
        (),
        "nearer",
        "sigmoid",
    )
    assert [(loss.name, loss.options) for loss in task.settings.loss] == [("simcse_supervised", {"temperature": 0.05})]
    assert task.settings.label is None
    assert trainer_for(recipe).views("near") == ("first", "second", "third")
    assert task.splits["train"].labels.tolist() == [1] * 40
    assert [list(row) for row in zip(*task.splits["train"].texts, strict=True)] == [
        list(row) for row in triplets("train")
    ]


def test_a_run_scores_how_often_the_positive_is_closer(trained):
    predicted = plait.load(trained.run).predict("near", triplets("dev"))
    correct = np.mean([prediction.label == "second" for prediction in predicted])
    assert trained.scores == {"near": {"accuracy": pytest.approx(correct)}}
    # Its head has no weights, so the frozen encoder is the encoder as downloaded.
    dev = trained.baselines["dev"]
    assert dev["majority or mean"]["near"] == 0.5
    assert dev["zero-shot cosine"] == dev["frozen encoder"]


def test_training_learns_the_triplets(tiny_bert, tmp_path):
    recipe = recipe_for(tmp_path / "data", tiny_bert, epochs=15)
    recipe["tasks"]["near"]["dev"] = recipe["tasks"]["near"]["train"]
    result = plait.train(recipe, tmp_path / "run", baselines=False)
    assert result.scores["near"]["accuracy"] > 0.95
    losses = [line["loss"]["near"] for line in metrics_lines(result.run) if line["kind"] == "train"]
    assert np.mean(losses[-5:]) < 0.7 * np.mean(losses[:5])


def test_a_prediction_follows_from_the_cosines(trained):
    model = plait.load(trained.run)
    for (a, b, c), prediction in zip(triplets("dev"), model.predict("near", triplets("dev")), strict=True):
        to_b, to_c = model.similarity([a], [b, c])[0]
        second = 1 / (1 + np.exp(-20 * (to_b - to_c)))
        assert prediction.probabilities == pytest.approx({"third": 1 - second, "second": second}, abs=1e-4)  # float32
        assert prediction.label == ("second" if second >= 0.5 else "third")
        assert prediction.score == prediction.probabilities[prediction.label]


def test_swapped_candidates_swap_the_probabilities(trained):
    model = plait.load(trained.run)
    there = model.predict("near", triplets("dev"))
    back = model.predict("near", [(a, c, b) for a, b, c in triplets("dev")])
    for one, other in zip(there, back, strict=True):
        assert one.probabilities["second"] == pytest.approx(other.probabilities["third"], abs=1e-5)


@pytest.mark.parametrize("wrong", [["a", "b"], [("a", "b")], [("a", "b", "c", "d")], [("a", "b", 3)]])
def test_anything_but_three_texts_is_refused(trained, wrong):
    with pytest.raises(RequestError):
        plait.load(trained.run).predict("near", wrong)
    with pytest.raises(RequestError, match=r"example 0: the task 'near' compares three texts; give triplets"):
        plait.load(trained.run).predict("near", [("a", "b")])


def test_a_saved_model_finds_its_dev_data_again(trained):
    record = open_directory(trained.model).record
    examples = find_split(record, trained.model, "dev", None)
    assert [list(column) for column in examples["near"].texts] == [list(c) for c in zip(*triplets("dev"), strict=True)]
    resolved = resolve_tasks(read_recipe(trained.run / "recipe.yaml", VARIANTS), 40, 16)
    assert resolved.specs["near"] == record.tasks["near"]


def test_the_command_line_predicts_and_evaluates_triplets(trained, tmp_path):
    def run(*arguments: object) -> str:
        ran = CliRunner().invoke(cli, [str(argument) for argument in arguments], catch_exceptions=False)
        assert ran.exit_code == 0, ran.output
        return ran.output

    assert run("predict", trained.run, "near", "a dog", "the dog", "a storm").startswith(("second ", "third "))
    source = open_directory(trained.run).record.provenance.recipe["tasks"]["near"]["dev"][0]
    data = trained.run.parent / "data"
    run("predict", trained.run, "near", "--input", data / source, "--output", tmp_path / "out.csv")
    with (tmp_path / "out.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    assert list(rows[0]) == [*COLUMNS, "prediction", "probability", "p(third)", "p(second)"]
    expected = plait.load(trained.run).predict("near", triplets("dev"))
    assert [row["prediction"] for row in rows] == [prediction.label for prediction in expected]
    facts = json.loads(run("evaluate", trained.run, "--json").splitlines()[-1])
    assert facts["scores"]["near"]["values"] == pytest.approx(trained.scores["near"])
    given = json.loads(run("evaluate", trained.model, "--on", f"near={data / source}", "--json").splitlines()[-1])
    assert given["scores"]["near"]["values"] == pytest.approx(trained.scores["near"])


def test_a_resumed_run_ends_with_equal_weights(tiny_bert, tmp_path):
    recipe = recipe_for(tmp_path / "data", tiny_bert)
    whole = plait.train(recipe, tmp_path / "whole", baselines=False)
    with pytest.raises(Stopped):
        plait.train(recipe, tmp_path / "run", baselines=False, stop=lambda: True)
    ends = [result_json(run)["last_weights_sha256"] for run in (whole.run, resume(tmp_path / "run").run)]
    assert ends[0] == ends[1]


def test_triplets_train_beside_other_tasks(tiny_recipe, tiny_bert, tmp_path):
    recipe = tiny_recipe(epochs=1)
    recipe["tasks"]["triple"] = recipe_for(tmp_path / "triples", tiny_bert)["tasks"]["near"] | {"dev": 0.25}
    result = plait.train(recipe, tmp_path / "run")
    assert set(result.scores) == {"mood", "same", "near", "triple"}
    assert set(result.baselines["dev"]["frozen encoder"]) == set(result.scores)


def mistakes(recipe: dict) -> list[str]:
    with pytest.raises(PlaitError) as caught:
        resolve(recipe)
    return list(caught.value.mistakes)


@pytest.mark.parametrize(
    ("keys", "message"),
    [
        ({"label": "anchor"}, "recipe: tasks.near.label: triplets have no label; remove it"),
        ({"head": "cosine"}, "recipe: tasks.near.head: cosine reads two texts, the task has 3; suitable: nearer"),
        (
            {"loss": "mse"},
            "tasks.near.loss: mse cannot learn from triplets; "
            "suitable: info_nce, multiple_negatives, simcse_supervised, triplet",
        ),
        ({"metric": "f1"}, "tasks.near.metric: f1 is not for triplets; allowed: accuracy"),
        (
            {"label_smoothing": 0.1},
            "tasks.near.label_smoothing: class_weights and label_smoothing are for classes and yes/no, "
            "not for triplets",
        ),
        (
            {"text": ["anchor", "positive", "positive"]},
            "recipe: tasks.near.text: the same column twice: anchor, positive, positive",
        ),
        (
            {"text": ["anchor", "positive", "negative", "more"]},
            "recipe: tasks.near.text: expected one column, two for a pair, or three for a triplet, found 4",
        ),
    ],
)
def test_keys_that_triplets_cannot_have_are_refused(tiny_bert, tmp_path, keys, message):
    recipe = recipe_for(tmp_path / "data", tiny_bert)
    recipe["tasks"]["near"] |= keys
    assert mistakes(recipe) == [message]


def test_no_head_for_triplets_follows_a_shared_layer(tiny_bert, tmp_path):
    recipe = recipe_for(tmp_path / "data", tiny_bert, shared_layer="tanh")
    assert mistakes(recipe) == [
        "tasks.near.dev: the task has no head, so there is nothing to score; remove dev, or give it a head"
    ]
    recipe["tasks"]["near"]["head"] = "nearer"
    assert mistakes(recipe) == [
        "recipe: tasks.near.head: nearer compares embeddings and cannot follow a shared_layer; remove one of them"
    ]


def test_triplets_alone_cannot_train_a_frozen_encoder(tiny_bert, tmp_path):
    with pytest.raises(PlaitError, match="simcse_supervised trains the encoder, but train_encoder is false"):
        plait.train(recipe_for(tmp_path / "data", tiny_bert, train_encoder=False), tmp_path / "run")


def test_empty_texts_in_any_column_are_bad_rows(tiny_bert, tmp_path):
    recipe = recipe_for(tmp_path / "data", tiny_bert)
    with Path(recipe["tasks"]["near"]["train"]).open("a") as file:
        file.write(",b,c\r\na, ,c\r\na,b,\r\na,b\r\n")
    assert mistakes(recipe) == [
        "near-train.csv:42: the text in column 'anchor' is empty",
        "near-train.csv:43: the text in column 'positive' is empty",
        "near-train.csv:44: the text in column 'negative' is empty",
        "near-train.csv:45: 2 fields, but the header has 3; complete or remove the row",
    ]
