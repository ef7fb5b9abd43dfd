"""A layer common to all heads, between the pooled output and each of them.

S texts, D width.
"""

from typing import Annotated

import torch
from annotated_types import Ge, Lt
from torch import Tensor, nn

__all__ = ["SharedTanh"]


class SharedTanh(nn.Module):
    """tanh(linear(x)), with dropout where it is asked for (robust-embeddings, CL)."""

    def __init__(self, width: int, *, dropout: Annotated[float, Ge(0), Lt(1)] = 0.0) -> None:
        super().__init__()
        self.linear = nn.Linear(width, width)
        self.dropout = nn.Dropout(dropout)

    def forward(self, pooled_SD: Tensor) -> Tensor:
        """Embeddings (S, D) → (S, D)."""
        shared_SD: Tensor = self.dropout(torch.tanh(self.linear(pooled_SD)))
        return shared_SD
