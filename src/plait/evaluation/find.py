"""The data files that a model is to be scored on."""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from plait.errors import RequestError, did_you_mean
from plait.model.about import find_model, portable
from plait.model.files import sha256_of
from plait.model.model import Model

__all__ = ["find_split", "given_files"]


def given_files(model: Model, assignments: Sequence[str]) -> dict[str, list[Path]]:
    """TASK=FILE of the command line."""
    mistakes: list[str] = []
    files: dict[str, list[Path]] = {}
    for assignment in assignments:
        task, equals, name = assignment.partition("=")
        if not equals:
            mistakes.append(f"--on {assignment}: expected TASK=FILE")
        elif task not in model.tasks:
            mistakes.append(f"--on {assignment}: the model has no task {task!r}; {did_you_mean(task, model.tasks)}")
        elif not Path(name).is_file():
            mistakes.append(f"--on {assignment}: no such file")
        else:
            files.setdefault(task, []).append(Path(name))
    if mistakes:
        raise RequestError(*mistakes)
    return files


def find_split(source: str | Path, about: Mapping[str, Any], split: str, data: Path | None) -> dict[str, list[Path]]:
    """The files that a model was trained beside: in its run's recipe, or by their names below --data."""
    folder = find_model(source)
    assert folder is not None, "its plait.json has just been read"
    begun = folder.resolve().parent / "run.json"
    tasks = about["recipe"].get("tasks", {})
    if begun.is_file():
        run = json.loads(begun.read_text(encoding="utf-8"))
        if portable(run["recipe"]) == about["recipe"]:  # the run that made it, not one that it was copied into
            tasks = run["recipe"]["tasks"]
    files: dict[str, list[Path]] = {}
    mistakes: list[str] = []
    for task, splits in about["data"].items():
        for known, name in zip(splits.get(split, ()), tasks[task][split], strict=True):
            path = (data / known["name"]) if data else Path(name)
            if not path.is_file():
                mistakes.append(f"{task}: no file {path}; give its folder with --data, or --on {task}=FILE")
            elif sha256_of(path) != known["sha256"]:
                mistakes.append(
                    f"{task}: {path} is not the {split} file of the training; give --on {task}={path} to use it"
                )
            else:
                files.setdefault(task, []).append(path)
    if mistakes:
        raise RequestError(*mistakes)
    if not files:
        raise RequestError(f"{source}: was trained without {split} data; give --on TASK=FILE")
    return files
