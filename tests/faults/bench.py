"""What the faults are tried on: a tiny encoder, tiny tasks, runs and models, made once and copied for each case."""

import hashlib
import io
import json
import random
import shutil
import sys
import tempfile
from collections.abc import Callable, Iterable, Iterator
from contextlib import redirect_stderr, redirect_stdout
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from faults.processes import Child, DiskFault, Ended, plait, start, start_server
from tiny import make_checkpoint, sentences, write_csv, write_tasks

__all__ = ["Bench", "Check", "Fault", "Outcome", "same_files", "told", "tree"]

Check = Callable[["Bench", int], str]  # the number of a case → what went wrong, "" if nothing did
Outcome = tuple[int, str]


@dataclass(frozen=True)
class Fault:
    """A row of the table: what is done, and what must happen."""

    title: str
    must: str
    cases: Callable[["Bench", Iterable[int]], Iterator[Outcome]]
    full: int | Callable[["Bench"], int]  # cases of the full run; a number, or as many as there are
    short: Iterable[int]  # cases that every run of the tests tries

    def count(self, bench: "Bench") -> int:
        return self.full if isinstance(self.full, int) else self.full(bench)


class Bench:
    """A folder, in memory where the system has one, so that syncing costs nothing."""

    def __init__(self, folder: Path | None = None) -> None:
        memory = Path("/dev/shm")
        self.folder = folder or Path(tempfile.mkdtemp(dir=memory if memory.is_dir() else None, prefix="faults-"))
        self.folder.mkdir(parents=True, exist_ok=True)

    def close(self) -> None:
        shutil.rmtree(self.folder, ignore_errors=True)

    @cached_property
    def encoder(self) -> Path:
        if not (place := self.folder / "bert").exists():
            make_checkpoint(place, "bert")
        return place

    @cached_property
    def _tasks(self) -> dict[str, Any]:
        return write_tasks(self.folder / "data", self.encoder)

    def recipe(self, **changes: Any) -> dict[str, Any]:
        """Three small tasks as a mapping; keyword arguments change its keys."""
        return {**self._tasks, "epochs": 1, **changes}

    def recipe_file(self, name: str, **changes: Any) -> Path:
        """The same as a file."""
        from plait.files import write_json

        path = self.folder / f"{name}.yaml"
        write_json(path, self.recipe(**changes))  # JSON is YAML
        return path

    def once(self, name: str, make: Callable[[Path], None]) -> Path:
        """A folder that is made at its first use; cases must copy it before they change it."""
        place = self.folder / "made" / name
        if not (ready := place.with_name(f"{name}.ready")).exists():
            place.parent.mkdir(exist_ok=True)
            make(place)
            ready.touch()
        return place

    def place(self, row: str, number: int) -> Path:
        """An empty folder for one case."""
        folder = self.folder / "cases" / f"{row}-{number}"
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
        return folder

    def copy(self, folder: Path, row: str, number: int) -> Path:
        """A copy of a folder for one case."""
        place = self.place(row, number) / folder.name
        shutil.copytree(folder, place, symlinks=True)
        return place

    @staticmethod
    def chance(row: str, number: int) -> random.Random:
        """The random numbers of one case."""
        return random.Random(f"{row}/{number}")

    def start(
        self, place: Path, function: Callable[..., None], *arguments: Any, fault: DiskFault | None = None
    ) -> Child:
        """A warm process whose output goes to a file beside the case."""
        start_server(self.encoder)
        return start(function, *arguments, log=place.with_name(f"{place.name}.log"), fault=fault)

    def plait(self, place: Path, *arguments: object, fault: DiskFault | None = None, change: Any = None) -> Ended:
        """A command of plait in a process of its own, to its end."""
        from functools import partial

        return self.start(place, partial(plait, change=change), *arguments, fault=fault).end()

    @cached_property
    def rows(self) -> Path:
        """A file to predict for, with a bad row."""
        path = self.folder / "rows.csv"
        texts = sentences(50, seed=5)
        texts[17] = ""
        write_csv(path, ["sentence"], [(text,) for text in texts])
        return path

    @property
    def model(self) -> Path:
        """A model of three tasks after a short run."""
        return self.once("model", self._make_model)

    def _make_model(self, place: Path) -> None:
        from plait.training.train import train

        train(self.recipe(), place.with_name("model-run"), baselines=False)
        shutil.move(place.with_name("model-run") / "best", place)


def tree(folder: Path, *leave_out: str) -> dict[str, str]:
    """The digest of every file below a folder, by its path."""
    return {
        str(path.relative_to(folder)): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in sorted(folder.rglob("*"))
        if path.is_file() and path.name not in leave_out
    }


def same_files(expected: Path, found: Path) -> str:
    """What differs between two folders, "" if nothing does; times and places in the records of runs may differ."""
    first, second = _timeless(expected), _timeless(found)
    differing = [name for name in first.keys() | second.keys() if first.get(name) != second.get(name)]
    return f"differs: {', '.join(sorted(differing)[:5])}" if differing else ""


def _timeless(folder: Path) -> dict[str, str]:
    """The digest of every file, without those that hold times or places; results without their times."""
    files = tree(folder, ".lock", "run.json", "recipe.yaml", "position.json", "result.json", "report.html")
    results = {}
    for path in folder.rglob("result.json"):
        value = json.loads(path.read_text(encoding="utf-8"))
        results[str(path.relative_to(folder))] = repr({**value, "seconds": 0, "sha256": ""})
    of_checkpoints = {name for name in files if "checkpoints/" in name and name.endswith("manifest.json")}
    return {**{name: digest for name, digest in files.items() if name not in of_checkpoints}, **results}


def told(*arguments: object) -> tuple[int, str, str]:
    """A command in this process: its exit code, standard output and standard error."""
    from plait.cli.main import main

    out, errors, before, code = io.StringIO(), io.StringIO(), sys.argv, 0
    sys.argv = ["plait", *map(str, arguments)]
    try:
        with redirect_stdout(out), redirect_stderr(errors):
            main()
    except SystemExit as exit_:
        code = int(exit_.code or 0)
    finally:
        sys.argv = before
    return code, out.getvalue(), errors.getvalue()
