"""The cells of a suite: one row with one seed, one fold if the suite has folds, one draw if it is trained on few rows.

A cell's folder contains its run (or the trials of its grid, or the runs of its ensemble), `answers.npz` with its
predictions, and `cell.json` with its scores. `cell.json` is written last: a cell that has one is done.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Literal

from plait.errors import RequestError, RunError
from plait.experiments.records import CellResult
from plait.experiments.results_file import ResultsFile
from plait.files import sha256_of
from plait.recipe.read import recipe_from
from plait.recipe.schema import Recipe
from plait.recipe.suite import Suite
from plait.recipe.task import SPLITS
from plait.recipe.tree import set_keys
from plait.resolve.saved import as_saved, differences, recipe_differences
from plait.resolve.variants import VARIANTS

__all__ = ["Cell", "Experiment", "cells_of", "data_fingerprints", "take_share"]


@dataclass(frozen=True)
class Cell:
    """One run of a row."""

    row: str
    seed: int
    fold: int | None = None  # from 1
    draw: int | None = None  # of its training rows, from 1

    @property
    def name(self) -> str:
        """Its folder inside that of the experiment, and its name in messages."""
        fold = f"/fold-{self.fold}" if self.fold else ""
        draw = f"/draw-{self.draw}" if self.draw else ""
        return f"{self.row}/seed-{self.seed}{fold}{draw}"

    @property
    def place(self) -> tuple[int, int | None, int | None]:
        """What cells of different rows have in common if they share their data."""
        return self.seed, self.fold, self.draw


@dataclass(frozen=True)
class Experiment:
    """A suite, and how it is run."""

    suite: Suite
    out: Path
    data: Path | None = None
    profile: str | None = None
    overrides: tuple[str, ...] = ()
    models: bool = True  # whether models are kept after scoring
    results: ResultsFile | None = None
    threads: dict[str, int] = field(default_factory=dict, compare=False)  # by encoder: what the first cell chose

    def folder(self, cell: Cell) -> Path:
        return self.out / cell.name

    def record_file(self, cell: Cell) -> Path:
        return self.folder(cell) / "cell.json"

    def predictions_file(self, cell: Cell) -> Path:
        return self.folder(cell) / "answers.npz"

    def fold(self, cell: Cell) -> str | None:
        """The cell's fold as a recipe gives it, such as 1/5."""
        return f"{cell.fold}/{self.suite.folds}" if cell.fold else None

    def overrides_of(self, cell: Cell) -> list[str]:
        """What the command line and the cell change in the row's recipe."""
        fold, draw = self.fold(cell), cell.draw
        own = [f"seed={cell.seed}", *([f"fold={fold}"] if fold else []), *([f"draw={draw}"] if draw else [])]
        return [*self.overrides, *own]

    def recipe(
        self, cell: Cell, settings: Sequence[str] = (), *, missing_files: Literal["refuse", "keep"] = "refuse"
    ) -> Recipe:
        """The recipe of a cell, with settings from its grid, before its data is read."""
        tree = set_keys(self.suite.recipe_tree(cell.row, self.profile), [*self.overrides_of(cell), *settings])
        return recipe_from(tree, VARIANTS, data=self.data, missing_files=missing_files)

    def read_folder(self, cell: Cell) -> CellResult | None:
        """The result in the cell's folder; None if it is not done there."""
        file = self.record_file(cell)
        return CellResult.read(file) if file.is_file() else None

    def result(self, cell: Cell) -> CellResult | None:
        """The result of a cell, from the results file or its folder; None if it is not done.

        Refuses a result that another recipe or other data gave.
        """
        listed = self.results.find(cell.row, cell.seed, self.fold(cell), cell.draw) if self.results else None
        found = listed.result if listed else self.read_folder(cell)
        if found is None:
            return None
        where = listed.where if listed else str(self.folder(cell))
        remedy = f"remove this line, or give another --results than {where.rpartition(':')[0]}" if listed else None
        if changed := list(self._changes(cell, found)):
            lines = [f"{where}: {cell.name} was run {line}" for line in changed]
            raise RunError(*lines, remedy or f"remove {where}, or choose another --out")
        return found

    def _changes(self, cell: Cell, found: CellResult) -> list[str]:
        """What has changed since a cell was run. Data files that are not here are not compared."""
        recipe = self.recipe(cell, missing_files="keep")
        now = data_fingerprints(recipe)
        then = {name: digest for name, digest in found.data.items() if name in now}
        changes = {
            "by another recipe": [
                *recipe_differences(found.recipe, as_saved(recipe), found.variants),
                *differences(found.row, self.suite.rows[cell.row].run_keys()),
            ],
            "on other data": differences(then, now) if then else (),
        }
        return [f"{what}: {line}" for what, lines in changes.items() for line in lines]

    def is_done(self, cell: Cell) -> bool:
        return self.result(cell) is not None

    def has_predictions(self, cell: Cell) -> bool:
        """Whether the predictions behind the cell's scores are here."""
        if not self.predictions_file(cell).is_file():
            return False
        listed = self.results.find(cell.row, cell.seed, self.fold(cell), cell.draw) if self.results else None
        if listed is None:
            return True
        own = self.read_folder(cell)
        return own is not None and own.scores == listed.result.scores

    def list_in_results(self, cells: Sequence[Cell]) -> None:
        """Add the cells that are done in their folders to the results file."""
        for cell in cells if self.results else ():
            assert self.results is not None
            if self.record_file(cell).is_file() and (result := self.result(cell)):
                self.results.add(cell.row, cell.seed, self.fold(cell), result, cell.draw)


def cells_of(suite: Suite, seeds: Sequence[int], rows: Sequence[str]) -> list[Cell]:
    """Every cell, seed by seed, so that each row has its first as early as possible."""
    folds: list[int | None] = [*range(1, suite.folds + 1)] if suite.folds else [None]
    return [
        Cell(row, seed, fold, draw)
        for seed in seeds
        for fold in folds
        for number in range(suite.draws)
        for row in rows
        for draw in ([number + 1] if suite.train_rows_of(row) else [None][number:])
    ]


def take_share(cells: Sequence[Cell], share: str) -> list[Cell]:
    """The cells for one of several machines: 3/8 is the third of eight."""
    number, slash, of = share.partition("/")
    if not (slash and number.isdecimal() and of.isdecimal() and 1 <= int(number) <= int(of)):
        raise RequestError(f"--cells {share}: expected a share of the cells, such as 3/8")
    return list(cells[int(number) - 1 :: int(of)])


def data_fingerprints(recipe: Recipe) -> dict[str, str]:
    """The sha256 of every data file of a recipe that is here; datasets on the hub have none."""
    tasks = [task for stage in recipe.stage_recipes() for task in stage.tasks.values()]
    sources = [source for task in tasks for split in SPLITS for source in task.sources(split, recipe.fold)]
    files = sorted({Path(source.file) for source in sources if not source.on_hub and Path(source.file).is_file()})
    return {file.name: _sha256(file, file.stat().st_mtime_ns) for file in files}


@cache
def _sha256(file: Path, modified: int) -> str:
    return sha256_of(file)
