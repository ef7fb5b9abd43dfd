"""Outputs of a head → predictions; 1e-12 is the rounding error of float64."""

from math import log

import numpy as np
import pytest
from scipy.special import expit
from scipy.special import softmax as scipy_softmax

from plait.data.labels import Labels
from plait.evaluation.evaluate import score_predictions
from plait.losses import LOSSES
from plait.model.decode import LINKS, decode, within_range
from plait.model.tasks import TaskSpec

SEEDS = range(20)
EXTREME = [-1e30, -1e4, -800.0, -40.0, 0.0, 40.0, 800.0, 1e4, 1e30]


def spec(link: str, *, low: float = 0.0, high: float = 5.0, threshold: float = 0.5) -> TaskSpec:
    words = ("x", "y", "z")
    labels = {
        "softmax": Labels("classes", words, words),
        "one_vs_rest": Labels("classes", words, words),
        "sigmoid": Labels("yes_no", ("0", "1"), ("no", "yes")),
    }.get(link, Labels("score", low=low, high=high))
    return TaskSpec(
        name="task",
        text=("one",),
        label=("label",),
        quoting=None,
        labels=labels,
        head="linear.v1",
        head_options={},
        link=link,
        metric="accuracy",
        threshold=threshold,
        max_length=32,
    )


def column(*values: float) -> np.ndarray:
    return np.array(values).reshape(-1, 1)


def draw(seed: int, columns: int) -> np.ndarray:
    return np.random.default_rng(seed).normal(0, 5, (50, columns)).astype(np.float32)


def close(values: list) -> object:
    return pytest.approx(np.array(values), abs=1e-12)


def test_every_link_of_a_loss_can_be_decoded():
    links = {link for loss in LOSSES.values() for kind, link in loss.links.items() if kind != "unlabelled"}
    assert links == set(LINKS)


# softmax


def test_softmax_by_hand():
    predictions = decode(np.array([[0.0, log(2), 0.0], [log(6), log(3), 0.0]]), spec("softmax"))
    assert predictions.values.tolist() == [1, 0]
    assert predictions.probabilities == close([[1 / 4, 2 / 4, 1 / 4], [6 / 10, 3 / 10, 1 / 10]])


def test_softmax_of_equal_outputs_is_uniform():
    assert decode(np.full((2, 3), 7.5), spec("softmax")).probabilities == close([[1 / 3] * 3] * 2)


def test_softmax_equals_scipy_sums_to_one_and_ignores_a_shift():
    for seed in SEEDS:
        outputs_nC = draw(seed, 3)
        predictions = decode(outputs_nC, spec("softmax"))
        assert predictions.probabilities == close(scipy_softmax(outputs_nC.astype(np.float64), axis=1))
        assert predictions.probabilities.sum(axis=1) == close([1.0] * 50)
        assert np.array_equal(predictions.probabilities.argmax(axis=1), predictions.values)
        assert decode(outputs_nC.astype(np.float64) + 100, spec("softmax")).probabilities == close(
            predictions.probabilities
        )


def test_softmax_of_extreme_outputs_is_certain():
    predictions = decode(np.array([[1e30, -1e30, 0.0], [-1e4, 0.0, 1e4]]), spec("softmax"))
    assert predictions.values.tolist() == [0, 2]
    assert predictions.probabilities.tolist() == [[1, 0, 0], [0, 0, 1]]


# one_vs_rest


def test_one_vs_rest_by_hand():
    predictions = decode(np.array([[log(3), 0.0, -log(3)]]), spec("one_vs_rest"))
    assert predictions.values.tolist() == [0]
    assert predictions.probabilities == close([[3 / 4, 1 / 2, 1 / 4]])


def test_one_vs_rest_gives_each_class_an_independent_probability():
    for seed in SEEDS:
        outputs_nC = draw(seed, 3)
        predictions = decode(outputs_nC, spec("one_vs_rest"))
        assert predictions.probabilities == close(expit(outputs_nC.astype(np.float64)))
        changed_nC = outputs_nC.copy()
        changed_nC[:, 0] += 3
        changed = decode(changed_nC, spec("one_vs_rest"))
        assert np.array_equal(changed.probabilities[:, 1:], predictions.probabilities[:, 1:])
        assert np.array_equal(predictions.values, outputs_nC.argmax(axis=1))


def test_one_vs_rest_distinguishes_classes_that_are_all_certain():
    predictions = decode(np.array([[50.0, 60.0, 55.0]]), spec("one_vs_rest"))  # all three probabilities round to 1
    assert predictions.values.tolist() == [1]


# sigmoid: yes/no


def test_yes_no_by_hand():
    predictions = decode(column(log(3), -log(3), 0.0), spec("sigmoid"))
    assert predictions.values.tolist() == [1, 0, 1]  # one half is yes
    assert predictions.probabilities == close([[1 / 4, 3 / 4], [3 / 4, 1 / 4], [1 / 2, 1 / 2]])


@pytest.mark.parametrize(
    ("threshold", "values"), [(0.2, [1, 1, 1]), (0.5, [1, 1, 0]), (0.7, [1, 0, 0]), (0.8, [0, 0, 0])]
)
def test_yes_begins_at_the_threshold(threshold, values):
    outputs_nC = column(log(3), 0.0, -log(3))  # 3/4, 1/2, 1/4
    assert decode(outputs_nC, spec("sigmoid", threshold=threshold)).values.tolist() == values


def test_no_and_yes_sum_to_one_and_rise_with_the_output():
    for seed in SEEDS:
        outputs_nC = draw(seed, 1)
        no_n, yes_n = decode(outputs_nC, spec("sigmoid")).probabilities.T
        assert no_n + yes_n == close([1.0] * 50)
        assert yes_n == close(expit(outputs_nC[:, 0].astype(np.float64)))
        assert np.array_equal(np.argsort(yes_n), np.argsort(outputs_nC[:, 0]))


@pytest.mark.parametrize("link", ["sigmoid", "one_vs_rest"])
def test_extreme_outputs_stay_probabilities(link):
    outputs_nC = np.tile(column(*EXTREME), 1 if link == "sigmoid" else 3)
    found = decode(outputs_nC, spec(link)).probabilities
    assert ((found >= 0) & (found <= 1)).all()
    assert found[:, -1] == close(expit(np.array(EXTREME)))


# Scores


def test_identity_is_the_output_and_users_see_it_within_the_range():
    outputs = (-0.5, 0.0, 2.25, 5.0, 7.0)
    predictions = decode(column(*outputs), spec("identity"))
    assert predictions.values.tolist() == list(outputs)
    assert predictions.probabilities is None
    shown = within_range(predictions, spec("identity"))
    assert shown.values.tolist() == [0.0, 0.0, 2.25, 5.0, 5.0]
    narrow = spec("identity", low=-1, high=1)
    assert within_range(decode(column(-9.0, 0.0, 9.0), narrow), narrow).values.tolist() == [-1.0, 0.0, 1.0]


def test_metrics_compare_scores_as_they_are():
    # Outputs in the order of the labels correlate perfectly; clipped to 0..5 they would not.
    labels_n, outputs = np.array([0.0, 1.0, 2.0, 3.0]), (-6.0, -1.0, 4.0, 9.0)
    predictions = decode(column(*outputs), spec("identity"))
    assert score_predictions(spec("identity"), labels_n, predictions).values["pearson"] == close(1.0)
    clipped = within_range(predictions, spec("identity"))
    assert score_predictions(spec("identity"), labels_n, clipped).values["pearson"] < 0.95


def test_only_scores_have_a_range():
    predictions = decode(column(-2.0, 2.0), spec("sigmoid"))
    assert within_range(predictions, spec("sigmoid")) is predictions


def test_identity_changes_nothing_inside_the_range():
    for seed in SEEDS:
        outputs_nC = draw(seed, 1)
        values_n = decode(outputs_nC, spec("identity", low=-100, high=100)).values
        assert np.array_equal(values_n, outputs_nC[:, 0])


def test_scaled_sigmoid_by_hand():
    # 1/2, 3/4 and 1/4 of the way from low to high
    outputs_nC = column(0.0, log(3), -log(3))
    predictions = decode(outputs_nC, spec("scaled_sigmoid"))
    assert predictions.values == close([2.5, 3.75, 1.25])
    assert predictions.probabilities is None
    assert decode(outputs_nC, spec("scaled_sigmoid", low=1, high=5)).values == close([3, 4, 2])


def test_scaled_sigmoid_of_the_range_from_0_to_1_is_the_sigmoid():
    for seed in SEEDS:
        outputs_nC = draw(seed, 1)
        values_n = decode(outputs_nC, spec("scaled_sigmoid", low=0, high=1)).values
        assert np.array_equal(values_n, decode(outputs_nC, spec("sigmoid")).probabilities[:, 1])


@pytest.mark.parametrize("link", ["identity", "scaled_sigmoid"])
@pytest.mark.parametrize(("low", "high"), [(0.0, 5.0), (1.0, 5.0), (-1.0, 1.0), (0.1, 0.7), (0.3, 0.9), (-0.3, 0.1)])
def test_users_never_see_a_score_outside_its_range(link, low, high):
    scored = spec(link, low=low, high=high)
    values_n = within_range(decode(column(*EXTREME), scored), scored).values
    assert low <= values_n.min() and values_n.max() <= high
    assert values_n[[0, -1]] == close([low, high])
    assert np.array_equal(values_n, np.sort(values_n))
