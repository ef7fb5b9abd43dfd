"""Labels that a model confidently disputes, worked out by hand and compared with cleanlab."""

import numpy as np
import pytest

from plait.data.labels import Labels
from plait.data.prediction_arrays import PredictionArrays
from plait.evaluation.label_errors import SURE, find_label_errors
from plait.model.tasks import TaskSpec


def spec_of(kind: str, names: tuple[str, ...] = ("no", "yes"), metric: str = "accuracy") -> TaskSpec:
    labels = Labels(kind, names, names, low=0.0, high=5.0)
    return TaskSpec("task", ("text",), ("label",), None, labels, "linear.v1", {}, "softmax", metric, 0.5, 32)


def test_a_confident_disagreement_is_suspicious_and_an_unsure_one_is_not():
    shares = np.tile([0.9, 0.1], (30, 1))
    labels = np.zeros(30, dtype=int)
    labels[:10] = 1
    shares[:10] = [0.2, 0.8]
    shares[0] = [0.97, 0.03]  # labelled 1, surely 0
    shares[1] = [0.55, 0.45]  # labelled 1, perhaps 0
    predictions = PredictionArrays(shares.argmax(axis=1), shares)
    assert find_label_errors(spec_of("yes_no"), labels, predictions, SURE) == [0]
    assert find_label_errors(spec_of("yes_no"), labels, predictions) == [0]  # 0.55 is less than usual for 0
    few = find_label_errors(spec_of("yes_no"), labels[:19], predictions.rows(range(19)))
    assert few == []  # too few to judge


def test_the_most_disputed_label_comes_first():
    shares = np.tile([0.8, 0.2], (30, 1))
    labels = np.zeros(30, dtype=int)
    labels[[4, 9]] = 1
    shares[4], shares[9] = [0.9, 0.1], [0.95, 0.05]
    predictions = PredictionArrays(shares.argmax(axis=1), shares)
    assert find_label_errors(spec_of("yes_no"), labels, predictions) == [9, 4]
    assert find_label_errors(spec_of("yes_no"), labels, predictions, margin=0.85) == [9]


def test_a_score_that_is_far_off_is_suspicious():
    labels, values = np.linspace(0, 5, 40), np.linspace(0.1, 5.1, 40)
    values[7] = labels[7] + 4
    spec = spec_of("score", (), "pearson")
    assert find_label_errors(spec, labels, PredictionArrays(values, None)) == [7]
    assert find_label_errors(spec, labels, PredictionArrays(labels, None)) == []  # nothing is off


def test_each_of_several_labels_is_judged_alone():
    labels = np.zeros((30, 2), dtype=int)
    labels[:10, 0] = labels[20:, 1] = 1
    shares = np.where(labels == 1, 0.9, 0.1).astype(float)
    shares[3] = [0.02, 0.1]  # the first label is disputed
    shares[12] = [0.1, 0.97]  # the second is missing
    predictions = PredictionArrays((shares >= 0.5).astype(int), shares)
    assert find_label_errors(spec_of("multilabel", ("a", "b")), labels, predictions) == [3, 12]


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(5))
def test_confident_learning_finds_the_rows_that_cleanlab_finds(seed):
    found = pytest.importorskip("cleanlab.filter", reason="cleanlab is not installed").find_label_issues
    random = np.random.default_rng(seed)
    true = random.integers(4, size=400)
    labels = np.where(random.random(400) < 0.1, random.integers(4, size=400), true)
    logits = random.normal(size=(400, 4)) + 2 * np.eye(4)[true]
    shares = np.exp(logits) / np.exp(logits).sum(axis=1, keepdims=True)
    theirs = found(
        labels, shares, filter_by="confident_learning", return_indices_ranked_by="normalized_margin", n_jobs=1
    )
    spec = spec_of("classes", ("a", "b", "c", "d"))
    ours = find_label_errors(spec, labels, PredictionArrays(shares.argmax(axis=1), shares))
    assert len(ours) > 20 and ours == theirs.tolist()
