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
    those of all chunks (B, …) into the loss. Every chunk but the last is encoded twice: first without a graph, to find
    the gradient of each embedding, then with one, to pass that gradient on.
    """
    *others, last = chunks
    with torch.no_grad():
        parts = [encode() for encode in others]
    parts.append(last())
    embeddings = torch.cat([part.detach() for part in parts]).requires_grad_()
    loss = measure(embeddings)
    if not loss.requires_grad:
        return loss
    loss.backward()
    if embeddings.grad is None:  # the loss looks at nothing that was encoded
        return loss.detach()
    gradients = embeddings.grad.split([len(part) for part in parts])
    pass_on(parts.pop(), gradients[-1])
    for encode, gradient in zip(others, gradients, strict=False):
        pass_on(encode(), gradient)
    return loss.detach()


def pass_on(embeddings: Tensor, gradient: Tensor) -> None:
    """Go back through the graph of a chunk, if it learns."""
    if embeddings.requires_grad:
        embeddings.backward(gradient)
