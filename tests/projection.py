"""Gradient surgery on the gradients themselves, as the paper states it."""

from collections.abc import Sequence

import torch
from torch import Tensor


def project_and_average(gradients_KP: Tensor, orders: Sequence[Sequence[int]]) -> Tensor:
    """The update (P,) of algorithm 1 of Yu et al. 2020."""
    projected = []
    for i, order in enumerate(orders):
        g_P = gradients_KP[i].clone()
        for j in order:
            if j != i and (dot := g_P @ gradients_KP[j]) < 0:
                g_P -= dot / (gradients_KP[j] @ gradients_KP[j]) * gradients_KP[j]
        projected.append(g_P)
    return torch.stack(projected).mean(dim=0)
