"""Heads that read one sentence.

B batch, D width, C outputs.
"""

import torch.nn.functional as F
from torch import Tensor, nn

from plait.heads.head import Head, Size

__all__ = ["Linear"]


class Linear(Head):
    """Dropout, then one linear layer to the outputs; with `normalise`, of the embedding at unit length."""

    reads = "single"
    output_layer = "linear"

    def __init__(self, size: Size, *, normalise: bool = False) -> None:
        super().__init__()
        self.normalise = normalise
        self.dropout = nn.Dropout(size.dropout)
        self.linear = nn.Linear(size.width, size.outputs)

    def forward(self, text_BD: Tensor) -> Tensor:
        """Embeddings (B, D) → outputs (B, C)."""
        if self.normalise:
            text_BD = F.normalize(text_BD, dim=-1)
        outputs_BC: Tensor = self.linear(self.dropout(text_BD))
        return outputs_BC
