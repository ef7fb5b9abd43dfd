"""Attention with dropout inside each text, as one operation that has its own backward pass.

With dropout, torch's own attention on a CPU is made of some twenty operations, and over the few tokens of a text its
softmax takes longer than the matrix products.

N packed tokens, D width, H attention heads, S texts of one length, T their tokens, d width of a head, X = S × H.
"""

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from plait.encoder.dropout import draw_mask
from plait.encoder.packing import Group

__all__ = ["attend_with_dropout"]


def attend_with_dropout(qkv_N3D: Tensor, groups: Sequence[Group], heads: int, p: float) -> Tensor:
    """dropout(softmax(QKᵀ/√d))V of the texts of each group: (N, D)."""
    attended_ND: Tensor = Attention.apply(qkv_N3D, groups, heads, p)  # type: ignore[no-untyped-call]
    return attended_ND


class Attention(torch.autograd.Function):
    """Group by group, forwards and backwards."""

    @staticmethod
    def forward(ctx: Any, qkv_N3D: Tensor, groups: Sequence[Group], heads: int, p: float) -> Tensor:
        """What each token takes from its text."""
        attended_ND = qkv_N3D.new_empty(len(qkv_N3D), qkv_N3D.shape[1] // 3)
        sizes = [heads * group.count * group.length**2 for group in groups]
        mask, scale = draw_mask((sum(sizes),), p)
        kept: list[Tensor] = []
        parts = zip(
            by_head(qkv_N3D, groups, heads, 3), by_head(attended_ND, groups, heads, 1), mask.split(sizes), strict=True
        )
        for qkv_3SHTd, attended_1SHTd, mask_part in parts:
            qkv_3XTd = qkv_3SHTd.flatten(1, 2)
            q_XTd, k_XTd, v_XTd = qkv_3XTd
            weights_XTT = torch.bmm(q_XTd, k_XTd.mT).mul_(q_XTd.shape[-1] ** -0.5)
            weights_XTT.sub_(weights_XTT.amax(dim=-1, keepdim=True)).exp_()
            weights_XTT.div_(weights_XTT.sum(dim=-1, keepdim=True))
            mask_XTT = mask_part.view_as(weights_XTT)
            mixed_XTd = torch.bmm(weights_XTT * mask_XTT, v_XTd).mul_(scale)
            attended_1SHTd.copy_(mixed_XTd.view_as(attended_1SHTd))
            kept += [qkv_3XTd, weights_XTT, mask_XTT]
        ctx.groups, ctx.heads, ctx.scale = groups, heads, scale
        ctx.save_for_backward(*kept)
        return attended_ND

    @staticmethod
    def backward(ctx: Any, gradient_ND: Tensor) -> tuple[Tensor, None, None, None]:
        """The gradient of the products (N, 3D)."""
        gradient_N3D = gradient_ND.new_empty(len(gradient_ND), 3 * gradient_ND.shape[1])
        kept = ctx.saved_tensors
        parts = zip(
            by_head(gradient_ND, ctx.groups, ctx.heads, 1),
            by_head(gradient_N3D, ctx.groups, ctx.heads, 3),
            zip(kept[::3], kept[1::3], kept[2::3], strict=True),
            strict=True,
        )
        for of_attended_1SHTd, of_qkv_3SHTd, ((q_XTd, k_XTd, v_XTd), weights_XTT, mask_XTT) in parts:
            of_mixed_XTd = of_attended_1SHTd[0].flatten(0, 1) * ctx.scale
            of_weights_XTT = torch.bmm(of_mixed_XTd, v_XTd.mT).mul_(mask_XTT)
            of_scores_XTT = of_weights_XTT.sub_((of_weights_XTT * weights_XTT).sum(dim=-1, keepdim=True))
            of_scores_XTT.mul_(weights_XTT).mul_(q_XTd.shape[-1] ** -0.5)
            products = (
                torch.bmm(of_scores_XTT, k_XTd),
                torch.bmm(of_scores_XTT.mT, q_XTd),
                torch.bmm((weights_XTT * mask_XTT).mT, of_mixed_XTd),
            )
            for of_one_SHTd, product_XTd in zip(of_qkv_3SHTd, products, strict=True):
                of_one_SHTd.copy_(product_XTd.view_as(of_one_SHTd))
        return gradient_N3D, None, None, None


def by_head(states: Tensor, groups: Sequence[Group], heads: int, count: int) -> list[Tensor]:
    """Packed states (N, count × D) as a view (count, S, H, T, d) of each group."""
    parts = states.split([group.count * group.length for group in groups])
    shapes = [(group.count, group.length, count, heads, -1) for group in groups]
    return [part.view(shape).permute(2, 0, 3, 1, 4) for part, shape in zip(parts, shapes, strict=True)]
