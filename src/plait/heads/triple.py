"""Heads that read three sentences: an anchor, a positive and a hard negative.

B batch, D width.
"""

from typing import Annotated

import torch.nn.functional as F
from annotated_types import Gt
from torch import Tensor

from plait.heads.head import Head, Size

__all__ = ["Nearer"]


class Nearer(Head):
    """scale × (cos(a, b) − cos(a, c)), without weights: is b or c closer to a?

    At scale 1/τ its sigmoid is the probability that `simcse_supervised` assigns to b when c is the only alternative.
    """

    reads = "triple"
    kinds = ("triplets",)
    after_shared_layer = False

    def __init__(self, size: Size, *, scale: Annotated[float, Gt(0)] = 20.0) -> None:
        super().__init__()
        self.scale = scale

    def forward(self, a_BD: Tensor, b_BD: Tensor, c_BD: Tensor) -> Tensor:
        """Three embeddings (B, D) → an output (B, 1), positive where b is closer."""
        closeness_B = F.cosine_similarity(a_BD, b_BD, dim=-1) - F.cosine_similarity(a_BD, c_BD, dim=-1)
        return self.scale * closeness_B.unsqueeze(-1)
