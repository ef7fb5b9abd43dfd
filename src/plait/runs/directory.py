"""The directory of a run: used by one process at a time, resumed only with unchanged recipe and data."""

import json
import os
import shutil
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import asdict, replace
from functools import cached_property
from pathlib import Path
from typing import Any

from plait.data.frames import in_rows, is_table, write_table
from plait.data.prediction_arrays import PredictionArrays
from plait.data.read import BadRow
from plait.errors import DataError, RecipeError, RunError
from plait.files import atomic_file, read_json_with_digest, remove_leftovers, write_json_with_digest
from plait.model.directory.record import open_directory
from plait.names import excerpt, name_problem
from plait.recipe.read import write_recipe
from plait.recipe.schema import Recipe
from plait.recipe.task import SPLITS
from plait.runs.metrics_file import read_metrics
from plait.runs.records import MetricsLine, MetricsMark, ResultRecord, RunRecord
from plait.runs.run_lock import RunLock
from plait.runs.stored_baselines import StoredBaselines

__all__ = ["RunDirectory"]


class RunDirectory:
    """Paths and records of a run directory."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.recipe = folder / "recipe.yaml"
        self.metrics = folder / "metrics.jsonl"
        self.checkpoints = folder / "checkpoints"
        self.best = folder / "best"
        self.refit = folder / "refit"  # while the last training on all rows goes on
        self.kept = folder / "kept"  # the best models, if several are kept
        self.bad_rows = folder / "bad-rows.jsonl"
        self.label_errors = folder / "label-errors.csv"  # what plait clean found
        self.trackers = folder / "trackers.json"  # tracker → what it calls the run
        self._record = folder / "run.json"
        self._result = folder / "result.json"
        self._baselines = StoredBaselines(folder)
        self._lock = RunLock(folder)
        self._single_task_scores = folder / "single_task.json"
        self._created = False  # by this process
        self._table_names: dict[Path, str] = {}  # file of a table in memory → its key in the recipe

    @property
    def tables(self) -> Path:
        """Tables that were passed in memory; an older plait called the folder `given`."""
        former = self.folder / "given"
        return former if former.is_dir() else self.folder / "tables"

    @property
    def single_tasks(self) -> Path:
        """The runs that train one task alone; an older plait called the folder `alone`."""
        former = self.folder / "alone"
        return former if former.is_dir() else self.folder / "single_task"

    @property
    def pairs(self) -> Path:
        """The runs that train two tasks without the others."""
        return self.folder / "pairs"

    @property
    def has_tables(self) -> bool:
        """Whether tables that were passed in memory have been stored."""
        return bool(self._table_names)

    @property
    def has_begun(self) -> bool:
        return self._record.is_file()

    @property
    def has_worked(self) -> bool:
        """Whether there is something that a resumed run need not do again: baselines, a step, a checkpoint."""
        stepped = self.metrics.is_file() and self.metrics.stat().st_size > 0
        return stepped or self._baselines.are_measured or self.checkpoints.is_dir()

    @property
    def is_trained(self) -> bool:
        """Whether the run itself is finished; single-task runs may still be missing."""
        return self._result.is_file()

    @property
    def is_refitted(self) -> bool:
        """Whether the best model was trained once more on all rows."""
        return open_directory(self.best).record.provenance.refit

    def is_finished(self) -> bool:
        """Whether there is nothing left to do."""
        if not self.is_trained or (self.record.recipe.get("refit") and not self.is_refitted):
            return False
        return not self.record.single_task or self.read_single_task_scores() is not None

    @cached_property
    def record(self) -> RunRecord:
        """How the run began."""
        if not self.has_begun:
            raise RunError(f"{self.folder}: not a run; start one with plait train RECIPE --out {self.folder}")
        return RunRecord.read(self._record)

    def read_result(self) -> ResultRecord:
        return ResultRecord.read(self._result, needs_digest=self._has_digests)

    def write_result(self, result: ResultRecord) -> None:
        """Write the result, and delete the checkpoints, which are no longer needed."""
        self.check_present()
        write_json_with_digest(self._result, result.to_json())
        self.drop_checkpoints()

    def drop_checkpoints(self) -> None:
        shutil.rmtree(self.checkpoints, ignore_errors=True)

    def read_baselines(self) -> dict[str, Any] | None:
        """Split → baseline → task → value; None if they have not been measured."""
        return self._baselines.read(needs_digest=self._has_digests)

    def write_baselines(self, baselines: Mapping[str, Any]) -> None:
        self.check_present()
        self._baselines.write(baselines)

    def read_baseline_predictions(self) -> dict[str, dict[str, dict[str, PredictionArrays]]]:
        """Split → baseline → task → predictions; empty if they were not stored."""
        return self._baselines.read_predictions()

    def write_baseline_predictions(self, answers: Mapping[str, Mapping[str, Mapping[str, PredictionArrays]]]) -> None:
        self.check_present()
        self._baselines.write_predictions(answers)

    def read_single_task_scores(self) -> dict[str, float] | None:
        """Task → its score when trained alone; None if they are not all measured yet."""
        for path in (self._single_task_scores, self.folder / "alone.json"):  # its name before 0.2
            if path.is_file():
                value = self._read_record(path, "delete it, then resume the run")
                scores = value.get("scores")  # before 0.2, the tasks were at the top
                return dict(scores if isinstance(scores, dict) else value)
        return None

    def write_single_task_scores(self, scores: Mapping[str, float]) -> None:
        self.check_present()
        write_json_with_digest(self._single_task_scores, {"scores": {**scores}})

    def read_trackers(self) -> dict[str, Any]:
        """Tracker → what it calls the run."""
        return self._read_record(self.trackers, "delete it, then resume the run") if self.trackers.is_file() else {}

    def write_trackers(self, known: Mapping[str, Any]) -> None:
        self.check_present()
        write_json_with_digest(self.trackers, known)

    @property
    def _has_digests(self) -> bool:
        return self.has_begun and self.record.digests

    def _read_record(self, path: Path, what_to_do: str) -> dict[str, Any]:
        try:
            value, has_digest = read_json_with_digest(path)
            if self._has_digests and not has_digest:
                raise ValueError("its digest is missing")
        except (ValueError, TypeError):
            raise RunError(f"{path}: damaged; {what_to_do}") from None
        return value

    def check_free(self) -> None:
        """Refuse a directory that holds a run or anything else; leftovers of a run that never began may stay."""
        if self.has_begun:
            resume = f"a run; resume it with plait train --resume {self.folder}, or"
            what = "a finished run;" if self.is_trained else resume
            raise RunError(f"{self.folder}: already holds {what} choose another `out`")
        if self.folder.exists() and not self.folder.is_dir():
            raise RunError(f"{self.folder}: is a file; choose another `out`")
        left = {".lock", self.recipe.name, self.bad_rows.name, self.tables.name}
        others = [path.name for path in self.folder.glob("*") if path.name not in left and path.suffix != ".part"]
        if others:
            raise RunError(f"{self.folder}: not empty, it contains {sorted(others)[0]}; choose another `out`")

    def create(self, record: RunRecord, recipe: Recipe, bad: Mapping[str, Sequence[BadRow]]) -> None:
        """Write how the run begins; run.json comes last and makes it a run. The caller holds the lock."""
        self.check_free()
        write_recipe(recipe, self.recipe)
        if bad:
            with atomic_file(self.bad_rows) as temporary, temporary.open("w", encoding="utf-8") as file:
                for task, rows in bad.items():
                    file.writelines(json.dumps({"task": task, **asdict(row)}) + "\n" for row in rows)
        write_json_with_digest(self._record, record.to_json())
        self._created = True

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Keep other processes out; what a killed one left half-written is deleted."""
        self.folder.mkdir(parents=True, exist_ok=True)
        with self._lock.hold(self._how_to_go_on):
            for folder in (self.folder, self.checkpoints, self.kept):
                remove_leftovers(folder)
            yield

    def check_present(self) -> None:
        """Before each write: stop if the directory is gone, or is another run's by now."""
        self._lock.check()

    def _how_to_go_on(self) -> str:
        if self.has_begun and (self.has_worked or not self._created):
            return f"once that is solved, resume with plait train --resume {self.folder}"
        return "once that is solved, start the run again"

    @contextmanager
    def no_leftovers(self, stopped: type[Exception]) -> Iterator[None]:
        """If a new run fails before it has done any work, delete the directories that were made for it.

        A run that was `stopped` or interrupted can be resumed, and stays.
        """
        made = [folder for folder in (self.folder, *self.folder.parents) if not folder.exists()]
        try:
            yield
        except BaseException as error:
            interrupted = isinstance(error, stopped) or not isinstance(error, Exception)
            lost = self._created and not interrupted and not self.has_worked
            if made and not self._lock.was_lost and (lost or not self.has_begun):
                self._delete()
                for folder in made[1:]:
                    with suppress(OSError):  # others use it, or it was never made
                        folder.rmdir()
            raise

    def _delete(self) -> None:
        """Delete the directory, unless another process trains in it by now."""
        if self.folder.is_dir():
            with self._lock.try_to_hold() as held:
                if held:
                    shutil.rmtree(self.folder, ignore_errors=True)

    def cut_metrics(self, mark: MetricsMark | None) -> None:
        """Drop the lines after a mark, or all of them."""
        if self.metrics.is_file():
            with self.metrics.open("r+b") as file:
                file.truncate(mark.size if mark else 0)
                os.fsync(file.fileno())

    def metrics_lines(self, mark: MetricsMark | None = None) -> list[MetricsLine]:
        """The lines of metrics.jsonl: up to a mark, all of a finished run, or those that there are so far."""
        return read_metrics(self.metrics, mark or (self.read_result().metrics if self.is_trained else None))

    def store_tables(self, recipe: object) -> Any:
        """A recipe whose tables in memory are files of the run, where resuming finds them."""
        if not isinstance(recipe, Mapping):
            return recipe
        stored = self._store_block(recipe, "", "")
        if isinstance(stages := recipe.get("stages"), list | tuple):
            blocks = [self._store_block(block, f"stages.{n}.", f"{n + 1}.") for n, block in enumerate(stages)]
            stored = {**stored, "stages": blocks}
        return stored

    @contextmanager
    def errors_in_rows(self) -> Iterator[None]:
        """Let errors about stored tables name the tables and their rows, not files and lines."""
        try:
            yield
        except (DataError, RecipeError) as error:
            if not self._table_names:
                raise
            raise type(error)(*in_rows(error.mistakes, self._table_names)) from None

    def rows_of_tables(self, bad: Sequence[BadRow]) -> list[BadRow]:
        """The same for bad rows that are skipped."""
        return [replace(row, where=self.place_of(row.where)) for row in bad]

    def place_of(self, where: str) -> str:
        """Where a row stands: file and line, or the row of a stored table."""
        return in_rows([where], self._table_names)[0] if self._table_names else where

    def _store_block(self, block: Any, path: str, prefix: str) -> Any:
        """The same for the tasks of a recipe or stage; `prefix` distinguishes their files."""
        if not isinstance(block, Mapping) or not isinstance(block.get("tasks"), Mapping):
            return block
        tasks = {}
        for name, task in block["tasks"].items():
            given = {split: task[split] for split in SPLITS if split in task} if isinstance(task, Mapping) else {}
            files = {}
            for split, value in given.items():
                where = f"{path}tasks.{name}.{split}"
                if not is_table(value):
                    _check_sources(value, where)
                    continue
                if problem := name_problem(str(name)):
                    raise RecipeError(
                        f"{path}tasks: the name {excerpt(str(name))!r} of a task {problem}; choose another"
                    )
                file = self.tables / f"{prefix}{name}-{split}.jsonl"
                file.parent.mkdir(parents=True, exist_ok=True)
                write_table(value, file, where)
                self._table_names[file.resolve()] = where
                files[split] = str(file.resolve())
            tasks[name] = {**task, **files} if files else task
        return {**block, "tasks": tasks}


def _check_sources(given: object, where: str) -> None:
    """Refuse what is neither a file nor a table, and would be taken for the name of a file."""
    for source in given if isinstance(given, list | tuple) else [given]:
        if not isinstance(source, str | Path | Mapping | int | float | None):
            found = type(source).__name__
            raise DataError(f"{where}: expected a file, a data frame or a list of dicts, found {found}")
