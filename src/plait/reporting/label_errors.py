"""Dev rows whose label is probably wrong: the model, which never trained on them, is sure of another one.

n examples, C classes.
"""

import numpy as np

from plait.data.prediction_arrays import PredictionArrays
from plait.model.tasks import TaskSpec

__all__ = ["suspect_labels"]

_FEWEST = 20  # examples that say how sure the model usually is
_DEVIATIONS = 3.0  # of the errors of scores
_MARGIN = 0.5  # by which the other class must be more probable; a weak model doubts too much


def suspect_labels(spec: TaskSpec, labels_n: np.ndarray, predictions: PredictionArrays) -> list[int]:
    """The rows with a suspicious label, most suspicious first.

    A label is suspicious if another class is far more probable, and at least as probable as it is on average for rows
    with that label (confident learning, Northcutt et al. 2021), or if a score is more than three robust deviations off.
    """
    if len(labels_n) < _FEWEST:
        return []
    if spec.labels.about.is_score:
        errors_n = np.abs(predictions.values - labels_n)
        typical = 1.4826 * float(np.median(errors_n))  # of normal errors, their standard deviation
        rows = np.flatnonzero(errors_n > _DEVIATIONS * typical) if typical else np.array([], dtype=int)
        return [int(row) for row in rows[np.argsort(-errors_n[rows], kind="stable")]]
    probabilities_nC = predictions.probabilities
    if not spec.labels.about.one_class or probabilities_nC is None:
        return []
    classes = probabilities_nC.shape[1]
    usual_C = np.array(
        [
            probabilities_nC[labels_n == place, place].mean() if (labels_n == place).any() else np.inf
            for place in range(classes)
        ]
    )
    said_n = predictions.values.astype(np.int64)
    each_n = np.arange(len(labels_n))
    sure_n = (said_n != labels_n) & (probabilities_nC[each_n, said_n] >= usual_C[said_n])
    doubt_n = probabilities_nC[each_n, said_n] - probabilities_nC[each_n, labels_n]
    rows = np.flatnonzero(sure_n & (doubt_n >= _MARGIN))
    return [int(row) for row in rows[np.argsort(-doubt_n[rows], kind="stable")]]
