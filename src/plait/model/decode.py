"""Outputs of a head → predictions, in the task's own labels and range.

n examples, C outputs.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np

from plait.model.tasks import TaskSpec

__all__ = ["LINKS", "Decoded", "decode"]


@dataclass(frozen=True)
class Decoded:
    """Predictions of many examples."""

    values: np.ndarray  # (n,) class numbers, 0/1, or scores; of several labels at once 0/1 (n, classes)
    probabilities: np.ndarray | None  # (n, classes); of yes/no (n, 2); None for scores


def softmax(outputs_nC: np.ndarray, spec: TaskSpec) -> Decoded:
    """One class of several, the probabilities sum to 1."""
    powers_nC = np.exp(outputs_nC - outputs_nC.max(axis=1, keepdims=True))
    return Decoded(outputs_nC.argmax(axis=1), powers_nC / powers_nC.sum(axis=1, keepdims=True))


def one_vs_rest(outputs_nC: np.ndarray, spec: TaskSpec) -> Decoded:
    """The likeliest of several classes, each with a probability of its own."""
    return Decoded(outputs_nC.argmax(axis=1), sigmoid(outputs_nC))


def each(outputs_nC: np.ndarray, spec: TaskSpec) -> Decoded:
    """Every class whose own probability reaches the task's threshold."""
    probabilities_nC = sigmoid(outputs_nC)
    return Decoded((probabilities_nC >= spec.threshold).astype(np.int64), probabilities_nC)


def yes_or_no(outputs_nC: np.ndarray, spec: TaskSpec) -> Decoded:
    """Yes from the task's threshold on."""
    yes_n = sigmoid(outputs_nC[:, 0])
    return Decoded((yes_n >= spec.threshold).astype(np.int64), np.stack([1 - yes_n, yes_n], axis=1))


def identity(outputs_nC: np.ndarray, spec: TaskSpec) -> Decoded:
    """The output is the score, kept inside its range."""
    return Decoded(outputs_nC[:, 0].clip(spec.labels.low, spec.labels.high), None)


def scaled_sigmoid(outputs_nC: np.ndarray, spec: TaskSpec) -> Decoded:
    """The probability of a high score, stretched to the range (minbert-downstream BM)."""
    low, high = spec.labels.low, spec.labels.high
    return Decoded((low + (high - low) * sigmoid(outputs_nC[:, 0])).clip(low, high), None)


def sigmoid(values: np.ndarray) -> np.ndarray:
    """1 / (1 + exp(−x)) without overflow."""
    return 0.5 * (1 + np.tanh(0.5 * values))


LINKS: Mapping[str, Callable[[np.ndarray, TaskSpec], Decoded]] = {
    "softmax": softmax,
    "one_vs_rest": one_vs_rest,
    "each": each,
    "sigmoid": yes_or_no,
    "identity": identity,
    "scaled_sigmoid": scaled_sigmoid,
}


def decode(outputs_nC: np.ndarray, spec: TaskSpec) -> Decoded:
    """Predictions of a task from its head's outputs."""
    return LINKS[spec.link](outputs_nC.astype(np.float64), spec)
