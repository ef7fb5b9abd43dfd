"""Losses on embeddings: the embeddings of a batch in, one number out.

A batch with nothing to compare has loss 0, never NaN, and gradients of 0.

B batch, D width, A anchors, X candidates that an anchor is compared with, M pairs of an anchor and a positive.
"""

from typing import Annotated, Literal

import torch
import torch.nn.functional as F
from annotated_types import Ge, Gt
from torch import Tensor

__all__ = [
    "class_contrastive",
    "class_triplet",
    "contrastive",
    "info_nce",
    "info_nce_of_positives",
    "multiple_negatives",
    "simcse_supervised",
    "simcse_unsupervised",
    "supervised_contrastive",
    "triplet",
]


def info_nce(
    first_BD: Tensor,
    second_BD: Tensor,
    anchor_B: Tensor | None = None,
    third_BD: Tensor | None = None,
    *,
    temperature: Annotated[float, Gt(0)] = 0.05,
    denominator: Literal["all", "others"] = "all",
    negatives: Literal["batch", "labelled"] = "batch",
    hardest: Annotated[int, Gt(0)] | None = None,
) -> Tensor:
    """Each anchor must be closer, by cosine, to its positive than to other sentences; mean over the anchors.

    The anchors are the first sentences of the pairs that are the same (default: of all pairs), the second ones are
    their positives, and the sentences of all rows are candidates. `all`: the anchor must find its positive among the
    second and third sentences (van den Oord 2018). `others`: the similarity to its positive against the similarities to
    all other sentences of the batch, without the positive; this may be below 0, and is 0 for an anchor without others
    (minbert-downstream eq. 3).

    `negatives: labelled` leaves out the sentences of other pairs that are the same: only pairs that are not, and third
    sentences, are negatives. `hardest` keeps the negatives that are most similar to the anchor, this many of them.
    """
    sides_BD = [side_BD for side_BD in (first_BD, second_BD, third_BD) if side_BD is not None]
    _require_equal_shapes("info_nce", *sides_BD)
    rows, device = len(first_BD), first_BD.device
    anchor_B = torch.ones(rows, dtype=torch.bool, device=device) if anchor_B is None else anchor_B.bool()
    _require_labels("info_nce", anchor_B, first_BD)
    row_A = anchor_B.nonzero().squeeze(-1)  # the anchors
    if not len(row_A):
        return _zero_with_graph(*sides_BD)
    unit_BD = [F.normalize(side_BD, dim=-1) for side_BD in sides_BD]
    candidates_XD = torch.cat(unit_BD if denominator == "others" else unit_BD[1:])
    scores_AX = unit_BD[0][row_A] @ candidates_XD.T / temperature
    row_X = torch.arange(rows, device=device).repeat(len(candidates_XD) // rows)  # the row of each candidate
    positive_A = row_A + (rows if denominator == "others" else 0)  # the column of each anchor's positive
    is_third_X = torch.arange(len(row_X), device=device) >= len(row_X) - rows * (third_BD is not None)
    negative_AX = (row_X != row_A.unsqueeze(1)) | is_third_X
    if negatives == "labelled":
        negative_AX &= ~anchor_B[row_X] | is_third_X
    if hardest is not None and hardest < len(row_X):
        harder_AX = scores_AX.detach().masked_fill(~negative_AX, float("-inf")).topk(hardest, dim=-1).indices
        negative_AX &= torch.zeros_like(negative_AX).scatter_(1, harder_AX, True)
    if denominator == "all":
        negative_AX[torch.arange(len(row_A), device=device), positive_A] = True
        found_AX = scores_AX.masked_fill(~negative_AX, float("-inf"))
        return F.cross_entropy(found_AX, positive_A, reduction="sum") / len(row_A)
    own_A = scores_AX.gather(1, positive_A.unsqueeze(1)).squeeze(1)
    has_others_A = negative_AX.any(dim=1)
    others_A = scores_AX[has_others_A].masked_fill(~negative_AX[has_others_A], float("-inf")).logsumexp(dim=-1)
    return (others_A - own_A[has_others_A]).sum() / len(row_A)


def info_nce_of_positives(
    anchor_BD: Tensor,
    positive_BD: Tensor,
    negative_BD: Tensor | None = None,
    *,
    temperature: Annotated[float, Gt(0)] = 0.05,
    denominator: Literal["all", "others"] = "all",
) -> Tensor:
    """The first version of `info_nce`, which plait 0.1 trained with: the positive pairs of a batch alone."""
    return info_nce(anchor_BD, positive_BD, None, negative_BD, temperature=temperature, denominator=denominator)


def simcse_unsupervised(first_BD: Tensor, second_BD: Tensor, *, temperature: Annotated[float, Gt(0)] = 0.05) -> Tensor:
    """Each sentence must find itself, encoded again with different dropout, in the batch (Gao 2021, eq. 4)."""
    _require_equal_shapes("simcse_unsupervised", first_BD, second_BD)
    return _find_own(F.normalize(first_BD, dim=-1) @ F.normalize(second_BD, dim=-1).T / temperature)


def simcse_supervised(
    anchor_BD: Tensor, positive_BD: Tensor, negative_BD: Tensor, *, temperature: Annotated[float, Gt(0)] = 0.05
) -> Tensor:
    """Each anchor must find its positive among all positives and hard negatives of the batch (Gao 2021, eq. 5)."""
    _require_equal_shapes("simcse_supervised", anchor_BD, positive_BD, negative_BD)
    others_2BD = F.normalize(torch.cat([positive_BD, negative_BD]), dim=-1)
    return _find_own(F.normalize(anchor_BD, dim=-1) @ others_2BD.T / temperature)


def multiple_negatives(
    anchor_BD: Tensor,
    positive_BD: Tensor,
    negative_BD: Tensor | None = None,
    *,
    scale: Annotated[float, Gt(0)] = 20.0,
    similarity: Literal["cosine", "dot"] = "cosine",
) -> Tensor:
    """−1/B Σᵢ [S(xᵢ, yᵢ) − log Σⱼ exp S(xᵢ, yⱼ)], S being scale × similarity (robust-embeddings §3.2).

    Hard negatives, if there are any, join the yⱼ. `dot` does not normalise the embeddings; its usual scale is 1
    (Henderson 2017).
    """
    sides_BD = [side_BD for side_BD in (anchor_BD, positive_BD, negative_BD) if side_BD is not None]
    _require_equal_shapes("multiple_negatives", *sides_BD)
    if similarity == "cosine":
        sides_BD = [F.normalize(side_BD, dim=-1) for side_BD in sides_BD]
    return _find_own(scale * sides_BD[0] @ torch.cat(sides_BD[1:]).T)


def contrastive(
    first_BD: Tensor,
    second_BD: Tensor,
    same_B: Tensor,
    *,
    margin: Annotated[float, Gt(0)] = 1.0,
    distance: Literal["unit_euclidean", "euclidean", "cosine"] = "unit_euclidean",
) -> Tensor:
    """½d² for a pair that is the same (1), ½max(0, margin − d)² for one that is not (0); mean over B (Hadsell 2006).

    `unit_euclidean`: d between unit vectors, from 0 to 2; `euclidean`: without normalising them; `cosine`: 1 − cos.
    """
    _require_equal_shapes("contrastive", first_BD, second_BD)
    _require_labels("contrastive", same_B, first_BD)
    distance_B = _distances(first_BD, second_BD, distance)
    loss_B = torch.where(same_B.bool(), distance_B, F.relu(margin - distance_B)) ** 2 / 2
    return loss_B.sum() / max(len(loss_B), 1)


def triplet(
    anchor_BD: Tensor,
    positive_BD: Tensor,
    negative_BD: Tensor,
    *,
    margin: Annotated[float, Ge(0)] = 0.2,
    distance: Literal["unit_squared", "euclidean", "cosine"] = "unit_squared",
) -> Tensor:
    """max(0, d(anchor, positive) − d(anchor, negative) + margin), mean over B (Schroff 2015).

    `unit_squared`: squared Euclidean distance of unit vectors, from 0 to 4; `euclidean`: without normalising them;
    `cosine`: 1 − cos.
    """
    _require_equal_shapes("triplet", anchor_BD, positive_BD, negative_BD)
    near_B, far_B = _distances(anchor_BD, positive_BD, distance), _distances(anchor_BD, negative_BD, distance)
    return F.relu(near_B - far_B + margin).sum() / max(len(near_B), 1)


def supervised_contrastive(
    embeddings_BD: Tensor, label_B: Tensor, *, temperature: Annotated[float, Gt(0)] = 0.3
) -> Tensor:
    """Each sentence must find, by cosine, the others of its class in the batch (Khosla 2020, eq. 2).

    The mean of the log-probabilities of a sentence's positives, then the mean over the sentences that have any. The
    default temperature is that of Gunel 2020.
    """
    _require_labels("supervised_contrastive", label_B, embeddings_BD)
    unit_BD = F.normalize(embeddings_BD, dim=-1)
    self_BB = torch.eye(len(label_B), dtype=torch.bool, device=label_B.device)
    positive_BB = (label_B.unsqueeze(1) == label_B) & ~self_BB
    anchors = positive_BB.any(dim=-1)
    if not anchors.any():
        return _zero_with_graph(embeddings_BD)
    scores_BB = (unit_BD @ unit_BD.T / temperature).masked_fill(self_BB, float("-inf"))
    log_p_BB = torch.log_softmax(scores_BB[anchors], dim=-1)
    positive_BB = positive_BB[anchors]
    return -(log_p_BB.masked_fill(~positive_BB, 0).sum(dim=-1) / positive_BB.sum(dim=-1)).mean()


def class_contrastive(
    embeddings_BD: Tensor,
    label_B: Tensor,
    *,
    margin: Annotated[float, Gt(0)] = 1.0,
    distance: Literal["unit_euclidean", "euclidean", "cosine"] = "unit_euclidean",
) -> Tensor:
    """`contrastive` on all pairs of the batch: ½d² within a class, ½max(0, margin − d)² across; mean over the pairs.

    Margin and distance are those of `contrastive` (Hadsell 2006).
    """
    _require_labels("class_contrastive", label_B, embeddings_BD)
    if len(label_B) < 2:
        return _zero_with_graph(embeddings_BD)
    distance_BB, same_BB = _all_distances(embeddings_BD, distance), label_B.unsqueeze(1) == label_B
    loss_BB = torch.where(same_BB, distance_BB, F.relu(margin - distance_BB)) ** 2 / 2
    return loss_BB.triu(diagonal=1).sum() / (len(label_B) * (len(label_B) - 1) / 2)


def class_triplet(
    embeddings_BD: Tensor,
    label_B: Tensor,
    *,
    margin: Annotated[float, Ge(0)] = 0.2,
    distance: Literal["unit_squared", "euclidean", "cosine"] = "unit_squared",
    negatives: Literal["all", "hardest", "semi_hard"] = "semi_hard",
) -> Tensor:
    """`triplet` within the batch: each anchor, each other sentence of its class, and negatives of other classes.

    Negatives: `all`, with the mean over all triplets. `hardest`: the one closest to the anchor. `semi_hard`: the
    closest of those that are farther from the anchor than the positive, or the farthest if none is (Schroff 2015). The
    mean of both is over the pairs of anchor and positive. Margin and distance are those of `triplet`.
    """
    _require_labels("class_triplet", label_B, embeddings_BD)
    same_BB = label_B.unsqueeze(1) == label_B
    self_BB = torch.eye(len(label_B), dtype=torch.bool, device=label_B.device)
    anchor_M, positive_M = (same_BB & ~self_BB & ~same_BB.all(dim=-1, keepdim=True)).nonzero(as_tuple=True)
    if not len(anchor_M):  # no two sentences of a class, or no other class
        return _zero_with_graph(embeddings_BD)
    distance_BB, infinity = _all_distances(embeddings_BD, distance), float("inf")
    near_M, far_MB, negative_MB = distance_BB[anchor_M, positive_M], distance_BB[anchor_M], ~same_BB[anchor_M]
    if negatives == "all":
        loss_MB = F.relu(near_M.unsqueeze(1) - far_MB + margin).masked_fill(~negative_MB, 0)
        return loss_MB.sum() / negative_MB.sum()
    if negatives == "semi_hard":
        farther_MB = negative_MB & (far_MB > near_M.unsqueeze(1))
        closest_M = far_MB.masked_fill(~farther_MB, infinity).min(dim=-1).values
        farthest_M = far_MB.masked_fill(~negative_MB, -infinity).max(dim=-1).values
        far_M = torch.where(farther_MB.any(dim=-1), closest_M, farthest_M)
    else:
        far_M = far_MB.masked_fill(~negative_MB, infinity).min(dim=-1).values
    return F.relu(near_M - far_M + margin).mean()


def _find_own(scores_BX: Tensor) -> Tensor:
    """Cross-entropy with column i as the target of row i; mean over B."""
    own_B = torch.arange(len(scores_BX), device=scores_BX.device)
    return F.cross_entropy(scores_BX, own_B, reduction="sum") / max(len(scores_BX), 1)


def _distances(u_BD: Tensor, v_BD: Tensor, distance: str) -> Tensor:
    """The distance (B,) of each pair of rows; where it is 0, so is its gradient."""
    if distance != "euclidean":
        u_BD, v_BD = F.normalize(u_BD, dim=-1), F.normalize(v_BD, dim=-1)
    if distance == "cosine":
        return 1 - (u_BD * v_BD).sum(dim=-1)
    if distance == "unit_squared":
        return ((u_BD - v_BD) ** 2).sum(dim=-1)
    length_B: Tensor = torch.linalg.vector_norm(u_BD - v_BD, dim=-1)
    return length_B


def _all_distances(x_BD: Tensor, distance: str) -> Tensor:
    """`_distances` (B, B) between all rows, without a copy of the rows per pair."""
    if distance != "euclidean":
        x_BD = F.normalize(x_BD, dim=-1)
    if distance == "cosine":
        return 1 - x_BD @ x_BD.T
    # Differences, not products: the distance of nearly equal rows must not be lost to rounding.
    length_BB = torch.cdist(x_BD, x_BD, compute_mode="donot_use_mm_for_euclid_dist")
    return length_BB**2 if distance == "unit_squared" else length_BB


def _zero_with_graph(*sides_BD: Tensor) -> Tensor:
    """0 with a graph, so that backward works and gives gradients of 0."""
    return torch.cat(sides_BD)[:0].sum()


def _require_equal_shapes(name: str, *sides_BD: Tensor) -> None:
    if len({side_BD.shape for side_BD in sides_BD}) > 1:
        shapes = ", ".join(str(tuple(side_BD.shape)) for side_BD in sides_BD)
        raise ValueError(f"{name} needs equal shapes, got {shapes}")


def _require_labels(name: str, label_B: Tensor, embeddings_BD: Tensor) -> None:
    if label_B.shape != embeddings_BD.shape[:1]:
        shapes = f"labels {tuple(label_B.shape)} for embeddings {tuple(embeddings_BD.shape)}"
        raise ValueError(f"{name} needs one label per row, got {shapes}")
