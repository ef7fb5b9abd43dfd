"""The cells of a suite: one row of the table with one seed, and one fold where there are folds.

A cell's folder holds its run (or the trials of its grid, or the runs of its ensemble), `cell.json` with its scores, and
`answers.npz` with its predictions. `cell.json` comes last and says that the cell is done.
"""

import json
import zipfile
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from plait.errors import RequestError, RunError
from plait.experiments.suite import Suite
from plait.model.about import portable
from plait.model.decode import Decoded
from plait.model.files import sha256_of, whole_file
from plait.model.save import write_json
from plait.recipe.schema import SPLITS, Recipe
from plait.training.loop import as_recipe
from plait.training.run import differences

__all__ = [
    "Answers",
    "Cell",
    "Experiment",
    "Found",
    "cells_of",
    "facts_of",
    "read_answers",
    "read_found",
    "share_of",
    "write_answers",
    "write_found",
]


@dataclass(frozen=True)
class Cell:
    """One run of a row."""

    row: str
    seed: int
    fold: int | None  # from 1

    @property
    def name(self) -> str:
        """Its folder below that of the experiment, and how messages call it."""
        fold = f"/fold-{self.fold}" if self.fold else ""
        return f"{self.row}/seed-{self.seed}{fold}"


@dataclass(frozen=True)
class Found:
    """What came of a cell."""

    scores: dict[str, float]  # task → its metric on the suite's split
    metrics: dict[str, str]
    kinds: dict[str, str]  # of label
    encoder: str
    rows: dict[str, int]  # task → training rows; with folds, those of all folds
    epochs: list[int | None]  # of each stage
    seconds: float  # of all its own runs
    recipe: dict[str, Any]  # as it was given, without folders
    row: dict[str, Any] = field(default_factory=dict)  # its grid or ensemble in the suite
    data: dict[str, str] = field(default_factory=dict)  # file → sha256
    settings: list[str] = field(default_factory=list)  # what the grid chose
    failed: str | None = None


@dataclass(frozen=True)
class Answers:
    """The labels of one task on the suite's split, and the predictions of a cell."""

    labels: np.ndarray
    decoded: Decoded


@dataclass(frozen=True)
class Experiment:
    """A suite as it is to be run."""

    suite: Suite
    out: Path
    data: Path | None = None
    profile: str | None = None
    assignments: tuple[str, ...] = ()
    models: bool = True  # whether models stay once they are scored

    def folder(self, cell: Cell) -> Path:
        """The folder of a cell."""
        return self.out / cell.name

    def answers_file(self, cell: Cell) -> Path:
        """The predictions of a cell."""
        return self.folder(cell) / "answers.npz"

    def changes(self, cell: Cell) -> list[str]:
        """What the command line and the cell itself change of the row's recipe."""
        fold = [f"fold={cell.fold}/{self.suite.folds}"] if cell.fold else []
        return [*self.assignments, f"seed={cell.seed}", *fold]

    def recipe(self, cell: Cell, settings: Sequence[str] = ()) -> Recipe:
        """The recipe of a cell, with settings of its grid, before its data is read."""
        return as_recipe(self.suite.recipe_of(cell.row), self.data, self.profile, [*self.changes(cell), *settings])

    def is_done(self, cell: Cell) -> bool:
        """Whether a cell has been run; refuses one that was run by another recipe or on other data."""
        found = read_found(self, cell)
        if found is None:
            return False
        recipe = self.recipe(cell)
        changed = [
            f"{self.folder(cell)}: was run {what}: {line}"
            for what, before, now in (
                ("by another recipe", found.recipe, recorded(recipe)),
                ("by another recipe", found.row, self.suite.rows[cell.row].runs_by),
                ("on other data", found.data, data_prints(recipe) if found.data else {}),
            )
            for line in differences(before, now)
        ]
        if changed:
            raise RunError(*changed, f"remove {self.folder(cell)}, or choose another --out")
        return True


def cells_of(suite: Suite, seeds: Sequence[int], rows: Sequence[str]) -> list[Cell]:
    """Every cell, seed by seed, so that each row has its first as early as possible."""
    folds: list[int | None] = [*range(1, suite.folds + 1)] if suite.folds else [None]
    return [Cell(row, seed, fold) for seed in seeds for fold in folds for row in rows]


def share_of(cells: Sequence[Cell], share: str) -> list[Cell]:
    """The cells of one machine of several: 3/8 is the third of eight."""
    number, slash, of = share.partition("/")
    if not (slash and number.isdecimal() and of.isdecimal() and 1 <= int(number) <= int(of)):
        raise RequestError(f"--cells {share}: expected a part of all, such as 3/8")
    return list(cells[int(number) - 1 :: int(of)])


def read_found(experiment: Experiment, cell: Cell) -> Found | None:
    """What came of a cell; None where it is not done."""
    file = experiment.folder(cell) / "cell.json"
    if not file.is_file():
        return None
    try:
        return Found(**json.loads(file.read_text(encoding="utf-8")))
    except (ValueError, TypeError):
        raise RunError(f"{file}: is damaged; remove it, and the cell is scored again") from None


def write_found(experiment: Experiment, cell: Cell, found: Found) -> None:
    """Say that a cell is done."""
    with whole_file(experiment.folder(cell) / "cell.json") as aside:
        write_json(aside, asdict(found))


def facts_of(experiment: Experiment, cell: Cell, settings: Sequence[str] = ()) -> dict[str, Any]:
    """What tells a cell from the paper's, and from one of another recipe."""
    recipe = experiment.recipe(cell, settings)
    return {
        "encoder": recipe.encoder,
        "epochs": [stage.epochs for stage in recipe.stage_recipes()],
        "recipe": recorded(experiment.recipe(cell)),
        "row": experiment.suite.rows[cell.row].runs_by,
        "data": data_prints(recipe),
        "settings": list(settings),
    }


def recorded(recipe: Recipe) -> dict[str, Any]:
    """A recipe as cell.json holds it."""
    found: dict[str, Any] = json.loads(json.dumps(portable(recipe.model_dump(mode="json"))))
    return found


def data_prints(recipe: Recipe) -> dict[str, str]:
    """The sha256 of every data file that a recipe names; data sets of the hub have none."""
    tasks = [task for stage in recipe.stage_recipes() for task in stage.tasks.values()]
    sources = [source for task in tasks for split in SPLITS for source in task.sources(split, recipe.fold)]
    files = sorted({Path(source.file) for source in sources if not source.on_hub})
    return {file.name: print_of(file, file.stat().st_mtime_ns) for file in files}


@cache
def print_of(file: Path, changed: int) -> str:
    """The sha256 of a file as it was last changed."""
    return sha256_of(file)


def read_answers(experiment: Experiment, cell: Cell) -> dict[str, Answers]:
    """The predictions of a cell by task."""
    place = experiment.answers_file(cell)
    try:
        with np.load(place, allow_pickle=False) as file:
            arrays = {name: file[name] for name in file.files}
        tasks = [name.removesuffix("/labels") for name in arrays if name.endswith("/labels")]
        return {
            task: Answers(
                arrays[f"{task}/labels"], Decoded(arrays[f"{task}/values"], arrays.get(f"{task}/probabilities"))
            )
            for task in tasks
        }
    except (OSError, ValueError, KeyError, zipfile.BadZipFile):
        raise RunError(f"{place}: is damaged; remove it and the cell.json beside it to score the cell again") from None


def write_answers(experiment: Experiment, cell: Cell, answers: Mapping[str, Answers]) -> None:
    """Keep the predictions of a cell."""
    arrays: dict[str, np.ndarray] = {}
    for task, answer in answers.items():
        arrays[f"{task}/labels"], arrays[f"{task}/values"] = answer.labels, answer.decoded.values
        if answer.decoded.probabilities is not None:
            arrays[f"{task}/probabilities"] = answer.decoded.probabilities
    with whole_file(experiment.answers_file(cell)) as aside, aside.open("wb") as file:
        np.savez_compressed(file, **arrays)  # type: ignore[arg-type]
