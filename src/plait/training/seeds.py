"""Random numbers that follow from a text such as seed/stage/step/task."""

import hashlib
from collections.abc import Iterator
from contextlib import contextmanager

import torch

__all__ = ["seed_number", "seeded"]


def seed_number(seed: str) -> int:
    return int.from_bytes(hashlib.sha256(seed.encode()).digest()[:8], "big") >> 1


@contextmanager
def seeded(seed: str, device: torch.device) -> Iterator[None]:
    """Inside, torch's random numbers follow from this seed; outside, they are untouched."""
    devices = [device] if device.type == "cuda" else []
    with torch.random.fork_rng(devices=devices):
        torch.manual_seed(seed_number(seed))
        yield
