"""Training side by side: every lane is a thread with the encoder and gradients of its own.

The lanes share the weights. Each encodes a part of a batch and backpropagates it; then their gradients are summed in
the order of the lanes, so that the same number of lanes always gives the same bits.
"""

import copy
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from functools import partial
from typing import TypeVar

import torch
from torch import Tensor, nn

from plait.encoder.bert import Encoder
from plait.model.model import Model
from plait.thread_pool import on_one_core, run_lanes, share_of

__all__ = ["Lanes"]

_Result = TypeVar("_Result")


class Lanes:
    """The encoder of a model, once per thread, and the sum of the gradients."""

    def __init__(self, model: Model, count: int | None = None) -> None:
        """By default as many lanes as torch uses threads, and a single one on a GPU."""
        on_cpu = model.device.type == "cpu"
        self.count = count or (torch.get_num_threads() if on_cpu else 1)
        self._model = model
        self.encoders = [model.encoder, *(_twin(model.encoder) for _ in range(self.count - 1))]
        tables = [encoder.tokens for encoder in self.encoders]
        self._table = _TableGradient(tables) if on_cpu and tables[0].weight.requires_grad else None

    def run(self, work: Callable[[int], _Result], count: int, /) -> list[_Result]:
        """The results of work(0) … work(count - 1); number n uses the encoder of lane n % lanes."""
        return run_lanes(work, count, self.count)

    def train(self, mode: bool) -> None:
        """Switch dropout on or off in all lanes, as in the model."""
        for encoder in self.encoders[1:]:
            encoder.train(mode)

    def free_cores(self) -> AbstractContextManager[None]:
        """Inside, torch leaves all cores but one to the lanes; a single lane has no use for them."""
        return on_one_core() if self.count > 1 else nullcontext()

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
        with self._table.collect() if self._table else nullcontext():
            yield
        self._sum_lanes()
        for parameter, gradient in zip(trained, before, strict=True):
            if gradient is not None:
                parameter.grad = gradient if parameter.grad is None else gradient.add_(parameter.grad)
        if self._table:
            weight = self._model.encoder.tokens.weight
            weight.grad = self._table.add_to(weight.grad)

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
        groups.sort(key=lambda group: group[0].numel())  # so that every share has as many large ones

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

    Every part of a batch gives a sparse tensor. They are added to one dense buffer, in which only the rows of the step
    before are set to zero.
    """

    def __init__(self, tables: Sequence[nn.Embedding]) -> None:
        self._tables = tables  # of the lanes
        self._parts: list[list[Tensor]] = [[] for _ in tables]
        self._buffer = torch.zeros_like(tables[0].weight, requires_grad=False)
        self._reached = torch.zeros(0, dtype=torch.int64)

    @contextmanager
    def collect(self) -> Iterator[None]:
        """Inside, every backward pass leaves its gradient here and not at the table."""

        def move(parts: list[Tensor], weight: Tensor) -> None:
            assert weight.grad is not None, "this is called when there is one"
            parts.append(weight.grad)
            weight.grad = None

        hooks = []
        for table, parts in zip(self._tables, self._parts, strict=True):
            parts.clear()  # after an error
            table.sparse = True
            hooks.append(table.weight.register_post_accumulate_grad_hook(partial(move, parts)))
        try:
            yield
        finally:
            for table, hook in zip(self._tables, hooks, strict=True):
                table.sparse = False
                hook.remove()

    def add_to(self, before: Tensor | None) -> Tensor | None:
        """The gradient from before, if there is one, plus what was collected, in the order of the lanes."""
        parts = [part for lane in self._parts for part in lane]
        for lane in self._parts:
            lane.clear()
        if not parts:
            return before
        values = torch.cat([part._values() for part in parts])
        rows, places = torch.unique(torch.cat([part._indices()[0] for part in parts]), return_inverse=True)
        summed = values.new_zeros(len(rows), values.shape[1]).index_add_(0, places, values)  # token by token
        if before is None:
            before = self._buffer.index_fill_(0, self._reached, 0.0)
            self._reached = rows
        else:
            self._reached = torch.cat([self._reached, rows])
        return before.index_add_(0, rows, summed)


def _twin(encoder: Encoder) -> Encoder:
    """An encoder with the same weights in the same memory, and gradients of its own."""
    shared = {
        id(weight): nn.Parameter(weight.detach(), requires_grad=weight.requires_grad) for weight in encoder.parameters()
    }
    return copy.deepcopy(encoder, shared)
