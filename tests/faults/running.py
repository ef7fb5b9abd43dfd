"""How the cases of a row are run: each by itself, or many in one process with limits."""

import json
import time
import traceback
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

from faults.bench import Bench, Check, Outcome
from faults.processes import HANGS, Child, start, start_server

__all__ = ["in_batches", "one_by_one"]

SECONDS = 1.0  # of the processor that a case may take
MEGABYTES = 300.0  # that the process may grow by in one case
BATCH = 250  # cases per process


def one_by_one(check: Check) -> Callable[[Bench, Iterable[int]], Iterator[Outcome]]:
    """Cases that start processes of their own."""

    def cases(bench: Bench, numbers: Iterable[int]) -> Iterator[Outcome]:
        for number in numbers:
            try:
                yield number, check(bench, number)
            except Exception as error:
                yield number, f"the case itself failed: {type(error).__name__}: {error}"

    return cases


def in_batches(check: Check, *, limited: bool = True) -> Callable[[Bench, Iterable[int]], Iterator[Outcome]]:
    """Cases that share a process; if `limited`, each may take one second of the processor and grow by 300 MB."""

    def cases(bench: Bench, numbers: Iterable[int]) -> Iterator[Outcome]:
        left = list(numbers)
        while left:
            batch, journal = left[:BATCH], bench.folder / "batch.jsonl"
            journal.unlink(missing_ok=True)
            start_server(bench.encoder)
            child = start(_work, check, limited, bench.folder, batch, journal, log=bench.folder / "batch.log")
            done = 0
            for outcome in _follow(child, journal):
                done += 1
                yield outcome
            if done < len(batch):
                ended = child.kill()
                yield batch[done], f"the process ended with {ended.code}: {ended.log[-300:]}"
                done += 1
            left = left[done:]

    return cases


def _follow(child: Child, journal: Path) -> Iterator[Outcome]:
    """The outcomes as they are written, until the process ends or a case hangs."""
    read, last = 0, time.monotonic()
    while True:
        ended = child.wait(0.2)
        lines = journal.read_text(encoding="utf-8").splitlines() if journal.exists() else []
        for line in lines[read:]:
            number, problem = json.loads(line)
            yield number, problem
        if len(lines) > read:
            read, last = len(lines), time.monotonic()
        if ended or time.monotonic() - last > HANGS:
            return


def _work(check: Check, limited: bool, folder: Path, numbers: list[int], journal: Path) -> None:
    """In a process of its own."""
    bench = Bench(folder)
    with journal.open("w", encoding="utf-8") as file:
        for number in numbers:
            file.write(json.dumps([number, _outcome(check, limited, bench, number)]) + "\n")
            file.flush()


def _outcome(check: Check, limited: bool, bench: Bench, number: int) -> str:
    before = _megabytes("VmRSS")
    Path("/proc/self/clear_refs").write_text("5")  # the peak starts again
    began = time.process_time()
    try:
        problem = check(bench, number)
    except Exception as error:
        last = traceback.extract_tb(error.__traceback__)[-1]
        problem = f"{type(error).__name__}: {str(error)[:200]} ({Path(last.filename).name}:{last.lineno})"
    seconds, grown = time.process_time() - began, _megabytes("VmHWM") - before
    if limited and not problem and seconds > SECONDS:
        problem = f"took {seconds:.1f} s of the processor"
    if limited and not problem and grown > MEGABYTES:
        problem = f"took {grown:.0f} MB"
    return problem


def _megabytes(key: str) -> float:
    status = Path("/proc/self/status").read_text()
    return next(int(line.split()[1]) / 1024 for line in status.splitlines() if line.startswith(f"{key}:"))
