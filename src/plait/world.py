"""The processes that train one model together; a single one by default, several under torchrun.

All processes read the same data, follow the same plan and keep equal weights. Of every batch each encodes a part; the
embeddings are exchanged, so that each process computes the loss of the whole batch, whatever the loss, and
backpropagates its own part. The sum of their gradients is that of one process. Only the first process writes.
"""

import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timedelta
from typing import TypeVar

import torch
from torch import Tensor, nn
from torch import distributed as dist

from plait.errors import PlaitError, RunError

__all__ = ["Processes", "World", "find_world", "joined_world"]

_Part = TypeVar("_Part")
_PATIENCE = timedelta(days=7)  # the first process may work alone for long; a process that dies is noticed at once


@dataclass(frozen=True)
class World:
    """One process that trains alone. Several processes override the methods that communicate."""

    rank: int = 0
    size: int = 1

    @property
    def is_main(self) -> bool:
        """Whether this process writes files and reports progress."""
        return self.rank == 0

    def share(self, count: int) -> range:
        """The items that this process works on, of `count` that all processes divide among themselves."""
        return range(count * self.rank // self.size, count * (self.rank + 1) // self.size)

    def gather(self, part: _Part) -> list[_Part]:
        """What every process computed, in the order of their ranks."""
        return [part]

    def gather_rows(self, rows: Tensor, counts: Sequence[int]) -> Tensor:
        """The rows of all processes, of which each has `counts[rank]`, in the order of their ranks."""
        return rows

    def sum_gradients(self, parameters: Iterable[nn.Parameter]) -> None:
        """Sum the gradients over all processes; one that no process has stays None."""

    def sum_row(self, row: Tensor, reached: list[bool]) -> list[bool]:
        """Sum a row of gradients over all processes, in place; returns which weights any of them reached."""
        return reached

    def all(self, flag: bool) -> bool:
        """Whether a condition holds in every process, so that all of them stop together."""
        return flag

    def from_main(self, value: _Part) -> _Part:
        """What the first process has."""
        return value

    def copy_main(self, modules: Iterable[nn.Module]) -> None:
        """Give every process the weights and buffers of the first one."""

    def wait(self) -> None:
        """Wait until every process has come so far: what the first one wrote can then be read."""

    def all_or_none(self, work: Callable[[], _Part]) -> _Part:
        """The result of some work that every process does; if it fails in one of them, every process raises that."""
        return work()


@dataclass(frozen=True)
class Processes(World):
    """One of several processes that torch.distributed connects."""

    def gather(self, part: _Part) -> list[_Part]:
        parts: list[_Part | None] = [None] * self.size
        with _named_failure():
            dist.all_gather_object(parts, part)
        return parts  # type: ignore[return-value]  # all are filled in

    def gather_rows(self, rows: Tensor, counts: Sequence[int]) -> Tensor:
        padded = rows.new_zeros(max(counts), *rows.shape[1:])
        padded[: len(rows)] = rows
        received = [torch.empty_like(padded) for _ in range(self.size)]
        with _named_failure():
            dist.all_gather(received, padded)
        return torch.cat([part[:count] for part, count in zip(received, counts, strict=True)])

    def sum_gradients(self, parameters: Iterable[nn.Parameter]) -> None:
        listed = list(parameters)
        if not listed:
            return
        reached = self._any_of([parameter.grad is not None for parameter in listed], listed[0].device)
        summed = [parameter for parameter, there in zip(listed, reached, strict=True) if there]
        pieces = [_flat(parameter) for parameter in summed]
        if not pieces:
            return
        row = torch.cat(pieces)
        self._sum(row)
        for parameter, part in zip(summed, row.split([len(piece) for piece in pieces]), strict=True):
            parameter.grad = part.view_as(parameter)

    def sum_row(self, row: Tensor, reached: list[bool]) -> list[bool]:
        self._sum(row)
        return self._any_of(reached, row.device)

    def all(self, flag: bool) -> bool:
        return not self._any_of([not flag], torch.device("cpu"))[0]

    def from_main(self, value: _Part) -> _Part:
        sent = [value]
        with _named_failure():
            dist.broadcast_object_list(sent, src=0)
        return sent[0]

    def copy_main(self, modules: Iterable[nn.Module]) -> None:
        with torch.no_grad(), _named_failure():
            for module in modules:
                for tensor in module.state_dict().values():
                    dist.broadcast(tensor, src=0)

    def wait(self) -> None:
        with _named_failure():
            dist.barrier()

    def all_or_none(self, work: Callable[[], _Part]) -> _Part:
        result: _Part | None = None
        error: PlaitError | None = None
        try:
            result = work()
        except PlaitError as found:
            error = found
        if failed := next((found for found in self.gather(error) if found is not None), None):
            failed.is_reported = not self.is_main
            raise failed
        return result  # type: ignore[return-value]  # there was no error

    def _any_of(self, flags: Sequence[bool], device: torch.device) -> list[bool]:
        """For each of some conditions, whether it holds in any process."""
        counts = torch.tensor(flags, dtype=torch.int32, device=device)
        self._sum(counts)
        return (counts > 0).tolist()

    def _sum(self, tensor: Tensor) -> None:
        with _named_failure():
            dist.all_reduce(tensor)


def _flat(parameter: nn.Parameter) -> Tensor:
    """The gradient of a parameter as one row, zeros if this process has none."""
    return torch.zeros_like(parameter).view(-1) if parameter.grad is None else parameter.grad.reshape(-1)


@contextmanager
def _named_failure() -> Iterator[None]:
    """Say in plain words that another process is gone."""
    try:
        yield
    except RuntimeError as error:
        raise RunError(
            "another process of this training has ended or cannot be reached; look for its message, and resume with "
            f"the same command and --resume RUN ({' '.join(str(error).split())[:200]})"
        ) from None


def find_world() -> World:
    """The processes that this one is connected with."""
    if dist.is_available() and dist.is_initialized() and dist.get_world_size() > 1:
        return Processes(dist.get_rank(), dist.get_world_size())
    return World()


@contextmanager
def joined_world() -> Iterator[World]:
    """Inside, this process is connected with the others that torchrun started, if it did; gloo on CPU, NCCL on GPU."""
    if int(os.environ.get("WORLD_SIZE", 1)) == 1 or dist.is_initialized():
        yield find_world()
        return
    backend = "gloo"
    if torch.cuda.is_available():
        torch.cuda.set_device(int(os.environ.get("LOCAL_RANK", 0)))
        backend = "cpu:gloo,cuda:nccl"
    dist.init_process_group(backend, timeout=_PATIENCE)
    try:
        yield find_world()
    finally:
        dist.destroy_process_group()
