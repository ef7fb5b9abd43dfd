"""What `predict` returns: a list of predictions, also as arrays and as a data frame."""

import builtins
import pickle
from dataclasses import replace

import numpy as np
import pandas
import polars
import pytest

import plait
from plait.data.labels import Labels
from plait.data.prediction_arrays import PredictionArrays
from plait.errors import RequestError
from plait.inference.jobs import predict_job
from plait.inference.prediction import Prediction
from plait.inference.predictions import Predictions
from streaming import TASKS
from tiny import sentences


def examples(task: str, count: int = 30) -> list:
    columns = [sentences(count, seed) for seed in range(len(TASKS[task]))]
    return columns[0] if len(columns) == 1 else list(zip(*columns, strict=True))


@pytest.mark.parametrize("task", TASKS)
def test_predictions_are_a_list(predictor, task):
    found = predictor.predict(task, examples(task))
    items = list(found)
    assert len(found) == len(items) == 30 and all(isinstance(item, Prediction) for item in items)
    assert found == items and items == found and found != items[:-1] and found != "mood"
    assert found[0] == items[0] and found[-1] == items[-1] and found[np.int64(2)] == items[2]
    assert items[4] in found and found.index(items[0]) == 0
    with pytest.raises(IndexError):
        found[30]


@pytest.mark.parametrize("task", TASKS)
@pytest.mark.parametrize("part", [slice(2, 9), slice(None, None, -1), slice(-3, None), slice(40, 50)])
def test_a_slice_is_of_the_same_type(predictor, task, part):
    found = predictor.predict(task, examples(task))
    sliced = found[part]
    assert isinstance(sliced, Predictions) and sliced == list(found)[part]
    assert sliced.labels == found.labels[part] and np.array_equal(sliced.scores, found.scores[part])


@pytest.mark.parametrize("task", TASKS)
def test_arrays_hold_the_same_as_the_list(predictor, task):
    found = predictor.predict(task, examples(task))
    assert found.task == task
    assert found.labels == [item.label for item in found]
    assert found.scores.tolist() == [item.score for item in found] and found.scores.shape == (30,)
    if task == "near":
        assert found.probabilities is None and found.classes == () and set(found.labels) == {None}
    else:
        assert found.classes == tuple(predictor.tasks[task].labels.names)
        assert found.probabilities.tolist() == [list(item.probabilities.values()) for item in found]
        assert list(found[0].probabilities) == list(found.classes)


def test_by_hand(predictor):
    tags = predictor.tasks["tags"]
    shares = np.array([[0.9, 0.2, 0.6], [0.1, 0.3, 0.2]])
    found = Predictions(tags, PredictionArrays((shares >= 0.5).astype(int), shares))
    assert found.labels == [("x", "z"), ()]
    assert found.scores == pytest.approx([0.6, 0.7])  # the least certain: z is in with 0.6, y is out with 1 - 0.3
    mood = Predictions(predictor.tasks["mood"], PredictionArrays(np.array([1]), np.array([[0.25, 0.75]])))
    assert list(mood) == [Prediction("low", 0.75, {"high": 0.25, "low": 0.75})]
    near = Predictions(predictor.tasks["near"], PredictionArrays(np.array([-1.0, 2.5, 7.0]), None))
    assert near.scores.tolist() == [0.0, 2.5, 5.0]  # clipped to the range


@pytest.mark.parametrize("task", TASKS)
def test_nothing_predicted_has_the_right_shapes(predictor, task):
    found = predictor.predict(task, [])
    assert found == [] and found.labels == [] and found.scores.shape == (0,) and found.scores.dtype == np.float64
    if task != "near":
        assert found.probabilities.shape == (0, len(found.classes))
    assert len(found.to_frame()) == 0
    assert found.to_frame().columns.tolist() == predictor.predict(task, examples(task)).to_frame().columns.tolist()


def test_the_data_frame_has_the_columns_that_the_command_line_writes(predictor):
    for task in TASKS:
        written = predict_job(predictor, predictor.tasks[task], TASKS[task]).added
        frame = predictor.predict(task, examples(task)).to_frame()
        assert frame.columns.tolist() == list(written)
        scores = frame["prediction" if task == "near" else "probability"]
        assert scores.tolist() == predictor.predict(task, examples(task)).scores.tolist()


def test_the_data_frame_has_the_index_of_the_one_that_was_predicted(predictor):
    frame = pandas.DataFrame({"sentence": ["a dog", "a cat", "a song"]}, index=["x", "y", "z"])
    found = predictor.predict("mood", frame)
    assert found.to_frame().index.tolist() == ["x", "y", "z"]
    assert found[1:].to_frame().index.tolist() == ["y", "z"]
    assert frame.join(found.to_frame())["prediction"].tolist() == found.labels
    assert predictor.predict("mood", frame["sentence"]).to_frame().index.tolist() == ["x", "y", "z"]
    for plain in (["a dog"], polars.DataFrame({"sentence": ["a dog"]})):
        assert predictor.predict("mood", plain).to_frame().index.tolist() == [0]


def test_without_pandas_to_frame_says_what_to_install(predictor, monkeypatch):
    found = predictor.predict("mood", ["a dog"])
    real = builtins.__import__

    def refuse(name: str, *rest):
        if name == "pandas":
            raise ImportError(name)
        return real(name, *rest)

    monkeypatch.setattr(builtins, "__import__", refuse)
    with pytest.raises(RequestError, match=r"^to_frame needs the package pandas; pip install pandas$"):
        found.to_frame()


def test_notebooks_show_a_table_with_escaped_names(predictor):
    spec = predictor.tasks["mood"]
    labels = Labels("classes", ("a", "b"), ("<script>", "b & c"))
    shares = np.tile([0.125, 0.875], (12, 1))
    found = Predictions(replace(spec, labels=labels), PredictionArrays(np.ones(12, int), shares))
    shown = found._repr_html_()
    assert "<script>" not in shown and "p(&lt;script&gt;)" in shown and "b &amp; c" in shown
    assert shown.count("<tr>") == 11 and "… and 2 more" in shown and "0.875" in shown
    assert "mood: 12 predictions" in shown
    assert "<th>probability</th>" not in predictor.predict("near", [("a dog", "a cat")])._repr_html_()


def test_long_predictions_have_a_short_repr(predictor):
    assert repr(predictor.predict("near", [("a dog", "a dog")])).startswith(
        "Predictions([Prediction(label=None, score="
    )
    shown = repr(predictor.predict("mood", sentences(30)))
    assert shown.count("Prediction(label") == 10 and shown.endswith("… 30 in all])")


def test_predictions_pickle(predictor):
    found = predictor.predict("tags", sentences(3))
    again = pickle.loads(pickle.dumps(found))
    assert again == found and again.classes == found.classes and isinstance(again, plait.Predictions)
