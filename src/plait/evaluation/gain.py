"""What training gained over the best answer that costs no training.

n examples.
"""

from collections.abc import Mapping

import numpy as np

from plait.data.prediction_arrays import PredictionArrays
from plait.evaluation.evaluate import metric_on
from plait.evaluation.significance import paired_bootstrap
from plait.model.tasks import TaskSpec
from plait.runs.records import Gain

__all__ = ["measure_gain"]


def measure_gain(
    spec: TaskSpec, split: str, labels_n: np.ndarray, ours: PredictionArrays, baselines: Mapping[str, PredictionArrays]
) -> Gain | None:
    """The gain over the baseline with the highest score; None if no score is defined on these examples."""
    scores = {name: metric_on(spec, labels_n, predictions) for name, predictions in baselines.items()}
    defined = {name: score for name, score in scores.items() if np.isfinite(score)}
    score = metric_on(spec, labels_n, ours)
    if not defined or not np.isfinite(score):
        return None
    best = max(defined, key=defined.__getitem__)

    def difference(rows: np.ndarray) -> float:
        return metric_on(spec, labels_n, ours, rows) - metric_on(spec, labels_n, baselines[best], rows)

    low, high = paired_bootstrap([(difference, len(labels_n))])
    return Gain(split, len(labels_n), best, defined[best], score, low, high)
