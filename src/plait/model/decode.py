"""Outputs of a head → predictions, in the task's own labels.

n examples, C outputs.
"""

from collections.abc import Callable, Mapping

import numpy as np

from plait.data.prediction_arrays import PredictionArrays
from plait.model.tasks import TaskSpec

__all__ = ["LINKS", "apply_threshold", "decode", "outputs_of", "within_range"]

_SMALLEST = 1e-300  # a probability whose logarithm is finite
_NEXT_TO_0 = 1e-16  # the smallest difference of a probability from 1


def _softmax(outputs_nC: np.ndarray, spec: TaskSpec) -> PredictionArrays:
    """One class of several; the probabilities sum to 1."""
    powers_nC = np.exp(outputs_nC - outputs_nC.max(axis=1, keepdims=True))
    return PredictionArrays(outputs_nC.argmax(axis=1), powers_nC / powers_nC.sum(axis=1, keepdims=True))


def _one_vs_rest(outputs_nC: np.ndarray, spec: TaskSpec) -> PredictionArrays:
    """The most likely class; each has an independent probability."""
    return PredictionArrays(outputs_nC.argmax(axis=1), _sigmoid(outputs_nC))


def _each(outputs_nC: np.ndarray, spec: TaskSpec) -> PredictionArrays:
    """Every class whose independent probability reaches the task's threshold."""
    probabilities_nC = _sigmoid(outputs_nC)
    return PredictionArrays((probabilities_nC >= spec.threshold).astype(np.int64), probabilities_nC)


def _yes_or_no(outputs_nC: np.ndarray, spec: TaskSpec) -> PredictionArrays:
    """Yes where the probability reaches the task's threshold."""
    yes_n = _sigmoid(outputs_nC[:, 0])
    return PredictionArrays((yes_n >= spec.threshold).astype(np.int64), np.stack([1 - yes_n, yes_n], axis=1))


def _identity(outputs_nC: np.ndarray, spec: TaskSpec) -> PredictionArrays:
    """The output is the score; it may lie outside the task's range."""
    return PredictionArrays(outputs_nC[:, 0], None)


def _scaled_sigmoid(outputs_nC: np.ndarray, spec: TaskSpec) -> PredictionArrays:
    """The probability of a high score, scaled to the range (minbert-downstream BM)."""
    low, high = spec.labels.low, spec.labels.high
    return PredictionArrays(low + (high - low) * _sigmoid(outputs_nC[:, 0]), None)


def _sigmoid(values: np.ndarray) -> np.ndarray:
    """1 / (1 + exp(−x)) without overflow."""
    return 0.5 * (1 + np.tanh(0.5 * values))


LINKS: Mapping[str, Callable[[np.ndarray, TaskSpec], PredictionArrays]] = {
    "softmax": _softmax,
    "one_vs_rest": _one_vs_rest,
    "each": _each,
    "sigmoid": _yes_or_no,
    "identity": _identity,
    "scaled_sigmoid": _scaled_sigmoid,
}


def decode(outputs_nC: np.ndarray, spec: TaskSpec) -> PredictionArrays:
    """A task's predictions from the outputs of its head."""
    return LINKS[spec.link](outputs_nC.astype(np.float64) / spec.temperature, spec)


def outputs_of(predictions: PredictionArrays, spec: TaskSpec) -> np.ndarray:
    """The outputs (n, C) of a head that mean some predictions; of a softmax, up to a constant in each row."""
    shares_nC = predictions.probabilities
    assert shares_nC is not None, "scores have no probabilities"
    if spec.link == "softmax":
        outputs_nC: np.ndarray = spec.temperature * np.log(shares_nC.clip(_SMALLEST))
        return outputs_nC
    if spec.link == "sigmoid":
        shares_nC = shares_nC[:, 1:]
    odds_nC: np.ndarray = np.log(shares_nC.clip(_NEXT_TO_0)) - np.log((1 - shares_nC).clip(_NEXT_TO_0))
    return spec.temperature * odds_nC


def within_range(predictions: PredictionArrays, spec: TaskSpec) -> PredictionArrays:
    """Predictions as users see them: scores clipped to the task's range. Metrics compare the scores as they are."""
    if not spec.labels.about.is_score:
        return predictions
    return PredictionArrays(predictions.values.clip(spec.labels.low, spec.labels.high), None)


def apply_threshold(predictions: PredictionArrays, spec: TaskSpec, threshold: float) -> PredictionArrays:
    """The predictions of a yes/no or multilabel task with another threshold than its own."""
    shares = predictions.probabilities
    assert shares is not None, "scores have no threshold"
    chosen = shares if spec.labels.about.multilabel else shares[:, 1]
    return PredictionArrays((chosen >= threshold).astype(np.int64), shares)
