"""One bit of one file is other than it was written: it is found, with the name of the file, or it changes nothing."""

import random
from pathlib import Path

from faults.bench import Bench
from faults.damage import TREES, judge

__all__ = ["check"]

ROW = "bit_flips"


def flip(path: Path, chance: random.Random) -> None:
    data = bytearray(path.read_bytes())
    data[chance.randrange(len(data))] ^= 1 << chance.randrange(8)
    path.write_bytes(data)


def check(bench: Bench, number: int) -> str:
    """Flip a bit in a file, each file of a tree equally often."""
    name = list(TREES)[number % len(TREES)]
    chance = bench.chance(ROW, number)

    def damage(folder: Path, files: list[Path]) -> Path:
        path = chance.choice([path for path in files if path.stat().st_size])
        flip(path, chance)
        return path

    return judge(bench, name, ROW, number, damage)
