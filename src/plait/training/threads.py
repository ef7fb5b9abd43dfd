"""How many threads a run uses: the number that is fastest on this machine, found by trying."""

import os
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import torch

from plait.encoder.bert import Layer
from plait.encoder.config import EncoderConfig
from plait.encoder.packing import Group, Packed
from plait.model.model import Model
from plait.model.remember import remembered
from plait.model.watch import Watcher

__all__ = ["choose_threads", "measure_threads", "threads_restored"]

GROUP = Group(count=16, length=32)  # the tokens of a small batch
ROUNDS = 5
MARGIN = 1.05  # more threads must be this much faster: they take cores from others


@contextmanager
def threads_restored() -> Iterator[None]:
    """Whatever number of threads is set meanwhile, the one from before comes back."""
    before = torch.get_num_threads()
    try:
        yield
    finally:
        torch.set_num_threads(before)


def choose_threads(model: Model, watcher: Watcher) -> None:
    """Let torch use the best number of threads, as it was found once; OMP_NUM_THREADS decides where it is set."""
    if model.device.type != "cpu" or "OMP_NUM_THREADS" in os.environ or torch.get_num_threads() == 1:
        return
    config = model.encoder.config
    counts = thread_counts(torch.get_num_threads())
    about = f"{config.width} wide, {config.hidden} hidden, {counts[-1]} threads at most"
    seconds = dict(
        zip(counts, remembered("training step", about, lambda: measure_threads(config, counts)), strict=True)
    )
    best = next(count for count in counts if seconds[count] <= min(seconds.values()) * MARGIN)
    torch.set_num_threads(best)
    others = ", ".join(
        f"{count} take {seconds[count] / seconds[best]:.1f} times as long" for count in counts if count != best
    )
    watcher.note(f"threads: {best}, the fastest when it was measured ({others}); --threads N sets another number")


def thread_counts(most: int) -> list[int]:
    """1, 2, 4 and so on, and the most."""
    return sorted({*(2**power for power in range(most.bit_length()) if 2**power <= most), most})


def measure_threads(config: EncoderConfig, counts: Sequence[int]) -> list[float]:
    """The seconds of a layer's pass forwards and backwards with each number of threads, tried in turns."""
    best = [float("inf")] * len(counts)
    with torch.random.fork_rng(), threads_restored():
        layer = Layer(config)
        nothing_N = torch.zeros(0, dtype=torch.int64)
        packed = Packed(nothing_N, nothing_N, nothing_N, (GROUP,), torch.arange(GROUP.count))
        states_ND = torch.randn(GROUP.count * GROUP.length, config.width)
        for _ in range(ROUNDS):
            for place, count in enumerate(counts):
                torch.set_num_threads(count)
                began = time.perf_counter()
                layer(states_ND, packed).sum().backward()
                best[place] = min(best[place], time.perf_counter() - began)
    return best
