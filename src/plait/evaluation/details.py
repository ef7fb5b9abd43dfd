"""What a single metric hides: the scores of each class, the confusions, the size of the errors, the calibration.

n examples, C classes.
"""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from plait.data.prediction_arrays import PredictionArrays
from plait.metrics import accuracy
from plait.model.decode import within_range
from plait.model.tasks import TaskSpec

__all__ = ["CALIBRATION_BINS", "ClassScores", "Details", "calibration_error", "confusion_counts", "find_details"]

CALIBRATION_BINS = 15  # as Guo et al. 2017


@dataclass(frozen=True)
class ClassScores:
    """How well one class is found; None where there is nothing to divide by."""

    precision: float | None  # of its predictions, the share that is correct
    recall: float | None  # of its examples, the share that is found
    f1: float | None
    support: int  # its examples


@dataclass(frozen=True)
class Details:
    """More about the predictions of a task than its metrics."""

    errors: dict[str, float]  # lower is better: `mae` and `rmse` of scores, `ece` of labels
    classes: dict[str, ClassScores]  # by class; empty for scores and triplets
    confusion: list[list[int]]  # examples by expected and predicted class; empty unless each has one of several classes

    def most_confused(self) -> list[tuple[str, str, int]]:
        """Expected class, predicted class and count of every confusion that occurs, the most frequent first."""
        names = list(self.classes)
        found = [
            (names[expected], names[predicted], count)
            for expected, row in enumerate(self.confusion)
            for predicted, count in enumerate(row)
            if count and expected != predicted
        ]
        return sorted(found, key=lambda confusion: -confusion[2])


def find_details(spec: TaskSpec, labels_n: np.ndarray, predictions: PredictionArrays) -> Details:
    """The details of some predictions; the errors of scores are those of the scores that users see."""
    about, names = spec.labels.about, spec.labels.names
    seen = within_range(predictions, spec)
    errors: dict[str, float] = {}
    if about.is_score:
        off_n = seen.values - labels_n.astype(np.float64)
        errors = {"mae": float(np.mean(np.abs(off_n))), "rmse": float(np.sqrt(np.mean(off_n**2)))}
    elif seen.values.ndim == 1 and seen.probabilities is not None:
        errors = {"ece": calibration_error(labels_n, seen.values, seen.probabilities)}
    if not about.has_classes:
        return Details(errors, {}, [])
    classes = dict(zip(names, _class_scores(labels_n, seen.values, len(names)), strict=True))
    confusion = confusion_counts(labels_n, seen.values, len(names)).tolist() if about.one_class else []
    return Details(errors, classes, confusion)


def calibration_error(
    labels_n: np.ndarray, predicted_n: np.ndarray, probabilities_nC: np.ndarray, bins: int = CALIBRATION_BINS
) -> float:
    """The expected calibration error: |accuracy − mean probability of the prediction|, averaged over the examples.

    Both are taken within bins of equal width, each with its upper end (Guo et al. 2017).
    """
    sure_n = np.take_along_axis(probabilities_nC, predicted_n[:, None], axis=1)[:, 0]
    bin_n = np.clip(np.ceil(sure_n * bins).astype(int) - 1, 0, bins - 1)
    gaps = [
        abs(accuracy(labels_n[inside], predicted_n[inside]) - sure_n[inside].mean()) * inside.sum()
        for inside in (bin_n == number for number in np.unique(bin_n))
    ]
    return float(sum(gaps) / len(labels_n))


def confusion_counts(labels_n: np.ndarray, predicted_n: np.ndarray, classes: int) -> np.ndarray:
    """The number of examples (C, C) by expected class (row) and predicted class (column)."""
    counts = np.bincount(labels_n * classes + predicted_n, minlength=classes * classes)
    return counts.reshape(classes, classes)


def _class_scores(labels_n: np.ndarray, predicted_n: np.ndarray, classes: int) -> Iterator[ClassScores]:
    for number in range(classes):
        if labels_n.ndim > 1:  # multilabel
            has_n, told_n = labels_n[:, number] == 1, predicted_n[:, number] == 1
        else:
            has_n, told_n = labels_n == number, predicted_n == number
        both, support, told = int((has_n & told_n).sum()), int(has_n.sum()), int(told_n.sum())
        yield ClassScores(
            both / told if told else None,
            both / support if support else None,
            2 * both / (support + told) if support + told else None,
            support,
        )
