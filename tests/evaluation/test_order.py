"""What swapping the two texts of a pair does to a model's answers."""

from pathlib import Path

import numpy as np
import pytest

import plait
from plait.data.examples import Examples
from plait.evaluation import order
from plait.evaluation.evaluate import decode_examples
from plait.evaluation.order import Order, measure_order
from plait.model.decode import Decoded
from plait.model.load import load_model
from tiny import sentences, write_tasks


@pytest.fixture(scope="module")
def model(tiny_bert, tmp_path_factory):
    """Pair tasks of every kind of label, some with heads that see the order."""
    folder: Path = tmp_path_factory.mktemp("order")
    recipe = {**write_tasks(folder / "data", tiny_bert), "epochs": 1}
    tasks = recipe["tasks"]
    tasks["same"]["head"], tasks["near"]["head"] = "difference_product", "cosine"
    for head in ("concat", "difference", "joined", "joined_both"):
        tasks[f"same {head}"] = {**tasks["same"], "head": head}
        tasks[f"near {head}"] = {**tasks["near"], "head": head}
    tasks["kind"] = {**tasks["same"], "label": {"column": "same", "kind": "classes"}, "head": "concat"}
    tasks["tags"] = {**tasks["same"], "label": {"column": "same", "separator": "|"}, "head": "concat"}
    return load_model(plait.train(recipe, folder / "run", baselines=False).model, device="cpu")


def examples(rows: int = 40) -> Examples:
    return Examples((sentences(rows, 3), sentences(rows, 4)), np.zeros(rows, int), [""] * rows)


def measured(model, task: str) -> Order | None:
    return measure_order(model, task, examples(), decode_examples(model, task, examples()))


def test_a_task_of_one_text_has_no_order(model):
    assert measured(model, "mood") is None


@pytest.mark.parametrize(("task", "expected"), [("same", Order(0.0, None, True)), ("near", Order(None, 0.0, True))])
def test_a_symmetric_head_is_told_without_a_second_pass(model, task, expected, monkeypatch):
    decoded = decode_examples(model, task, examples())
    monkeypatch.delattr(order, "decode_examples")
    assert measure_order(model, task, examples(), decoded) == expected


@pytest.mark.parametrize("head", ["concat", "difference", "joined", "joined_both"])
def test_scores_tell_how_far_they_move(model, head):
    given = examples()
    there, back = (
        [
            prediction.score
            for prediction in plait.Predictor(model).predict(f"near {head}", list(zip(a, b, strict=True)))
        ]
        for a, b in (given.texts, given.texts[::-1])
    )
    found = measured(model, f"near {head}")
    assert found.difference == pytest.approx(np.mean(np.abs(np.subtract(there, back))), abs=1e-9)
    assert found.difference > 0 and found.changed is None and not found.symmetric


@pytest.mark.parametrize("task", ["same concat", "same difference", "same joined", "same joined_both", "kind", "tags"])
def test_answers_tell_how_many_change(model, task):
    given = examples()
    there, back = (
        [prediction.label for prediction in plait.Predictor(model).predict(task, list(zip(a, b, strict=True)))]
        for a, b in (given.texts, given.texts[::-1])
    )
    found = measured(model, task)
    assert found == Order(np.mean([a != b for a, b in zip(there, back, strict=True)]), None, False)


def test_several_labels_change_together(model, monkeypatch):
    """By hand: of four rows one changes in one label, one in two."""
    before = Decoded(np.array([[1, 0], [1, 1], [0, 0], [0, 1]]), None)
    after = Decoded(np.array([[1, 0], [0, 1], [1, 1], [0, 1]]), None)
    monkeypatch.setattr(order, "decode_examples", lambda *given, **options: after)
    assert measure_order(model, "tags", examples(4), before) == Order(0.5, None, False)


def test_the_sentences():
    assert Order(0.125, None, False).describe() == "swapping the two texts changes 12.5 % of the answers"
    assert Order(None, 0.2, False).describe() == "swapping the two texts moves the score by 0.200 on average"
    assert Order(0.0, None, True).describe() == "its head gives the same for both orders of the two texts"
