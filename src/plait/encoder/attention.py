"""Attention within each text of a pack.

N packed tokens, D width, H attention heads, d width of a head, S texts of one group, T tokens of each.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor

from plait.encoder.cpu.attention import attend_with_dropout
from plait.encoder.packing import Packed

__all__ = ["Distances", "attend"]


@dataclass(frozen=True)
class Distances:
    """What the attention of a layer knows about the distances between tokens, apart from their states."""

    scores: Sequence[Tensor | None]  # of each group, added to those of queries and keys: (H, T, T) or (1, T, T)
    rotations: tuple[Tensor, Tensor] | None = None  # cosines and sines (N, d) that turn queries and keys


def attend(
    qkv_N3D: Tensor, packed: Packed, heads: int, drop: float = 0.0, distances: Distances | None = None
) -> Tensor:
    """softmax(QKᵀ/√d)V within each text; texts of one length are processed together, so nothing needs a mask."""
    on_cpu = qkv_N3D.device.type == "cpu"
    if on_cpu and qkv_N3D.dtype == torch.bfloat16:  # whose eight bits are too few for a softmax, and slower
        with torch.autocast("cpu", enabled=False):
            return attend(qkv_N3D.float(), packed, heads, drop, distances)
    tokens = packed.tokens_per_group
    rest = len(qkv_N3D) - sum(tokens)  # rows that only pad the number of tokens, see Prepared
    scores = distances.scores if distances else [None] * len(tokens)
    if distances and distances.rotations:
        qkv_N3D = _rotate(qkv_N3D[: sum(tokens)], *distances.rotations, heads)
    if drop and on_cpu:
        return attend_with_dropout(qkv_N3D, packed.groups, heads, drop, scores)
    attended = []
    for qkv, group, scores_HTT in zip(qkv_N3D[: sum(tokens)].split(tokens), packed.groups, scores, strict=True):
        q_SHTd, k_SHTd, v_SHTd = qkv.view(group.count, group.length, 3, heads, -1).permute(2, 0, 3, 1, 4)
        added = None if scores_HTT is None else scores_HTT[None].to(q_SHTd.dtype)
        mixed_SHTd = F.scaled_dot_product_attention(q_SHTd, k_SHTd, v_SHTd, attn_mask=added, dropout_p=drop)
        attended.append(mixed_SHTd.transpose(1, 2).reshape(group.count * group.length, -1))
    if rest:
        attended.append(qkv_N3D.new_zeros(rest, qkv_N3D.shape[1] // 3))
    return torch.cat(attended)


def _rotate(qkv_N3D: Tensor, cosine_Nd: Tensor, sine_Nd: Tensor, heads: int) -> Tensor:
    """Turn each query and key by an angle that grows with its position (Su 2021); values stay."""
    qkv_N3Hd = qkv_N3D.view(len(qkv_N3D), 3, heads, -1)
    qk_N2Hd, v_N1Hd = qkv_N3Hd[:, :2], qkv_N3Hd[:, 2:]
    first, second = qk_N2Hd.chunk(2, dim=-1)
    turned_N2Hd = qk_N2Hd * cosine_Nd[:, None, None] + torch.cat([-second, first], dim=-1) * sine_Nd[:, None, None]
    return torch.cat([turned_N2Hd, v_N1Hd], dim=1).flatten(1)
