"""How good a task's predictions are by confidence and by length.

n examples.
"""

from dataclasses import dataclass

import numpy as np

from plait.data.prediction_arrays import PredictionArrays
from plait.evaluation.evaluate import metric_on
from plait.evaluation.significance import Interval, bootstrap
from plait.model.tasks import TaskSpec

__all__ = ["ConfidenceBin", "LengthBin", "by_length", "reliability"]

_BINS = 10  # of confidence
_LENGTHS = 5  # groups of equal size
_FEWEST = 5  # examples that a score of a group needs


@dataclass(frozen=True)
class ConfidenceBin:
    """Predictions of about the same confidence."""

    confidence: float  # mean probability of the prediction
    correct: float  # share
    rows: int


@dataclass(frozen=True)
class LengthBin:
    """Examples of about the same length, and the score on them."""

    shortest: int  # words
    longest: int
    rows: int
    score: float
    interval: Interval | None


def reliability(labels_n: np.ndarray, predictions: PredictionArrays) -> list[ConfidenceBin]:
    """How often predictions of a given confidence are right; every label of a multilabel task counts alone."""
    probabilities = predictions.probabilities
    if probabilities is None:
        return []
    if predictions.values.ndim > 1:
        confidence = np.where(predictions.values == 1, probabilities, 1 - probabilities).ravel()
        correct = (labels_n == predictions.values).ravel()
    else:
        confidence = np.take_along_axis(probabilities, predictions.values[:, None].astype(np.int64), axis=1)[:, 0]
        correct = labels_n == predictions.values
    place = np.minimum((confidence * _BINS).astype(int), _BINS - 1)
    bins = [place == number for number in range(_BINS)]
    return [
        ConfidenceBin(float(confidence[chosen].mean()), float(correct[chosen].mean()), int(chosen.sum()))
        for chosen in bins
        if chosen.any()
    ]


def by_length(
    spec: TaskSpec, labels_n: np.ndarray, predictions: PredictionArrays, words_n: np.ndarray
) -> list[LengthBin]:
    """The task's score on groups of about equal size, by the number of words."""
    ends = np.unique(np.quantile(words_n, np.arange(1, _LENGTHS) / _LENGTHS))
    place = np.searchsorted(ends, words_n, side="left")
    found = []
    for number in range(len(ends) + 1):
        rows = np.flatnonzero(place == number)
        if len(rows) < _FEWEST:
            continue
        score = metric_on(spec, labels_n, predictions, rows)
        if not np.isfinite(score):
            continue
        interval = bootstrap(lambda drawn, rows=rows: metric_on(spec, labels_n, predictions, rows[drawn]), len(rows))  # type: ignore[misc]
        known = None if np.isnan(interval).any() else interval
        found.append(LengthBin(int(words_n[rows].min()), int(words_n[rows].max()), len(rows), score, known))
    return found
