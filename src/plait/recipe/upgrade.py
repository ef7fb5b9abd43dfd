"""Recipes that an older plait saved, brought to the keys and names of today.

What a run, a model or a result cell saved must stay readable, so every rename of a key is listed here, and every new
key whose default is not what plait did before there was such a key.
"""

from collections.abc import Mapping
from typing import Any

__all__ = ["FORMER_KEYS", "FORMER_KINDS", "upgrade_origins", "upgrade_recipe"]

FORMER_KEYS = {"make": "derive", "watch_conflict": "conflict_every"}
FORMER_KINDS = {"several": "multilabel"}
_FORMER_PRECISIONS = {"bfloat16": "bf16"}


def upgrade_recipe(recipe: Mapping[str, Any]) -> dict[str, Any]:
    """A saved recipe with the keys of today."""
    upgraded = _upgrade_stage(recipe)
    if "encoder" in upgraded:
        upgraded.setdefault("head_start", "random")
        upgraded.setdefault("precision", "float32")
    if upgraded.get("precision") in _FORMER_PRECISIONS:
        upgraded["precision"] = _FORMER_PRECISIONS[upgraded["precision"]]
    if "stages" in upgraded:
        upgraded["stages"] = [_upgrade_stage(stage) for stage in upgraded["stages"]]
    return upgraded


def _upgrade_stage(stage: Mapping[str, Any]) -> dict[str, Any]:
    """A stage of a saved recipe, or the recipe itself, with the keys of today."""
    upgraded = _rename(stage)
    if "tasks" in upgraded:
        upgraded["tasks"] = {name: _upgrade_task(task) for name, task in upgraded["tasks"].items()}
        upgraded.setdefault("batches", "sorted")
    return upgraded


def _upgrade_task(task: Mapping[str, Any]) -> dict[str, Any]:
    """A task of a saved recipe with the keys of today."""
    upgraded = _rename(task)
    label = upgraded.get("label")
    if isinstance(label, Mapping) and label.get("kind") in FORMER_KINDS:
        upgraded["label"] = {**label, "kind": FORMER_KINDS[label["kind"]]}
    return upgraded


def upgrade_origins(origins: Mapping[str, Any]) -> dict[str, Any]:
    """Where the data of kept tasks came from, with the keys of today."""
    return {name: {**origin, "task": _upgrade_task(origin["task"])} for name, origin in origins.items()}


def _rename(keys: Mapping[str, Any]) -> dict[str, Any]:
    return {FORMER_KEYS.get(key, key): value for key, value in keys.items()}
