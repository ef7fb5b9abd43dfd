"""The gradients of a loss over a whole batch, in the memory of one chunk of it (gradient caching, Gao 2021).

B batch, b rows of a chunk.
"""

from collections.abc import Callable, Sequence

import torch
from torch import Tensor

__all__ = ["cached_backward"]


def cached_backward(chunks: Sequence[Callable[[], Tensor]], measure: Callable[[Tensor], Tensor]) -> Tensor:
    """The loss over the embeddings of all chunks; adds the same gradients as one graph over the whole batch.

    A chunk is a function that encodes its rows (b, …); it must give the same bits on every call, dropout included.
    `measure` turns the embeddings of all chunks (B, …) into the loss. Every chunk but the last is encoded twice: first
    without a graph, to find the gradient with respect to its embeddings, then with one, to backpropagate it.
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
    if embeddings.grad is None:  # the loss does not depend on the embeddings
        return loss.detach()
    gradients = embeddings.grad.split([len(part) for part in parts])
    _backpropagate(parts.pop(), gradients[-1])
    for encode, gradient in zip(others, gradients, strict=False):
        _backpropagate(encode(), gradient)
    return loss.detach()


def _backpropagate(embeddings: Tensor, gradient: Tensor) -> None:
    """Backpropagate through the graph of a chunk, unless its encoder is frozen."""
    if embeddings.requires_grad:
        embeddings.backward(gradient)
