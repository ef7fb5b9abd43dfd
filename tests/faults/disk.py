"""A disk that is full from some write on, fails once, or is read-only: one message, no leftovers, nothing lost."""

import errno
import json
import os
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from faults.bench import Bench, same_files
from faults.processes import CREATE, READ, REMOVE, WRITE, DiskFault, Ended, disk_calls, plait

__all__ = ["check", "count"]

ROW = "disk"


@dataclass(frozen=True)
class Work:
    """A command that writes, and the one that continues it once there is room again."""

    arguments: Callable[[Bench, Path], list[object]]
    again: Callable[[Bench, Path], list[object]]
    writes: str  # its output, in the folder of the case


def _train(bench: Bench, place: Path) -> list[object]:
    recipe = bench.recipe_file("disk", checkpoint_every=2, batch_size=16, schedule="round_robin")
    options = ["--no-report", "--threads", "1", "--keep", "1"]
    return ["train", recipe, "--out", place / "run", *options]


def _resume(bench: Bench, place: Path) -> list[object]:
    return (
        ["train", "--resume", place / "run", "--no-report"]
        if (place / "run/run.json").exists()
        else _train(bench, place)
    )


def _stream(command: str, output: str, bench: Bench, place: Path, *, resumed: bool = False) -> list[object]:
    task = ["mood"] if command == "predict" else []
    again = ["--resume"] if resumed and (place / f".{output}.parts/journal.jsonl").exists() else []
    return [command, bench.model, *task, "--input", bench.rows, "--output", place / output, *again]


def _simple(*words: object) -> Work:
    """A command that starts from the beginning."""

    def arguments(bench: Bench, place: Path) -> list[object]:
        names = {"MODEL": bench.model, "OUT": place / "out"}
        return [names.get(word, word) if isinstance(word, str) else word for word in words]

    return Work(arguments, arguments, "out")


WORK = {
    "train": Work(_train, _resume, "run"),
    "predict": Work(partial(_stream, "predict", "out.csv"), partial(_stream, "predict", "out.csv", resumed=True), "."),
    "embed": Work(partial(_stream, "embed", "out.npy"), partial(_stream, "embed", "out.npy", resumed=True), "."),
    "export": _simple("export", "MODEL", "--to", "onnx", "--out", "OUT"),
}
# Kinds of system calls that fail, whether once or from then on, and with which error.
FAULTS: dict[str, tuple[int, bool, int]] = {
    "full": (WRITE | CREATE, True, errno.ENOSPC),
    "write error": (WRITE, False, errno.EIO),
    "read error": (READ, False, errno.EIO),
    "read-only": (CREATE | REMOVE, True, errno.EROFS),
}


def _made(bench: Bench, name: str) -> Path:
    """What a command writes on a disk without faults, and in a file beside it how many system calls it makes."""

    def make(place: Path) -> None:
        place.mkdir()
        counted = DiskFault(place, WRITE | CREATE | REMOVE | READ, 0, first=0)
        arguments = WORK[name].arguments(bench, place)
        ended = bench.start(place, _count, place.with_suffix(".calls"), arguments, fault=counted).end()
        assert ended.code == 0, ended.log

    return bench.once(f"disk-{name}", make)


def _count(path: Path, arguments: list[object]) -> None:
    plait(*arguments)
    path.write_text(json.dumps({fault: disk_calls(kinds) for fault, (kinds, _, _) in FAULTS.items()}))


def _cases(bench: Bench) -> list[tuple[str, str, int]]:
    """Command, fault, and the number of the first call that fails."""
    cases = []
    for name in WORK:
        calls = json.loads(_made(bench, name).with_suffix(".calls").read_text())
        for fault in FAULTS:
            last = 1 if fault == "read-only" else calls[fault]
            cases += [(name, fault, call) for call in range(1, last + 1)]
    return cases


def count(bench: Bench) -> int:
    return len(_cases(bench))


def check(bench: Bench, number: int) -> str:
    name, fault, call = _cases(bench)[number]
    kinds, lasting, error = FAULTS[fault]
    expected, place, work = _made(bench, name), bench.place(ROW, number), WORK[name]
    failing = DiskFault(place, kinds, error, call, 2**62 if lasting else call)
    what = f"{name}, {fault} at call {call}"
    ended = bench.start(place, plait, *work.arguments(bench, place), fault=failing).end()
    if problem := _problem(ended, error, place):
        return f"{what}: {problem}"
    left = [str(path.relative_to(place)) for path in place.rglob(".*") if path.suffix in (".part", ".old")]
    if left and fault != "read-only":
        return f"{what}: temporary files are left: {left}"
    if ended.code == 0:  # what failed was not needed
        return _prefixed(what, same_files(expected, place))
    again = bench.start(place, plait, *work.again(bench, place)).end()
    finished = "already finished" in again.log  # what failed was the table of scores
    if (again.code and not finished) or not again.is_clean:
        return f"{what}: afterwards it ends with {again.code}: {again.log[-400:]}"
    return _prefixed(what, same_files(expected, place))


def _prefixed(what: str, problem: str) -> str:
    return problem and f"{what}: {problem}"


def _problem(ended: Ended, error: int, place: Path) -> str:
    if not ended.is_clean or ended.code not in (0, 1, 2):
        return f"ended with {ended.code}: {ended.log[-700:]}"
    if ended.code and not (os.strerror(error) in ended.log and str(place) in ended.log):
        return f"the message does not say what and where: {ended.log[-400:]}"
    return ""
