"""A recipe and its files → a complete recipe, the tasks of the model, and their examples; every mistake at once."""

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from torch import nn

from plait.data.overlap import Overlaps, count_overlaps
from plait.data.read import BadRow, shown_names
from plait.encoder.config import read_config
from plait.encoder.find import find_checkpoint
from plait.errors import DataError, EncoderError, ModelError, PlaitError, RecipeError, RequestError
from plait.model.files import sha256_of
from plait.model.load import encoder_prints, pick_device
from plait.model.tasks import TaskSpec
from plait.recipe.schema import SPLITS, Recipe
from plait.recipe.stages import told_once
from plait.training.checks import check_combine, check_lengths
from plait.training.grow import Kept, Start, find_start, keep_settings
from plait.training.task_data import TaskData, settle_task

__all__ = ["Prints", "Settled", "SettledRun", "is_taken", "settle", "settle_recipe", "settle_run"]


Prints = dict[str, dict[str, list[dict[str, str | int]]]]  # task → split → files


@dataclass(frozen=True)
class Settled:
    """One stage of a run: a complete recipe without stages, and everything it needs but the weights."""

    recipe: Recipe
    tasks: dict[str, TaskData]
    fingerprints: Prints
    start: Start | None = None  # the plait model that the run grows from
    stage: int = 0
    run_specs: dict[str, TaskSpec] = field(default_factory=dict)  # the tasks of all stages, in their order
    earlier: dict[str, Kept] = field(default_factory=dict)  # tasks that stages before this one train, and it does not

    @property
    def specs(self) -> dict[str, TaskSpec]:
        """The tasks as the model knows them: those kept from the model that it grows from, then those of the run."""
        own = {**self.run_specs, **self.own_specs}
        kept = self.start.kept if self.start else {}
        return {**{name: task.spec for name, task in kept.items() if name not in own}, **own}

    @property
    def own_specs(self) -> dict[str, TaskSpec]:
        """The tasks of this stage that have a head."""
        return {name: task.spec for name, task in self.tasks.items() if task.spec.head}

    @property
    def learning(self) -> dict[str, TaskData]:
        """The tasks that steps train; the others are only scored."""
        return {name: task for name, task in self.tasks.items() if task.settings.learn}

    @property
    def kept(self) -> dict[str, Kept]:
        """The tasks that the model has learned before this stage, and that this stage does not train."""
        return {**(self.start.kept if self.start else {}), **self.earlier}

    @property
    def bad(self) -> dict[str, list[BadRow]]:
        """The rows that were left out, by task."""
        return {name: task.bad for name, task in self.tasks.items() if task.bad}

    def sentences(self) -> list[str]:
        """What a user should know of the data before it is trained on, the bad rows aside."""
        lonely = [
            f"{name}: {count:,} {split} rows have no partner and make no triplet"
            for name, task in self.tasks.items()
            for split, count in task.lonely.items()
        ]
        folds = [f"{name}: {note}" for name, task in self.tasks.items() for note in task.notes]
        return lonely + folds + self.overlaps().sentences()

    def overlaps(self) -> Overlaps:
        """Texts that stand in train and dev, with two labels, or in two tasks; what nobody trains on is no overlap."""
        return count_overlaps(
            {
                name: task.splits if task.settings.learn else {**task.splits, "train": task.train.chosen([])}
                for name, task in self.tasks.items()
            },
            {name: task.spec.labels.kind in ("yes_no", "score") for name, task in self.tasks.items()},
        )


@dataclass(frozen=True)
class SettledRun:
    """The stages of a run, at least one, and the encoder that they begin with."""

    stages: tuple[Settled, ...]
    encoder: dict[str, str]  # file of its checkpoint → sha256

    @property
    def recipe(self) -> Recipe:
        """The complete recipe."""
        return Recipe.of_stages([stage.recipe for stage in self.stages])

    @property
    def last(self) -> Settled:
        """The stage whose best model is the run's."""
        return self.stages[-1]

    @property
    def data(self) -> Settled:
        """All stages as one, to look at the data; a task that a later stage trains on other data names its stage."""
        tasks: dict[str, TaskData] = {}
        seen: Prints = {}
        for stage in self.stages:
            for name, task in stage.tasks.items():
                other = seen.setdefault(name, stage.fingerprints[name]) != stage.fingerprints[name]
                shown = f"{name} (stage {stage.stage + 1})" if other else name
                if shown not in tasks or task.settings.learn:  # what one stage trains on is trained on
                    tasks[shown] = task
        return replace(self.last, tasks=tasks)

    @property
    def fingerprints(self) -> Prints:
        """The data of each task as the last stage that trains it has it, and all that it was trained on before."""
        found: Prints = {}
        for stage in self.stages:
            for name, splits in stage.fingerprints.items():
                before = [file for file in found.get(name, {}).get("train", []) if file not in splits["train"]]
                found[name] = {**splits, "train": [*splits["train"], *before]}
        return found

    def kept_origins(self, *, folders: bool) -> dict[str, Any]:
        """Where the data of the tasks came from that the run keeps from another model and does not train."""
        kept = self.last.start.kept if self.last.start else {}
        return {
            name: task.origin.to_json(folders=folders)
            for name, task in kept.items()
            if task.origin and name not in self.fingerprints
        }


def settle_run(recipe: Recipe, data: Path | None = None) -> SettledRun:
    """Settle every stage of a recipe; every mistake at once.

    `data` is where the data of tasks may lie that a model had before.
    """
    stages: list[Settled] = []
    mistakes: list[Sequence[str]] = []
    known: dict[str, TaskSpec] = {}
    for number, part in enumerate(recipe.stage_recipes()):
        try:
            settled = settle_recipe(part, data, known)
        except RecipeError as error:
            mistakes.append(error.mistakes)
        else:
            mistakes.append(())
            stages.append(replace(settled, stage=number))
            known |= settled.own_specs
    if any(mistakes):
        raise RecipeError(*told_once(mistakes))
    if recipe.fold and (mixed := list(check_same_folds(stages))):
        raise RecipeError(*mixed)
    start = stages[0].start
    checkpoint = start.folder if start else find_checkpoint(recipe.encoder)
    return SettledRun(tuple(beside_each_other(stages)), encoder_prints(checkpoint))


def beside_each_other(stages: Sequence[Settled]) -> Iterator[Settled]:
    """Each stage with the tasks of the others, whose heads are in the same model."""
    first: dict[str, TaskSpec] = {}
    for stage in stages:
        first |= {name: spec for name, spec in stage.own_specs.items() if name not in first}
    before: dict[str, TaskData] = {}
    for stage in stages:
        known = {name: task.spec for name, task in before.items()}
        others = {
            name: Kept(task.spec, task.splits.get("dev"), "it was trained without dev data", None)
            for name, task in before.items()
            if name not in stage.tasks
        }
        yield replace(stage, run_specs={**first, **known}, earlier=others)
        before |= {name: stage.tasks[name] for name in stage.own_specs}


def check_same_folds(stages: Sequence[Settled]) -> Iterator[str]:
    """Tasks that one stage trains on rows which another holds out, as its folds are those of other rows."""
    held: dict[str, set[str]] = {}
    for stage in stages:
        for name, task in stage.tasks.items():
            held.setdefault(name, set()).update(task.splits["test"].origins if "test" in task.splits else ())
    for stage in stages:
        for name, task in stage.learning.items():
            if not held[name].isdisjoint(task.train.origins):
                where = stage.recipe.where("tasks", name)
                yield f"{where}a stage trains on rows that another holds out; with fold, give it one train and one rows"


def settle_recipe(recipe: Recipe, data: Path | None = None, known: Mapping[str, TaskSpec] | None = None) -> Settled:
    """Find the encoder, read the data of every task, and decide what a recipe left open; every mistake at once.

    It is a recipe without stages, or one of them; `known` are the tasks of the stages before it.
    """
    assert not recipe.stages, "each stage is settled by itself"
    mistakes: list[str] = []
    start: Start | None = None
    try:
        start = find_start(recipe, data)
        recipe = keep_settings(recipe, start)
        mistakes += check_combine(recipe, grown=start is not None)
        checkpoint = start.folder if start else find_checkpoint(recipe.encoder)
        config = read_config(checkpoint)
        mistakes += check_lengths(recipe, checkpoint, config)
    except (EncoderError, ModelError) as error:
        mistakes += [recipe.where("encoder") + mistake for mistake in error.mistakes]
    except RecipeError as error:
        mistakes += error.mistakes
    try:
        pick_device(recipe.device)
    except RequestError as error:
        mistakes += [recipe.where("device") + mistake for mistake in error.mistakes]
    try:
        settled = settle(recipe, config.limit if not mistakes else 1, start, known)
    except DataError as error:
        mistakes += error.mistakes
    if mistakes:
        raise RecipeError(*mistakes)
    normalise = config.normalise if recipe.normalise is None else recipe.normalise
    return replace(settled, recipe=settled.recipe.model_copy(update={"normalise": normalise}))


def settle(
    recipe: Recipe, limit: int, start: Start | None = None, known: Mapping[str, TaskSpec] | None = None
) -> Settled:
    """Read the data of every task and decide what the recipe left open; `limit` is the encoder's, in tokens."""
    mistakes: list[str] = []
    tasks: dict[str, TaskData] = {}
    had = {**(start.tasks if start else {}), **(known or {})}
    for name in recipe.tasks:
        try:
            tasks[name] = settle_task(recipe, name, limit, had.get(name))
        except PlaitError as error:
            mistakes += error.mistakes
    mistakes += [
        f"{recipe.where('tasks', name)}{name!r} cannot be the name of a task; choose another"
        for name in recipe.tasks
        if is_taken(name)
    ]
    scored = [name for name, task in tasks.items() if "dev" in task.splits]
    if len(tasks) == len(recipe.tasks):
        if recipe.best_by != "mean" and recipe.best_by not in scored:
            mistakes.append(f"{recipe.where('best_by')}the task {recipe.best_by!r} has no dev data to judge by")
        if recipe.early_stopping and not scored:
            mistakes.append(f"{recipe.where('early_stopping')}needs dev data, and no task has any")
    if mistakes:
        raise DataError(*mistakes)
    complete = recipe.model_copy(
        update={
            "tasks": {name: data.settings for name, data in tasks.items()},
            "epochs": recipe.epochs if recipe.epochs or recipe.steps else 3,
            "head_lr": recipe.head_lr or recipe.lr,
        }
    )
    prints = {name: fingerprints(recipe, name, data) for name, data in tasks.items()}
    return Settled(complete, tasks, prints, start=start)


def is_taken(name: str) -> bool:
    """Whether no task can have this name, because torch has it where the model keeps its heads by name."""
    return hasattr(nn.ModuleDict(), name)


def fingerprints(recipe: Recipe, name: str, data: TaskData) -> dict[str, list[dict[str, str | int]]]:
    """The files of each split, with their sha256 and the rows in use."""
    found: dict[str, list[dict[str, str | int]]] = {}
    for split in SPLITS:
        if split not in data.splits:
            continue
        shown = shown_names(recipe.tasks[name].sources(split, recipe.fold))
        files = [origin.rpartition(":")[0] for origin in data.splits[split].origins]
        found[split] = [
            {
                "name": file if file.startswith("hub:") else Path(file).name,
                "sha256": rows_digest(data, split) if file.startswith("hub:") else sha256_of(Path(file)),
                "rows": files.count(name_),
            }
            for file, name_ in shown.items()
        ]
    return found


def rows_digest(data: TaskData, split: str) -> str:
    """The fingerprint of rows that no file here holds."""
    digest = hashlib.sha256()
    for row in zip(*data.splits[split].texts, data.splits[split].labels.tolist(), strict=True):
        digest.update(repr(row).encode())
    return digest.hexdigest()
