"""Attention with dropout within each text, as a single operation with its own backward pass.

With dropout, torch's own attention on a CPU consists of some twenty operations, and over the few tokens of a text its
softmax takes longer than the matrix products.

N packed tokens, D width, H attention heads, S texts of one length, T their tokens, d width of a head, X = S × H.
"""

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from plait.encoder.cpu.dropout import draw_mask
from plait.encoder.packing import Group

__all__ = ["attend_with_dropout"]


def attend_with_dropout(
    qkv_N3D: Tensor, groups: Sequence[Group], heads: int, p: float, added: Sequence[Tensor | None] = ()
) -> Tensor:
    """dropout(softmax(QKᵀ/√d + added))V of the texts of each group: (N, D); `added` has (H, T, T) or (1, T, T)."""
    added = added or [None] * len(groups)
    attended_ND: Tensor = _Attention.apply(qkv_N3D, groups, heads, p, *added)  # type: ignore[no-untyped-call]
    return attended_ND


class _Attention(torch.autograd.Function):
    """Both passes work group by group."""

    @staticmethod
    def forward(
        ctx: Any, qkv_N3D: Tensor, groups: Sequence[Group], heads: int, p: float, *added: Tensor | None
    ) -> Tensor:
        attended_ND = qkv_N3D.new_empty(len(qkv_N3D), qkv_N3D.shape[1] // 3)
        sizes = [heads * group.count * group.length**2 for group in groups]
        mask, scale = draw_mask((sum(sizes),), p)
        saved: list[Tensor] = []
        parts = zip(
            _by_head(qkv_N3D, groups, heads, 3),
            _by_head(attended_ND, groups, heads, 1),
            mask.split(sizes),
            added,
            strict=True,
        )
        for qkv_3SHTd, attended_1SHTd, mask_part, added_HTT in parts:
            qkv_3XTd = qkv_3SHTd.flatten(1, 2)
            q_XTd, k_XTd, v_XTd = qkv_3XTd
            weights_XTT = torch.bmm(q_XTd, k_XTd.mT).mul_(q_XTd.shape[-1] ** -0.5)
            if added_HTT is not None:
                weights_XTT.view(-1, heads, *added_HTT.shape[1:]).add_(added_HTT)
            weights_XTT.sub_(weights_XTT.amax(dim=-1, keepdim=True)).exp_()
            weights_XTT.div_(weights_XTT.sum(dim=-1, keepdim=True))
            mask_XTT = mask_part.view_as(weights_XTT)
            mixed_XTd = torch.bmm(weights_XTT * mask_XTT, v_XTd).mul_(scale)
            attended_1SHTd.copy_(mixed_XTd.view_as(attended_1SHTd))
            saved += [qkv_3XTd, weights_XTT, mask_XTT]
        ctx.groups, ctx.heads, ctx.scale = groups, heads, scale
        ctx.save_for_backward(*saved)
        return attended_ND

    @staticmethod
    def backward(ctx: Any, grad_ND: Tensor) -> tuple[Tensor | None, ...]:
        """The gradients with respect to queries, keys and values (N, 3D), and to what was added in each group."""
        grad_N3D = grad_ND.new_empty(len(grad_ND), 3 * grad_ND.shape[1])
        saved = ctx.saved_tensors
        parts = zip(
            _by_head(grad_ND, ctx.groups, ctx.heads, 1),
            _by_head(grad_N3D, ctx.groups, ctx.heads, 3),
            zip(saved[::3], saved[1::3], saved[2::3], strict=True),
            ctx.needs_input_grad[4:],
            strict=True,
        )
        grads_added: list[Tensor | None] = []
        for grad_attended_1SHTd, grad_qkv_3SHTd, ((q_XTd, k_XTd, v_XTd), weights_XTT, mask_XTT), is_learned in parts:
            grad_mixed_XTd = grad_attended_1SHTd[0].flatten(0, 1) * ctx.scale
            grad_weights_XTT = torch.bmm(grad_mixed_XTd, v_XTd.mT).mul_(mask_XTT)
            grad_scores_XTT = grad_weights_XTT.sub_((grad_weights_XTT * weights_XTT).sum(dim=-1, keepdim=True))
            grad_scores_XTT.mul_(weights_XTT)
            by_text = grad_scores_XTT.view(-1, ctx.heads, *grad_scores_XTT.shape[1:])
            grads_added.append(by_text.sum(dim=0) if is_learned else None)
            grad_scores_XTT.mul_(q_XTd.shape[-1] ** -0.5)
            grads_XTd = (
                torch.bmm(grad_scores_XTT, k_XTd),
                torch.bmm(grad_scores_XTT.mT, q_XTd),
                torch.bmm((weights_XTT * mask_XTT).mT, grad_mixed_XTd),
            )
            for place_SHTd, grad_XTd in zip(grad_qkv_3SHTd, grads_XTd, strict=True):
                place_SHTd.copy_(grad_XTd.view_as(place_SHTd))
        return grad_N3D, None, None, None, *grads_added


def _by_head(states: Tensor, groups: Sequence[Group], heads: int, count: int) -> list[Tensor]:
    """Packed states (N, count × D) as one view (count, S, H, T, d) per group."""
    parts = states.split([group.count * group.length for group in groups])
    shapes = [(group.count, group.length, count, heads, -1) for group in groups]
    return [part.view(shape).permute(2, 0, 3, 1, 4) for part, shape in zip(parts, shapes, strict=True)]
