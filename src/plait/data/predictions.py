"""Predictions for many examples.

n examples, C classes.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

__all__ = ["Predictions"]


@dataclass(frozen=True)
class Predictions:
    """What a task predicts for each example."""

    values: np.ndarray  # (n,) class numbers, 0/1 or scores; multilabel 0/1 (n, C)
    probabilities: np.ndarray | None  # (n, C), yes/no (n, 2); None for scores

    def rows(self, rows: np.ndarray | Sequence[int]) -> "Predictions":
        """The predictions for some examples."""
        return Predictions(self.values[rows], None if self.probabilities is None else self.probabilities[rows])

    @staticmethod
    def joined(parts: "Sequence[Predictions]") -> "Predictions":
        """The predictions for the examples of all parts, in their order."""
        if len(parts) == 1:
            return parts[0]
        shares = [part.probabilities for part in parts if part.probabilities is not None]
        return Predictions(np.concatenate([part.values for part in parts]), np.concatenate(shares) if shares else None)
