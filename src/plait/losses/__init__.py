"""Losses are pure functions. `LOSSES` names every loss; a loss's keyword-only parameters are its options."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from torch import Tensor

from plait.losses.embedding import simcse_supervised
from plait.losses.prediction import binary_cross_entropy, cross_entropy, mse

__all__ = ["LOSSES", "Loss"]


@dataclass(frozen=True)
class Loss:
    """A loss, and what it takes.

    Of predictions: `function(outputs_BC, label_B, class_weights_C, label_smoothing, *, options)`. Of embeddings, where
    `reads` says how their texts are read: `function(*embeddings_BD, *, options)`.
    """

    function: Callable[..., Tensor]
    links: Mapping[str, str]  # kind of label that it can learn from → how outputs then become predictions
    reads: str | None = None  # None: it takes predictions


LOSSES: Mapping[str, Loss] = {
    "cross_entropy": Loss(cross_entropy, {"classes": "softmax"}),
    "binary_cross_entropy": Loss(
        binary_cross_entropy,
        {"yes_no": "sigmoid", "classes": "one_vs_rest", "several": "each", "score": "scaled_sigmoid"},
    ),
    "mse": Loss(mse, {"score": "identity"}),
    "simcse_supervised": Loss(simcse_supervised, {"triplets": "sigmoid"}, reads="triple"),
}
