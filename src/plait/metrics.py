"""`METRICS`: labels and predictions in, one number out; higher is better.

n examples, C classes; multilabel labels are 0/1 (n, C).
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np

from plait.registry import Registry

__all__ = [
    "METRICS",
    "Metric",
    "MetricFunction",
    "accuracy",
    "accuracy_of_two",
    "all_metrics",
    "balanced_accuracy",
    "exact_match",
    "f1",
    "macro_f1",
    "metrics_of",
    "micro_f1",
    "multilabel_macro_f1",
    "pearson",
    "recall_per_class",
    "roc_auc",
    "spearman",
]

# labels (n,), predictions (n,) and probabilities (n, C), None for scores → one number
MetricFunction = Callable[[np.ndarray, np.ndarray, np.ndarray | None], float]


@dataclass(frozen=True)
class Metric:
    """A metric, with the function that computes it for each kind of label it applies to."""

    functions: Mapping[str, MetricFunction]


def accuracy(labels_n: np.ndarray, predicted_n: np.ndarray) -> float:
    """The share of correct predictions."""
    return float(np.mean(labels_n == predicted_n))


def accuracy_of_two(labels_n: np.ndarray, predicted_n: np.ndarray) -> float:
    """The share of scores that are nearer to their label than to the other one; NaN unless labels take two values."""
    values = np.unique(labels_n)
    if len(values) != 2:
        return float("nan")
    middle = values.mean()
    return accuracy(labels_n >= middle, predicted_n >= middle)


def recall_per_class(labels_n: np.ndarray, predicted_n: np.ndarray, classes: int) -> list[float | None]:
    """The share of each class's examples that are predicted correctly; None for a class without examples."""
    if labels_n.ndim > 1:  # multilabel
        chosen = [predicted_n[labels_n[:, number] == 1, number] == 1 for number in range(classes)]
    else:
        chosen = [predicted_n[labels_n == number] == number for number in range(classes)]
    return [float(correct.mean()) if len(correct) else None for correct in chosen]


def balanced_accuracy(labels_n: np.ndarray, predicted_n: np.ndarray) -> float:
    """The mean over the classes that occur of the share that is predicted correctly; NaN unless two classes occur."""
    if len(np.unique(labels_n)) < 2:
        return float("nan")
    return float(np.mean([np.mean(predicted_n[labels_n == number] == number) for number in np.unique(labels_n)]))


def f1(labels_n: np.ndarray, predicted_n: np.ndarray, of: int = 1) -> float:
    """2·precision·recall / (precision + recall) of one class; 0 if it neither occurs nor is predicted."""
    both = np.sum((labels_n == of) & (predicted_n == of))
    either = np.sum(labels_n == of) + np.sum(predicted_n == of)
    return float(2 * both / either) if either else 0.0


def macro_f1(labels_n: np.ndarray, predicted_n: np.ndarray) -> float:
    """The mean F1 of the classes that occur or are predicted; NaN unless two classes occur."""
    if len(np.unique(labels_n)) < 2:
        return float("nan")
    return float(np.mean([f1(labels_n, predicted_n, of) for of in np.union1d(labels_n, predicted_n)]))


def roc_auc(yes_n: np.ndarray, scores_n: np.ndarray) -> float:
    """How often a yes scores above a no (ROC AUC), ties counting half; NaN unless both occur."""
    positives = int(np.sum(yes_n == 1))
    negatives = len(yes_n) - positives
    if not positives or not negatives:
        return float("nan")
    return float((_ranks(scores_n)[yes_n == 1].sum() - positives * (positives + 1) / 2) / (positives * negatives))


def pearson(labels_n: np.ndarray, predicted_n: np.ndarray) -> float:
    """The correlation of the values; 0 if either is constant."""
    x_n, y_n = labels_n.astype(np.float64), predicted_n.astype(np.float64)
    if np.ptp(x_n) == 0 or np.ptp(y_n) == 0:  # the mean may be off by a rounding error, so compare the values
        return 0.0
    x_n, y_n = x_n - np.mean(x_n), y_n - np.mean(y_n)
    return float(np.sum(x_n * y_n) / np.sqrt(np.sum(x_n**2) * np.sum(y_n**2)))


def spearman(labels_n: np.ndarray, predicted_n: np.ndarray) -> float:
    """The correlation of the ranks, with shared ranks for ties."""
    return pearson(_ranks(labels_n), _ranks(predicted_n))


def micro_f1(labels_nC: np.ndarray, predicted_nC: np.ndarray) -> float:
    """The F1 over all labels of all examples."""
    return f1(labels_nC.ravel(), predicted_nC.ravel())


def multilabel_macro_f1(labels_nC: np.ndarray, predicted_nC: np.ndarray) -> float:
    """The mean F1 of the labels that occur or are predicted."""
    used = np.flatnonzero(labels_nC.any(axis=0) | predicted_nC.any(axis=0))
    return float(np.mean([f1(labels_nC[:, c], predicted_nC[:, c]) for c in used])) if len(used) else 0.0


def exact_match(labels_nC: np.ndarray, predicted_nC: np.ndarray) -> float:
    """The share of examples whose labels are all correct."""
    return float(np.mean((labels_nC == predicted_nC).all(axis=1)))


def _multilabel_area(labels_nC: np.ndarray, probabilities_nC: np.ndarray) -> float:
    """The mean area over the labels that have both a yes and a no."""
    areas = [roc_auc(labels_nC[:, c], probabilities_nC[:, c]) for c in range(labels_nC.shape[1])]
    present = [area for area in areas if not np.isnan(area)]
    return float(np.mean(present)) if present else float("nan")


def _one_against_rest_area(labels_n: np.ndarray, probabilities_nC: np.ndarray) -> float:
    """The mean area of each class against the rest."""
    classes = np.arange(probabilities_nC.shape[1])
    return _multilabel_area((labels_n[:, None] == classes[None, :]).astype(int), probabilities_nC)


def _ranks(values_n: np.ndarray) -> np.ndarray:
    """1 for the smallest; equal values share the mean of their ranks."""
    _, places, counts = np.unique(values_n, return_inverse=True, return_counts=True)
    last = np.cumsum(counts)
    shared: np.ndarray = (last - (counts - 1) / 2)[places]
    return shared


def _of_predictions(function: Callable[[np.ndarray, np.ndarray], float]) -> MetricFunction:
    """A metric that ignores probabilities."""

    def metric(labels: np.ndarray, predictions: np.ndarray, probabilities: np.ndarray | None) -> float:
        return function(labels, predictions)

    metric.__doc__ = function.__doc__
    return metric


def _of_probabilities(function: Callable[[np.ndarray, np.ndarray], float]) -> MetricFunction:
    """A metric that ignores which class was predicted."""

    def metric(labels: np.ndarray, predictions: np.ndarray, probabilities: np.ndarray | None) -> float:
        assert probabilities is not None, "every kind but scores has probabilities"
        return function(labels, probabilities)

    metric.__doc__ = function.__doc__
    return metric


def _yes_area(labels_n: np.ndarray, probabilities_n2: np.ndarray) -> float:
    """How often a yes scores above a no (ROC AUC), ties counting half; NaN unless both occur."""
    return roc_auc(labels_n, probabilities_n2[:, 1])


METRICS: Registry[Metric] = Registry(
    "metric",
    "plait.metrics",
    {
        "accuracy": Metric(
            {
                "classes": _of_predictions(accuracy),
                "multilabel": _of_predictions(exact_match),
                "yes_no": _of_predictions(accuracy),
                "triplets": _of_predictions(accuracy),
                "score": _of_predictions(accuracy_of_two),
            }
        ),
        "balanced_accuracy": Metric(
            {"classes": _of_predictions(balanced_accuracy), "yes_no": _of_predictions(balanced_accuracy)}
        ),
        "micro_f1": Metric({"multilabel": _of_predictions(micro_f1)}),
        "f1": Metric({"yes_no": _of_predictions(f1)}),
        "macro_f1": Metric(
            {
                "classes": _of_predictions(macro_f1),
                "multilabel": _of_predictions(multilabel_macro_f1),
                "yes_no": _of_predictions(macro_f1),
            }
        ),
        "roc_auc": Metric(
            {
                "classes": _of_probabilities(_one_against_rest_area),
                "multilabel": _of_probabilities(_multilabel_area),
                "yes_no": _of_probabilities(_yes_area),
            }
        ),
        "pearson": Metric({"score": _of_predictions(pearson)}),
        "spearman": Metric({"score": _of_predictions(spearman)}),
    },
    expects=Metric,
)


def metrics_of(kind: str) -> dict[str, MetricFunction]:
    """The metrics that apply to a kind of label, by name."""
    return {name: metric.functions[kind] for name, metric in METRICS.items() if kind in metric.functions}


def all_metrics(
    kind: str, labels_n: np.ndarray, predicted_n: np.ndarray, probabilities_nC: np.ndarray | None
) -> dict[str, float]:
    """Every metric of a kind of label, without those that are undefined on this data."""
    values = {name: metric(labels_n, predicted_n, probabilities_nC) for name, metric in metrics_of(kind).items()}
    return {name: value for name, value in values.items() if not np.isnan(value)}
