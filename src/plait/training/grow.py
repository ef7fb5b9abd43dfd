"""A run that starts from a trained plait model: its heads are kept, its tasks are scored before and after."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from plait.data.examples import Examples
from plait.errors import PlaitError, RecipeError, did_you_mean
from plait.evaluation.evaluate import Scores, score_task
from plait.evaluation.find import TaskOrigin, known_origins, split_examples
from plait.model.about import find_model, is_ensemble, read_about
from plait.model.load import check_manifest, manifest_of
from plait.model.model import Model
from plait.model.tasks import TaskSpec, spec_from_json
from plait.recipe.schema import Choice, Recipe

__all__ = ["Kept", "Start", "find_start", "keep_settings", "score_kept"]


@dataclass(frozen=True)
class Kept:
    """A task of the model that the recipe, or a stage of it, does not train."""

    spec: TaskSpec
    dev: Examples | None  # None: its dev data is not where it was
    why: str  # it has none
    origin: TaskOrigin | None


@dataclass(frozen=True)
class Start:
    """The plait model that a run starts from."""

    folder: Path
    tasks: dict[str, TaskSpec]  # all that it has
    kept: dict[str, Kept]
    pooling: str
    shared_layer: Any


def find_start(recipe: Recipe, data: Path | None) -> Start | None:
    """The plait model that the recipe names as its encoder, if it is one; `data` is where its data may lie now."""
    folder = find_model(recipe.encoder)
    if folder is None:
        return None
    about = read_about(folder)
    if is_ensemble(about):
        where, member = recipe.where("encoder"), folder / "members/1"
        raise RecipeError(f"{where}{recipe.encoder} is an ensemble; start from one of its members, such as {member}")
    check_manifest(folder, manifest_of(folder))
    tasks = {spec["name"]: spec_from_json(spec) for spec in about["tasks"]}
    origins = known_origins(folder, about)
    kept = {name: keep(spec, origins.get(name), data) for name, spec in tasks.items() if name not in recipe.tasks}
    return Start(folder, tasks, kept, about["pooling"], about["shared_layer"])


def keep(spec: TaskSpec, origin: TaskOrigin | None, data: Path | None) -> Kept:
    """A task with its dev data, if that is where it was, or in the folder `data`."""
    if origin is None or not origin.data.get("dev"):
        return Kept(spec, None, "it was trained without dev data", origin)
    try:
        return Kept(spec, split_examples(spec, origin, "dev", data), "", origin)
    except PlaitError as error:
        why = error.mistakes[0].removeprefix(f"{spec.name}: ").partition(", or --on")[0]  # an option of evaluate
        return Kept(spec, None, why, origin)


def score_kept(model: Model, kept: Mapping[str, Kept]) -> dict[str, Scores]:
    """The dev scores of the tasks that a stage keeps and does not train."""
    return {name: score_task(model, name, task.dev) for name, task in kept.items() if task.dev}


def keep_settings(recipe: Recipe, start: Start | None) -> Recipe:
    """The recipe with what the kept heads rely on; refuses what would break them."""
    if start is None:
        if recipe.freeze:
            raise RecipeError(f"{recipe.where('freeze')}the encoder is no plait model: it has no heads to freeze")
        return recipe
    layer = start.shared_layer and Choice.model_validate(start.shared_layer)
    mistakes = [
        f"{recipe.where('freeze')}the model has no task {name!r}; {did_you_mean(name, start.tasks)}"
        for name in recipe.freeze
        if name not in start.tasks
    ]
    if "pooling" in recipe.model_fields_set and recipe.pooling != start.pooling:
        mistakes.append(f"{recipe.where('pooling')}the model pools by {start.pooling}, and its heads rely on it")
    if "shared_layer" in recipe.model_fields_set and recipe.shared_layer != layer:
        had = f"the shared layer {layer.name}" if layer else "no shared layer"
        mistakes.append(f"{recipe.where('shared_layer')}the model has {had}, and its heads rely on it")
    if mistakes:
        raise RecipeError(*mistakes)
    return recipe.model_copy(update={"pooling": start.pooling, "shared_layer": layer})
