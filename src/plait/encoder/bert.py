"""BERT and RoBERTa (Devlin 2018, Liu 2019) on packed tokens: no layer ever sees padding.

N packed tokens, D width, H attention heads, T tokens of the texts in one group, S texts.
"""

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from plait.encoder.attention import attend_with_dropout
from plait.encoder.config import EncoderConfig
from plait.encoder.dropout import Dropout
from plait.encoder.linear import Linear
from plait.encoder.packing import Packed
from plait.encoder.pooling import pool

__all__ = ["Encoder", "Layer", "attend"]


class Encoder(nn.Module):
    """Packed tokens in, a state for each token out."""

    def __init__(self, config: EncoderConfig, *, pooler: bool = False) -> None:
        super().__init__()
        self.config = config
        self.tokens = nn.Embedding(config.vocab_size, config.width)
        self.positions = nn.Embedding(config.positions, config.width)
        self.segments = nn.Embedding(config.segments, config.width)
        self.norm = nn.LayerNorm(config.width, eps=config.norm_eps)
        self.dropout = Dropout(config.dropout)
        self.layers = nn.ModuleList(Layer(config) for _ in range(config.layers))
        self.pooler = Linear(config.width, config.width) if pooler else None

    def forward(self, packed: Packed) -> Tensor:
        """States (N, D) of the packed tokens."""
        states_ND = self.embed(packed)
        for layer in self.layers:
            states_ND = layer(states_ND, packed)
        return states_ND

    def embed(self, packed: Packed) -> Tensor:
        """States (N, D) before the first layer: what each token is, where it stands, in which segment."""
        states_ND = self.tokens(packed.ids_N) + self.positions(packed.positions_N) + self.segments(packed.segments_N)
        embedded_ND: Tensor = self.dropout(self.norm(states_ND))
        return embedded_ND

    def pool(self, states_ND: Tensor, packed: Packed, how: str) -> Tensor:
        """Embeddings (S, D) of the texts."""
        pooled_SD = pool(states_ND, packed, how)
        if how != "pooler":
            return pooled_SD
        assert self.pooler is not None, "an encoder for pooling 'pooler' is built with its pooler"
        return torch.tanh(self.pooler(pooled_SD))


class Layer(nn.Module):
    """Attention, add & norm, feed-forward, add & norm."""

    def __init__(self, config: EncoderConfig) -> None:
        super().__init__()
        self.heads = config.heads
        self.attention_dropout = config.attention_dropout
        self.qkv = Linear(config.width, 3 * config.width)  # query, key and value in one product
        self.mix = Linear(config.width, config.width)
        self.mix_norm = nn.LayerNorm(config.width, eps=config.norm_eps)
        self.widen = Linear(config.width, config.hidden)
        self.narrow = Linear(config.hidden, config.width)
        self.narrow_norm = nn.LayerNorm(config.width, eps=config.norm_eps)
        self.dropout = Dropout(config.dropout)

    def forward(self, states_ND: Tensor, packed: Packed) -> Tensor:
        """States (N, D) → states (N, D)."""
        drop = self.attention_dropout if self.training else 0.0
        attended_ND = attend(self.qkv(states_ND), packed, self.heads, drop)
        states_ND = self.mix_norm(states_ND + self.dropout(self.mix(attended_ND)))
        widened_NF = F.gelu(self.widen(states_ND))
        narrowed_ND: Tensor = self.narrow_norm(states_ND + self.dropout(self.narrow(widened_NF)))
        return narrowed_ND


def attend(qkv_N3D: Tensor, packed: Packed, heads: int, drop: float = 0.0) -> Tensor:
    """softmax(QKᵀ/√d)V inside each text; texts of one length go together, so nothing is masked."""
    if drop and qkv_N3D.device.type == "cpu" and qkv_N3D.dtype == torch.float32:
        return attend_with_dropout(qkv_N3D, packed.groups, heads, drop)
    attended = []
    tokens = packed.tokens_per_group
    for qkv, group in zip(qkv_N3D[: sum(tokens)].split(tokens), packed.groups, strict=True):
        q_SHTd, k_SHTd, v_SHTd = qkv.view(group.count, group.length, 3, heads, -1).permute(2, 0, 3, 1, 4)
        mixed_SHTd = F.scaled_dot_product_attention(q_SHTd, k_SHTd, v_SHTd, dropout_p=drop)
        attended.append(mixed_SHTd.transpose(1, 2).reshape(group.count * group.length, -1))
    if rest := len(qkv_N3D) - sum(tokens):
        attended.append(qkv_N3D.new_zeros(rest, qkv_N3D.shape[1] // 3))
    return torch.cat(attended)
