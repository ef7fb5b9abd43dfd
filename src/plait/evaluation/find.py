"""The labelled examples that a model is to be scored on."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from plait.data.examples import Examples, examples_from, sound_examples
from plait.data.held_out import hold_out
from plait.data.read import read_rows
from plait.data.splits import divide, fewer_rows, read_splits
from plait.errors import DataError, RequestError
from plait.model.about import find_model, portable, portable_task, recipe_tasks
from plait.model.ensemble import AnyModel
from plait.model.files import sha256_of
from plait.model.tasks import TaskSpec, files_of_tasks
from plait.recipe.schema import Source, Task

__all__ = ["TaskOrigin", "find_split", "given_examples", "known_origins", "split_examples"]


@dataclass(frozen=True)
class TaskOrigin:
    """Where the data of a trained task came from."""

    task: dict[str, Any]  # its block of the recipe
    data: dict[str, Any]  # split → files with rows and sha256
    seed: int
    bad_rows: str
    fold: str | None = None

    def to_json(self, *, folders: bool) -> dict[str, Any]:
        """As plait.json keeps it, without the folders of this machine, or as run.json does, with them."""
        return {**asdict(self), "task": self.task if folders else portable_task(self.task)}


def given_examples(model: AnyModel, assignments: Sequence[str]) -> dict[str, Examples]:
    """The examples of TASK=FILE of the command line."""
    given, mistakes = files_of_tasks("--on", assignments, model.tasks)
    files: dict[str, list[Source]] = {}
    for task, name in given:
        files.setdefault(task, []).append(Source(file=name))
    if mistakes:
        raise RequestError(*mistakes)
    examples: dict[str, Examples] = {}
    for task, sources in files.items():
        spec = model.tasks[task]
        try:
            columns = [*spec.text, *spec.label]
            rows = read_rows(sources, columns, lists=spec.label, quoting=spec.quoting, split="test")
            examples[task] = sound_examples(rows, spec.text, spec.label, spec.labels)
        except DataError as error:
            mistakes += error.mistakes
    if mistakes:
        raise DataError(*mistakes)
    return examples


def known_origins(folder: Path, about: Mapping[str, Any]) -> dict[str, TaskOrigin]:
    """The data behind each task of a model: by the paths of its run where that is at hand, else by names alone."""
    recipe, kept = about["recipe"], about.get("kept", {})
    here = folder.resolve()
    for begun in (here.parent / "run.json", here.parent.parent / "run.json"):  # RUN/best, or RUN/kept/epoch3
        if not begun.is_file():
            continue
        run = json.loads(begun.read_text(encoding="utf-8"))
        if portable(run["recipe"]) == recipe:  # the run that made it, not one that it was copied into
            recipe, kept = run["recipe"], run.get("kept", {})
    blocks = recipe_tasks(recipe)
    own = {
        task: TaskOrigin(blocks[task], data, recipe["seed"], recipe.get("bad_rows", "stop"), recipe.get("fold"))
        for task, data in about["data"].items()
    }
    return {**{task: TaskOrigin(**origin) for task, origin in kept.items()}, **own}


def find_split(
    model: AnyModel, source: str | Path, about: Mapping[str, Any], split: str, data: Path | None
) -> dict[str, Examples]:
    """The examples that a model was trained beside: in its run's files, or by their names below --data."""
    folder = find_model(source)
    assert folder is not None, "its plait.json has just been read"
    if not model.tasks:
        raise RequestError(f"{source}: has no task to score; it is a plain encoder, which only embeds")
    examples: dict[str, Examples] = {}
    mistakes: list[str] = []
    for task, origin in known_origins(folder, about).items():
        if not origin.data.get(split) or task not in model.tasks:  # a task without a head is no part of the model
            continue
        try:
            examples[task] = split_examples(model.tasks[task], origin, split, data)
        except (RequestError, DataError) as error:
            mistakes += error.mistakes
    if mistakes:
        raise RequestError(*mistakes)
    if not examples:
        why = "was trained without" if "members" not in about else "is made of models that do not share their"
        raise RequestError(f"{source}: {why} {split} data; give --on TASK=FILE")
    return examples


def split_examples(spec: TaskSpec, origin: TaskOrigin, split: str, data: Path | None) -> Examples:
    """The examples of one split of a trained task, if its files are still those of the training."""
    task = Task.model_validate(origin.task)
    key, seed = task.key(split, origin.fold), f"{origin.seed}/{spec.name}"
    known = {(file["name"], file["sha256"]) for file in origin.data[split]}  # two folders may have a file of one name
    mistakes: list[str] = []

    def place(given: Source) -> Source:
        if given.on_hub:
            return given
        name = Path(given.file).name
        places = [data / name, Path(given.file)] if data else [Path(given.file)]
        path = next((place for place in places if place.is_file()), places[0])
        if not path.is_file():
            mistakes.append(f"{spec.name}: no file {path}; give its folder with --data, or --on {spec.name}=FILE")
        elif (name, sha256_of(path)) not in known:
            mistakes.append(
                f"{spec.name}: {path} is not the {split} file of the training; give --on {spec.name}={path} to use it"
            )
        return given.model_copy(update={"file": str(path)})

    placed = task.model_copy(update={key: tuple(place(source) for source in task.sources(split, origin.fold))})
    if mistakes:
        raise RequestError(*mistakes)
    read = read_splits(placed, [split], origin.fold)
    parts = divide(read, placed, spec.labels.kind, seed, origin.fold)
    rows = parts[key if origin.fold else split]
    if origin.bad_rows == "skip":
        examples = examples_from(rows, spec.text, spec.label, spec.labels)[0]
    else:
        examples = sound_examples(rows, spec.text, spec.label, spec.labels)
    if origin.fold and key == "train":
        examples = hold_out({"train": examples}, task, spec.labels.kind, origin.fold, seed).splits[split]
    return fewer_rows(examples, task, split, seed)
