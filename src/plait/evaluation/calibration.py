"""Temperature, threshold and abstention of a task, fitted on rows that it was not trained on.

What is reported is measured by cross-fitting: each row is predicted with what was fitted on other rows.
n examples, C outputs.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any, Literal, NamedTuple

import numpy as np

from plait.data.examples import Examples
from plait.data.partition import k_folds
from plait.data.prediction_arrays import PredictionArrays
from plait.evaluation.details import calibration_error
from plait.evaluation.evaluate import metric_on
from plait.evaluation.row_files import confidence
from plait.metrics import accuracy, exact_match, f1, micro_f1
from plait.model.decode import decode, outputs_of
from plait.model.tasks import THRESHOLD, TaskSpec

__all__ = [
    "FEWEST_ROWS",
    "Coverage",
    "Fitted",
    "TaskCalibration",
    "ThresholdFor",
    "calibrate_task",
    "fit_temperature",
    "has_probabilities",
    "predict_unseen",
]

ThresholdFor = Literal["accuracy", "f1"]
FEWEST_ROWS = 20  # below which five folds say little
_FOLDS = 5
_LARGEST = 3.0  # of |log temperature|: from 1/20 to 20
_CANDIDATES = 200  # thresholds that are tried at most
_FEWEST_GIVEN, _SMALLEST_SHARE = 10, 0.02  # of the rows, that must get a label for its accuracy to count
_COVERAGES = (1.0, 0.95, 0.9, 0.8, 0.7, 0.6, 0.5)
_SMALLEST = 1e-16  # a probability whose logarithm is finite
_GOLDEN = (5**0.5 - 1) / 2


class Fitted(NamedTuple):
    """Which parts of a task are fitted."""

    temperature: bool = False
    threshold: ThresholdFor | None = None  # what the threshold of a yes/no or multilabel task maximizes
    abstain_for: float | None = None  # the accuracy that given labels should have


class Coverage(NamedTuple):
    """What remains if the least certain labels are withheld."""

    share: float  # of the rows, that get a label
    accuracy: float  # of these labels
    probability: float  # of the least certain of them


@dataclass(frozen=True)
class TaskCalibration:
    """What was fitted for a task, and its effect on rows that it was not fitted on."""

    task: str
    data: str  # the rows: dev, choose (those of `choose_rows`), or "the data given"
    rows: int
    fitted: Fitted  # what helps, of what was asked for
    temperature: float
    threshold: float
    abstain_below: float | None
    metric: str
    ece: tuple[float, float]  # before and after, as the next two
    log_loss: tuple[float, float]
    score: tuple[float, float]  # by the task's own metric; withheld labels count
    coverage: list[Coverage]  # empty for multilabel tasks
    given: tuple[float, float] | None  # with `abstain_below`: the share of rows that get a label, and their accuracy

    def apply(self, spec: TaskSpec) -> TaskSpec:
        """The task with what was fitted."""
        return replace(spec, temperature=self.temperature, threshold=self.threshold, abstain_below=self.abstain_below)

    def to_json(self) -> dict[str, Any]:
        coverage = [point._asdict() for point in self.coverage]
        return {**asdict(self), "fitted": self.fitted._asdict(), "coverage": coverage}


def has_probabilities(spec: TaskSpec) -> bool:
    """Whether a task can be calibrated."""
    return not spec.labels.about.is_score


def calibrate_task(
    spec: TaskSpec, examples: Examples, predictions: PredictionArrays, wanted: Fitted, data: str
) -> TaskCalibration:
    """Fit a task on some examples; what does not help on rows that it was not fitted on stays as it was trained."""
    labels_n, plain, outputs_nC = examples.labels, spec.uncalibrated(), outputs_of(predictions, spec)
    parts = _folds(plain, examples)

    def crossed(fitted: Fitted) -> tuple[PredictionArrays, np.ndarray]:
        return _cross_fit(plain, outputs_nC, labels_n, parts, fitted)

    before, fitted = decode(outputs_nC, plain), Fitted()
    if wanted.temperature:
        warmed, _ = crossed(Fitted(temperature=True))
        fitted = fitted._replace(temperature=_log_loss(plain, labels_n, warmed) < _log_loss(plain, labels_n, before))
    if wanted.threshold and (plain.labels.about.is_yes_no or plain.labels.about.multilabel):
        measure = _measure(plain, wanted.threshold)
        moved, _ = crossed(fitted._replace(threshold=wanted.threshold))
        if measure(labels_n, moved.values) > measure(labels_n, before.values):
            fitted = fitted._replace(threshold=wanted.threshold)
    if wanted.abstain_for is not None and not plain.labels.about.multilabel:
        fitted = fitted._replace(abstain_for=wanted.abstain_for)
    after, withheld_n = crossed(fitted)
    found = _fit(plain, outputs_nC, labels_n, fitted)
    if found.abstain_below == np.inf:  # the accuracy is out of reach: better every label than none
        found = replace(found, abstain_below=None)
    right_n = after.values == labels_n
    given = None
    if found.abstain_below is not None:
        given = float(np.mean(~withheld_n)), float(np.mean(right_n[~withheld_n])) if not withheld_n.all() else 0.0
    return TaskCalibration(
        task=spec.name,
        data=data,
        rows=len(labels_n),
        fitted=fitted,
        temperature=found.temperature,
        threshold=found.threshold,
        abstain_below=found.abstain_below,
        metric=spec.metric,
        ece=(_ece(labels_n, before), _ece(labels_n, after)),
        log_loss=(_log_loss(plain, labels_n, before), _log_loss(plain, labels_n, after)),
        score=(metric_on(spec, labels_n, before), metric_on(spec, labels_n, after)),
        coverage=[] if plain.labels.about.multilabel else _coverage(labels_n, after),
        given=given,
    )


def predict_unseen(
    calibration: Mapping[str, Any], spec: TaskSpec, split: str, examples: Examples, predictions: PredictionArrays
) -> PredictionArrays:
    """Predictions that may be scored: if the task was calibrated on this split, each row by a fit on other rows.

    `calibration` is what the model's record has about it, by task.
    """
    about = calibration.get(spec.name)
    if about is None or about["data"] != split or len(examples) < _FOLDS:
        return predictions
    plain, parts = spec.uncalibrated(), _folds(spec, examples)
    outputs_nC = outputs_of(predictions, spec)
    return _cross_fit(plain, outputs_nC, examples.labels, parts, Fitted(**about["fitted"]))[0]


def fit_temperature(spec: TaskSpec, outputs_nC: np.ndarray, labels_n: np.ndarray) -> float:
    """The temperature with the smallest log loss (Guo et al. 2017).

    A normal prior on its logarithm keeps it finite if every label is right; it counts as much as one row.
    """
    rows = len(labels_n)

    def loss(log_temperature: float) -> float:
        warmed = decode(outputs_nC, replace(spec, temperature=float(np.exp(log_temperature))))
        return _log_loss(spec, labels_n, warmed) + log_temperature**2 / (2 * rows)

    grid = np.linspace(-_LARGEST, _LARGEST, 61)
    best = int(np.argmin([loss(value) for value in grid]))
    low, high = float(grid[max(0, best - 1)]), float(grid[min(len(grid) - 1, best + 1)])
    while high - low > 1e-6:
        left, right = high - _GOLDEN * (high - low), low + _GOLDEN * (high - low)
        low, high = (low, right) if loss(left) < loss(right) else (left, high)
    return float(np.exp((low + high) / 2))


def _fit(plain: TaskSpec, outputs_nC: np.ndarray, labels_n: np.ndarray, fitted: Fitted) -> TaskSpec:
    """A task with each part fitted on these rows, one after the other."""
    spec = plain
    if fitted.temperature:
        spec = replace(spec, temperature=fit_temperature(spec, outputs_nC, labels_n))
    if fitted.threshold:
        found = decode(outputs_nC, spec)
        spec = replace(spec, threshold=_fit_threshold(spec, labels_n, found, fitted.threshold))
    if fitted.abstain_for is not None:
        found = decode(outputs_nC, spec)
        spec = replace(spec, abstain_below=_fit_abstention(labels_n, found, fitted.abstain_for))
    return spec


def _cross_fit(
    plain: TaskSpec, outputs_nC: np.ndarray, labels_n: np.ndarray, parts: Sequence[np.ndarray], fitted: Fitted
) -> tuple[PredictionArrays, np.ndarray]:
    """The prediction for each row with what was fitted on the other folds, and whether it is withheld (n,)."""
    order_n = np.concatenate(parts)
    found: list[PredictionArrays] = []
    withheld: list[np.ndarray] = []
    for part in parts:
        others_n = np.setdiff1d(order_n, part)
        spec = _fit(plain, outputs_nC[others_n], labels_n[others_n], fitted)
        found.append(decode(outputs_nC[part], spec))
        below = -np.inf if spec.abstain_below is None else spec.abstain_below
        withheld.append(_certainty(found[-1]) < below)
    back_n = np.argsort(order_n)
    return PredictionArrays.joined(found).rows(back_n), np.concatenate(withheld)[back_n]


def _folds(spec: TaskSpec, examples: Examples) -> list[np.ndarray]:
    """The rows of each fold: always the same for the same examples, with no text in two folds."""
    strata = spec.labels.about.strata(examples.labels)
    found = k_folds(examples.texts, strata, min(_FOLDS, len(examples)), "calibrate")
    return [np.array(part) for part in found.parts if part]


def _log_loss(spec: TaskSpec, labels_n: np.ndarray, predictions: PredictionArrays) -> float:
    """The mean negative log likelihood of the labels; of independent probabilities, summed over the classes."""
    shares_nC = predictions.probabilities
    assert shares_nC is not None, "scores are not calibrated"
    if spec.link in ("softmax", "sigmoid"):  # the probabilities of a row sum to 1
        of_label_n = np.take_along_axis(shares_nC, labels_n[:, None].astype(np.int64), axis=1)[:, 0]
        return float(-np.mean(np.log(of_label_n.clip(_SMALLEST))))
    yes_nC = labels_n if labels_n.ndim > 1 else labels_n[:, None] == np.arange(shares_nC.shape[1])
    right_nC = np.where(yes_nC == 1, shares_nC, 1 - shares_nC)
    return float(-np.mean(np.log(right_nC.clip(_SMALLEST)).sum(axis=1)))


def _ece(labels_n: np.ndarray, predictions: PredictionArrays) -> float:
    """The expected calibration error; of a multilabel task, over all labels of all rows."""
    shares_nC = predictions.probabilities
    assert shares_nC is not None, "scores are not calibrated"
    if labels_n.ndim == 1:
        return calibration_error(labels_n, predictions.values, shares_nC)
    yes_m = shares_nC.ravel()
    return calibration_error(labels_n.ravel(), predictions.values.ravel(), np.stack([1 - yes_m, yes_m], axis=1))


def _measure(spec: TaskSpec, name: ThresholdFor) -> Callable[[np.ndarray, np.ndarray], float]:
    """What a threshold maximizes."""
    if spec.labels.about.multilabel:
        return exact_match if name == "accuracy" else micro_f1
    return accuracy if name == "accuracy" else f1


def _fit_threshold(spec: TaskSpec, labels_n: np.ndarray, predictions: PredictionArrays, name: ThresholdFor) -> float:
    """The threshold with the best score, of equally good ones the one nearest to one half."""
    shares_nC = predictions.probabilities
    assert shares_nC is not None, "scores have no threshold"
    chosen = shares_nC if spec.labels.about.multilabel else shares_nC[:, 1]
    values = np.unique(chosen)
    between = (values[1:] + values[:-1]) / 2
    if len(between) > _CANDIDATES:
        between = np.quantile(between, np.linspace(0, 1, _CANDIDATES), method="nearest")
    tried = [THRESHOLD, *between.tolist()]
    measure = _measure(spec, name)
    scores = [measure(labels_n, (chosen >= threshold).astype(np.int64)) for threshold in tried]
    return float(max(zip(scores, tried, strict=True), key=lambda pair: (pair[0], -abs(pair[1] - THRESHOLD)))[1])


def _fit_abstention(labels_n: np.ndarray, predictions: PredictionArrays, target: float) -> float | None:
    """The probability below which labels are withheld, so that as many as possible are given at this accuracy.

    None if all may be given; infinite if no share of them is that accurate, where a few lucky rows are no share.
    """
    sure_n = _certainty(predictions)
    order_n = np.argsort(-sure_n, kind="stable")
    sure_n, right_n = sure_n[order_n], (predictions.values == labels_n)[order_n]
    reached_n = np.cumsum(right_n) / np.arange(1, len(right_n) + 1) >= target
    if reached_n[-1]:
        return None
    ends = np.flatnonzero(reached_n[:-1] & (sure_n[:-1] > sure_n[1:]))  # equal probabilities are given together
    if not len(ends) or ends[-1] + 1 < max(_FEWEST_GIVEN, _SMALLEST_SHARE * len(labels_n)):
        return np.inf
    return float((sure_n[ends[-1]] + sure_n[ends[-1] + 1]) / 2)


def _coverage(labels_n: np.ndarray, predictions: PredictionArrays) -> list[Coverage]:
    """The accuracy of the most certain labels, for some shares of the rows."""
    sure_n = _certainty(predictions)
    order_n = np.argsort(-sure_n, kind="stable")
    right_n = (predictions.values == labels_n)[order_n]
    counts = [max(1, round(share * len(order_n))) for share in _COVERAGES]
    return [
        Coverage(count / len(order_n), float(right_n[:count].mean()), float(sure_n[order_n[count - 1]]))
        for count in counts
    ]


def _certainty(predictions: PredictionArrays) -> np.ndarray:
    """The probability of each label (n,), of the least certain one if there are several."""
    sure = confidence(predictions)
    least_n: np.ndarray = sure if sure.ndim == 1 else sure.min(axis=1)
    return least_n
