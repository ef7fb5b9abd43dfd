"""The gradients of a loss over a whole batch that is encoded in parts.

Parts are encoded side by side, and with gradient caching (Gao 2021) only some of their graphs are in memory at a time.

B batch, b rows of a part.
"""

from collections.abc import Callable, Sequence
from typing import Protocol, TypeVar

import torch
from torch import Tensor

__all__ = ["backward_in_parts"]

_Result = TypeVar("_Result")


class _Run(Protocol):
    """The results of work(0) … work(count - 1)."""

    def __call__(self, work: Callable[[int], _Result], count: int, /) -> list[_Result]: ...


def _in_turn(work: Callable[[int], _Result], count: int, /) -> list[_Result]:
    return [work(number) for number in range(count)]


def backward_in_parts(
    parts: Sequence[Callable[[], Tensor]],
    measure: Callable[[Tensor], Tensor],
    *,
    kept: int = 1,
    run: _Run = _in_turn,
    exchange: Callable[[Sequence[Tensor]], tuple[Tensor, int]] | None = None,
) -> Tensor:
    """The loss over the embeddings of all parts; adds the same gradients as one graph over the whole batch.

    A part is a function that encodes its rows (b, …); it must give the same bits on every call, dropout included.
    `measure` turns the embeddings of all parts (B, …) into the loss. The graphs of `kept` parts stay in memory. Every
    other part is encoded twice: first without a graph, to find the gradient with respect to its embeddings, then with
    one, to backpropagate it. If other processes have parts too, `exchange` turns these into the embeddings of all, and
    tells the place of the first row of its own.
    """

    first_kept = max(0, len(parts) - kept)

    def encode(number: int) -> Tensor:
        with torch.set_grad_enabled(number >= first_kept):
            return parts[number]()

    encoded = run(encode, len(parts))
    own = [part.detach() for part in encoded]
    embeddings, start = exchange(own) if exchange else (torch.cat(own), 0)
    embeddings.requires_grad_()
    loss = measure(embeddings)
    if not loss.requires_grad:
        return loss
    loss.backward()
    if embeddings.grad is None:  # the loss does not depend on the embeddings
        return loss.detach()
    gradients = embeddings.grad[start : start + sum(map(len, own))].split([len(part) for part in own])
    graphs = encoded[first_kept:]
    del encoded, own

    def backpropagate_kept(place: int) -> None:
        _backpropagate(graphs[place], gradients[first_kept + place])
        graphs[place] = embeddings  # frees the graph

    run(backpropagate_kept, len(graphs))
    run(lambda number: _backpropagate(parts[number](), gradients[number]), first_kept)
    return loss.detach()


def _backpropagate(embeddings: Tensor, gradient: Tensor) -> None:
    """Backpropagate through the graph of a part, unless its encoder is frozen."""
    if embeddings.requires_grad:
        embeddings.backward(gradient)
