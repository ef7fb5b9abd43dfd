"""A model's scores on labelled examples."""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from plait.data.examples import Examples
from plait.data.prediction_arrays import PredictionArrays
from plait.errors import RequestError
from plait.evaluation.significance import Interval, bootstrap
from plait.metrics import METRICS, all_metrics, recall_per_class
from plait.model.encode_texts import Advance, AnyModel, predict_columns
from plait.model.tasks import TaskSpec

__all__ = [
    "TaskScores",
    "mean_score",
    "metric_on",
    "score_predictions",
    "score_task",
]


@dataclass(frozen=True)
class TaskScores:
    """Every metric of one task on some examples."""

    task: str
    metric: str  # the one that enters the mean
    rows: int
    values: dict[str, float]
    recall: dict[str, float | None]  # by class; None for a class without examples
    interval: Interval | None = None  # 95 % bootstrap interval of the metric

    @property
    def value(self) -> float:
        """The task's own metric; NaN if it is undefined on these examples."""
        return self.values.get(self.metric, float("nan"))


def score_task(
    model: AnyModel,
    task: str,
    examples: Examples,
    *,
    intervals: bool = False,
    advance: Advance | None = None,
) -> TaskScores:
    """A model's scores on some examples of a task."""
    predicted = predict_columns(model, task, examples.texts, advance=advance)
    return score_predictions(model.tasks[task], examples.labels, predicted.predictions, intervals=intervals)


def score_predictions(
    spec: TaskSpec, labels_n: np.ndarray, predictions: PredictionArrays, *, intervals: bool = False
) -> TaskScores:
    """The scores of some predictions."""
    if spec.metric not in METRICS:
        raise RequestError(
            f"task {spec.name!r}: its metric {spec.metric!r} is not registered; install the package that provides it, "
            "or import the module that registers it"
        )
    labels = spec.labels
    recall: dict[str, float | None] = {}
    if labels.about.has_classes:
        shares = recall_per_class(labels_n, predictions.values, len(labels.names))
        recall = dict(zip(labels.names, shares, strict=True))
    interval = None
    if intervals:
        interval = bootstrap(lambda rows: metric_on(spec, labels_n, predictions, rows), len(labels_n))
        if np.isnan(interval).any():  # the metric is undefined on these examples
            interval = None
    values = all_metrics(labels.kind, labels_n, predictions.values, predictions.probabilities)
    return TaskScores(spec.name, spec.metric, len(labels_n), values, recall, interval)


def mean_score(scores: Mapping[str, TaskScores]) -> float | None:
    """The mean over the tasks, each by its own metric; tasks whose metric is undefined do not count."""
    defined = [task.value for task in scores.values() if np.isfinite(task.value)]
    return float(np.mean(defined)) if defined else None


def metric_on(
    spec: TaskSpec, labels_n: np.ndarray, predictions: PredictionArrays, rows: np.ndarray | None = None
) -> float:
    """The task's own metric on all examples, or on some rows."""
    metric = METRICS[spec.metric].functions[spec.labels.kind]
    if rows is not None:
        labels_n, predictions = labels_n[rows], predictions.rows(rows)
    return metric(labels_n, predictions.values, predictions.probabilities)
