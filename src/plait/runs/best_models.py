"""The best models of a run, kept beside the very best one for ensembles."""

import math
import os
import shutil
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

__all__ = ["RankedModel", "rank_models", "update_best_models"]


@dataclass(frozen=True)
class RankedModel:
    """A model of a run, with the score that selects the best."""

    name: str  # epoch3, or step40 within an epoch
    step: int
    score: float | None  # None: there is no dev data, and later models count as better


def rank_models(models: Sequence[RankedModel]) -> list[RankedModel]:
    """Best first: the higher score, then the earlier step; those without a score last, NaN included."""

    def rank(model: RankedModel) -> tuple[float, int]:
        if model.score is None or math.isnan(model.score):
            return math.inf, -model.step
        return -model.score, model.step

    return sorted(models, key=rank)


def update_best_models(
    folder: Path, kept: Sequence[RankedModel], new: RankedModel, count: int, save: Callable[[Path], None]
) -> list[RankedModel]:
    """Save the new model if it is among the best `count`, delete the others, and return those that are kept.

    A run that was killed repeats its evaluations, so a model that its checkpoint names may be gone already: better ones
    had replaced it, and they will come again.
    """
    present = [model for model in kept if model.step != new.step and (folder / model.name).is_dir()]
    chosen = rank_models([*present, new])[:count]
    if new in chosen:
        save(folder / new.name)
    for path in folder.iterdir() if folder.is_dir() else ():
        if path.name not in {model.name for model in chosen}:
            _remove(path)
    return chosen


def _remove(folder: Path) -> None:
    """Delete a model; under its own name it is complete or gone."""
    aside = folder.with_name(f".{folder.name}.{os.getpid()}.old")
    folder.rename(aside)
    shutil.rmtree(aside)
