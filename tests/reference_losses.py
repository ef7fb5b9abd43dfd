"""The losses of sentence-transformers as functions of embeddings."""

from collections.abc import Callable

import torch
from torch import Tensor, nn


class GivenEmbeddings(nn.Module):
    """A model of sentence-transformers whose embeddings are given."""

    def forward(self, features: dict[str, Tensor]) -> dict[str, Tensor]:
        return features


def on_embeddings(loss: type[nn.Module], label_B: Tensor | None = None, **options: object) -> Callable[..., Tensor]:
    """A loss of sentence-transformers that takes the embeddings (B, D) of each side."""
    built, labels = loss(GivenEmbeddings(), **options), torch.empty(0) if label_B is None else label_B

    def function(*sides_BD: Tensor) -> Tensor:
        value: Tensor = built([{"sentence_embedding": side_BD} for side_BD in sides_BD], labels)
        return value

    return function
