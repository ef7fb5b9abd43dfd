"""Losses are pure functions. `LOSSES` names every loss; a loss's keyword-only parameters are its options."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Literal

from torch import Tensor

from plait.losses.embedding import (
    contrastive,
    info_nce,
    multiple_negatives,
    simcse_supervised,
    simcse_unsupervised,
    supervised_contrastive,
    triplet,
)
from plait.losses.prediction import binary_cross_entropy, cross_entropy, mse

__all__ = ["LOSSES", "Loss"]


@dataclass(frozen=True)
class Loss:
    """A loss, and what it takes.

    Of predictions: `function(outputs_BC, label_B, class_weights_C, label_smoothing, *, options)`. Of embeddings, where
    `reads` says how their texts are read: `function(*embeddings_BD, *, options)`, of the rows that are positives only
    (`positives`), or with one more argument: whether each row is a positive (`same`), or its label (`label`).
    """

    function: Callable[..., Tensor]
    links: Mapping[str, str]  # kind of label that it can learn from → how outputs then become predictions
    reads: str | None = None  # None: it takes predictions
    takes: Literal["all", "positives", "same", "label"] = "all"


# Labels that a loss of embeddings can stand beside; they say how the head's outputs become predictions.
PAIRS = {"yes_no": "sigmoid", "score": "identity", "classes": "softmax"}
TEXTS = {"classes": "softmax", "several": "each", "yes_no": "sigmoid", "score": "identity"}
TRIPLETS = {"triplets": "sigmoid"}

LOSSES: Mapping[str, Loss] = {
    "cross_entropy": Loss(cross_entropy, {"classes": "softmax"}),
    "binary_cross_entropy": Loss(
        binary_cross_entropy,
        {"yes_no": "sigmoid", "classes": "one_vs_rest", "several": "each", "score": "scaled_sigmoid"},
    ),
    "mse": Loss(mse, {"score": "identity"}),
    "info_nce": Loss(info_nce, PAIRS, reads="apart", takes="positives"),
    "multiple_negatives": Loss(multiple_negatives, PAIRS, reads="apart", takes="positives"),
    "contrastive": Loss(contrastive, PAIRS, reads="apart", takes="same"),
    "simcse_unsupervised": Loss(simcse_unsupervised, TEXTS, reads="twice"),
    "supervised_contrastive": Loss(supervised_contrastive, {"classes": "softmax"}, reads="single", takes="label"),
    "simcse_supervised": Loss(simcse_supervised, TRIPLETS, reads="triple"),
    "triplet": Loss(triplet, TRIPLETS, reads="triple"),
}
