"""The effect of swapping the two texts of a pair on a model's predictions."""

from pathlib import Path

import numpy as np
import pytest

import plait
from plait.data.examples import Examples
from plait.data.prediction_arrays import PredictionArrays
from plait.evaluation import order
from plait.evaluation.order import Order, measure_order
from plait.model.directory.load import LoadedModel, load_model
from plait.model.encode_texts import Predicted, predict_columns
from tiny import sentences, write_tasks


@pytest.fixture(scope="module")
def loaded(tiny_bert, tmp_path_factory) -> LoadedModel:
    """Pair tasks of every kind of label, some with heads for which the order matters."""
    folder: Path = tmp_path_factory.mktemp("order")
    recipe = {**write_tasks(folder / "data", tiny_bert), "epochs": 1}
    tasks = recipe["tasks"]
    tasks["same"]["head"], tasks["near"]["head"] = "difference_product", "cosine"
    for head in ("concat", "difference", "joined", "joined_both"):
        tasks[f"same {head}"] = {**tasks["same"], "head": head}
        tasks[f"near {head}"] = {**tasks["near"], "head": head}
    tasks["far"] = {**tasks["near"], "head": {"name": "difference", "absolute": True}}
    tasks["kind"] = {**tasks["same"], "label": {"column": "same", "kind": "classes"}, "head": "concat"}
    tasks["tags"] = {**tasks["same"], "label": {"column": "same", "separator": "|"}, "head": "concat"}
    return load_model(plait.train(recipe, folder / "run", baselines=False).model, device="cpu")


@pytest.fixture(scope="module")
def model(loaded):
    return loaded.model


def examples(rows: int = 40) -> Examples:
    return Examples((sentences(rows, 3), sentences(rows, 4)), np.zeros(rows, int), [""] * rows)


def measured(model, task: str) -> Order | None:
    predicted = predict_columns(model, task, examples().texts)
    return measure_order(model, task, examples(), predicted.predictions)


def test_order_does_not_apply_to_single_texts(model):
    assert measured(model, "mood") is None


@pytest.mark.parametrize(
    ("task", "expected"),
    [("same", Order(0.0, None, True)), ("near", Order(None, 0.0, True)), ("far", Order(None, 0.0, True))],
)
def test_a_symmetric_head_needs_no_second_pass(model, task, expected, monkeypatch):
    predictions = predict_columns(model, task, examples().texts).predictions
    monkeypatch.delattr(order, "predict_columns")
    assert measure_order(model, task, examples(), predictions) == expected


@pytest.mark.parametrize("head", ["concat", "difference", "joined", "joined_both"])
def test_the_mean_change_of_scores_is_measured(loaded, model, head):
    given = examples()
    there, back = (
        [
            prediction.score
            for prediction in plait.Predictor(loaded).predict(f"near {head}", list(zip(a, b, strict=True)))
        ]
        for a, b in (given.texts, given.texts[::-1])
    )
    found = measured(model, f"near {head}")
    assert found.difference == pytest.approx(np.mean(np.abs(np.subtract(there, back))), abs=1e-9)
    assert found.difference > 0 and found.changed is None and not found.symmetric


@pytest.mark.parametrize("task", ["same concat", "same difference", "same joined", "same joined_both", "kind", "tags"])
def test_the_share_of_changed_predictions_is_measured(loaded, model, task):
    given = examples()
    there, back = (
        [prediction.label for prediction in plait.Predictor(loaded).predict(task, list(zip(a, b, strict=True)))]
        for a, b in (given.texts, given.texts[::-1])
    )
    found = measured(model, task)
    assert found == Order(np.mean([a != b for a, b in zip(there, back, strict=True)]), None, False)


def test_a_multilabel_row_counts_once_however_many_labels_change(model, monkeypatch):
    """By hand: of four rows, one changes in one label and one in two."""
    before = PredictionArrays(np.array([[1, 0], [1, 1], [0, 0], [0, 1]]), None)
    after = PredictionArrays(np.array([[1, 0], [0, 1], [1, 1], [0, 1]]), None)
    monkeypatch.setattr(order, "predict_columns", lambda *given, **options: Predicted(after, 8, 0))
    assert measure_order(model, "tags", examples(4), before) == Order(0.5, None, False)


def test_descriptions():
    assert Order(0.125, None, False).describe() == "swapping the two texts changes 12.5 % of the predictions"
    assert Order(None, 0.2, False).describe() == "swapping the two texts changes the score by 0.200 on average"
    assert Order(0.0, None, True).describe() == "the order of the two texts does not matter to its head"
