"""Rows whose label is probably wrong: a model that never trained on them is sure of another one.

n examples, C classes.
"""

import numpy as np

from plait.data.prediction_arrays import PredictionArrays
from plait.model.tasks import TaskSpec

__all__ = ["SURE", "find_label_errors"]

SURE = 0.5  # a margin for models of unknown quality: a weak one doubts too much
_FEWEST = 20  # examples that say how sure the model usually is
_DEVIATIONS = 3.0  # of the errors of scores
_CLOSE = 1e-6  # probabilities that differ by less count as equal


def find_label_errors(
    spec: TaskSpec, labels_n: np.ndarray, predictions: PredictionArrays, margin: float = 0.0
) -> list[int]:
    """The rows with a suspicious label, most suspicious first.

    A label is suspicious if another class is at least as probable as it is on average for the rows with that label
    (confident learning, Northcutt et al. 2021), and by `margin` more probable than the label; a score if its error is
    more than three robust deviations. Of several labels, each is judged as a yes/no label of its own.
    """
    if len(labels_n) < _FEWEST:
        return []
    if spec.labels.about.is_score:
        doubt_n = np.abs(predictions.values - labels_n)
        typical = 1.4826 * float(np.median(doubt_n))  # of normal errors, their standard deviation
        is_suspect_n = doubt_n > _DEVIATIONS * typical if typical else np.zeros(len(labels_n), dtype=bool)
    elif predictions.probabilities is None or not spec.labels.about.has_classes:
        return []
    elif spec.labels.about.one_class:
        is_suspect_n, doubt_n = _confident_learning(labels_n, predictions.probabilities, margin)
    else:
        columns = [
            _confident_learning(assigned_n.astype(np.int64), np.stack([1 - share_n, share_n], axis=1), margin)
            for assigned_n, share_n in zip(labels_n.T, predictions.probabilities.T, strict=True)
        ]
        is_suspect_nC, doubt_nC = (np.stack(part, axis=1) for part in zip(*columns, strict=True))
        is_suspect_n, doubt_n = is_suspect_nC.any(axis=1), np.where(is_suspect_nC, doubt_nC, -1).max(axis=1)
    rows = np.flatnonzero(is_suspect_n)
    return [int(row) for row in rows[np.argsort(-doubt_n[rows], kind="stable")]]


def _confident_learning(labels_n: np.ndarray, shares_nC: np.ndarray, margin: float) -> tuple[np.ndarray, np.ndarray]:
    """Which labels are suspicious (n,), and by how much another class is more probable (n,)."""
    classes, each_n = shares_nC.shape[1], np.arange(len(labels_n))
    usual_C = np.array(
        [
            shares_nC[labels_n == place, place].mean() if (labels_n == place).any() else np.inf
            for place in range(classes)
        ]
    )
    sure_nC = shares_nC >= usual_C - _CLOSE
    said_n = shares_nC.argmax(axis=1)
    guess_n = np.where(sure_nC.sum(axis=1) > 1, said_n, sure_nC.argmax(axis=1))
    doubt_n = shares_nC[each_n, said_n] - shares_nC[each_n, labels_n]
    is_suspect_n = sure_nC.any(axis=1) & (guess_n != labels_n) & (said_n != labels_n) & (doubt_n >= margin)
    return is_suspect_n, doubt_n
