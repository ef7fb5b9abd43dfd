"""Independent pieces of work, side by side on several threads.

Threads that share one product wait for each other after each; threads that each have a product of their own do not.
"""

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from typing import TypeVar

import torch

__all__ = ["side_by_side"]

Piece = TypeVar("Piece")


def side_by_side(work: Callable[[Piece], object], pieces: Sequence[Piece], lanes: int) -> Iterator[Piece]:
    """Do the work on every piece; each is given back when it is done. A single piece has all threads to itself."""
    if lanes == 1 or len(pieces) == 1:
        for piece in pieces:
            work(piece)
            yield piece
        return
    threads = torch.get_num_threads()
    pool = ThreadPoolExecutor(min(lanes, len(pieces)), initializer=torch.set_num_threads, initargs=(1,))
    try:
        waiting = {pool.submit(work, piece): piece for piece in pieces}
        for done in as_completed(waiting):
            done.result()
            yield waiting[done]
    finally:
        pool.shutdown(cancel_futures=True)
        torch.set_num_threads(threads)  # what a thread begins with that others start later
