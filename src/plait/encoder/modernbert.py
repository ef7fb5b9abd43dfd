"""The layers of ModernBERT (Warner 2024): norms come first, and the feed-forward part is gated.

N packed tokens, D width, F hidden width.
"""

import torch.nn.functional as F
from torch import Tensor, nn

from plait.encoder.attention import Distances, attend
from plait.encoder.config import EncoderConfig
from plait.encoder.cpu.dropout import Dropout
from plait.encoder.cpu.linear import CpuLinear
from plait.encoder.packing import Packed

__all__ = ["GatedLayer"]


class GatedLayer(nn.Module):
    """Norm, attention, add; norm, gated feed-forward, add. The first layer follows the norm of the embeddings."""

    def __init__(self, config: EncoderConfig, number: int) -> None:
        super().__init__()
        modern = config.modern
        assert modern is not None, "only ModernBERT has gated layers"
        self.heads = config.heads
        self.attention_dropout = config.attention_dropout
        self.qkv_norm: nn.Module = nn.Identity()
        if number:
            self.qkv_norm = nn.LayerNorm(config.width, eps=config.norm_eps, bias=modern.norm_bias)
        self.qkv = CpuLinear(config.width, 3 * config.width, bias=modern.attention_bias)
        self.mix = CpuLinear(config.width, config.width, bias=modern.attention_bias)
        self.mix_dropout = Dropout(config.attention_dropout)
        self.widen_norm = nn.LayerNorm(config.width, eps=config.norm_eps, bias=modern.norm_bias)
        self.widen = CpuLinear(config.width, 2 * config.hidden, bias=modern.hidden_bias)
        self.narrow = CpuLinear(config.hidden, config.width, bias=modern.hidden_bias)
        self.dropout = Dropout(modern.hidden_dropout)

    def forward(self, states_ND: Tensor, packed: Packed, distances: Distances) -> Tensor:
        """States (N, D) → states (N, D)."""
        drop = self.attention_dropout if self.training else 0.0
        attended_ND = attend(self.qkv(self.qkv_norm(states_ND)), packed, self.heads, drop, distances)
        states_ND = states_ND + self.mix_dropout(self.mix(attended_ND))
        widened_NF, gate_NF = self.widen(self.widen_norm(states_ND)).chunk(2, dim=-1)
        narrowed_ND: Tensor = states_ND + self.narrow(self.dropout(F.gelu(widened_NF) * gate_NF))
        return narrowed_ND
