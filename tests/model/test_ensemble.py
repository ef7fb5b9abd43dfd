"""Several models answer with the mean of what they say."""

import math

import numpy as np
import pytest
import torch

import plait
from plait.data.labels import Labels
from plait.evaluation.order import needs_pass
from plait.model.decode import Decoded
from plait.model.ensemble import Ensemble, combine, member_tasks, task_differences, width_of
from plait.model.load import load_model
from plait.model.tasks import TaskSpec
from streaming import TASKS, rows_of, train_model
from tiny import sentences, write_tasks


def spec_of(labels: Labels, threshold: float = 0.5, **changes) -> TaskSpec:
    facts = {"name": "task", "text": ("one",), "label": ("x",), "quoting": None, "head": "linear", "head_options": {}}
    facts |= {"link": "softmax", "metric": "accuracy", "max_length": 16}
    return TaskSpec(**{**facts, "labels": labels, "threshold": threshold, **changes})


YES_NO = Labels("yes_no", ("0", "1"), ("no", "yes"))


def test_classes_by_hand():
    """Two are unsure for the first class, one is sure of the third."""
    shares = np.array([[[0.4, 0.35, 0.25]], [[0.4, 0.3, 0.3]], [[0.0, 0.1, 0.9]]])
    parts = [Decoded(one.argmax(axis=1), one) for one in shares]
    found = combine(parts, spec_of(Labels("classes", ("a", "b", "c"), ("a", "b", "c"))))
    assert found.values.tolist() == [2]
    assert found.probabilities == pytest.approx(np.array([[0.8 / 3, 0.25, 1.45 / 3]]), abs=1e-12)


@pytest.mark.parametrize(("threshold", "expected"), [(0.5, [0, 1]), (0.4, [1, 1]), (0.75, [0, 0])])
def test_yes_and_no_by_hand(threshold, expected):
    parts = [Decoded(np.zeros(2, int), np.array([[1 - a, a], [1 - b, b]])) for a, b in ((0.2, 0.9), (0.6, 0.5))]
    found = combine(parts, spec_of(YES_NO, threshold))
    assert found.values.tolist() == expected
    assert found.probabilities[:, 1] == pytest.approx([0.4, 0.7], abs=1e-12)


def test_several_labels_by_hand():
    parts = [Decoded(np.zeros((1, 2), int), np.array([row])) for row in ([0.9, 0.3], [0.2, 0.6])]
    found = combine(parts, spec_of(Labels("several", ("a", "b"), ("a", "b"))))
    assert found.values.tolist() == [[1, 0]] and found.probabilities == pytest.approx(np.array([[0.55, 0.45]]))


def test_scores_by_hand():
    parts = [Decoded(np.array(values), None) for values in ([0.0, 4.0], [1.0, 5.0], [5.0, 4.5])]
    found = combine(parts, spec_of(Labels("score", high=5.0)))
    assert found.values.tolist() == [2.0, 4.5] and found.probabilities is None


def test_members_that_agree_answer_like_one_of_them():
    shares = np.random.default_rng(0).dirichlet([1, 1, 1], size=50)
    one = Decoded(shares.argmax(axis=1), shares)
    found = combine([one] * 4, spec_of(Labels("classes", ("a", "b", "c"), ("a", "b", "c"))))
    assert np.array_equal(found.values, one.values) and found.probabilities == pytest.approx(shares, abs=1e-12)


def test_the_order_of_the_members_does_not_matter():
    drawn = np.random.default_rng(1).uniform(size=(5, 30, 4))
    parts = [Decoded((one >= 0.5).astype(int), one) for one in drawn]
    spec = spec_of(Labels("several", tuple("abcd"), tuple("abcd")))
    there, back = combine(parts, spec), combine(parts[::-1], spec)
    assert np.array_equal(there.values, back.values) and there.probabilities == pytest.approx(
        back.probabilities, abs=1e-12
    )


def test_tasks_have_the_mean_threshold_and_the_shortest_limit():
    first, second = spec_of(YES_NO, 0.5, max_length=30), spec_of(YES_NO, 0.25, max_length=20, head="joined")
    assert member_tasks([{"task": first}, {"task": second}]) == {"task": spec_of(YES_NO, 0.375, max_length=20)}


def test_differences_are_named_all_at_once():
    low, high = Labels("score", high=5.0), Labels("score", high=1.0)
    classes = Labels("classes", ("0", "1"), ("bad", "good"))
    first = {"a": spec_of(YES_NO), "b": spec_of(low), "c": spec_of(classes)}
    second = {"a": spec_of(YES_NO, text=("one", "two")), "b": spec_of(high), "d": spec_of(YES_NO)}
    third = {"a": spec_of(YES_NO, 0.3, head="joined"), "b": spec_of(low), "c": spec_of(YES_NO)}
    assert task_differences(["x", "y", "z"], [first, second, third]) == [
        "y: has no task 'c', x has",
        "y: has a task 'd', x has none",
        "y: the texts of 'a' are one, two; in x one",
        "y: the labels of 'b' are score (0 to 1); in x score (0 to 5)",
        "z: the labels of 'c' are yes_no (0: no, 1: yes); in x classes (0: bad, 1: good)",
    ]


@pytest.fixture(scope="module")
def models(tiny_bert, tiny_roberta, tmp_path_factory):
    """Two models of every kind of task, on encoders of two families."""
    folder = tmp_path_factory.mktemp("members")
    runs = [train_model(folder / name, encoder) for name, encoder in (("a", tiny_bert), ("b", tiny_roberta))]
    return [load_model(run, device="cpu") for run in runs]


@pytest.mark.parametrize("task", TASKS)
def test_predictions_are_the_mean_of_the_members(models, task):
    rows = rows_of(12)
    texts = [row[TASKS[task][0]] if len(TASKS[task]) == 1 else tuple(row[c] for c in TASKS[task]) for row in rows]
    first, second = (plait.Predictor(model).predict(task, texts) for model in models)
    for one, a, b in zip(plait.Predictor(Ensemble(tuple(models))).predict(task, texts), first, second, strict=True):
        if one.probabilities is None:
            assert one.score == pytest.approx((a.score + b.score) / 2, abs=1e-9)
        else:
            expected = {name: (a.probabilities[name] + b.probabilities[name]) / 2 for name in one.probabilities}
            assert one.probabilities == pytest.approx(expected, abs=1e-9)


def test_embeddings_are_the_members_unit_vectors_joined(models):
    texts = sentences(9, 3)
    joined = plait.Predictor(Ensemble(tuple(models)))
    units = [
        torch.nn.functional.normalize(torch.from_numpy(plait.Predictor(one).embed(texts))).numpy() for one in models
    ]
    vectors = joined.embed(texts)
    assert vectors.dtype == np.float32 and vectors.shape == (9, joined.width) == (9, 32)
    assert vectors == pytest.approx(np.concatenate(units, axis=1) / math.sqrt(2), abs=1e-6)  # float32
    assert np.linalg.norm(vectors, axis=1) == pytest.approx(1, abs=1e-6)
    cosines = [plait.Predictor(one).similarity(texts, texts) for one in models]
    assert joined.similarity(texts, texts) == pytest.approx((cosines[0] + cosines[1]) / 2, abs=1e-5)


def test_the_member_that_cuts_most_is_told(models):
    long = ["dog " * 60, "a cat"]
    joined, alone = plait.Predictor(Ensemble(tuple(models))), [plait.Predictor(one) for one in models]
    assert joined.limit() == min(one.limit() for one in alone) and joined.limit("mood") == alone[0].limit("mood")
    assert joined.count_cut([long]) == (2, 1) == max(one.count_cut([long]) for one in alone)
    assert width_of(models[0]) == 16


def test_progress_counts_every_input_once(models):
    done: list[int] = []
    plait.Predictor(Ensemble(tuple(models))).embed(sentences(9, 3), progress=done.append)
    assert sum(done) == 9


def test_an_ensemble_is_symmetric_if_all_members_are(tiny_bert, tmp_path):
    members = []
    for head in ("cosine", "concat"):
        recipe = {**write_tasks(tmp_path / "data", tiny_bert), "epochs": 1}
        recipe["tasks"] = {"near": {**recipe["tasks"]["near"], "head": head}}
        members.append(load_model(plait.train(recipe, tmp_path / head, baselines=False).run, device="cpu"))
    assert not needs_pass(Ensemble((members[0], members[0])), "near")
    assert needs_pass(Ensemble((members[0], members[1])), "near")
