"""BERT and RoBERTa (Devlin 2018, Liu 2019) on packed tokens: no layer ever sees padding.

N packed tokens, D width, F hidden width, H attention heads, d width of a head, S texts of one group, T tokens of each.
"""

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from plait.encoder.config import EncoderConfig
from plait.encoder.cpu.attention import attend_with_dropout
from plait.encoder.cpu.dropout import Dropout
from plait.encoder.cpu.linear import CpuLinear
from plait.encoder.packing import Packed
from plait.encoder.pooling import POOLINGS, pool

__all__ = ["Encoder", "Layer", "attend"]


class Encoder(nn.Module):
    """Packed tokens in, one state per token out."""

    def __init__(self, config: EncoderConfig, *, pooler: bool = False) -> None:
        super().__init__()
        self.config = config
        self.tokens = nn.Embedding(config.vocab_size, config.width)
        self.positions = nn.Embedding(config.positions, config.width)
        self.segments = nn.Embedding(config.segments, config.width)
        self.norm = nn.LayerNorm(config.width, eps=config.norm_eps)
        self.dropout = Dropout(config.dropout)
        self.layers = nn.ModuleList(Layer(config) for _ in range(config.layers))
        self.pooler = CpuLinear(config.width, config.width) if pooler else None
        self.token_scores: nn.Parameter | None = None  # (D,), see `add_token_scores`

    def forward(self, packed: Packed) -> Tensor:
        """States (N, D) of the packed tokens."""
        states_ND = self.embed(packed)
        for layer in self.layers:
            states_ND = layer(states_ND, packed)
        return states_ND

    def embed(self, packed: Packed) -> Tensor:
        """States (N, D) before the first layer: the sum of token, position and segment embeddings."""
        states_ND = self.tokens(packed.ids_N) + self.positions(packed.positions_N) + self.segments(packed.segments_N)
        embedded_ND: Tensor = self.dropout(self.norm(states_ND))
        return embedded_ND

    def pool(self, states_ND: Tensor, packed: Packed, pooling: str) -> Tensor:
        """Embeddings (S, D) of the texts."""
        pooled_SD = pool(states_ND, packed, pooling, self.score(states_ND) if POOLINGS[pooling].scored else None)
        if not POOLINGS[pooling].dense:
            return pooled_SD
        assert self.pooler is not None, "an encoder is built with its pooler if the pooling needs it"
        return torch.tanh(self.pooler(pooled_SD))

    def add_token_scores(self) -> None:
        """A layer that learns how much each token weighs; at first all tokens of a text weigh the same."""
        self.token_scores = nn.Parameter(torch.zeros(self.config.width))

    def score(self, states_ND: Tensor) -> Tensor:
        """The score (N,) of each token; those of a text become weights by a softmax, so a bias would change nothing."""
        assert self.token_scores is not None, "an encoder has token scores if the pooling needs them"
        return states_ND @ self.token_scores


class Layer(nn.Module):
    """Attention, add & norm, feed-forward, add & norm."""

    def __init__(self, config: EncoderConfig) -> None:
        super().__init__()
        self.heads = config.heads
        self.attention_dropout = config.attention_dropout
        self.qkv = CpuLinear(config.width, 3 * config.width)  # query, key and value in one product
        self.mix = CpuLinear(config.width, config.width)
        self.mix_norm = nn.LayerNorm(config.width, eps=config.norm_eps)
        self.widen = CpuLinear(config.width, config.hidden)
        self.narrow = CpuLinear(config.hidden, config.width)
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
    """softmax(QKᵀ/√d)V within each text; texts of one length are processed together, so nothing needs a mask."""
    if drop and qkv_N3D.device.type == "cpu":
        if qkv_N3D.dtype == torch.bfloat16:  # whose eight bits are too few for a softmax
            with torch.autocast("cpu", enabled=False):
                return attend_with_dropout(qkv_N3D.float(), packed.groups, heads, drop)
        return attend_with_dropout(qkv_N3D, packed.groups, heads, drop)
    attended = []
    tokens = packed.tokens_per_group
    for qkv, group in zip(qkv_N3D[: sum(tokens)].split(tokens), packed.groups, strict=True):
        q_SHTd, k_SHTd, v_SHTd = qkv.view(group.count, group.length, 3, heads, -1).permute(2, 0, 3, 1, 4)
        mixed_SHTd = F.scaled_dot_product_attention(q_SHTd, k_SHTd, v_SHTd, dropout_p=drop)
        attended.append(mixed_SHTd.transpose(1, 2).reshape(group.count * group.length, -1))
    if rest := len(qkv_N3D) - sum(tokens):  # rows that only pad the number of tokens, see Prepared
        attended.append(qkv_N3D.new_zeros(rest, qkv_N3D.shape[1] // 3))
    return torch.cat(attended)
