"""How many threads a run uses: the number that is fastest on this machine, found by measuring."""

import os
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import torch

from plait.encoder.bert import Layer
from plait.encoder.config import EncoderConfig
from plait.encoder.packing import Group, Packed
from plait.measurement_cache import cached_measurement
from plait.model.model import Model
from plait.progress import Progress
from plait.thread_pool import run_lanes
from plait.training.seeds import seeded_encoder

__all__ = ["choose_threads", "measure_threads", "restore_threads"]

_TEXTS, _LENGTH = 32, 32  # of a batch
_ROUNDS = 5
_MARGIN = 1.05  # how much faster more threads must be: they take cores from other programs


@contextmanager
def restore_threads() -> Iterator[None]:
    """Restore torch's number of threads afterwards."""
    before = torch.get_num_threads()
    try:
        yield
    finally:
        torch.set_num_threads(before)


def choose_threads(model: Model, progress: Progress) -> None:
    """Let torch use the fastest number of threads, measured once; OMP_NUM_THREADS takes precedence."""
    if model.device.type != "cpu" or "OMP_NUM_THREADS" in os.environ or torch.get_num_threads() == 1:
        return
    config = model.encoder.config
    counts = _thread_counts(torch.get_num_threads())
    about = f"{config.width} wide, {config.hidden} hidden, {counts[-1]} threads at most"
    seconds = dict(
        zip(counts, cached_measurement("training step", about, lambda: measure_threads(config, counts)), strict=True)
    )
    best = next(count for count in counts if seconds[count] <= min(seconds.values()) * _MARGIN)
    torch.set_num_threads(best)
    others = ", ".join(
        f"{_threads(count)} {seconds[count] / seconds[best]:.1f} times as long" for count in counts if count != best
    )
    progress.note(f"threads: {best}, the fastest when measured ({others}); `threads` sets another number")


def _thread_counts(most: int) -> list[int]:
    """1, 2, 4 and so on, and the maximum."""
    return sorted({*(2**power for power in range(most.bit_length()) if 2**power <= most), most})


def measure_threads(config: EncoderConfig, counts: Sequence[int]) -> list[float]:
    """The seconds in which each number of threads trains a layer on a batch, each thread on a part, as `Lanes` do."""
    with torch.random.fork_rng():
        layers = [Layer(config) for _ in range(max(counts))]
    rounds = [[_train_side_by_side(layers[:count], config.width) for count in counts] for _ in range(_ROUNDS)]
    return [min(seconds) for seconds in zip(*rounds, strict=True)]


def _train_side_by_side(layers: Sequence[Layer], width: int) -> float:
    """The seconds for a batch that equal layers divide among themselves."""
    group = Group(-(-_TEXTS // len(layers)), _LENGTH)
    nothing_N = torch.zeros(0, dtype=torch.int64)
    packed = Packed(nothing_N, nothing_N, nothing_N, (group,), torch.arange(group.count))
    states_ND = torch.ones(group.count * group.length, width)

    def train_part(lane: int) -> None:
        with seeded_encoder("0", states_ND.device):
            layers[lane](states_ND, packed).sum().backward()

    began = time.perf_counter()
    run_lanes(train_part, len(layers), len(layers))
    return time.perf_counter() - began


def _threads(count: int) -> str:
    return "1 takes" if count == 1 else f"{count} take"
