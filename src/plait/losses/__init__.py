"""`LOSSES` names every loss; its keyword-only parameters are its options.

Losses are pure functions; those with proxies are modules that own their proxies and nothing else.
"""

from collections.abc import Callable, Mapping
from typing import Annotated

from annotated_types import Gt, Lt

from plait.losses.embedding import (
    class_contrastive,
    class_triplet,
    contrastive,
    info_nce,
    info_nce_of_positives,
    multiple_negatives,
    simcse_supervised,
    simcse_unsupervised,
    supervised_contrastive,
    triplet,
)
from plait.losses.loss import Loss
from plait.losses.prediction import binary_cross_entropy, cross_entropy, distil, mse, threshold_problem
from plait.losses.proxies import ProxyNca, SoftTriple
from plait.registry import Registry

__all__ = ["LOSSES", "SHORTHANDS", "Loss", "triple_entropy"]

# Kind of label → link from outputs to predictions, for the losses that train the encoder while another trains the head.
_NO_HEAD = {"unlabelled": ""}
_PAIRS = {"yes_no": "sigmoid", "score": "identity", "classes": "softmax"}
_TEXTS = {"classes": "softmax", "multilabel": "each", "yes_no": "sigmoid", "score": "identity", **_NO_HEAD}
_ONE_CLASS = {"classes": "softmax", "yes_no": "sigmoid"}
_TRIPLETS = {"triplets": "sigmoid"}
_POSITIVES = {**_PAIRS, **_NO_HEAD, **_TRIPLETS}

LOSSES: Registry[Loss] = Registry(
    "loss",
    "plait.losses",
    {
        "cross_entropy": Loss(cross_entropy, {"classes": "softmax"}),
        "binary_cross_entropy": Loss(
            binary_cross_entropy,
            {"yes_no": "sigmoid", "classes": "one_vs_rest", "multilabel": "each", "score": "scaled_sigmoid"},
            problem=threshold_problem,
            implied_kind=lambda options: "score" if options.get("threshold") is not None else None,
        ),
        "mse": Loss(mse, {"score": "identity"}),
        "distil": Loss(
            distil, {"classes": "softmax", "multilabel": "each", "yes_no": "sigmoid", "score": "identity"}, "teacher"
        ),
        "info_nce.v1": Loss(info_nce_of_positives, _POSITIVES, "positives", ("apart", "triple")),
        "info_nce.v2": Loss(info_nce, _POSITIVES, "anchors", ("apart", "triple")),
        "multiple_negatives": Loss(multiple_negatives, _POSITIVES, "positives", ("apart", "triple")),
        "contrastive": Loss(contrastive, _PAIRS, "same", ("apart",)),
        "simcse_unsupervised": Loss(simcse_unsupervised, _TEXTS, "all", ("twice",)),
        "simcse_supervised": Loss(simcse_supervised, _TRIPLETS, "all", ("triple",)),
        "triplet": Loss(triplet, _TRIPLETS, "all", ("triple",)),
        "supervised_contrastive": Loss(supervised_contrastive, _ONE_CLASS, "label", ("single", "joined")),
        "class_contrastive": Loss(class_contrastive, _ONE_CLASS, "label", ("single", "joined")),
        "class_triplet": Loss(class_triplet, _ONE_CLASS, "label", ("single", "joined")),
        "soft_triple": Loss(SoftTriple, _ONE_CLASS, "tokens", ("single", "joined")),
        "proxy_nca": Loss(ProxyNca, _ONE_CLASS, "tokens", ("single", "joined")),
    },
    expects=Loss,
)


def triple_entropy(*, beta: Annotated[float, Gt(0), Lt(1)] = 0.9) -> dict[str, float]:
    """beta × cross_entropy + (1 − beta) × soft_triple; all other options go to soft_triple (triple-entropy eq. 6)."""
    return {"cross_entropy": beta, "soft_triple": 1 - beta}


# Names that stand for several weighted losses; options that the shorthand does not have go to its last loss.
SHORTHANDS: Mapping[str, Callable[..., dict[str, float]]] = {"triple_entropy": triple_entropy}
