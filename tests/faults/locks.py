"""Two runs in one directory, a directory that is removed under a run, and locks that dead processes left."""

import os
import shutil
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

from faults.bench import Bench, same_files
from faults.processes import Child, plait

__all__ = ["CASES", "check"]

ROW = "locks"


def _train(bench: Bench, run: Path) -> list[object]:
    recipe = bench.recipe_file("locks", checkpoint_every=2, evaluate_every=2, schedule="round_robin", epochs=2)
    return ["train", recipe, "--out", run, "--no-report", "--no-baselines", "--threads", "1"]


def wait_for(path: Path, step: int = 3) -> None:
    """Let the run of this process wait before a step until a file exists."""
    from plait.training.trainer import Trainer

    real = Trainer.step

    def waiting(self: Trainer, number: int, planned: Any) -> dict[str, float]:
        if number == step:
            path.with_suffix(".here").touch()
            while not path.exists():
                time.sleep(0.01)
        return real(self, number, planned)

    Trainer.step = waiting  # type: ignore[method-assign]


def _halted(bench: Bench, place: Path, *arguments: object) -> Child:
    """A command that waits before its fourth step until `place/go` exists."""
    child = bench.start(place / "first", partial(plait, change=partial(wait_for, place / "go")), *arguments)
    while not (place / "go.here").exists():
        assert child.wait(0.01) is None, "it ended before its fourth step"
    return child


def _expected(bench: Bench) -> Path:
    def make(place: Path) -> None:
        ended = bench.start(place, plait, *_train(bench, place)).end()
        assert ended.code == 0, ended.log

    return bench.once(ROW, make)


def second_run(bench: Bench, place: Path) -> str:
    first = _halted(bench, place, *_train(bench, place / "run"))
    for arguments in (_train(bench, place / "run"), ["train", "--resume", place / "run"]):
        ended = bench.start(place / "second", plait, *arguments).end()
        if ended.code != 2 or ("another process" not in ended.log and "already holds a run" not in ended.log):
            return f"the second ended with {ended.code}: {ended.log[-300:]}"
    (place / "go").touch()
    return _finished(bench, place, first)


def _finished(bench: Bench, place: Path, child: Child) -> str:
    ended = child.end()
    return same_files(_expected(bench), place / "run") if ended.code == 0 else f"ended: {ended.log[-300:]}"


def removed_directory(bench: Bench, place: Path) -> str:
    first = _halted(bench, place, *_train(bench, place / "run"))
    shutil.rmtree(place / "run")
    (place / "go").touch()
    ended = first.end()
    if ended.code not in (1, 2) or not ended.is_clean or str(place / "run") not in ended.log:
        return f"the first ended with {ended.code}: {ended.log[-400:]}"
    return "it made its directory again" if (place / "run").exists() else ""


def replaced_directory(bench: Bench, place: Path) -> str:
    first = _halted(bench, place, *_train(bench, place / "run"))
    shutil.rmtree(place / "run")
    ended = bench.start(place / "second", plait, *_train(bench, place / "run")).end()
    if ended.code:
        return f"the second ended with {ended.code}: {ended.log[-300:]}"
    (place / "go").touch()
    ended = first.end()
    if ended.code not in (1, 2) or not ended.is_clean:
        return f"the first ended with {ended.code}: {ended.log[-400:]}"
    return same_files(_expected(bench), place / "run")


def stale_lock(bench: Bench, place: Path) -> str:
    _halted(bench, place, *_train(bench, place / "run")).kill()
    return _resumed(bench, place)


def lock_of_another_process(bench: Bench, place: Path) -> str:
    """The lock file names a process that works on something else."""
    _halted(bench, place, *_train(bench, place / "run")).kill()
    (place / "run/.lock").write_text(str(os.getpid()))
    return _resumed(bench, place)


def missing_lock(bench: Bench, place: Path) -> str:
    _halted(bench, place, *_train(bench, place / "run")).kill()
    (place / "run/.lock").unlink()
    return _resumed(bench, place)


def _resumed(bench: Bench, place: Path) -> str:
    return _finished(bench, place, bench.start(place, plait, "train", "--resume", place / "run", "--no-report"))


def linked_directory(bench: Bench, place: Path) -> str:
    """The same directory under two names."""
    (place / "run").mkdir()
    (place / "link").symlink_to("run")
    first = _halted(bench, place, *_train(bench, place / "run"))
    ended = bench.start(place / "second", plait, "train", "--resume", place / "link").end()
    if ended.code != 2 or "another process" not in ended.log:
        return f"the second ended with {ended.code}: {ended.log[-300:]}"
    (place / "go").touch()
    return _finished(bench, place, first)


CASES: tuple[Callable[[Bench, Path], str], ...] = (
    second_run,
    removed_directory,
    replaced_directory,
    stale_lock,
    lock_of_another_process,
    missing_lock,
    linked_directory,
)


def check(bench: Bench, number: int) -> str:
    case = CASES[number % len(CASES)]
    _expected(bench)
    problem = case(bench, bench.place(ROW, number))
    return problem and f"{case.__name__}: {problem}"
