"""`LOSSES` names every loss; its keyword-only parameters are its options.

Losses are pure functions; those that learn proxies are modules which own nothing else.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Annotated, Any, Literal

from annotated_types import Gt, Lt

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
from plait.losses.proxies import ProxyNca, SoftTriple

__all__ = ["LOSSES", "SHORTHANDS", "Loss"]


Takes = Literal["predictions", "all", "positives", "same", "label", "tokens"]


@dataclass(frozen=True)
class Loss:
    """A loss, and what it takes.

    `predictions`: `function(outputs_BC, label_B, class_weights_C, label_smoothing, *, options)`. Of embeddings:
    `function(*embeddings_BD, *, options)` of `all` rows, of those that are `positives`, or with one more argument:
    whether each row is a positive (`same`), or its `label`. `tokens`: a module, built by `function(classes, width,
    generator, *, options)` and called with the states of tokens and the label of each.
    """

    function: Callable[..., Any]
    links: Mapping[str, str]  # kind of label that it can learn from → how outputs then become predictions
    takes: Takes = "predictions"
    reads: tuple[str, ...] = ()  # of embeddings and tokens: how their texts may be read, one way a number of texts

    @property
    def of_head_input(self) -> bool:
        """Whether it looks at the one input that the head reads, and so needs a head that reads one."""
        return self.takes in ("label", "tokens")


# Labels that a loss of embeddings can stand beside; they say how the head's outputs become predictions.
NOTHING = {"unlabelled": ""}  # there is no head
PAIRS = {"yes_no": "sigmoid", "score": "identity", "classes": "softmax"}
TEXTS = {"classes": "softmax", "several": "each", "yes_no": "sigmoid", "score": "identity", **NOTHING}
ONE_CLASS = {"classes": "softmax", "yes_no": "sigmoid"}
TRIPLETS = {"triplets": "sigmoid"}
POSITIVES = {**PAIRS, **NOTHING, **TRIPLETS}

LOSSES: Mapping[str, Loss] = {
    "cross_entropy": Loss(cross_entropy, {"classes": "softmax"}),
    "binary_cross_entropy": Loss(
        binary_cross_entropy,
        {"yes_no": "sigmoid", "classes": "one_vs_rest", "several": "each", "score": "scaled_sigmoid"},
    ),
    "mse": Loss(mse, {"score": "identity"}),
    "info_nce": Loss(info_nce, POSITIVES, "positives", ("apart", "triple")),
    "multiple_negatives": Loss(multiple_negatives, POSITIVES, "positives", ("apart", "triple")),
    "contrastive": Loss(contrastive, PAIRS, "same", ("apart",)),
    "simcse_unsupervised": Loss(simcse_unsupervised, TEXTS, "all", ("twice",)),
    "simcse_supervised": Loss(simcse_supervised, TRIPLETS, "all", ("triple",)),
    "triplet": Loss(triplet, TRIPLETS, "all", ("triple",)),
    "supervised_contrastive": Loss(supervised_contrastive, ONE_CLASS, "label", ("single", "joined")),
    "soft_triple": Loss(SoftTriple, ONE_CLASS, "tokens", ("single", "joined")),
    "proxy_nca": Loss(ProxyNca, ONE_CLASS, "tokens", ("single", "joined")),
}


def triple_entropy(*, beta: Annotated[float, Gt(0), Lt(1)] = 0.9) -> dict[str, float]:
    """beta × cross_entropy + (1 − beta) × soft_triple, which takes all other options (triple-entropy eq. 6)."""
    return {"cross_entropy": beta, "soft_triple": 1 - beta}


# Names for several weighted losses; options that are not a shorthand's own belong to its last loss.
SHORTHANDS: Mapping[str, Callable[..., dict[str, float]]] = {"triple_entropy": triple_entropy}
