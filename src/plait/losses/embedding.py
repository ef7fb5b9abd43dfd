"""Losses of embeddings: the embeddings of a batch in, one number out.

B batch, D width.
"""

from typing import Annotated

import torch
import torch.nn.functional as F
from annotated_types import Gt
from torch import Tensor

__all__ = ["simcse_supervised"]


def simcse_supervised(
    anchor_BD: Tensor, positive_BD: Tensor, negative_BD: Tensor, *, temperature: Annotated[float, Gt(0)] = 0.05
) -> Tensor:
    """Each anchor must find its positive among all positives and hard negatives of the batch (Gao 2021, eq. 5)."""
    if not anchor_BD.shape == positive_BD.shape == negative_BD.shape:
        shapes = ", ".join(str(tuple(side.shape)) for side in (anchor_BD, positive_BD, negative_BD))
        raise ValueError(f"simcse_supervised needs equal shapes, got {shapes}")
    others_2BD = F.normalize(torch.cat([positive_BD, negative_BD]), dim=-1)
    scores_B2B = F.normalize(anchor_BD, dim=-1) @ others_2BD.T / temperature
    return F.cross_entropy(scores_B2B, torch.arange(len(scores_B2B), device=scores_B2B.device))
