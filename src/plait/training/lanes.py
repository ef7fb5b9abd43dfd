"""Training side by side: every lane is a thread with the encoder and gradients of its own.

The lanes share the weights. Each encodes a part of a batch and backpropagates it; then their gradients are summed in
the order of the lanes, so that the same number of lanes always gives the same bits.
"""

import copy
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import TypeVar

import torch
from torch import Tensor, nn

from plait.encoder.bert import Encoder
from plait.model.model import Model
from plait.thread_pool import run_lanes, share_of

__all__ = ["Lanes"]

_Result = TypeVar("_Result")


class Lanes:
    """The encoder of a model, once per thread, and the sum of the gradients."""

    def __init__(self, model: Model, count: int | None = None) -> None:
        """By default as many lanes as torch uses threads, and a single one on a GPU."""
        self._on_cpu = model.device.type == "cpu"
        self.count = count or (torch.get_num_threads() if self._on_cpu else 1)
        self._model = model
        self.encoders = [model.encoder, *(_twin(model.encoder) for _ in range(self.count - 1))]
        self._table = _TableGradient(model.encoder.tokens.weight)

    def run(self, work: Callable[[int], _Result], count: int, /) -> list[_Result]:
        """The results of work(0) … work(count - 1); number n uses the encoder of lane n % lanes."""
        return run_lanes(work, count, self.count)

    def train(self, mode: bool) -> None:
        """Switch dropout on or off in all lanes, as in the model."""
        for encoder in self.encoders[1:]:
            encoder.train(mode)

    @contextmanager
    def separate_gradients(self) -> Iterator[None]:
        """Gradients start from zero inside; afterwards the lanes are summed and added to the gradients from before.

        So the parts of a task are summed before they are added to other tasks, which gives the same bits as
        `GradientRows`.
        """
        trained = [parameter for parameter in self._model.parameters() if parameter.requires_grad]
        before = [parameter.grad for parameter in trained]
        for parameter in trained:
            parameter.grad = None
        for encoder in self.encoders:
            encoder.tokens.sparse = self._on_cpu
        yield
        for encoder in self.encoders:
            encoder.tokens.sparse = False
        self._sum_lanes()
        for parameter, gradient in zip(trained, before, strict=True):
            if parameter.grad is not None and parameter.grad.is_sparse:
                parameter.grad = self._table.add(gradient, parameter.grad)
            elif gradient is not None:
                parameter.grad = gradient if parameter.grad is None else gradient.add_(parameter.grad)

    def clip_gradients(self, parameters: Sequence[nn.Parameter], limit: float | None) -> Tensor:
        """Scale all gradients down until their norm is at most `limit`; their norm before that."""
        gradients = [parameter.grad for parameter in parameters if parameter.grad is not None]
        shares = [share_of(gradients, lane, self.count) for lane in range(self.count)]
        norms = self.run(lambda lane: nn.utils.get_total_norm(shares[lane], foreach=True), self.count)
        norm = nn.utils.get_total_norm(norms) if self.count > 1 else norms[0]
        if limit is not None and (factor := limit / (norm + 1e-6)) < 1:
            self.run(lambda lane: torch._foreach_mul_(shares[lane], factor), self.count)
        return norm

    def _sum_lanes(self) -> None:
        """Add the gradients of the other lanes to those of the first, each parameter in one of the threads."""
        if self.count == 1:
            return
        groups = list(zip(*(encoder.parameters() for encoder in self.encoders), strict=True))

        def sum_share(share: int) -> None:
            with torch.no_grad():
                for first, *others in groups[share :: self.count]:
                    for other in others:
                        if other.grad is not None:
                            first.grad = other.grad if first.grad is None else first.grad.add_(other.grad)
                            other.grad = None

        self.run(sum_share, self.count)


class _TableGradient:
    """The gradient of the token table: half of all weights, of which a batch reaches few rows.

    Lanes give it as a sparse tensor. It is added to one dense buffer, in which only the rows of the step before are
    set to zero.
    """

    def __init__(self, table: Tensor) -> None:
        self._buffer = torch.zeros_like(table, requires_grad=False) if table.requires_grad else None
        self._reached = torch.zeros(0, dtype=torch.int64)

    def add(self, before: Tensor | None, sparse: Tensor) -> Tensor:
        """The sum of the gradient from before, if there is one, and a sparse one."""
        assert self._buffer is not None, "a frozen table has no gradient"
        sparse = sparse.coalesce()
        rows, values = sparse.indices()[0], sparse.values()
        if before is None:
            before = self._buffer.index_fill_(0, self._reached, 0.0)
            self._reached = rows
        else:
            self._reached = torch.cat([self._reached, rows])
        return before.index_add_(0, rows, values)


def _twin(encoder: Encoder) -> Encoder:
    """An encoder with the same weights in the same memory, and gradients of its own."""
    shared = {
        id(weight): nn.Parameter(weight.detach(), requires_grad=weight.requires_grad) for weight in encoder.parameters()
    }
    return copy.deepcopy(encoder, shared)
