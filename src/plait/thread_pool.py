"""Work side by side: several threads that each compute on one core.

Threads that share one matrix product wait for each other after each product; threads with work of their own do not.
"""

import os
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, as_completed, wait
from contextlib import contextmanager
from threading import Barrier, Lock
from typing import TypeVar

import torch
from torch import Tensor

__all__ = ["on_one_core", "run_lanes", "share_of", "side_by_side", "start_threads"]

_Piece = TypeVar("_Piece")
_Result = TypeVar("_Result")


def side_by_side(work: Callable[[_Piece], object], pieces: Sequence[_Piece], lanes: int) -> Iterator[_Piece]:
    """Do the work on every piece, several at a time on one thread each; pieces are yielded as they finish.

    A single piece is done in the calling thread, which may use all cores.
    """
    if lanes == 1 or len(pieces) <= 1:
        for piece in pieces:
            work(piece)
            yield piece
        return
    pool = start_threads(lanes)
    waiting: dict[Future[object], _Piece] = {pool.submit(work, piece): piece for piece in pieces}
    try:
        for done in as_completed(waiting):
            done.result()
            yield waiting[done]
    finally:
        for future in waiting:
            future.cancel()


def run_lanes(work: Callable[[int], _Result], count: int, lanes: int) -> list[_Result]:
    """The results of work(0) … work(count - 1); lane l does numbers l, l + lanes, l + 2 × lanes, … in this order."""
    results: dict[int, _Result] = {}

    def run_lane(lane: int) -> None:
        for number in range(lane, count, lanes):
            results[number] = work(number)

    if lanes == 1:
        run_lane(0)
    else:
        running = [start_threads(lanes).submit(run_lane, lane) for lane in range(min(lanes, count))]
        wait(running)  # also after an error: nothing goes on in the background
        for future in running:
            future.result()
    return [results[number] for number in range(count)]


@contextmanager
def on_one_core() -> Iterator[None]:
    """Inside, torch computes on one core in the calling thread.

    After an operation on several cores, torch's own threads spin for milliseconds on cores that lanes need.
    """
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)


def share_of(tensors: Sequence[Tensor], lane: int, lanes: int) -> list[Tensor]:
    """The part of each tensor that belongs to a lane: about as many rows for every lane, in the tensors' memory."""
    return [torch.atleast_1d(tensor).tensor_split(lanes)[lane] for tensor in tensors]


_pools: dict[int, ThreadPoolExecutor] = {}
_pools_lock = Lock()


def _forget_threads() -> None:
    """In a forked child: threads do not survive a fork, and the lock may have been held."""
    global _pools_lock
    _pools.clear()
    _pools_lock = Lock()


os.register_at_fork(after_in_child=_forget_threads)


def start_threads(count: int) -> ThreadPoolExecutor:
    """Threads that each compute on one core, started once per process.

    torch has one global number of threads for threads that start later; it is restored as soon as these have started.
    """
    with _pools_lock:
        if count not in _pools:
            before = torch.get_num_threads()
            pool = ThreadPoolExecutor(count, "plait", initializer=_use_one_core)
            started = Barrier(count)
            list(pool.map(lambda _: started.wait(), range(count)))
            torch.set_num_threads(before)
            _pools[count] = pool
        return _pools[count]


def _use_one_core() -> None:
    """Let torch use one core in the calling thread."""
    torch.get_num_threads()  # on first use in a thread, torch sets the global number; that must not come after our own
    torch.set_num_threads(1)
