"""A model's scores on labelled examples."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from plait.data.examples import Examples
from plait.evaluation.metrics import METRICS, all_metrics, per_class_accuracy
from plait.evaluation.significance import Interval, bootstrap
from plait.model.decode import Decoded
from plait.model.ensemble import AnyModel, answer
from plait.model.tasks import TaskSpec

__all__ = ["Scores", "decode_examples", "mean_score", "score", "score_task"]


@dataclass(frozen=True)
class Scores:
    """Every metric of one task on one set of examples."""

    task: str
    metric: str  # the one that enters the mean
    rows: int
    values: dict[str, float]
    per_class: dict[str, float | None]
    interval: Interval | None = None  # 95 % of the metric, by bootstrap

    @property
    def value(self) -> float:
        """The task's own metric; not a number where these examples do not allow it."""
        return self.values.get(self.metric, float("nan"))


def decode_examples(
    model: AnyModel, task: str, examples: Examples, *, progress: Callable[[int], None] | None = None
) -> Decoded:
    """The model's predictions for some examples."""
    return answer(model, task, examples.texts, progress=progress)


def score_task(
    model: AnyModel,
    task: str,
    examples: Examples,
    *,
    intervals: bool = False,
    progress: Callable[[int], None] | None = None,
) -> Scores:
    """A model's scores on some examples of a task."""
    decoded = decode_examples(model, task, examples, progress=progress)
    return score(model.tasks[task], examples.labels, decoded, intervals=intervals)


def score(spec: TaskSpec, labels_n: np.ndarray, decoded: Decoded, *, intervals: bool = False) -> Scores:
    """The scores of predictions."""
    kind = spec.labels.kind
    per_class: dict[str, float | None] = {}
    if kind in ("classes", "several", "yes_no"):
        shares = per_class_accuracy(labels_n, decoded.values, len(spec.labels.names))
        per_class = dict(zip(spec.labels.names, shares, strict=True))
    interval = bootstrap(lambda rows: metric_on(spec, labels_n, decoded, rows), len(labels_n)) if intervals else None
    if interval and np.isnan(interval).any():  # the metric needs what these examples lack
        interval = None
    return Scores(spec.name, spec.metric, len(labels_n), all_metrics(kind, labels_n, decoded), per_class, interval)


def metric_on(spec: TaskSpec, labels_n: np.ndarray, decoded: Decoded, rows: np.ndarray) -> float:
    """The task's own metric on some of the rows."""
    chosen = Decoded(decoded.values[rows], None if decoded.probabilities is None else decoded.probabilities[rows])
    return METRICS[spec.labels.kind][spec.metric](labels_n[rows], chosen)


def mean_score(scores: dict[str, Scores]) -> float:
    """The mean over the tasks, each by its own metric."""
    return float(np.mean([task.value for task in scores.values()]))
