"""Losses on predictions: outputs and labels in, one number out.

B batch, C outputs.
"""

from collections.abc import Mapping
from typing import Annotated, Any

import torch
import torch.nn.functional as F
from annotated_types import Gt
from torch import Tensor

from plait.losses.loss import ScoreRange

__all__ = ["binary_cross_entropy", "cross_entropy", "distil", "mse", "threshold_problem"]


def cross_entropy(
    outputs_BC: Tensor, label_B: Tensor, class_weights_C: Tensor | None, label_smoothing: float
) -> Tensor:
    """Multinomial cross-entropy on C logits; with weights, the mean over the batch is weighted by each row's class."""
    return F.cross_entropy(outputs_BC, label_B, weight=class_weights_C, label_smoothing=label_smoothing)


def binary_cross_entropy(
    outputs_BC: Tensor,
    label_B: Tensor,
    class_weights_C: Tensor | None,
    label_smoothing: float,
    *,
    threshold: float | None = None,
) -> Tensor:
    """Cross-entropy of yes or no on one logit; on C > 1 logits one-vs-rest, mean over B and C.

    Multilabel labels are 0/1 (B, C). With a threshold the label is a score, and yes means score ≥ threshold
    (minbert-downstream BM). Smoothing by s moves the targets 0 and 1 to s/2 and 1 − s/2. `class_weights_C` are the
    weights of (no, yes), or of the C classes.
    """
    classes = outputs_BC.shape[1]
    weight_B: Tensor | None = None
    if label_B.ndim > 1:
        assert class_weights_C is None, "refused when the recipe is resolved"
        target_BC = label_B.to(outputs_BC.dtype)
    elif classes > 1:
        target_BC = F.one_hot(label_B, classes).to(outputs_BC.dtype)
        weight_B = None if class_weights_C is None else class_weights_C[label_B]
    else:
        yes_B = label_B if threshold is None else label_B >= threshold
        target_BC = yes_B.to(outputs_BC.dtype).unsqueeze(-1)
        weight_B = None if class_weights_C is None else class_weights_C[yes_B.long()]
    target_BC = target_BC * (1 - label_smoothing) + label_smoothing / 2
    loss_B = F.binary_cross_entropy_with_logits(outputs_BC, target_BC, reduction="none").mean(dim=-1)
    return loss_B.mean() if weight_B is None else (loss_B * weight_B).sum() / weight_B.sum()


def mse(outputs_BC: Tensor, label_B: Tensor, class_weights_C: Tensor | None, label_smoothing: float) -> Tensor:
    """Mean squared error of the score in its own range; class weights and smoothing do not apply to scores."""
    if outputs_BC.shape != (len(label_B), 1):
        raise ValueError(f"mse needs one output per row, got {tuple(outputs_BC.shape)} for {len(label_B)} labels")
    assert class_weights_C is None and not label_smoothing, "refused when the recipe is resolved"
    return torch.mean((outputs_BC.squeeze(-1) - label_B) ** 2)


def distil(outputs_BC: Tensor, teacher_BC: Tensor, link: str, *, temperature: Annotated[float, Gt(0)] = 1.0) -> Tensor:
    """T² × the divergence KL(teacher ‖ outputs) of the probabilities of a teacher and of the head, mean over B.

    Both are softened by the temperature T: softmax(outputs / T) for one of several classes, the sigmoid of each output,
    mean over C, otherwise (Hinton 2015). Of scores, the mean squared difference.
    """
    if outputs_BC.shape != teacher_BC.shape:
        raise ValueError(f"distil needs equal shapes, got {tuple(outputs_BC.shape)} and {tuple(teacher_BC.shape)}")
    if link == "identity":
        return torch.mean((outputs_BC - teacher_BC) ** 2)
    outputs_BC, teacher_BC = outputs_BC / temperature, teacher_BC / temperature
    if link == "softmax":
        log_share_BC, log_target_BC = F.log_softmax(outputs_BC, dim=-1), F.log_softmax(teacher_BC, dim=-1)
        return temperature**2 * F.kl_div(log_share_BC, log_target_BC, reduction="batchmean", log_target=True)
    target_BC = torch.sigmoid(teacher_BC)
    cross_BC = F.binary_cross_entropy_with_logits(outputs_BC, target_BC, reduction="none")
    own_BC = F.binary_cross_entropy_with_logits(teacher_BC, target_BC, reduction="none")
    return temperature**2 * torch.mean(cross_BC - own_BC)


def threshold_problem(kind: str, options: Mapping[str, Any], score_range: ScoreRange) -> str | None:
    """Why a threshold of binary_cross_entropy does not suit the labels: scores need one in their range, others none."""
    threshold = options.get("threshold")
    if (kind == "score") != (threshold is not None):
        need = "scores need a" if kind == "score" else f"{kind} labels take no"
        return f"{need} threshold, the score from which an example counts as yes"
    if threshold is not None and score_range is not None and not score_range[0] < threshold <= score_range[1]:
        low, high = score_range
        return f"with a threshold of {threshold:g} all scores from {low:g} to {high:g} fall on one side"
    return None
