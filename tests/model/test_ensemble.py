"""An ensemble predicts the mean of its members' predictions."""

import math

import numpy as np
import pytest
import torch

import plait
from plait.data.kinds import KINDS
from plait.data.labels import Labels
from plait.data.prediction_arrays import PredictionArrays
from plait.evaluation.order import needs_pass
from plait.model.directory.load import LoadedModel, load_model
from plait.model.ensemble import Ensemble, common_tasks, task_differences
from plait.model.tasks import TaskSpec
from streaming import TASKS, rows_of, train_model
from tiny import sentences, write_tasks


def spec_of(labels: Labels, threshold: float = 0.5, **changes) -> TaskSpec:
    fields = {"name": "task", "text": ("one",), "label": ("x",), "quoting": None, "labels": labels}
    fields |= {"head": "linear.v1", "head_options": {}, "link": "softmax", "metric": "accuracy"}
    return TaskSpec(**{**fields, "threshold": threshold, "max_length": 16, **changes})


YES_NO = Labels("yes_no", ("0", "1"), ("no", "yes"))


def average(parts: list[PredictionArrays], kind: str, threshold: float = 0.5) -> PredictionArrays:
    return KINDS[kind].average(parts, threshold)


def test_classes_by_hand():
    """Two members slightly prefer the first class, one is sure of the third."""
    shares = np.array([[[0.4, 0.35, 0.25]], [[0.4, 0.3, 0.3]], [[0.0, 0.1, 0.9]]])
    parts = [PredictionArrays(one.argmax(axis=1), one) for one in shares]
    found = average(parts, "classes")
    assert found.values.tolist() == [2]
    assert found.probabilities == pytest.approx(np.array([[0.8 / 3, 0.25, 1.45 / 3]]), abs=1e-12)


@pytest.mark.parametrize(("threshold", "expected"), [(0.5, [0, 1]), (0.4, [1, 1]), (0.75, [0, 0])])
def test_yes_no_by_hand(threshold, expected):
    parts = [
        PredictionArrays(np.zeros(2, int), np.array([[1 - a, a], [1 - b, b]])) for a, b in ((0.2, 0.9), (0.6, 0.5))
    ]
    found = average(parts, "yes_no", threshold)
    assert found.values.tolist() == expected
    assert found.probabilities[:, 1] == pytest.approx([0.4, 0.7], abs=1e-12)


def test_multilabel_by_hand():
    parts = [PredictionArrays(np.zeros((1, 2), int), np.array([row])) for row in ([0.9, 0.3], [0.2, 0.6])]
    found = average(parts, "multilabel")
    assert found.values.tolist() == [[1, 0]] and found.probabilities == pytest.approx(np.array([[0.55, 0.45]]))


def test_scores_by_hand():
    parts = [PredictionArrays(np.array(values), None) for values in ([0.0, 4.0], [1.0, 5.0], [5.0, 4.5])]
    found = average(parts, "score")
    assert found.values.tolist() == [2.0, 4.5] and found.probabilities is None


def test_members_that_agree_predict_like_one_of_them():
    shares = np.random.default_rng(0).dirichlet([1, 1, 1], size=50)
    one = PredictionArrays(shares.argmax(axis=1), shares)
    found = average([one] * 4, "classes")
    assert np.array_equal(found.values, one.values) and found.probabilities == pytest.approx(shares, abs=1e-12)


def test_the_order_of_the_members_does_not_matter():
    drawn = np.random.default_rng(1).uniform(size=(5, 30, 4))
    parts = [PredictionArrays((one >= 0.5).astype(int), one) for one in drawn]
    there, back = average(parts, "multilabel"), average(parts[::-1], "multilabel")
    assert np.array_equal(there.values, back.values) and there.probabilities == pytest.approx(
        back.probabilities, abs=1e-12
    )


def test_tasks_have_the_mean_threshold_and_the_smallest_limit():
    first, second = spec_of(YES_NO, 0.5, max_length=30), spec_of(YES_NO, 0.25, max_length=20, head="joined.v1")
    assert common_tasks([{"task": first}, {"task": second}]) == {"task": spec_of(YES_NO, 0.375, max_length=20)}


def test_all_differences_are_listed_at_once():
    low, high = Labels("score", high=5.0), Labels("score", high=1.0)
    classes = Labels("classes", ("0", "1"), ("bad", "good"))
    first = {"a": spec_of(YES_NO), "b": spec_of(low), "c": spec_of(classes)}
    second = {"a": spec_of(YES_NO, text=("one", "two")), "b": spec_of(high), "d": spec_of(YES_NO)}
    third = {"a": spec_of(YES_NO, 0.3, head="joined.v1"), "b": spec_of(low), "c": spec_of(YES_NO)}
    assert task_differences(["x", "y", "z"], [first, second, third]) == [
        "y: has no task 'c', x has one",
        "y: has a task 'd', x has none",
        "y: the text columns of 'a' are one, two; in x one",
        "y: the labels of 'b' are score (0 to 1); in x score (0 to 5)",
        "z: the labels of 'c' are yes_no (0: no, 1: yes); in x classes (0: bad, 1: good)",
    ]


@pytest.fixture(scope="module")
def models(trained_run, tiny_roberta, tmp_path_factory):
    """Two models with a task of every kind of label, on encoders of two families."""
    other = train_model(tmp_path_factory.mktemp("members"), tiny_roberta)
    return [load_model(run, device="cpu") for run in (trained_run, other)]


@pytest.fixture(scope="module")
def ensemble(models):
    return plait.Predictor(ensemble_of(models))


def ensemble_of(models) -> LoadedModel:
    """An ensemble that was never on disk."""
    return LoadedModel(Ensemble(tuple(loaded.model for loaded in models)), models[0]._source)


@pytest.mark.parametrize("task", TASKS)
def test_predictions_are_the_mean_of_the_members(models, ensemble, task):
    rows = rows_of(12)
    texts = [row[TASKS[task][0]] if len(TASKS[task]) == 1 else tuple(row[c] for c in TASKS[task]) for row in rows]
    first, second = (plait.Predictor(model).predict(task, texts) for model in models)
    for one, a, b in zip(ensemble.predict(task, texts), first, second, strict=True):
        if one.probabilities is None:
            assert one.score == pytest.approx((a.score + b.score) / 2, abs=1e-9)
        else:
            expected = {name: (a.probabilities[name] + b.probabilities[name]) / 2 for name in one.probabilities}
            assert one.probabilities == pytest.approx(expected, abs=1e-9)


def test_embeddings_are_the_members_unit_vectors_concatenated(models, ensemble):
    texts = sentences(9, 3)
    units = [
        torch.nn.functional.normalize(torch.from_numpy(plait.Predictor(one).embed(texts))).numpy() for one in models
    ]
    vectors = ensemble.embed(texts)
    assert vectors.dtype == np.float32 and vectors.shape == (9, ensemble.width) == (9, 32)
    assert vectors == pytest.approx(np.concatenate(units, axis=1) / math.sqrt(2), abs=1e-6)  # float32
    assert np.linalg.norm(vectors, axis=1) == pytest.approx(1, abs=1e-6)
    cosines = [plait.Predictor(one).similarity(texts, texts) for one in models]
    assert ensemble.similarity(texts, texts) == pytest.approx((cosines[0] + cosines[1]) / 2, abs=1e-5)


def test_the_member_that_truncates_most_is_reported(models, ensemble):
    long = ["dog " * 60, "a cat"]
    alone = [plait.Predictor(one) for one in models]
    assert ensemble.limit() == min(one.limit() for one in alone) and ensemble.limit("mood") == alone[0].limit("mood")
    embedded = [one.embed_column(long) for one in (ensemble, *alone)]
    together, *apart = [(found.inputs, found.truncated) for found in embedded]
    assert together == (2, 1) == max(apart)
    assert alone[0].width == 16


def test_progress_counts_every_input_once(ensemble):
    done: list[int] = []
    ensemble.embed(sentences(9, 3), advance=done.append)
    assert sum(done) == 9


def test_an_ensemble_is_symmetric_if_all_members_are(tiny_bert, tmp_path):
    heads = []
    for head in ("cosine", "concat"):
        recipe = {**write_tasks(tmp_path / "data", tiny_bert), "epochs": 1}
        recipe["tasks"] = {"near": {**recipe["tasks"]["near"], "head": head}}
        heads.append(load_model(plait.train(recipe, tmp_path / head, baselines=False).run, device="cpu").model)
    cosine, concat = heads
    assert not needs_pass(Ensemble((cosine, cosine)), "near")
    assert needs_pass(Ensemble((cosine, concat)), "near")
