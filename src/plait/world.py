"""The processes that train one model together; a single one by default.

Steps, seeds, checks of finite numbers, evaluation and writing ask the world instead of assuming one process.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import TypeVar

from torch import Tensor

__all__ = ["World"]

_Part = TypeVar("_Part")


@dataclass(frozen=True)
class World:
    """One process that trains alone. Several processes override the methods that communicate."""

    rank: int = 0
    size: int = 1

    @property
    def is_main(self) -> bool:
        """Whether this process writes files and reports progress."""
        return self.rank == 0

    def seed(self, seed: str) -> str:
        """The seed of this process: dropout differs between processes, and stays the same for a single one."""
        return seed if self.size == 1 else f"{seed}/rank{self.rank}"

    def share(self, count: int) -> range:
        """The items that this process works on, of `count` that all processes divide among themselves."""
        return range(count * self.rank // self.size, count * (self.rank + 1) // self.size)

    def gather(self, part: _Part) -> list[_Part]:
        """What every process computed, in the order of their ranks."""
        return [part]

    def reduce(self, tensors: Iterable[Tensor]) -> None:
        """Sum each tensor over all processes, in place."""

    def all(self, flag: bool) -> bool:
        """Whether a condition holds in every process, so that all of them stop together."""
        return flag
