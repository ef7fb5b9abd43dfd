"""A recipe and its files → everything a run needs: encoder, tasks and examples of every stage."""

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from torch import nn

from plait.data.overlap import Overlaps, count_overlaps
from plait.data.read import shown_names
from plait.data.tokenize import load_tokenizer
from plait.encoder.config import EncoderConfig, read_config
from plait.encoder.find import Checkpoint, find_checkpoint
from plait.errors import DataError, EncoderError, ModelError, PlaitError, RecipeError, RequestError, did_you_mean
from plait.files import sha256_of
from plait.model.directory.load import pick_device
from plait.model.tasks import TaskSpec
from plait.recipe.schema import Recipe
from plait.recipe.stages import merge_mistakes
from plait.recipe.task import SPLITS
from plait.resolve.task import ResolvedTask, resolve_task
from plait.resolve.teacher import find_teacher, learns_from_teacher
from plait.resolve.validate import validate_combine, validate_lengths
from plait.resolve.warm_start import KeptTask, StartModel, find_start_model, inherit_settings
from plait.resolve.weak_data import weak_data

__all__ = ["Fingerprints", "ResolvedRun", "ResolvedStage", "is_reserved", "resolve_run", "resolve_tasks"]

Fingerprints = dict[str, dict[str, list[dict[str, str | int]]]]  # task → split → files


@dataclass(frozen=True)
class ResolvedStage:
    """One stage of a run: a complete recipe without stages, and everything it needs except the weights."""

    recipe: Recipe
    tasks: dict[str, ResolvedTask]
    fingerprints: Fingerprints
    start: StartModel | None = None  # the plait model that the run starts from
    stage: int = 0
    run_specs: dict[str, TaskSpec] = field(default_factory=dict)  # the tasks of all stages, in order
    earlier: dict[str, KeptTask] = field(default_factory=dict)  # tasks of earlier stages that this one does not train
    # Computed from the above:
    own_specs: dict[str, TaskSpec] = field(init=False)  # the tasks of this stage that have a head
    specs: dict[str, TaskSpec] = field(init=False)  # all tasks of the model: those kept from the start model come first
    learning: dict[str, ResolvedTask] = field(init=False)  # the tasks that steps train; the others are only scored
    head_lr: float = field(init=False)

    def __post_init__(self) -> None:
        own = {name: task.spec for name, task in self.tasks.items() if task.spec.head}
        of_run = {**self.run_specs, **own}
        kept = self.start.kept if self.start else {}
        specs = {**{name: task.spec for name, task in kept.items() if name not in of_run}, **of_run}
        object.__setattr__(self, "own_specs", own)
        object.__setattr__(self, "specs", specs)
        learning = {name: task.as_trained() for name, task in self.tasks.items() if task.settings.learn}
        object.__setattr__(self, "learning", learning)
        object.__setattr__(self, "head_lr", self.recipe.head_lr)

    @property
    def kept(self) -> dict[str, KeptTask]:
        """The tasks that the model learned before this stage and that this stage does not train."""
        return {**(self.start.kept if self.start else {}), **self.earlier}

    def data_notes(self) -> list[str]:
        """What a user should know about the data before training, apart from bad rows."""
        unpaired = [
            f"{name}: {count:,} {split} rows have no partner to form a triplet with"
            for name, task in self.tasks.items()
            for split, count in task.unpaired.items()
        ]
        folds = [f"{name}: {note}" for name, task in self.tasks.items() for note in task.notes]
        return unpaired + folds + weak_data(self.tasks, self.recipe.encoder) + self.overlaps().sentences()

    def overlaps(self) -> Overlaps:
        """Texts that occur in train and dev, with two labels, or in two tasks."""
        return count_overlaps(
            {
                name: task.splits if task.settings.learn else {**task.splits, "train": task.splits["train"].chosen([])}
                for name, task in self.tasks.items()
            },
            {name: task.spec.labels.about.symmetric for name, task in self.tasks.items()},
        )


@dataclass(frozen=True)
class ResolvedRun:
    """The stages of a run, at least one, and their encoder; the best model of the last stage is the run's."""

    stages: tuple[ResolvedStage, ...]
    checkpoint: Checkpoint

    @property
    def recipe(self) -> Recipe:
        """The complete recipe."""
        return Recipe.of_stages([stage.recipe for stage in self.stages])

    @property
    def data(self) -> ResolvedStage:
        """All stages as one, to inspect their data; a task with other data in a later stage is listed separately."""
        tasks: dict[str, ResolvedTask] = {}
        seen: Fingerprints = {}
        for stage in self.stages:
            for name, task in stage.tasks.items():
                other = seen.setdefault(name, stage.fingerprints[name]) != stage.fingerprints[name]
                shown = f"{name} (stage {stage.stage + 1})" if other else name
                if shown not in tasks or task.settings.learn:
                    tasks[shown] = task
        return replace(self.stages[-1], tasks=tasks)

    @property
    def fingerprints(self) -> Fingerprints:
        """The data of each task in the last stage that has it, and all training files of earlier stages."""
        found: Fingerprints = {}
        for stage in self.stages:
            for name, splits in stage.fingerprints.items():
                before = [file for file in found.get(name, {}).get("train", []) if file not in splits["train"]]
                found[name] = {**splits, "train": [*splits["train"], *before]}
        return found

    @property
    def stage_fingerprints(self) -> Fingerprints | dict[str, list[Fingerprints]]:
        """The fingerprints of all data, stage by stage if there are several."""
        fingerprints = [stage.fingerprints for stage in self.stages]
        return {"stages": fingerprints} if len(fingerprints) > 1 else fingerprints[0]

    def kept_origins(self, *, folders: bool) -> dict[str, Any]:
        """Where the data of tasks came from that the run keeps from another model and does not train."""
        start = self.stages[-1].start
        kept = start.kept if start else {}
        return {
            name: task.origin.to_json(folders=folders)
            for name, task in kept.items()
            if task.origin and name not in self.fingerprints
        }


@dataclass(frozen=True)
class _Encoder:
    """What resolving needs to know about the encoder."""

    checkpoint: Checkpoint
    config: EncoderConfig
    special_tokens: dict[bool, int]  # whether two texts are joined → special tokens that are added
    start: StartModel | None  # if it is a plait model


def resolve_run(recipe: Recipe, data: Path | None = None) -> ResolvedRun:
    """Resolve every stage of a recipe; every mistake at once.

    The data of tasks that a start model had before may be in the folder `data`.
    """
    stages: list[ResolvedStage] = []
    mistakes: list[Sequence[str]] = []
    known: dict[str, TaskSpec] = {}
    encoder: _Encoder | None = None
    parts = recipe.stage_recipes()
    for number, part in enumerate(parts):
        try:
            encoder, stage = _resolve_stage(part, data, known, encoder, parts)
        except RecipeError as error:
            mistakes.append(error.mistakes)
        else:
            mistakes.append(())
            stages.append(replace(stage, stage=number))
            known |= stage.own_specs
    if any(mistakes):
        raise RecipeError(*merge_mistakes(mistakes))
    if recipe.fold and (mixed := list(_validate_folds(stages))):
        raise RecipeError(*mixed)
    taught = (learns_from_teacher(task.settings) for stage in stages for task in stage.tasks.values())
    if recipe.teacher and not any(taught):
        raise RecipeError(f"{recipe.where('teacher')}no task learns from it; add distil to the losses of one")
    assert encoder is not None, "found with the first stage"
    return ResolvedRun(tuple(_link_stages(stages)), encoder.checkpoint)


def _resolve_stage(
    recipe: Recipe,
    data: Path | None,
    known: Mapping[str, TaskSpec],
    encoder: _Encoder | None,
    stages: Sequence[Recipe],
) -> tuple[_Encoder, ResolvedStage]:
    """Find the encoder, read the data of every task, and decide what the recipe left open; every mistake at once.

    `recipe` is one of the `stages`; `known` are the tasks of earlier stages, `encoder` is what the first stage found.
    """
    mistakes: list[str] = []
    start: StartModel | None = None
    try:
        start = find_start_model(recipe, data, stages, encoder.start if encoder else None)
        recipe = inherit_settings(recipe, start)
        mistakes += validate_combine(recipe, warm_start=start is not None)
        encoder = encoder or _find_encoder(recipe, start)
        most = encoder.config.positions - encoder.config.first_position
        mistakes += validate_lengths(recipe, encoder.special_tokens, most)
    except (EncoderError, ModelError) as error:
        mistakes += [recipe.where("encoder") + mistake for mistake in error.mistakes]
    except RecipeError as error:
        mistakes += error.mistakes
    try:
        pick_device(recipe.device)
    except RequestError as error:
        mistakes += [recipe.where("device") + mistake for mistake in error.mistakes]
    teacher: dict[str, TaskSpec] | None = None
    try:
        teacher = find_teacher(recipe)
    except RecipeError as error:
        mistakes += error.mistakes
    limit, width = (encoder.config.limit, encoder.config.width) if encoder and not mistakes else (1, 1)
    try:
        stage = resolve_tasks(recipe, limit, width, start, known, teacher)
    except DataError as error:
        mistakes += error.mistakes
    if mistakes or encoder is None:
        raise RecipeError(*mistakes)
    normalise = encoder.config.normalise if recipe.normalise is None else recipe.normalise
    return encoder, replace(stage, recipe=stage.recipe.model_copy(update={"normalise": normalise}))


def _find_encoder(recipe: Recipe, start: StartModel | None) -> _Encoder:
    if start:
        checkpoint = Checkpoint(start.directory.folder, start.directory.manifest)
    else:
        checkpoint = find_checkpoint(recipe.encoder)
    tokenizer = load_tokenizer(checkpoint.folder)
    special = {pair: tokenizer.num_special_tokens_to_add(pair) for pair in (False, True)}
    return _Encoder(checkpoint, read_config(checkpoint.folder), special, start)


def resolve_tasks(
    recipe: Recipe,
    limit: int,
    width: int,
    start: StartModel | None = None,
    known: Mapping[str, TaskSpec] | None = None,
    teacher: Mapping[str, TaskSpec] | None = None,
) -> ResolvedStage:
    """Read the data of every task and decide what the recipe left open; `limit` and `width` are the encoder's."""
    mistakes: list[str] = []
    tasks: dict[str, ResolvedTask] = {}
    had = {**(start.tasks if start else {}), **(known or {})}
    failed: set[str] = set()
    for name in sorted(recipe.tasks, key=lambda name: bool(_shared_head(recipe, name, had))):  # owners of heads first
        other = _shared_head(recipe, name, had)
        owner = tasks[other].spec if other in tasks else had.get(other or "")
        if other in failed:
            continue  # reported for the task that the head belongs to
        try:
            if other and not (owner and owner.head and not owner.same_as):
                raise RecipeError(_no_shared_head(recipe, name, other, owner, [*recipe.tasks, *had]))
            tasks[name] = resolve_task(recipe, name, limit, width, had.get(name), owner, teacher)
        except PlaitError as error:
            failed.add(name)
            mistakes += error.mistakes
    tasks = {name: tasks[name] for name in recipe.tasks if name in tasks}
    mistakes += [
        f"{recipe.where('tasks', name)}{name!r} cannot be the name of a task; choose another"
        for name in recipe.tasks
        if is_reserved(name)
    ]
    scored = [name for name, task in tasks.items() if "dev" in task.splits]
    if len(tasks) == len(recipe.tasks):
        if recipe.best_by != "mean" and recipe.best_by not in scored:
            mistakes.append(f"{recipe.where('best_by')}the task {recipe.best_by!r} has no dev data")
        if recipe.early_stopping and not scored:
            mistakes.append(f"{recipe.where('early_stopping')}needs dev data, and no task has any")
    if mistakes:
        raise DataError(*mistakes)
    complete = recipe.model_copy(
        update={
            "tasks": {name: task.settings for name, task in tasks.items()},
            "epochs": recipe.epochs if recipe.epochs or recipe.steps else 3,
            "head_lr": recipe.head_lr or recipe.lr,
        }
    )
    fingerprints = {name: _fingerprints(recipe, name, task) for name, task in tasks.items()}
    return ResolvedStage(complete, tasks, fingerprints, start=start)


def _shared_head(recipe: Recipe, name: str, had: Mapping[str, TaskSpec]) -> str | None:
    """The task whose head this task uses: as the recipe says, or as the model has it."""
    head = recipe.tasks[name].head
    return head.same_as if head else had[name].same_as if name in had else None


def _no_shared_head(recipe: Recipe, name: str, other: str, owner: TaskSpec | None, tasks: Sequence[str]) -> str:
    """Why a task cannot use the head of another."""
    where = recipe.where("tasks", name, "head", "same_as")
    if owner is None:
        hint = did_you_mean(other, [task for task in tasks if task != name])
        return f"{where}no task {other!r} in this stage, an earlier one or the model in encoder; {hint}"
    if owner.same_as:
        return f"{where}the task {other!r} itself uses the head of {owner.same_as!r}; write same_as: {owner.same_as}"
    return f"{where}the task {other!r} has no head; give one of them a head"


def is_reserved(name: str) -> bool:
    """Whether no task can have this name, because torch's ModuleDict, which holds the heads, has such an attribute."""
    return hasattr(nn.ModuleDict(), name)


def _link_stages(stages: Sequence[ResolvedStage]) -> Iterator[ResolvedStage]:
    """Each stage with the tasks of the others, whose heads are in the same model."""
    first: dict[str, TaskSpec] = {}
    for stage in stages:
        first |= {name: spec for name, spec in stage.own_specs.items() if name not in first}
    before: dict[str, ResolvedTask] = {}
    for stage in stages:
        known = {name: task.spec for name, task in before.items()}
        others = {
            name: KeptTask(task.spec, task.splits.get("dev"), "it was trained without dev data", None)
            for name, task in before.items()
            if name not in stage.tasks
        }
        yield replace(stage, run_specs={**first, **known}, earlier=others)
        before |= {name: stage.tasks[name] for name in stage.own_specs}


def _validate_folds(stages: Sequence[ResolvedStage]) -> Iterator[str]:
    """Tasks that one stage trains on rows that another holds out, because their folds differ."""
    held: dict[str, set[str]] = {}
    for stage in stages:
        for name, task in stage.tasks.items():
            held.setdefault(name, set()).update(task.splits["test"].origins if "test" in task.splits else ())
    for stage in stages:
        for name, task in stage.learning.items():
            if not held[name].isdisjoint(task.splits["train"].origins):
                where = stage.recipe.where("tasks", name)
                yield (
                    f"{where}one stage trains on rows that another holds out; with fold, give the task the same train "
                    "and rows in every stage"
                )


def _fingerprints(recipe: Recipe, name: str, task: ResolvedTask) -> dict[str, list[dict[str, str | int]]]:
    """The files of each split, with their sha256 and the number of rows used."""
    found: dict[str, list[dict[str, str | int]]] = {}
    for split in SPLITS:
        if split not in task.splits:
            continue
        shown = shown_names(recipe.tasks[name].sources(split, recipe.fold))
        files = [origin.rpartition(":")[0] for origin in task.splits[split].origins]
        found[split] = [
            {
                "name": file if file.startswith("hub:") else Path(file).name,
                "sha256": _rows_digest(task, split) if file.startswith("hub:") else sha256_of(Path(file)),
                "rows": files.count(shown_name),
            }
            for file, shown_name in shown.items()
        ]
    return found


def _rows_digest(task: ResolvedTask, split: str) -> str:
    """The fingerprint of rows that are not in a local file."""
    digest = hashlib.sha256()
    for row in zip(*task.splits[split].texts, task.splits[split].labels.tolist(), strict=True):
        digest.update(repr(row).encode())
    return digest.hexdigest()
