"""Predictions for many examples.

n examples, C classes.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

__all__ = ["PredictionArrays"]


@dataclass(frozen=True)
class PredictionArrays:
    """What a task predicts for each example."""

    values: np.ndarray  # (n,) class numbers, 0/1 or scores; multilabel 0/1 (n, C)
    probabilities: np.ndarray | None  # (n, C), yes/no (n, 2); None for scores

    def rows(self, rows: np.ndarray | Sequence[int]) -> "PredictionArrays":
        """The predictions for some examples."""
        return PredictionArrays(self.values[rows], None if self.probabilities is None else self.probabilities[rows])

    def to_arrays(self, prefix: str) -> dict[str, np.ndarray]:
        """As named arrays, for a file that holds the predictions of several tasks."""
        found = {f"{prefix}/values": self.values, f"{prefix}/probabilities": self.probabilities}
        return {name: array for name, array in found.items() if array is not None}

    @staticmethod
    def from_arrays(arrays: Mapping[str, np.ndarray], prefix: str) -> "PredictionArrays":
        return PredictionArrays(arrays[f"{prefix}/values"], arrays.get(f"{prefix}/probabilities"))

    @staticmethod
    def joined(parts: "Sequence[PredictionArrays]") -> "PredictionArrays":
        """The predictions for the examples of all parts, in their order."""
        if len(parts) == 1:
            return parts[0]
        shares = [part.probabilities for part in parts if part.probabilities is not None]
        return PredictionArrays(
            np.concatenate([part.values for part in parts]), np.concatenate(shares) if shares else None
        )
