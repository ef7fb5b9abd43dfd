"""Layers between the pooled embeddings and every head.

S texts, D width.
"""

from typing import Annotated

import torch
from annotated_types import Ge, Lt
from torch import Tensor, nn

__all__ = ["SharedTanh"]


class SharedTanh(nn.Module):
    """tanh(linear(x)), with optional dropout (robust-embeddings, CL)."""

    def __init__(self, width: int, *, dropout: Annotated[float, Ge(0), Lt(1)] = 0.0) -> None:
        super().__init__()
        self.linear = nn.Linear(width, width)
        self.dropout = nn.Dropout(dropout)

    def forward(self, pooled_SD: Tensor) -> Tensor:
        """Embeddings (S, D) → (S, D)."""
        shared_SD: Tensor = self.dropout(torch.tanh(self.linear(pooled_SD)))
        return shared_SD
