"""Recipes that were saved with a run or a result cell, compared with those of today.

A key or option that was added since has its default in the saved recipe: the default means what plait did before.
"""

import json
from collections.abc import Iterator, Mapping
from typing import Any

from pydantic import ValidationError

from plait.model.directory.record import portable
from plait.recipe.choices import Choice
from plait.recipe.options import complete_options
from plait.recipe.schema import Recipe, Stage
from plait.recipe.upgrade import upgrade_recipe
from plait.recipe.validate import VariantTable
from plait.resolve.variants import VARIANTS, pin_versions, shorten_versions

__all__ = ["as_saved", "differences", "recipe_differences"]


def as_saved(recipe: Recipe) -> dict[str, Any]:
    """A recipe as JSON holds it, with files by name only."""
    saved: dict[str, Any] = json.loads(json.dumps(portable(recipe.model_dump(mode="json"))))
    return saved


def recipe_differences(
    saved: Mapping[str, Any], now: Mapping[str, Any], versions: Mapping[str, str] | None = None
) -> list[str]:
    """key: old → new, for every value that differs between a saved recipe and that of today.

    `versions` are those of the variants that the saved recipe names without a version, if they were recorded.
    """
    return list(differences(_normalize(saved, versions), _normalize(now)))


def differences(old: Any, new: Any, path: str = "") -> Iterator[str]:
    """key: old → new, for every value that differs between two trees."""
    if isinstance(old, dict) and isinstance(new, dict):
        for key in dict.fromkeys([*old, *new]):
            yield from differences(old.get(key), new.get(key), f"{path}.{key}" if path else str(key))
    elif isinstance(old, list) and isinstance(new, list) and len(old) == len(new):
        for index, (before, after) in enumerate(zip(old, new, strict=True)):
            yield from differences(before, after, f"{path}.{index}")
    elif old != new:
        yield f"{path}: {old!r} → {new!r}"


def _normalize(saved: Mapping[str, Any], versions: Mapping[str, str] | None = None) -> dict[str, Any]:
    """A saved recipe with today's keys, every default filled in."""
    upgraded = portable(upgrade_recipe(saved))
    stages = upgraded.pop("stages", None)
    try:
        if stages is None:
            return _complete(upgraded, versions)
        filled = [_complete({**upgraded, **stage}, versions) for stage in stages]
    except ValidationError:  # saved by a newer plait, say; compare what is written
        return dict(saved)
    of_run = {key: value for key, value in filled[0].items() if key not in Stage.model_fields}
    return {**of_run, "stages": [{key: stage[key] for key in Stage.model_fields} for stage in filled]}


def _complete(keys: Mapping[str, Any], versions: Mapping[str, str] | None) -> dict[str, Any]:
    recipe = Recipe.model_validate(keys)
    recipe = shorten_versions(recipe if versions is None else pin_versions(recipe, versions))
    tasks = {
        name: task.model_copy(
            update={
                "derive": _with_defaults(task.derive, VARIANTS.derivations),
                "head": _with_defaults(task.head, VARIANTS.heads),
                "loss": task.loss and tuple(_with_defaults(loss, VARIANTS.losses) for loss in task.loss),
            }
        )
        for name, task in recipe.tasks.items()
    }
    changes = {
        "tasks": tasks,
        "schedule": _with_defaults(recipe.schedule, VARIANTS.schedules),
        "lr_schedule": _with_defaults(recipe.lr_schedule, VARIANTS.lr_schedules),
        "optimizer": _with_defaults(recipe.optimizer, VARIANTS.optimizers),
        "shared_layer": _with_defaults(recipe.shared_layer, VARIANTS.shared_layers),
        "adapt": _with_defaults(recipe.adapt, VARIANTS.adapters),
    }
    complete: dict[str, Any] = json.loads(recipe.model_copy(update=changes).model_dump_json())
    return complete


def _with_defaults(choice: Choice | None, table: VariantTable) -> Choice | None:
    if choice is None or choice.name not in table:
        return choice
    options, mistakes = complete_options(table[choice.name], choice.options)
    return choice if mistakes else choice.model_copy(update={"options": options})
