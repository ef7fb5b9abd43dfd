"""Everything that a recipe may name, in one place for its reader."""

from collections.abc import Callable, Iterator, Mapping
from typing import Any

from plait.data.batch import READS
from plait.data.derive import DERIVATIONS
from plait.encoder.adapters import ADAPTERS
from plait.encoder.pooling import POOLINGS
from plait.gradients.combine import COMBINERS, find_combiner
from plait.heads import HEADS, SHARED_LAYERS
from plait.losses import LOSSES, SHORTHANDS
from plait.metrics import METRICS
from plait.optimizers import OPTIMIZERS
from plait.recipe.choices import Choice
from plait.recipe.schema import Recipe
from plait.recipe.validate import VariantTable, VariantTables
from plait.registry import Registry, split_version
from plait.schedules import LR_SCHEDULES, SCHEDULES

__all__ = ["VARIANTS", "pin_versions", "shorten_versions", "variant_versions"]

VARIANTS = VariantTables(
    heads=VariantTable(HEADS),
    losses=VariantTable(LOSSES, lambda loss: loss.function),
    shorthands=VariantTable(SHORTHANDS),
    schedules=VariantTable(SCHEDULES, lambda schedule: schedule.function),
    lr_schedules=VariantTable(LR_SCHEDULES),
    optimizers=VariantTable(OPTIMIZERS),
    shared_layers=VariantTable(SHARED_LAYERS),
    adapters=VariantTable(ADAPTERS),
    combiners=VariantTable(COMBINERS, lambda combiner: combiner.weigh),
    find_combiner=find_combiner,
    poolings=VariantTable(POOLINGS, lambda pooling: pooling.reduce),
    derivations=VariantTable(DERIVATIONS),
    metrics=METRICS,
    reads=READS,
)


def variant_versions(recipe: Recipe) -> dict[str, str]:
    """The full name of every registered variant that a recipe uses: {"head linear": "linear.v1"}."""
    return {
        f"{registry.what} {split_version(name)[0]}": registry.versioned(name)
        for registry, name in _registered(recipe)
        if name in registry
    }


def pin_versions(recipe: Recipe, versions: Mapping[str, str]) -> Recipe:
    """A recipe whose variants have the versions that a run began with; those that it does not list have version 1."""

    def pin(choice: Choice, registry: Registry[Any]) -> Choice:
        bare, version = split_version(choice.name)
        pinned = versions.get(f"{registry.what} {bare}", f"{bare}.v1")
        if version or choice.name not in registry or registry.versioned(choice.name) == pinned:
            return choice
        return choice.model_copy(update={"name": pinned})

    return _change_variants(recipe, pin)


def shorten_versions(recipe: Recipe) -> Recipe:
    """A recipe that names the newest version of a variant without its number, so that equal recipes look equal."""

    def shorten(choice: Choice, registry: Registry[Any]) -> Choice:
        bare, version = split_version(choice.name)
        if not version or choice.name not in registry or registry.versioned(bare) != choice.name:
            return choice
        return choice.model_copy(update={"name": bare})

    return _change_variants(recipe, shorten)


def _change_variants(recipe: Recipe, change: Callable[[Choice, Registry[Any]], Choice]) -> Recipe:
    stages = []
    for stage in recipe.stage_recipes():
        tasks = {
            name: task.model_copy(
                update={
                    "head": task.head and change(task.head, HEADS),
                    "loss": task.loss and tuple(change(loss, LOSSES) for loss in task.loss),
                }
            )
            for name, task in stage.tasks.items()
        }
        stages.append(stage.model_copy(update={"tasks": tasks, "schedule": change(stage.schedule, SCHEDULES)}))
    return Recipe.of_stages(stages)


def _registered(recipe: Recipe) -> Iterator[tuple[Registry[Any], str]]:
    for stage in recipe.stage_recipes():
        yield SCHEDULES, stage.schedule.name
        for task in stage.tasks.values():
            if task.head:
                yield HEADS, task.head.name
            for loss in task.loss or ():
                yield LOSSES, loss.name
            if task.metric:
                yield METRICS, task.metric
