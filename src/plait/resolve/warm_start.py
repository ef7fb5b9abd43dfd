"""A run that starts from a trained plait model: its heads are kept, its tasks are scored before and after."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from plait.data.examples import Examples
from plait.errors import PlaitError, RecipeError, did_you_mean
from plait.model.directory.find import find_model
from plait.model.directory.record import ModelDirectory, open_directory
from plait.model.tasks import TaskSpec
from plait.recipe.choices import Choice
from plait.recipe.schema import Recipe
from plait.runs.origins import TaskOrigin, known_origins, split_examples

__all__ = ["KeptTask", "StartModel", "find_start_model", "inherit_settings"]


@dataclass(frozen=True)
class KeptTask:
    """A task that the model has, and that the recipe or a stage of it does not train."""

    spec: TaskSpec
    dev: Examples | None  # None: it is not scored, or its scores are known
    why: str  # the reason, if it is not scored
    origin: TaskOrigin | None
    scores: Mapping[str, float] = field(default_factory=dict)  # on dev, if the run cannot change them


@dataclass(frozen=True)
class StartModel:
    """The plait model that a run starts from."""

    directory: ModelDirectory
    kept: dict[str, KeptTask]

    @property
    def tasks(self) -> dict[str, TaskSpec]:
        """All its tasks."""
        return self.directory.record.tasks

    @property
    def pooling(self) -> str:
        return self.directory.record.pooling

    @property
    def shared_layer(self) -> Any:
        return self.directory.record.shared_layer


def find_start_model(
    recipe: Recipe, data: Path | None, stages: Sequence[Recipe] = (), earlier: StartModel | None = None
) -> StartModel | None:
    """The plait model that the recipe names as its encoder, if it is one; its data may be in the folder `data`.

    `stages` are all stages of the run, if the recipe is one of several; `earlier` is what an earlier stage found. The
    data of a task is read only if the run can change its scores, and once.
    """
    directory = earlier.directory if earlier else _open_start_model(recipe)
    if directory is None:
        return None
    provenance = directory.record.provenance
    origins = known_origins(directory.folder, directory.record)
    fixed = set() if provenance.refit else _unchanged_tasks(stages or [recipe], directory.record.tasks)
    kept: dict[str, KeptTask] = {}
    for name, spec in directory.record.tasks.items():
        if name in recipe.tasks:
            continue
        if name in provenance.calibration:  # fitted for other weights
            spec = spec.uncalibrated()
        if earlier and name in earlier.kept:
            kept[name] = earlier.kept[name]
        elif name in fixed and (scores := provenance.scores.get(name)):
            kept[name] = KeptTask(spec, None, "", origins.get(name), scores)
        else:
            kept[name] = _keep(spec, origins.get(name), data, provenance.refit)
    return StartModel(directory, kept)


def _unchanged_tasks(stages: Sequence[Recipe], tasks: Mapping[str, TaskSpec]) -> set[str]:
    """The tasks of a start model that a run leaves as they are: it trains neither the encoder nor their heads."""
    if any(stage.train_encoder for stage in stages):
        return set()
    heads = {task.head.same_as for stage in stages for task in stage.tasks.values() if task.head}
    heads |= {tasks[name].head_task for stage in stages for name in stage.tasks if name in tasks}
    return {name for name, spec in tasks.items() if spec.head_task not in heads}


def _open_start_model(recipe: Recipe) -> ModelDirectory | None:
    folder = find_model(recipe.encoder)
    if folder is None:
        return None
    directory = open_directory(folder)
    if directory.record.is_ensemble:
        where, member = recipe.where("encoder"), folder / "members/1"
        raise RecipeError(f"{where}{recipe.encoder} is an ensemble; start from one of its members, such as {member}")
    directory.verify()
    return directory


def _keep(spec: TaskSpec, origin: TaskOrigin | None, data: Path | None, refit: bool) -> KeptTask:
    """A task with its dev data, if that can still be found and the model was not trained on it."""
    if origin is not None and refit and isinstance(origin.task.get("dev"), float):
        return KeptTask(spec, None, "the refit trained on its dev rows", origin)
    if origin is None or not origin.data.get("dev"):
        return KeptTask(spec, None, "it was trained without dev data", origin)
    try:
        return KeptTask(spec, split_examples(spec, origin, "dev", data), "", origin)
    except PlaitError as error:
        why = error.mistakes[0].removeprefix(f"{spec.name}: ").partition(", or labelled")[0]  # an argument of evaluate
        return KeptTask(spec, None, why, origin)


def inherit_settings(recipe: Recipe, start: StartModel | None) -> Recipe:
    """The recipe with the settings that kept heads rely on; refuses a recipe that contradicts them."""
    if start is None:
        if recipe.freeze:
            raise RecipeError(f"{recipe.where('freeze')}the encoder is not a plait model, so it has no heads to freeze")
        return recipe
    layer = start.shared_layer and Choice.model_validate(start.shared_layer)
    mistakes = [
        f"{recipe.where('freeze')}the model has no task {name!r}; {did_you_mean(name, start.tasks)}"
        for name in recipe.freeze
        if name not in start.tasks
    ]
    if "pooling" in recipe.model_fields_set and recipe.pooling.name != start.pooling:
        mistakes.append(f"{recipe.where('pooling')}the model uses {start.pooling} pooling, and its heads rely on it")
    if "shared_layer" in recipe.model_fields_set and recipe.shared_layer != layer:
        has = f"the shared layer {layer.name}" if layer else "no shared layer"
        mistakes.append(f"{recipe.where('shared_layer')}the model has {has}, and its heads rely on it")
    if mistakes:
        raise RecipeError(*mistakes)
    return recipe.model_copy(update={"pooling": Choice(name=start.pooling), "shared_layer": layer})
