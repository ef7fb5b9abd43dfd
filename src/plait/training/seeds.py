"""Random numbers that follow from a text such as seed/stage/step/task."""

import hashlib
from collections.abc import Iterator
from contextlib import contextmanager

import torch

from plait.encoder.cpu.dropout import masks_from

__all__ = ["seed_number", "seeded", "seeded_encoder"]


def seed_number(seed: str) -> int:
    return int.from_bytes(hashlib.sha256(seed.encode()).digest()[:8], "big") >> 1


@contextmanager
def seeded(seed: str, device: torch.device) -> Iterator[None]:
    """Inside, torch's random numbers follow from this seed; outside, they are untouched."""
    devices = [device] if device.type == "cuda" else []
    with torch.random.fork_rng(devices=devices):
        if device.type == "cpu":  # torch.manual_seed would also record this place for each kind of GPU that is absent
            torch.default_generator.manual_seed(seed_number(seed))
        else:
            torch.manual_seed(seed_number(seed))
        yield


@contextmanager
def seeded_encoder(seed: str, device: torch.device) -> Iterator[None]:
    """Inside, the dropout of an encoder follows from this seed; on a CPU, other threads are not affected."""
    if device.type == "cpu":
        with masks_from(torch.Generator().manual_seed(seed_number(seed))):
            yield
    else:
        with seeded(seed, device):
            yield
