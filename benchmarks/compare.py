"""Ways of doing the same work, timed in turns: medians, the ratio of each to the first, and its spread.

A benchmark gives its ways by name, the one to compare with first; each is made ready once, in a process of its own.
Each round does every work once, one at a time, in an order that turns with the round, so that whatever else the machine
does hits all of them alike. A ratio is that of two ways in one round, and the median of these is what counts. A first
round is not counted; the outputs that it gave must agree, or the benchmark fails. Memory is the peak of a way's process
in that round, beyond what it held after the imports, or that of the largest process that it started; what memory in
pieces makes of it is told as the peak after all rounds.
"""

import argparse
import json
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import asdict, dataclass, field
from importlib.metadata import version
from pathlib import Path
from platform import python_version
from typing import Any, Protocol

from machine import commit, machine
from page import origins, section
from workers import Ready, Setting, Way, WayFailed, Work, Worker, serve

__all__ = [
    "Benchmark",
    "Disagreement",
    "Measured",
    "Ready",
    "Setting",
    "Table",
    "Target",
    "Way",
    "Work",
    "agree",
    "at_least",
    "at_most",
    "run",
    "tell",
    "working",
]

Outputs = Mapping[str, Any]  # way → what its work gave, as an array of numpy
Told = Mapping[str, object]


class Disagreement(Exception):
    """The ways did not do the same work."""


class Doer(Protocol):
    """What takes part in the turns: a Worker."""

    def work(self, keep: Path | None = None) -> float:
        """Do the work once: seconds."""


@dataclass(frozen=True)
class Measured:
    """One way of doing the work."""

    name: str
    times: list[float]  # seconds, one a round
    how: str = ""
    megabytes: float | None = None  # of the first time
    megabytes_later: float | None = None  # after all rounds
    told: Told = field(default_factory=dict)  # what explains it
    versions: Mapping[str, str] = field(default_factory=dict)

    @property
    def seconds(self) -> float:
        """The median."""
        return statistics.median(self.times)


@dataclass(frozen=True)
class Target:
    """What is asked for, and what was found; None where it could not be measured."""

    asked: str
    measured: float | None
    met: bool | None


@dataclass(frozen=True)
class Table:
    """What the ways of one setting were found to take."""

    setting: Setting
    ways: Mapping[str, Measured]  # without those that failed
    failed: Mapping[str, str]  # way → its error

    def ratios(self, one: str, other: str) -> list[float]:
        """The time of one way over that of the other, round by round."""
        pairs = zip(self.ways[one].times, self.ways[other].times, strict=True)
        return [mine / theirs for mine, theirs in pairs]

    def ratio(self, one: str, other: str) -> float | None:
        """The median of the ratios; None where one of them failed."""
        if one in self.ways and other in self.ways:
            return statistics.median(self.ratios(one, other))
        return None

    def memory(self, one: str, other: str) -> float | None:
        """The memory of one way over that of the other."""
        mine, theirs = (self.ways[name].megabytes if name in self.ways else None for name in (one, other))
        return mine / theirs if mine and theirs else None

    def fastest(self, names: Sequence[str]) -> str | None:
        """The way that takes the least time; None where all of them failed."""
        there = [name for name in names if name in self.ways]
        return min(there, key=lambda name: self.ways[name].seconds) if there else None


@dataclass(frozen=True)
class Benchmark:
    """A comparison."""

    title: str
    ways: Mapping[str, Way]  # the one to compare with first
    check: Callable[[Outputs], Mapping[str, Told]]  # what explains each way, or a Disagreement
    targets: Callable[[Table], list[Target]]
    facts: Callable[[Table], Told]  # about the work, and what explains the figures
    threads: tuple[int, ...] = (2,)  # a table for each
    reduced_threads: tuple[int, ...] = ()  # those of the reduced size, if fewer
    rounds: int = 5


def at_least(bound: float, words: str, measured: float | None) -> Target:
    """It shall be this much or more."""
    return Target(f"≥ {bound:.4g} {words}", measured, None if measured is None else measured >= bound)


def at_most(bound: float, words: str, measured: float | None) -> Target:
    """It shall be this much or less."""
    return Target(f"≤ {bound:.4g} {words}", measured, None if measured is None else measured <= bound)


def agree(outputs: Outputs, tolerance: float) -> dict[str, Told]:
    """Every output is that of the first way, number by number."""
    first, *others = outputs
    told: dict[str, Told] = {}
    for name in others:
        found = float(abs(outputs[name] - outputs[first]).max())
        if not found <= tolerance:
            raise Disagreement(f"{name} differs from {first} by {found:.2g}, more than {tolerance:g}")
        told[name] = {"difference": f"{found:.1e}"}
    return told


def take_turns(
    doers: Mapping[str, Doer], rounds: int, check: Callable[[Outputs], object]
) -> tuple[dict[str, list[float]], dict[str, str]]:
    """Every work once a round: the seconds of each, and the errors of those that broke down."""
    seconds: dict[str, list[float]] = {name: [] for name in doers}
    failed: dict[str, str] = {}
    with tempfile.TemporaryDirectory() as folder:
        for number in range(-1, rounds):
            tell(f"round {number + 1} of {rounds}" if number >= 0 else "warming up")
            names = [name for name in doers if name not in failed]
            turn = number % len(names)
            for name in names[turn:] + names[:turn]:
                keep = Path(folder) / f"{list(doers).index(name)}.npy" if number < 0 else None
                time.sleep(0.1)  # threads of the one before may spin for a moment
                try:
                    took = doers[name].work(keep)
                except WayFailed as error:
                    failed[name] = str(error)
                    continue
                if number >= 0:
                    seconds[name].append(took)
            if number < 0:
                check(load_outputs(Path(folder), list(doers)))
    return {name: times for name, times in seconds.items() if name not in failed}, failed


def load_outputs(folder: Path, names: Sequence[str]) -> dict[str, Any]:
    """What the ways gave, those that gave something."""
    import numpy as np

    paths = {name: folder / f"{number}.npy" for number, name in enumerate(names)}
    return {name: np.load(path) for name, path in paths.items() if path.is_file()}


def measure(benchmark: Benchmark, setting: Setting, rounds: int) -> Table:
    """Make every way ready and let them take turns."""
    workers: dict[str, Worker] = {}
    failed: dict[str, str] = {}
    told: dict[str, Told] = {}
    base = next(iter(benchmark.ways))
    with ExitStack() as stack:
        for name, way in benchmark.ways.items():
            tell(f"{setting.threads} threads: making ready {name}")
            try:
                workers[name] = Worker(name, way, setting)
            except WayFailed as error:
                if name == base:
                    raise SystemExit(f"{working()}: {base}: {error}") from None
                failed[name] = str(error)
                tell(f"{name}: {error}")
            else:
                stack.callback(workers[name].close)
        times, broken = take_turns(workers, rounds, lambda outputs: told.update(benchmark.check(outputs)))
        if base in broken:
            raise SystemExit(f"{working()}: {base}: {broken[base]}")
        ways = {}
        for name, own in times.items():
            worker = workers[name]
            explained = {**told.get(name, {}), **worker.more()}
            memory = (worker.megabytes, worker.megabytes_later)
            ways[name] = Measured(name, own, worker.how, *memory, explained, worker.versions)
    return Table(setting, ways, {**failed, **broken})


def table_to_json(benchmark: Benchmark, table: Table) -> dict[str, Any]:
    """A table with its targets and facts, as results hold it."""
    base = next(iter(table.ways))
    ways = []
    for name, one in table.ways.items():
        ratios = table.ratios(name, base)
        low, middle, high = statistics.quantiles(ratios, n=4) if len(ratios) > 1 else ratios * 3
        ways.append({**asdict(one), "seconds": one.seconds, "ratio": middle, "low": low, "high": high})
    return {
        "threads": table.setting.threads,
        "ways": ways,
        "failed": dict(table.failed),
        "facts": dict(benchmark.facts(table)),
        "targets": [asdict(target) for target in benchmark.targets(table)],
    }


def run(benchmark: Benchmark) -> None:
    """The command line of a benchmark."""
    parser = argparse.ArgumentParser(description=benchmark.title)
    parser.add_argument("--json", action="store_true", help="the result as JSON")
    parser.add_argument("--full", action="store_true", help="at full size")
    parser.add_argument("--rounds", type=int, default=benchmark.rounds)
    parser.add_argument("--threads", type=int, nargs="+", default=())
    for hidden in ("--work", "--prepare", "--setting"):
        parser.add_argument(hidden, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if name := arguments.work or arguments.prepare:
        setting = Setting(**json.loads(arguments.setting))
        serve(benchmark.ways[name], setting, prepare=arguments.prepare is not None)
        return
    from plait import __version__
    from plait.encoder.find import find_checkpoint

    minilm = str(find_checkpoint("minilm"))
    few = () if arguments.full else benchmark.reduced_threads
    try:
        settings = [
            Setting(arguments.full, threads, minilm) for threads in arguments.threads or few or benchmark.threads
        ]
        tables = [measure(benchmark, setting, arguments.rounds) for setting in settings]
    except Disagreement as error:
        raise SystemExit(f"{working()}: the outputs do not agree: {error}") from None
    result = {
        "benchmark": working(),
        "title": benchmark.title,
        "size": "full" if arguments.full else "reduced",
        "rounds": arguments.rounds,
        "machine": machine(),
        "versions": {"plait": f"{__version__} ({commit()})", "torch": version("torch"), "python": python_version()},
        "tables": [table_to_json(benchmark, table) for table in tables],
    }
    print(json.dumps(result) if arguments.json else f"{section(result)}\n\n{origins([result])}")


def working() -> str:
    """The name of the benchmark that runs."""
    return Path(sys.argv[0]).stem


def tell(what: str) -> None:
    """Say on the standard error what is being done."""
    print(f"{working()}: {what}", file=sys.stderr, flush=True)
