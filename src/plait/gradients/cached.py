"""The gradients of a loss over a whole batch, at the memory of a part of it (gradient caching, Gao 2021).

B batch, b rows of a chunk.
"""

from collections.abc import Callable, Sequence

import torch
from torch import Tensor

__all__ = ["cached_backward"]


def cached_backward(chunks: Sequence[Callable[[], Tensor]], measure: Callable[[Tensor], Tensor]) -> Tensor:
    """The loss of all chunks' embeddings at once; gradients are added as if one graph had held them all.

    A chunk encodes its rows (b, …) and must give the same bits whenever it is called, dropout included; `measure` turns
    those of all chunks (B, …) into the loss. Every chunk is encoded twice: first without a graph, to find the gradient
    of each embedding, then with one, to pass that gradient on.
    """
    with torch.no_grad():
        parts = [encode() for encode in chunks]
    embeddings = torch.cat(parts).requires_grad_()
    loss = measure(embeddings)
    if not loss.requires_grad:
        return loss
    loss.backward()
    if embeddings.grad is None:  # the loss looks at nothing that was encoded
        return loss.detach()
    for encode, gradient in zip(chunks, embeddings.grad.split([len(part) for part in parts]), strict=True):
        again = encode()
        if again.requires_grad:
            again.backward(gradient)
    return loss.detach()
