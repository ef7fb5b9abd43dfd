"""The directory of a run: used by one process at a time, gone on with only as it was begun."""

import fcntl
import json
import os
import shutil
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import Any

import torch

import plait
from plait.data.frames import is_table, write_table
from plait.errors import DataError, RunError
from plait.model.about import portable
from plait.model.files import whole_file
from plait.model.save import write_json
from plait.recipe.read import write_recipe
from plait.recipe.schema import SPLITS
from plait.training.settle import Prints, SettledRun

__all__ = ["Run", "differences"]


class Run:
    """Names and contents of a run directory."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.recipe = folder / "recipe.yaml"
        self.facts = folder / "run.json"
        self.metrics = folder / "metrics.jsonl"
        self.baselines = folder / "baselines.json"
        self.checkpoints = folder / "checkpoints"
        self.best = folder / "best"
        self.kept = folder / "kept"  # the best models, where so many were asked for
        self.result = folder / "result.json"
        self.alone = folder / "alone.json"  # the scores of the tasks when each is trained by itself
        self.bad_rows = folder / "bad-rows.jsonl"
        self.given = folder / "given"  # tables that were handed over in memory

    def check_free(self) -> None:
        """Refuse a directory that holds a run, or anything else; what is left of one that never began may stay."""
        if self.facts.is_file():
            hint = f"go on with it by plait train --resume {self.folder}, or"
            what = "a finished run;" if self.result.is_file() else f"a run; {hint}"
            raise RunError(f"{self.folder}: already holds {what} choose another --out")
        if self.folder.exists() and not self.folder.is_dir():
            raise RunError(f"{self.folder}: is a file; choose another --out")
        left = {".lock", self.recipe.name, self.bad_rows.name, self.given.name}
        strange = [path.name for path in self.folder.glob("*") if path.name not in left and path.suffix != ".part"]
        if strange:
            raise RunError(f"{self.folder}: is not empty, it has {sorted(strange)[0]}; choose another --out")

    def keep_tables(self, recipe: object) -> Any:
        """A recipe whose tables in memory are files of the run, where resuming finds them."""
        if not isinstance(recipe, Mapping):
            return recipe
        kept = self.keep_block(recipe, "", "")
        if isinstance(stages := recipe.get("stages"), list | tuple):
            blocks = [self.keep_block(block, f"stages.{n}.", f"{n + 1}.") for n, block in enumerate(stages)]
            kept = {**kept, "stages": blocks}
        return kept

    def keep_block(self, block: Any, path: str, prefix: str) -> Any:
        """The same for the tasks of a recipe or of a stage; `prefix` tells their files from those of others."""
        if not isinstance(block, Mapping) or not isinstance(block.get("tasks"), Mapping):
            return block
        tasks = {}
        for name, task in block["tasks"].items():
            given = {split: task[split] for split in SPLITS if split in task} if isinstance(task, Mapping) else {}
            tables = {}
            for split, value in given.items():
                what = f"{path}tasks.{name}.{split}"
                if not is_table(value):
                    check_sources(value, what)
                    continue
                file = self.given / f"{prefix}{name}-{split}.jsonl"
                file.parent.mkdir(parents=True, exist_ok=True)
                write_table(value, file, what)
                tables[split] = str(file.resolve())
            tasks[name] = {**task, **tables} if tables else task
        return {**block, "tasks": tasks}

    def is_finished(self) -> bool:
        """Whether there is nothing left to do."""
        return self.result.is_file() and (self.alone.is_file() or not self.begun().get("single_task"))

    def create(self, settled: SettledRun, *, baselines: bool, single_task: bool = False, keep: int = 0) -> None:
        """Write down how the run begins; run.json comes last and makes it one. The caller holds the lock."""
        self.check_free()
        write_recipe(settled.recipe, self.recipe)
        if bad := settled.data.bad:
            with whole_file(self.bad_rows) as aside, aside.open("w", encoding="utf-8") as file:
                for task, rows in bad.items():
                    file.writelines(json.dumps({"task": task, **asdict(row)}) + "\n" for row in rows)
        with whole_file(self.facts) as aside:
            write_json(
                aside,
                {
                    "plait": plait.__version__,
                    "torch": torch.__version__,
                    "threads": torch.get_num_threads(),
                    "baselines": baselines,
                    "single_task": single_task,
                    "keep": keep,
                    "recipe": settled.recipe.model_dump(mode="json"),
                    "encoder": settled.encoder,
                    "data": all_prints(settled),
                    "kept": settled.kept_origins(folders=True),
                },
            )

    def begun(self) -> dict[str, Any]:
        """What was written when the run began."""
        if not self.facts.is_file():
            raise RunError(f"{self.folder}: holds no run; start one with plait train RECIPE --out {self.folder}")
        try:
            facts = dict(json.loads(self.facts.read_text(encoding="utf-8")))
        except ValueError:
            facts = {}
        if not {"recipe", "data", "encoder", "threads", "torch", "baselines"} <= facts.keys():
            raise RunError(f"{self.facts}: is damaged; this run cannot go on, start a new one")
        return facts

    def check_same(self, settled: SettledRun) -> None:
        """Refuse to go on with another recipe or other data, and show the difference."""
        begun = self.begun()
        now = portable(settled.recipe.model_dump(mode="json"))  # files may have moved, their sha256 may not change
        changed = [
            f"{self.folder}: the {what} was changed: {line}"
            for what, before, after in (
                ("recipe", portable(begun["recipe"]), now),
                ("encoder", begun["encoder"], settled.encoder),
                ("data", begun["data"], all_prints(settled)),
            )
            for line in differences(before, after)
        ]
        if changed:
            raise RunError(*changed, "a run goes on only as it began; start a new one with another --out")

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Only one process works on a run; what a killed one left half-written is removed."""
        self.folder.mkdir(parents=True, exist_ok=True)
        with (self.folder / ".lock").open("w") as lock:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError:
                raise RunError(f"{self.folder}: another process is training this run") from None
            for folder in (self.folder, self.checkpoints, self.kept):
                for left in (*folder.glob(".*.part"), *folder.glob(".*.old")):
                    shutil.rmtree(left) if left.is_dir() else left.unlink()
            yield

    def cut_metrics(self, step: int) -> None:
        """Drop the lines after a step, and a line that was cut short."""
        if not self.metrics.is_file():
            return
        kept = []
        for line in self.metrics.read_text(encoding="utf-8").splitlines(keepends=True):
            try:
                if not line.endswith("\n") or json.loads(line)["step"] > step:
                    break
            except (json.JSONDecodeError, KeyError):
                break
            kept.append(line)
        with self.metrics.open("r+", encoding="utf-8") as file:
            file.truncate(len("".join(kept).encode()))
            os.fsync(file.fileno())

    def recorded(self, kind: str) -> Iterator[dict[str, Any]]:
        """The lines of metrics.jsonl of one kind."""
        with self.metrics.open(encoding="utf-8") as file:
            yield from (record for line in file if (record := json.loads(line))["kind"] == kind)


def all_prints(settled: SettledRun) -> Prints | dict[str, list[Prints]]:
    """The fingerprints of all data, stage by stage where there are several."""
    prints = [stage.fingerprints for stage in settled.stages]
    return {"stages": prints} if len(prints) > 1 else prints[0]


def check_sources(given: object, what: str) -> None:
    """Refuse what names no file and is no table, which would be read as the name of a file."""
    for source in given if isinstance(given, list | tuple) else [given]:
        if not isinstance(source, str | Path | Mapping | int | float | None):
            found = type(source).__name__
            raise DataError(f"{what}: expected a file, a data frame or a list of dicts, found {found}")


def differences(old: Any, new: Any, path: str = "") -> Iterator[str]:
    """key: old → new, for every value that differs between two trees."""
    if isinstance(old, dict) and isinstance(new, dict):
        for key in dict.fromkeys([*old, *new]):
            yield from differences(old.get(key), new.get(key), f"{path}.{key}" if path else str(key))
    elif isinstance(old, list) and isinstance(new, list) and len(old) == len(new):
        for index, (before, after) in enumerate(zip(old, new, strict=True)):
            yield from differences(before, after, f"{path}.{index}")
    elif old != new:
        yield f"{path}: {old!r} → {new!r}"
