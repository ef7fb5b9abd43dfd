"""Scores per class, confusions, errors and calibration; by hand and beside scikit-learn."""

from dataclasses import replace

import numpy as np
import pytest
from sklearn import metrics

from plait.data.labels import Labels
from plait.data.prediction_arrays import PredictionArrays
from plait.evaluation.details import ClassScores, calibration_error, confusion_counts, find_details
from plait.model.directory.record import open_directory


@pytest.fixture(scope="module")
def tasks(trained_run):
    return open_directory(trained_run).record.tasks


def of_classes(tasks, count: int):
    names = tuple(f"c{number}" for number in range(count))
    return replace(tasks["mood"], labels=Labels("classes", names, names))


def test_by_hand(tasks):
    labels_n, predicted_n = np.array([0, 0, 0, 1, 1]), np.array([0, 0, 1, 1, 2])
    found = find_details(of_classes(tasks, 4), labels_n, PredictionArrays(predicted_n, np.full((5, 4), 0.25)))
    assert found.classes == {
        "c0": ClassScores(1.0, 2 / 3, 0.8, 3),
        "c1": ClassScores(0.5, 0.5, 0.5, 2),
        "c2": ClassScores(0.0, None, 0.0, 0),
        "c3": ClassScores(None, None, None, 0),
    }
    assert found.confusion == [[2, 1, 0, 0], [0, 1, 1, 0], [0, 0, 0, 0], [0, 0, 0, 0]]
    assert found.most_confused() == [("c0", "c1", 1), ("c1", "c2", 1)]
    assert found.errors == {"ece": pytest.approx(0.35)}  # 3 of 5 are correct, all with 0.25


@pytest.mark.parametrize("seed", range(5))
def test_classes_agree_with_scikit_learn(tasks, seed):
    random = np.random.default_rng(seed)
    labels_n, shares_nC = random.integers(0, 4, 60), random.dirichlet(np.ones(5), 60)  # class 4 never occurs
    predicted_n = shares_nC.argmax(axis=1)
    found = find_details(of_classes(tasks, 5), labels_n, PredictionArrays(predicted_n, shares_nC))
    assert np.array_equal(found.confusion, metrics.confusion_matrix(labels_n, predicted_n, labels=range(5)))
    expected = metrics.precision_recall_fscore_support(labels_n, predicted_n, labels=range(5), zero_division=np.nan)
    assert_same(found.classes, expected)


@pytest.mark.parametrize("seed", range(3))
def test_multilabel_agrees_with_scikit_learn(tasks, seed):
    random = np.random.default_rng(seed)
    labels_nC, predicted_nC = random.integers(0, 2, (30, 3)), random.integers(0, 2, (30, 3))
    predicted_nC[:, 2] = 0
    found = find_details(tasks["tags"], labels_nC, PredictionArrays(predicted_nC, predicted_nC.astype(float)))
    expected = metrics.precision_recall_fscore_support(labels_nC, predicted_nC, zero_division=np.nan)
    assert_same(found.classes, expected)
    assert found.confusion == [] and found.errors == {}


def assert_same(classes: dict, expected: tuple) -> None:
    columns = [
        [np.nan if (value := getattr(each, name)) is None else value for each in classes.values()]
        for name in ("precision", "recall", "f1", "support")
    ]
    for ours, theirs in zip(columns, expected, strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=1e-12)


def test_errors_of_scores_agree_with_scikit_learn_and_are_those_that_users_see(tasks):
    labels_n, predicted_n = np.array([0, 2.5, 5, 4], np.float32), np.array([-3.0, 2.0, 7.5, 4.5])
    found = find_details(tasks["near"], labels_n, PredictionArrays(predicted_n, None))
    seen_n = predicted_n.clip(0, 5)
    assert found.errors == {
        "mae": pytest.approx(metrics.mean_absolute_error(labels_n, seen_n)),
        "rmse": pytest.approx(metrics.root_mean_squared_error(labels_n, seen_n)),
    }
    assert found.classes == {} and found.confusion == []
    assert found.errors["mae"] == pytest.approx(0.25)


def shares(*yes: float) -> np.ndarray:
    return np.array([[1 - share, share] for share in yes])


def test_calibration_by_hand():
    # Two bins: 0.9 and 1.0 with one of two correct, 0.6 and 0.6 with both correct.
    labels_n, predicted_n = np.array([1, 0, 1, 1]), np.array([1, 1, 1, 1])
    found = calibration_error(labels_n, predicted_n, shares(0.9, 1.0, 0.6, 0.6), bins=4)
    assert found == pytest.approx(abs(0.5 - 0.95) * 0.5 + abs(1 - 0.6) * 0.5)
    one_bin = calibration_error(labels_n, predicted_n, shares(0.9, 1.0, 0.6, 0.6), bins=1)
    assert one_bin == pytest.approx(abs(0.75 - 0.775))


def test_a_bin_includes_its_upper_end():
    labels_n = predicted_n = np.array([1, 1])
    together = calibration_error(np.array([1, 0]), predicted_n, shares(0.5, 0.3), bins=2)
    assert together == pytest.approx(abs(0.5 - 0.4))
    assert calibration_error(labels_n, predicted_n, shares(1.0, 1.0)) == 0
    assert calibration_error(labels_n, predicted_n, shares(0.0, 0.0)) == 1


def test_calibrated_predictions_have_a_small_error():
    random = np.random.default_rng(0)
    yes_n = random.uniform(0.5, 1, 40_000)
    labels_n = (random.uniform(size=40_000) < yes_n).astype(int)
    predicted_n = np.ones(40_000, int)
    assert calibration_error(labels_n, predicted_n, shares(*yes_n)) < 0.02  # noise: about 1 / √(rows of a bin)
    assert calibration_error(labels_n, predicted_n, shares(*(0.5 + yes_n / 2))) > 0.1


def test_a_confusion_matrix_counts_every_row():
    random = np.random.default_rng(1)
    labels_n, predicted_n = random.integers(0, 3, 50), random.integers(0, 3, 50)
    assert confusion_counts(labels_n, predicted_n, 3).sum() == 50
    assert np.array_equal(confusion_counts(labels_n, predicted_n, 3).T, confusion_counts(predicted_n, labels_n, 3))


def test_triplets_have_a_calibration_only(tasks):
    found = find_details(tasks["far"], np.array([1, 1]), PredictionArrays(np.array([1, 0]), shares(0.8, 0.2)))
    assert found.classes == {} and found.confusion == [] and found.errors == {"ece": pytest.approx(0.3)}
