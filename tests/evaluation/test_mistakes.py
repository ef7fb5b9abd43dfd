"""The wrong predictions of a model: which ones, in which order, and how they are written."""

import csv
import json

import numpy as np
import pytest

from plait.data.examples import Examples
from plait.data.labels import Labels
from plait.data.prediction_arrays import PredictionArrays
from plait.errors import RequestError
from plait.evaluation.mistakes import Mistake, count_groups, find_mistakes, write_mistakes
from plait.evaluation.row_files import check_place
from plait.model.tasks import TaskSpec


def spec_of(labels: Labels, texts: int = 1) -> TaskSpec:
    columns = ("one", "two", "three")[:texts]
    return TaskSpec("task", columns, ("label",), None, labels, "linear.v1", {}, "softmax", "accuracy", 0.5, 16)


def examples_of(labels: list, dtype: type, texts: int = 1) -> Examples:
    columns = tuple([f"text {row} {side}" for row in range(len(labels))] for side in range(texts))
    return Examples(columns, np.array(labels, dtype=dtype), [f"dev.csv:{row + 2}" for row in range(len(labels))])


def test_wrong_classes_are_listed_by_expected_class_most_confident_first():
    labels = Labels("classes", ("0", "1", "2"), ("bad", "mixed", "good"))
    shares = np.array([[0.6, 0.3, 0.1], [0.1, 0.2, 0.7], [0.45, 0.5, 0.05], [0.9, 0.05, 0.05], [0.05, 0.95, 0]])
    examples = examples_of([2, 2, 0, 2, 2], int)
    found = find_mistakes(spec_of(labels), examples, PredictionArrays(shares.argmax(axis=1), shares))
    assert found == [
        Mistake("task", "dev.csv:4", ("text 2 0",), "bad", "mixed", 0.5, None, "bad"),
        Mistake("task", "dev.csv:6", ("text 4 0",), "good", "mixed", 0.95, None, "good"),
        Mistake("task", "dev.csv:5", ("text 3 0",), "good", "bad", 0.9, None, "good"),
        Mistake("task", "dev.csv:2", ("text 0 0",), "good", "bad", 0.6, None, "good"),
    ]
    assert count_groups(found) == {"bad": 1, "good": 3}


def test_false_positives_and_false_negatives_are_apart_with_the_probability_of_the_predicted_label():
    shares = np.array([[0.8, 0.2], [0.3, 0.7], [0.1, 0.9], [0.2, 0.8]])
    predictions = PredictionArrays(np.array([0, 1, 1, 1]), shares)
    found = find_mistakes(
        spec_of(Labels("yes_no", ("0", "1"), ("no", "yes")), 2), examples_of([1, 0, 1, 0], int, 2), predictions
    )
    assert [(row.group, row.where, row.texts, row.expected, row.predicted, row.probability) for row in found] == [
        ("false positive", "dev.csv:5", ("text 3 0", "text 3 1"), "no", "yes", 0.8),
        ("false positive", "dev.csv:3", ("text 1 0", "text 1 1"), "no", "yes", 0.7),
        ("false negative", "dev.csv:2", ("text 0 0", "text 0 1"), "yes", "no", 0.8),
    ]
    assert count_groups(found) == {"false positive": 2, "false negative": 1}


def test_multilabel_mistakes_have_the_probability_of_their_most_confident_wrong_label():
    labels = Labels("multilabel", ("x", "y", "z"), ("x", "y", "z"))
    shares = np.array([[0.9, 0.6, 0.2], [0.9, 0.1, 0.1], [0.2, 0.4, 0.95]])
    predictions = PredictionArrays((shares >= 0.5).astype(int), shares)
    found = find_mistakes(spec_of(labels), examples_of([[1, 0, 0], [1, 1, 0], [0, 0, 1]], int), predictions)
    assert [(row.where, row.expected, row.predicted, row.probability) for row in found] == [
        ("dev.csv:3", ("x", "y"), ("x",), 0.9),  # y is missing with a probability of 1 − 0.1
        ("dev.csv:2", ("x",), ("x", "y"), 0.6),
    ]


def test_every_score_is_listed_by_its_error():
    predictions = PredictionArrays(np.array([3.5, 1.0, 4.0]), None)
    found = find_mistakes(spec_of(Labels("score", high=5.0)), examples_of([3.8, 4.0, 4.0], np.float32), predictions)
    assert [(row.where, row.expected, row.predicted, row.probability) for row in found] == [
        ("dev.csv:3", 4.0, 1.0, None),
        ("dev.csv:2", 3.8, 3.5, None),
        ("dev.csv:4", 4.0, 4.0, None),
    ]
    assert count_groups(found) == {}
    assert [row.error for row in found] == pytest.approx([3.0, 0.3, 0.0], abs=1e-6)  # the label is a float32


def test_equal_mistakes_keep_the_order_of_the_file():
    shares = np.tile([0.75, 0.25], (40, 1))
    found = find_mistakes(
        spec_of(Labels("classes", ("a", "b"), ("a", "b"))),
        examples_of([1] * 40, int),
        PredictionArrays(np.zeros(40, int), shares),
    )
    assert [row.where for row in found] == [f"dev.csv:{row + 2}" for row in range(40)]


MISTAKES = [
    Mistake("mood", "dev.csv:7", ('a "dog",\nwet',), "low", "high", 0.75, None, "low"),
    Mistake("near", "dev.csv:2", ("Zoë", "ü ☃"), 4.5, 1.25, None, 3.25),
    Mistake("tags", "dev.csv:3", ("x",), ("a", "b"), (), 0.5, None),
]


def test_a_csv_file_has_one_column_per_text(tmp_path):
    write_mistakes(MISTAKES, tmp_path / "wrong.csv")
    with (tmp_path / "wrong.csv").open(newline="", encoding="utf-8") as file:
        rows = list(csv.reader(file))
    assert rows == [
        ["task", "group", "where", "expected", "predicted", "probability", "error", "text", "text2"],
        ["mood", "low", "dev.csv:7", "low", "high", "0.75", "", 'a "dog",\nwet', ""],
        ["near", "", "dev.csv:2", "4.5", "1.25", "", "3.25", "Zoë", "ü ☃"],
        ["tags", "", "dev.csv:3", "a|b", "", "0.5", "", "x", ""],
    ]


def test_a_jsonl_file_has_a_list_of_texts(tmp_path):
    write_mistakes(MISTAKES[1:], tmp_path / "wrong.JSONL")
    first, second = map(json.loads, (tmp_path / "wrong.JSONL").read_text(encoding="utf-8").splitlines())
    assert first == {
        "task": "near", "group": "", "where": "dev.csv:2", "expected": 4.5, "predicted": 1.25, "probability": None,
        "error": 3.25, "texts": ["Zoë", "ü ☃"],
    }  # fmt: skip
    assert (second["expected"], second["predicted"]) == (["a", "b"], [])


def test_a_file_without_mistakes_has_only_its_header(tmp_path):
    write_mistakes([], tmp_path / "wrong.csv")
    assert (tmp_path / "wrong.csv").read_text() == "task,group,where,expected,predicted,probability,error,text\n"


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("wrong.txt", "unknown file format; use .csv or .jsonl"),
        ("gone/wrong.csv", "its folder does not exist"),
        ("folder.csv", "a folder; give the name of a file"),
        ("dev.csv", "a data file has this name; choose another name"),
    ],
)
def test_a_place_that_cannot_be_written_is_refused(tmp_path, name, message):
    (tmp_path / "folder.csv").mkdir()
    (tmp_path / "dev.csv").touch()
    with pytest.raises(RequestError) as caught:
        check_place("mistakes", tmp_path / name, {"dev.csv"})
    assert str(caught.value) == f"`mistakes` {tmp_path / name}: {message}"
