"""Heads that read one sentence.

B batch, D width, C outputs.
"""

import torch.nn.functional as F
from torch import Tensor, nn

from plait.heads.head import Head, Size

__all__ = ["Linear", "UnitLinear"]


class Linear(Head):
    """Dropout, then one linear layer to the outputs."""

    reads = "single"
    output_layer = "linear"

    def __init__(self, size: Size) -> None:
        super().__init__()
        self.dropout = nn.Dropout(size.dropout)
        self.linear = nn.Linear(size.width, size.outputs)

    def forward(self, text_BD: Tensor) -> Tensor:
        """Embeddings (B, D) → outputs (B, C)."""
        outputs_BC: Tensor = self.linear(self.dropout(text_BD))
        return outputs_BC


class UnitLinear(Linear):
    """The same on the embedding at unit length, whose direction is what sentence encoders are trained for."""

    def forward(self, text_BD: Tensor) -> Tensor:
        """Embeddings (B, D) → outputs (B, C)."""
        return super().forward(F.normalize(text_BD, dim=-1))
