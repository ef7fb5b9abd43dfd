"""Which pairs a loss treats as positives, and how it reads the texts of a task."""

import numpy as np

from plait.data.batch import READS
from plait.data.labels import Labels, class_of
from plait.losses import Loss
from plait.recipe.choices import LossChoice

__all__ = ["positive_label_of", "positive_rows", "reading_of"]


def reading_of(loss: Loss, texts: int) -> str | None:
    """How a loss reads a task with this number of texts; None for a loss on predictions, and if it cannot read them."""
    return next((way for way in loss.reads if READS[way] == texts), None)


def positive_rows(choice: LossChoice, labels: Labels, encoded: np.ndarray) -> np.ndarray:
    """Which rows (n,) are positives for a loss."""
    positive = positive_label_of(choice, labels)
    if positive is None:
        return np.ones(len(encoded), dtype=bool)
    return encoded >= positive if choice.positive_above is not None else encoded == positive


def positive_label_of(choice: LossChoice, labels: Labels) -> float | None:
    """The encoded label of positive pairs, or their lowest score; None if every row is a positive."""
    if choice.positive_label is not None:
        return float(labels.classes.index(class_of(choice.positive_label)))
    return 1.0 if choice.positive_above is None and labels.about.is_yes_no else choice.positive_above
