"""Encoders of the BERT family on packed tokens: no layer ever sees padding.

BERT (Devlin 2018), RoBERTa (Liu 2019), DistilBERT (Sanh 2019) and MPNet (Song 2020) are made of the layers below,
ModernBERT of those in `modernbert.py`; `architectures.py` has their differences.

N packed tokens, D width, F hidden width.
"""

from collections.abc import Sequence

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from plait.encoder.attention import Distances, attend
from plait.encoder.config import EncoderConfig
from plait.encoder.cpu.dropout import Dropout
from plait.encoder.cpu.linear import CpuLinear
from plait.encoder.distances import BucketScores, Rotations
from plait.encoder.modernbert import GatedLayer
from plait.encoder.packing import Packed
from plait.encoder.pooling import POOLINGS, pool

__all__ = ["Encoder", "Layer"]


class Encoder(nn.Module):
    """Packed tokens in, one state per token out."""

    def __init__(self, config: EncoderConfig, *, pooler: bool = False) -> None:
        super().__init__()
        self.config = config
        modern = config.modern
        norm_bias = modern is None or modern.norm_bias
        self.tokens = nn.Embedding(config.vocab_size, config.width)
        self.positions = None if modern else nn.Embedding(config.positions, config.width)
        self.segments = nn.Embedding(config.segments, config.width) if config.segments else None
        self.norm = nn.LayerNorm(config.width, eps=config.norm_eps, bias=norm_bias)
        self.dropout = Dropout(config.dropout)
        self.distances: BucketScores | Rotations | None = None
        if config.distance_buckets:
            self.distances = BucketScores(config)
        elif modern:
            self.distances = Rotations(config)
        numbers = range(config.layers)
        self.layers = nn.ModuleList(GatedLayer(config, number) if modern else Layer(config) for number in numbers)
        self.last_norm = nn.LayerNorm(config.width, eps=config.norm_eps, bias=norm_bias) if modern else None
        self.pooler = CpuLinear(config.width, config.width) if pooler else None
        self.token_scores: nn.Parameter | None = None  # (D,), see `add_token_scores`

    def forward(self, packed: Packed) -> Tensor:
        """States (N, D) of the packed tokens."""
        states_ND = self.embed(packed)
        for layer, distances in zip(self.layers, self.layer_distances(packed), strict=True):
            states_ND = layer(states_ND, packed, distances)
        return states_ND if self.last_norm is None else self.last_norm(states_ND)

    def embed(self, packed: Packed) -> Tensor:
        """States (N, D) before the first layer: the sum of token, position and segment embeddings."""
        states_ND = self.tokens(packed.ids_N)
        if self.positions is not None:
            states_ND = states_ND + self.positions(packed.positions_N)
        if self.segments is not None:
            states_ND = states_ND + self.segments(packed.segments_N)
        embedded_ND: Tensor = self.dropout(self.norm(states_ND))
        return embedded_ND

    def layer_distances(self, packed: Packed) -> Sequence[Distances | None]:
        """For each layer, what its attention knows about the distances between tokens; in BERT, nothing."""
        return [None] * len(self.layers) if self.distances is None else self.distances(packed)

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
        self.mix_dropout = Dropout(config.dropout if config.mix_dropout is None else config.mix_dropout)
        self.mix_norm = nn.LayerNorm(config.width, eps=config.norm_eps)
        self.widen = CpuLinear(config.width, config.hidden)
        self.narrow = CpuLinear(config.hidden, config.width)
        self.narrow_norm = nn.LayerNorm(config.width, eps=config.norm_eps)
        self.dropout = Dropout(config.dropout)

    def forward(self, states_ND: Tensor, packed: Packed, distances: Distances | None = None) -> Tensor:
        """States (N, D) → states (N, D)."""
        drop = self.attention_dropout if self.training else 0.0
        attended_ND = attend(self.qkv(states_ND), packed, self.heads, drop, distances)
        states_ND = self.mix_norm(states_ND + self.mix_dropout(self.mix(attended_ND)))
        widened_NF = F.gelu(self.widen(states_ND))
        narrowed_ND: Tensor = self.narrow_norm(states_ND + self.dropout(self.narrow(widened_NF)))
        return narrowed_ND
