"""What a model directory tells of its making."""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from plait.errors import ModelError

__all__ = ["ENSEMBLE", "About", "find_model", "is_ensemble", "portable", "portable_task", "read_about", "recipe_tasks"]

ENSEMBLE = "ensemble"  # the kind of directory that holds several models


@dataclass(frozen=True)
class About:
    """The recipe, the data and the scores behind a model."""

    recipe: dict[str, Any] = field(default_factory=dict)  # files by their name alone
    data: dict[str, Any] = field(default_factory=dict)  # task → split → files with rows and sha256
    scores: dict[str, Any] = field(default_factory=dict)  # task → metric → value, on dev
    baselines: dict[str, Any] = field(default_factory=dict)  # split → baseline → task → value
    step: int = 0
    kept: dict[str, Any] = field(default_factory=dict)  # task of an earlier model → where its data came from
    members: list[dict[str, Any]] = field(default_factory=list)  # the models whose mean it is


def portable(recipe: dict[str, Any]) -> dict[str, Any]:
    """A recipe without the folders of the machine that it ran on."""
    stages = [portable_stage(stage) for stage in recipe.get("stages", ())]
    encoder = recipe["encoder"]
    # A directory is named by its whole path; whether it is still there must not matter.
    name = Path(encoder).name if Path(encoder).is_absolute() else encoder
    return {**recipe, "encoder": name, "stages": stages} if stages else {**portable_stage(recipe), "encoder": name}


def portable_stage(stage: dict[str, Any]) -> dict[str, Any]:
    """The same of a recipe's own tasks, or of one of its stages."""
    return {**stage, "tasks": {name: portable_task(task) for name, task in stage["tasks"].items()}}


def portable_task(task: dict[str, Any]) -> dict[str, Any]:
    """A task of a recipe with its files by their names alone."""

    def name(source: Any) -> Any:
        if isinstance(source, dict):
            return {**source, "file": name(source["file"])}
        return source if source.startswith("hub:") else Path(source).name

    splits = {split: task[split] for split in ("train", "dev", "test")}
    return {
        **task,
        **{split: given if isinstance(given, float) else [name(x) for x in given] for split, given in splits.items()},
    }


def recipe_tasks(recipe: Mapping[str, Any]) -> dict[str, Any]:
    """The block of each task in a complete recipe; of several stages, the last that trains it counts."""
    stages = recipe.get("stages") or [recipe]
    return {name: task for stage in stages for name, task in stage["tasks"].items()}


def find_model(source: str | Path) -> Path | None:
    """The directory of a plait model: itself, or the best of a run; None for anything else."""
    for folder in (Path(source), Path(source) / "best"):
        if (folder / "plait.json").is_file():
            return folder
    if (Path(source) / "manifest.json").is_file() and (Path(source) / "heads.safetensors").is_file():
        raise ModelError(f"{source}: plait.json is missing; copy the model directory again, whole")
    if (Path(source) / "recipe.yaml").is_file():
        raise ModelError(f"{source}: is a run that has no model yet; plait train --resume {source} goes on with it")
    return None


def is_ensemble(about: dict[str, Any]) -> bool:
    """Whether plait.json is that of several models that answer as one."""
    return about.get("kind") == ENSEMBLE


def read_about(source: str | Path) -> dict[str, Any]:
    """plait.json of a model, or of a run's best one."""
    folder = find_model(source)
    if folder is None:
        raise ModelError(f"{source}: is no plait model; expected a directory with plait.json")
    try:
        return dict(json.loads((folder / "plait.json").read_text(encoding="utf-8")))
    except ValueError:
        raise ModelError(f"{folder}/plait.json: is not JSON; copy the model directory again, whole") from None
