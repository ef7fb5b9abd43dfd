"""The best models of a run, kept beside the best one: what an ensemble can be made of."""

import math
import os
import shutil
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

__all__ = ["Standing", "best_first", "keep_best"]


@dataclass(frozen=True)
class Standing:
    """A model of a run, by the score that chooses the best."""

    name: str  # epoch3, or step40 inside an epoch
    step: int
    score: float | None  # None: there is no dev data, and the later model is the better one


def best_first(standings: Sequence[Standing]) -> list[Standing]:
    """The higher score first, of equal ones the earlier, as the best model is chosen; what has no number last."""

    def rank(standing: Standing) -> tuple[float, int]:
        if standing.score is None:
            return 0.0, -standing.step
        return (math.inf if math.isnan(standing.score) else -standing.score), standing.step

    return sorted(standings, key=rank)


def keep_best(
    folder: Path, kept: Sequence[Standing], new: Standing, count: int, save: Callable[[Path], None]
) -> list[Standing]:
    """Save the new model if it is one of the best `count`, and remove all others; those that are kept, best first.

    A run that was killed meets its evaluations again, so a model may be gone that its checkpoint still names; it had to
    give way to better ones, which come again.
    """
    there = [standing for standing in kept if standing.step != new.step and (folder / standing.name).is_dir()]
    chosen = best_first([*there, new])[:count]
    if new in chosen:
        save(folder / new.name)
    for path in folder.iterdir() if folder.is_dir() else ():
        if path.name not in {standing.name for standing in chosen}:
            remove(path)
    return chosen


def remove(folder: Path) -> None:
    """Take a model away; under its own name it is whole or gone."""
    aside = folder.with_name(f".{folder.name}.{os.getpid()}.old")
    folder.rename(aside)
    shutil.rmtree(aside)
