"""Metrics against values by hand, scikit-learn and scipy, on data with ties; 1e-12 is the rounding of float64 sums."""

import numpy as np
import pytest
from scipy import stats
from sklearn import metrics as sklearn

from plait.data.kinds import KINDS
from plait.metrics import (
    METRICS,
    MetricFunction,
    _ranks,
    accuracy,
    accuracy_of_two,
    all_metrics,
    balanced_accuracy,
    exact_match,
    f1,
    macro_f1,
    metrics_of,
    micro_f1,
    multilabel_macro_f1,
    pearson,
    recall_per_class,
    roc_auc,
    spearman,
)
from properties import assert_example_order_does_not_matter

SEEDS = range(30)
CLASSES = 3


def close(value: float) -> object:
    return pytest.approx(value, abs=1e-12)


def classes(seed: int, count: int = 4, rows: int = 50) -> tuple[np.ndarray, np.ndarray]:
    generator = np.random.default_rng(seed)
    return generator.integers(0, count, rows), generator.integers(0, count, rows)


def scores(seed: int, rows: int = 50) -> tuple[np.ndarray, np.ndarray]:
    """Labels and predictions that agree somewhat, both with ties."""
    generator = np.random.default_rng(seed)
    labels_n = generator.integers(0, 11, rows) / 2
    return labels_n, np.round(labels_n + generator.normal(0, 2, rows), 1)


def draw_labels(kind: str, seed: int, rows: int = 40) -> np.ndarray:
    """Labels of a kind, with ties; multilabel (n, C), others (n,)."""
    generator = np.random.default_rng(seed)
    if kind == "multilabel":
        return generator.integers(0, 2, (rows, CLASSES))
    if kind == "score":
        return generator.integers(0, 11, rows) / 2
    return generator.integers(0, CLASSES if kind == "classes" else 2, rows)


def labels_for(kind: str, metric: MetricFunction, seed: int) -> np.ndarray:
    """Labels of a kind; scores with two values for the metric that needs them."""
    labels = draw_labels(kind, seed)
    return labels if metric is not METRICS["accuracy"].functions["score"] else np.where(labels > 2.5, 4.5, 1.0)


def probabilities_of(kind: str, predicted: np.ndarray) -> np.ndarray | None:
    """Probabilities (n, C) that are certain of these predictions."""
    if kind == "score":
        return None
    if kind == "multilabel":
        return predicted.astype(float)
    return np.eye(CLASSES if kind == "classes" else 2)[predicted]


# Every metric

every_metric = pytest.mark.parametrize(
    ("kind", "metric"),
    [
        pytest.param(kind, function, id=f"{name} of {kind}")
        for name, metric in METRICS.items()
        for kind, function in metric.functions.items()
    ],
)


@every_metric
def test_correct_predictions_score_one(kind, metric: MetricFunction):
    for seed in SEEDS:
        labels = labels_for(kind, metric, seed)
        assert metric(labels, labels, probabilities_of(kind, labels)) == close(1.0)


@every_metric
def test_predictions_with_errors_score_less_than_one(kind, metric: MetricFunction):
    for seed in SEEDS:
        labels, predicted = labels_for(kind, metric, seed), draw_labels(kind, seed + 100)
        assert metric(labels, predicted, probabilities_of(kind, predicted)) < 1 - 1e-3


@every_metric
def test_order_of_the_examples_does_not_matter(kind, metric: MetricFunction):
    for seed in SEEDS:
        labels, predicted = labels_for(kind, metric, seed), draw_labels(kind, seed + 100)
        columns = labels, predicted, probabilities_of(kind, predicted)
        assert_example_order_does_not_matter(metric, *columns, seed=seed)


@every_metric
def test_metric_applies_to_a_known_kind_of_label(kind, metric: MetricFunction):
    assert kind in KINDS and metric.__doc__


# accuracy


def test_accuracy_by_hand():
    assert accuracy(np.array([0, 1, 2, 1]), np.array([0, 1, 1, 1])) == 0.75


def test_accuracy_of_the_labels_themselves_is_one():
    labels_n, _ = classes(0)
    assert accuracy(labels_n, labels_n) == 1.0


def test_accuracy_equals_that_of_scikit_learn():
    for seed in SEEDS:
        labels_n, predicted_n = classes(seed)
        assert accuracy(labels_n, predicted_n) == close(sklearn.accuracy_score(labels_n, predicted_n))


def test_accuracy_of_two_scores_by_hand():
    labels_n = np.array([1, 4.5, 4.5, 1])  # 2.75 is in the middle
    assert accuracy_of_two(labels_n, np.array([2.7, 2.8, 2.7, -1])) == 0.75
    assert accuracy_of_two(labels_n, labels_n) == 1.0


def test_accuracy_of_more_than_two_scores_is_undefined():
    labels_n = np.array([1.0, 2.0, 3.0])
    assert np.isnan(accuracy_of_two(labels_n, labels_n)) and np.isnan(accuracy_of_two(labels_n[:1], labels_n[:1]))
    assert "accuracy" not in all_metrics("score", labels_n, labels_n, None)


def test_accuracy_of_two_scores_is_that_of_yes_and_no():
    for seed in SEEDS:
        labels_n, predicted_n = classes(seed, count=2)
        assert accuracy_of_two(1 + 3.5 * labels_n, 1 + 3.5 * predicted_n) == accuracy(labels_n, predicted_n)


def test_balanced_accuracy_by_hand():
    # class 0: 1 of 4, class 1: 1 of 1, class 2 is only predicted
    assert balanced_accuracy(np.array([0, 0, 0, 0, 1]), np.array([0, 1, 1, 2, 1])) == 0.625


@pytest.mark.parametrize("metric", [balanced_accuracy, macro_f1])
def test_a_mean_over_classes_is_undefined_if_one_class_occurs(metric):
    one = np.zeros(5, int)
    assert np.isnan(metric(one, one)) and np.isnan(metric(one, np.array([0, 1, 0, 0, 0])))


def test_balanced_accuracy_is_accuracy_if_all_classes_are_equally_frequent():
    labels_n = np.repeat(np.arange(4), 10)
    for seed in SEEDS:
        predicted_n, _ = classes(seed, rows=40)
        assert balanced_accuracy(labels_n, predicted_n) == close(accuracy(labels_n, predicted_n))


def test_balanced_accuracy_of_the_most_common_class_is_chance():
    labels_n = np.array([0] * 90 + [1] * 10)
    assert balanced_accuracy(labels_n, np.zeros(100, int)) == 0.5


def test_balanced_accuracy_equals_that_of_scikit_learn():
    for seed in SEEDS:
        labels_n, predicted_n = classes(seed)
        assert balanced_accuracy(labels_n, predicted_n) == close(sklearn.balanced_accuracy_score(labels_n, predicted_n))


def test_recall_per_class_by_hand():
    # class 0: 1 of 2, class 1: 2 of 2, class 2 is only predicted, class 3 does not occur
    labels_n, predicted_n = np.array([0, 0, 1, 1]), np.array([0, 2, 1, 1])
    assert recall_per_class(labels_n, predicted_n, 4) == [0.5, 1.0, None, None]


def test_recall_per_class_equals_that_of_scikit_learn():
    for seed in SEEDS:
        labels_n, predicted_n = classes(seed)
        expected = sklearn.recall_score(labels_n, predicted_n, average=None, labels=range(4))
        assert recall_per_class(labels_n, predicted_n, 4) == close(expected.tolist())


# F1


def test_f1_by_hand():
    # yes is predicted 3 times, 2 of them correctly; 4 are yes: precision 2/3, recall 1/2, 2·(2/3·1/2)/(2/3 + 1/2) = 4/7
    assert f1(np.array([1, 1, 1, 1, 0, 0]), np.array([1, 1, 0, 0, 1, 0])) == close(4 / 7)


def test_f1_of_the_labels_themselves_is_one():
    labels_n = np.array([1, 0, 1])
    assert f1(labels_n, labels_n) == macro_f1(labels_n, labels_n) == 1.0


def test_f1_is_zero_if_yes_is_never_correct():
    assert f1(np.array([1, 1, 0]), np.array([0, 0, 1])) == 0.0
    assert f1(np.array([0, 0]), np.array([0, 0])) == 0.0  # yes neither occurs nor is predicted


def test_f1_equals_that_of_scikit_learn():
    for seed in SEEDS:
        labels_n, predicted_n = classes(seed, 2)
        assert f1(labels_n, predicted_n) == close(sklearn.f1_score(labels_n, predicted_n))


def test_macro_f1_by_hand():
    # class 0: 2·1/(2 + 1) = 2/3; class 1: 2·1/(2 + 2) = 1/2; class 2 is only predicted: 0
    assert macro_f1(np.array([0, 0, 1, 1]), np.array([0, 1, 1, 2])) == close((2 / 3 + 1 / 2 + 0) / 3)


def test_macro_f1_equals_that_of_scikit_learn():
    for seed in SEEDS:
        for rows in (5, 50):  # with 5 rows some classes are missing
            labels_n, predicted_n = classes(seed, 4, rows)
            expected = sklearn.f1_score(labels_n, predicted_n, average="macro", zero_division=0)
            assert macro_f1(labels_n, predicted_n) == close(expected)


# ROC-AUC


def test_roc_auc_by_hand():
    # yes 0.9 and 0.4, no 0.4 and 0.1: above, above, a tie, above: (1 + 1 + 1/2 + 1) / 4
    assert roc_auc(np.array([1, 0, 1, 0]), np.array([0.9, 0.4, 0.4, 0.1])) == 0.875


def test_roc_auc_of_a_perfect_a_reversed_and_a_constant_score():
    yes_n = np.array([0, 0, 1, 1, 1])
    assert roc_auc(yes_n, np.arange(5.0)) == 1.0
    assert roc_auc(yes_n, -np.arange(5.0)) == 0.0
    assert roc_auc(yes_n, np.full(5, 0.1)) == 0.5


def test_roc_auc_is_nan_if_only_one_class_occurs():
    assert np.isnan(roc_auc(np.ones(3, dtype=int), np.arange(3.0)))
    assert np.isnan(roc_auc(np.zeros(3, dtype=int), np.arange(3.0)))


def test_roc_auc_equals_that_of_scikit_learn():
    for seed in SEEDS:
        yes_n, _ = classes(seed, 2)
        scores_n = np.round(np.random.default_rng(seed).random(50), 1)  # ties
        assert roc_auc(yes_n, scores_n) == close(sklearn.roc_auc_score(yes_n, scores_n))


def test_roc_auc_depends_only_on_the_order_of_the_scores():
    for seed in SEEDS:
        yes_n, scores_n = classes(seed, 2)[0], np.random.default_rng(seed).normal(size=50)
        assert roc_auc(yes_n, np.exp(scores_n)) == roc_auc(yes_n, scores_n)
        assert roc_auc(yes_n, -scores_n) == close(1 - roc_auc(yes_n, scores_n))


def macro_roc_auc(labels_n: np.ndarray, probabilities_nC: np.ndarray) -> float:
    """roc_auc of classes, which ignores the predictions."""
    return METRICS["roc_auc"].functions["classes"](labels_n, labels_n, probabilities_nC)


def test_macro_roc_auc_equals_that_of_scikit_learn():
    for seed in SEEDS:
        labels_n, _ = classes(seed, 3)
        raw_nC = np.random.default_rng(seed).integers(1, 5, (50, 3))  # ties
        shares_nC = raw_nC / raw_nC.sum(axis=1, keepdims=True)
        expected = sklearn.roc_auc_score(labels_n, shares_nC, multi_class="ovr", average="macro")
        assert macro_roc_auc(labels_n, shares_nC) == close(expected)


def test_macro_roc_auc_leaves_out_an_empty_class():
    labels_n = np.array([0, 1, 0, 1])
    # class 0: 0.9 and 0.2 beat 0.3 and 0.1 in 3 of 4 pairs; class 1: 0.6 and 0.1 beat 0.1 and 0.2 in 2.5 of 4
    shares_nC = np.array([[0.9, 0.1, 0.0], [0.3, 0.6, 0.1], [0.2, 0.2, 0.6], [0.1, 0.1, 0.8]])
    assert macro_roc_auc(labels_n, shares_nC) == close((0.75 + 0.625) / 2)
    assert np.isnan(macro_roc_auc(np.zeros(4, dtype=int), shares_nC))


# Correlations


def test_pearson_by_hand():
    # x − 2 = (−1, 0, 1), y − 3 = (−1, −1, 2): (1 + 0 + 2) / √(2·6) = √3/2
    assert pearson(np.array([1.0, 2.0, 3.0]), np.array([2.0, 2.0, 5.0])) == close(np.sqrt(3) / 2)


def test_spearman_by_hand():
    # ranks (1, 2, 3) and (1.5, 1.5, 3): (−1, 0, 1)·(−0.5, −0.5, 1) / √(2·1.5) = 1.5/√3 = √3/2
    assert spearman(np.array([1.0, 2.0, 30.0]), np.array([2.0, 2.0, 2.1])) == close(np.sqrt(3) / 2)


@pytest.mark.parametrize("correlation", [pearson, spearman])
def test_correlation_with_itself_is_one_and_with_its_negative_minus_one(correlation):
    labels_n, _ = scores(0)
    assert correlation(labels_n, labels_n) == close(1.0)
    assert correlation(labels_n, -labels_n) == close(-1.0)


def test_correlations_equal_those_of_scipy():
    for seed in SEEDS:
        labels_n, predicted_n = scores(seed)
        assert pearson(labels_n, predicted_n) == close(stats.pearsonr(labels_n, predicted_n).statistic)
        assert spearman(labels_n, predicted_n) == close(stats.spearmanr(labels_n, predicted_n).statistic)


def test_correlations_of_float32_labels_are_as_precise():  # labels are read as float32
    for seed in SEEDS:
        generator = np.random.default_rng(seed)
        labels_n = generator.uniform(0, 5, 1500).astype(np.float32)
        predicted_n = labels_n + generator.normal(0, 2, 1500)
        assert pearson(labels_n, predicted_n) == close(stats.pearsonr(labels_n.astype(float), predicted_n).statistic)
        assert spearman(labels_n, predicted_n) == close(stats.spearmanr(labels_n, predicted_n).statistic)


def test_pearson_ignores_scale_and_shift_and_spearman_ignores_monotone_functions():
    for seed in SEEDS:
        labels_n, predicted_n = scores(seed)
        assert pearson(labels_n, 3 * predicted_n - 7) == close(pearson(labels_n, predicted_n))
        assert spearman(labels_n, np.exp(predicted_n)) == close(spearman(labels_n, predicted_n))


@pytest.mark.parametrize("correlation", [pearson, spearman])
@pytest.mark.parametrize("constant", [0.0, 1.0, 0.1, 2.7])  # in float64 the mean of six 0.1 is not 0.1
def test_correlation_with_a_constant_is_zero(correlation, constant):
    labels_n, same_n = np.array([0.3, 1.7, 2.9, 3.1, 4.2, 5.0]), np.full(6, constant)
    assert correlation(labels_n, same_n) == 0.0
    assert correlation(same_n, labels_n) == 0.0
    assert correlation(same_n, same_n) == 0.0
    assert correlation(labels_n, same_n.astype(np.float32)) == 0.0


def test_ranks_equal_those_of_scipy():
    assert _ranks(np.array([10.0, 30.0, 10.0, 20.0])).tolist() == [1.5, 4.0, 1.5, 3.0]
    for seed in SEEDS:
        _, values_n = scores(seed)
        assert np.array_equal(_ranks(values_n), stats.rankdata(values_n))


# By kind of label


@pytest.mark.parametrize(
    ("kind", "names"),
    [
        ("classes", ["accuracy", "balanced_accuracy", "macro_f1", "roc_auc"]),
        ("yes_no", ["accuracy", "balanced_accuracy", "f1", "macro_f1", "roc_auc"]),
        ("multilabel", ["accuracy", "micro_f1", "macro_f1", "roc_auc"]),
        ("score", ["accuracy", "pearson", "spearman"]),
        ("triplets", ["accuracy"]),
        ("unlabelled", []),
    ],
)
def test_each_kind_of_label_has_its_metrics(kind, names):
    assert list(metrics_of(kind)) == names


def test_all_metrics_of_classes():
    labels_n, shares_nC = np.array([0, 1, 2, 0]), np.array([[7, 2, 1], [1, 8, 1], [5, 3, 2], [6, 2, 2]]) / 10
    values_n = shares_nC.argmax(axis=1)  # 0, 1, 0, 0
    # F1 of the classes: 2·2/(2 + 3) = 4/5, 1, 0; areas: 1, 1, and 0.2 beats 0.1, 0.1 and ties with 0.2: 2.5 of 3
    expected = {"accuracy": 0.75, "balanced_accuracy": (1 + 1 + 0) / 3}
    expected |= {"macro_f1": (4 / 5 + 1 + 0) / 3, "roc_auc": (1 + 1 + 2.5 / 3) / 3}
    assert all_metrics("classes", labels_n, values_n, shares_nC) == close(expected)


def test_all_metrics_of_yes_no():
    labels_n, yes_n = np.array([1, 0, 1, 0]), np.array([0.9, 0.6, 0.4, 0.1])
    predicted_n, shares_n2 = np.array([1, 1, 0, 0]), np.stack([1 - yes_n, yes_n], axis=1)
    # one of two yes is found, and one of two predicted yes is correct: F1 1/2 for both; the yes 0.9, 0.4 beat 3 of 4
    expected = {"accuracy": 0.5, "balanced_accuracy": 0.5, "f1": 0.5, "macro_f1": 0.5, "roc_auc": 0.75}
    assert all_metrics("yes_no", labels_n, predicted_n, shares_n2) == close(expected)


def test_all_metrics_of_scores():
    expected = {"pearson": np.sqrt(3) / 2, "spearman": np.sqrt(3) / 2}  # as above
    assert all_metrics("score", np.array([1.0, 2.0, 3.0]), np.array([2.0, 2.0, 5.0]), None) == close(expected)


def test_undefined_metrics_are_left_out():
    none_n = np.zeros(3, dtype=int)
    found = all_metrics("yes_no", none_n, none_n, np.tile([0.7, 0.3], (3, 1)))
    assert found == {"accuracy": 1.0, "f1": 0.0}


# Multilabel

LABELS_NC = np.array([[1, 0, 0], [1, 1, 0], [0, 1, 0], [0, 0, 0]])
PREDICTED_NC = np.array([[1, 0, 0], [1, 0, 0], [1, 1, 0], [0, 0, 0]])


def test_multilabel_metrics_by_hand():
    # 3 of 4 labels are found, 3 of 4 predicted ones are correct; F1 of label 0: 2·2/(2 + 3), of label 1: 2·1/(2 + 1)
    assert micro_f1(LABELS_NC, PREDICTED_NC) == close(3 / 4)
    assert multilabel_macro_f1(LABELS_NC, PREDICTED_NC) == close((4 / 5 + 2 / 3) / 2)  # label 2 occurs nowhere
    assert exact_match(LABELS_NC, PREDICTED_NC) == 0.5  # the first and the last example
    assert recall_per_class(LABELS_NC, PREDICTED_NC, 3) == [1.0, 0.5, None]


def test_multilabel_macro_f1_without_any_label_is_zero():
    assert multilabel_macro_f1(np.zeros((2, 3), dtype=int), np.zeros((2, 3), dtype=int)) == 0.0


def test_multilabel_metrics_equal_those_of_scikit_learn():
    for seed in SEEDS:
        labels_nC, predicted_nC = draw_labels("multilabel", seed), draw_labels("multilabel", seed + 100)
        probabilities_nC = np.random.default_rng(seed).integers(0, 5, labels_nC.shape) / 4  # ties
        expected = {
            "accuracy": sklearn.accuracy_score(labels_nC, predicted_nC),
            "micro_f1": sklearn.f1_score(labels_nC, predicted_nC, average="micro"),
            "macro_f1": sklearn.f1_score(labels_nC, predicted_nC, average="macro"),
            "roc_auc": sklearn.roc_auc_score(labels_nC, probabilities_nC, average="macro"),
        }
        assert all_metrics("multilabel", labels_nC, predicted_nC, probabilities_nC) == close(expected)
