"""Metrics on numpy arrays.

n examples, C classes; several labels at once are 0/1 (n, C). `METRICS` says which ones a kind of label has; the first
is its default.
"""

from collections.abc import Callable, Mapping

import numpy as np

from plait.model.decode import Decoded

__all__ = [
    "METRICS",
    "accuracy",
    "all_metrics",
    "all_right",
    "f1",
    "macro_f1",
    "mean_f1",
    "micro_f1",
    "pearson",
    "per_class_accuracy",
    "roc_auc",
    "spearman",
]

Metric = Callable[[np.ndarray, Decoded], float]  # labels (n,) and predictions in, one number out


def accuracy(labels_n: np.ndarray, predicted_n: np.ndarray) -> float:
    """The share of right predictions."""
    return float(np.mean(labels_n == predicted_n))


def per_class_accuracy(labels_n: np.ndarray, predicted_n: np.ndarray, classes: int) -> list[float | None]:
    """The share of right predictions among the examples of each class; None for a class without examples."""
    if labels_n.ndim > 1:  # several labels at once
        chosen = [predicted_n[labels_n[:, number] == 1, number] == 1 for number in range(classes)]
    else:
        chosen = [predicted_n[labels_n == number] == number for number in range(classes)]
    return [float(right.mean()) if len(right) else None for right in chosen]


def f1(labels_n: np.ndarray, predicted_n: np.ndarray, of: int = 1) -> float:
    """2·precision·recall / (precision + recall) of one class; 0 where it is neither there nor predicted."""
    both = np.sum((labels_n == of) & (predicted_n == of))
    either = np.sum(labels_n == of) + np.sum(predicted_n == of)
    return float(2 * both / either) if either else 0.0


def macro_f1(labels_n: np.ndarray, predicted_n: np.ndarray) -> float:
    """The mean of the classes' F1, over the classes that are there or predicted."""
    return float(np.mean([f1(labels_n, predicted_n, of) for of in np.union1d(labels_n, predicted_n)]))


def roc_auc(yes_n: np.ndarray, scores_n: np.ndarray) -> float:
    """How often a yes scores above a no, ties counting half; not a number where there is only one of them."""
    positives = int(np.sum(yes_n == 1))
    negatives = len(yes_n) - positives
    if not positives or not negatives:
        return float("nan")
    return float((ranks(scores_n)[yes_n == 1].sum() - positives * (positives + 1) / 2) / (positives * negatives))


def macro_roc_auc(labels_n: np.ndarray, probabilities_nC: np.ndarray) -> float:
    """The mean over the classes of each class against the rest."""
    classes = np.arange(probabilities_nC.shape[1])
    return each_roc_auc((labels_n[:, None] == classes[None, :]).astype(int), probabilities_nC)


def pearson(labels_n: np.ndarray, predicted_n: np.ndarray) -> float:
    """The correlation of the values; 0 where either does not vary."""
    x_n, y_n = labels_n.astype(np.float64), predicted_n.astype(np.float64)
    if np.ptp(x_n) == 0 or np.ptp(y_n) == 0:  # their mean may be off by a rounding, so this asks the values
        return 0.0
    x_n, y_n = x_n - np.mean(x_n), y_n - np.mean(y_n)
    return float(np.sum(x_n * y_n) / np.sqrt(np.sum(x_n**2) * np.sum(y_n**2)))


def spearman(labels_n: np.ndarray, predicted_n: np.ndarray) -> float:
    """The correlation of the ranks, ties sharing theirs."""
    return pearson(ranks(labels_n), ranks(predicted_n))


def ranks(values_n: np.ndarray) -> np.ndarray:
    """1 for the smallest; equal values share the mean of their ranks."""
    _, places, counts = np.unique(values_n, return_inverse=True, return_counts=True)
    last = np.cumsum(counts)
    shared: np.ndarray = (last - (counts - 1) / 2)[places]
    return shared


def probabilities(decoded: Decoded) -> np.ndarray:
    """Those of a prediction that has some."""
    assert decoded.probabilities is not None, "classes and yes/no have probabilities"
    return decoded.probabilities


def micro_f1(labels_nC: np.ndarray, predicted_nC: np.ndarray) -> float:
    """The F1 of all labels of all examples together."""
    return f1(labels_nC.ravel(), predicted_nC.ravel())


def mean_f1(labels_nC: np.ndarray, predicted_nC: np.ndarray) -> float:
    """The mean of the labels' F1, each label on its own, over those that are there or predicted."""
    used = np.flatnonzero(labels_nC.any(axis=0) | predicted_nC.any(axis=0))
    return float(np.mean([f1(labels_nC[:, c], predicted_nC[:, c]) for c in used])) if len(used) else 0.0


def all_right(labels_nC: np.ndarray, predicted_nC: np.ndarray) -> float:
    """The share of examples whose labels are all right."""
    return float(np.mean((labels_nC == predicted_nC).all(axis=1)))


def each_roc_auc(labels_nC: np.ndarray, probabilities_nC: np.ndarray) -> float:
    """The mean over the labels of each label's area."""
    areas = [roc_auc(labels_nC[:, c], probabilities_nC[:, c]) for c in range(labels_nC.shape[1])]
    present = [area for area in areas if not np.isnan(area)]
    return float(np.mean(present)) if present else float("nan")


METRICS: Mapping[str, Mapping[str, Metric]] = {
    "classes": {
        "accuracy": lambda labels, decoded: accuracy(labels, decoded.values),
        "macro_f1": lambda labels, decoded: macro_f1(labels, decoded.values),
        "roc_auc": lambda labels, decoded: macro_roc_auc(labels, probabilities(decoded)),
    },
    "several": {
        "micro_f1": lambda labels, decoded: micro_f1(labels, decoded.values),
        "macro_f1": lambda labels, decoded: mean_f1(labels, decoded.values),
        "accuracy": lambda labels, decoded: all_right(labels, decoded.values),
        "roc_auc": lambda labels, decoded: each_roc_auc(labels, probabilities(decoded)),
    },
    "yes_no": {
        "accuracy": lambda labels, decoded: accuracy(labels, decoded.values),
        "f1": lambda labels, decoded: f1(labels, decoded.values),
        "macro_f1": lambda labels, decoded: macro_f1(labels, decoded.values),
        "roc_auc": lambda labels, decoded: roc_auc(labels, probabilities(decoded)[:, 1]),
    },
    "score": {
        "pearson": lambda labels, decoded: pearson(labels, decoded.values),
        "spearman": lambda labels, decoded: spearman(labels, decoded.values),
    },
    "triplets": {"accuracy": lambda labels, decoded: accuracy(labels, decoded.values)},
}


def all_metrics(kind: str, labels_n: np.ndarray, decoded: Decoded) -> dict[str, float]:
    """Every metric of a kind of label; what cannot be computed on this data is left out."""
    values = {name: metric(labels_n, decoded) for name, metric in METRICS[kind].items()}
    return {name: value for name, value in values.items() if not np.isnan(value)}
