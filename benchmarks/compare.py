"""Contenders that do the same work, timed in turns: medians, the ratio of each to the first, and its spread.

A benchmark lists its contenders by name, the reference first; each gets ready once, in its own process. In each round
every contender does the work once, one at a time, in an order that rotates from round to round, so that whatever else
the machine does affects all of them equally. A ratio compares two contenders within one round; the median of these
ratios is what counts. The first round is a warm-up: it is not timed, and its outputs must agree or the benchmark fails.
Memory is the peak of a contender's process in that round, beyond what it held after the imports, or the peak of the
largest process that it started; the peak after all rounds is reported too, since memory fragments over time.
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
from workers import Contender, ContenderFailed, Ready, Setting, Work, Worker, serve

__all__ = [
    "Benchmark",
    "Contender",
    "Details",
    "Disagreement",
    "Measured",
    "Outputs",
    "Ready",
    "Setting",
    "Table",
    "Target",
    "Work",
    "agree",
    "at_least",
    "at_most",
    "benchmark_name",
    "log",
    "run",
]

Outputs = Mapping[str, Any]  # contender → the output of its work, as a numpy array
Details = Mapping[str, object]


class Disagreement(Exception):
    """The contenders did not do the same work."""


class Runner(Protocol):
    """Whatever does the work when its turn comes: a Worker."""

    def work(self, keep: Path | None = None) -> float:
        """Do the work once; the seconds it took."""


@dataclass(frozen=True)
class Measured:
    """The measurements of one contender."""

    name: str
    times: list[float]  # seconds, one per round
    how: str = ""
    megabytes: float | None = None  # in the first round
    megabytes_later: float | None = None  # after all rounds
    details: Details = field(default_factory=dict)  # what explains the figures
    versions: Mapping[str, str] = field(default_factory=dict)

    @property
    def seconds(self) -> float:
        """The median."""
        return statistics.median(self.times)


@dataclass(frozen=True)
class Target:
    """A requirement and what was measured; None if it could not be measured."""

    asked: str
    measured: float | None
    met: bool | None


@dataclass(frozen=True)
class Table:
    """The measurements of all contenders in one setting."""

    setting: Setting
    contenders: Mapping[str, Measured]  # without those that failed
    failed: Mapping[str, str]  # contender → its error

    def ratios(self, one: str, other: str) -> list[float]:
        """The time of one contender divided by that of the other, round by round."""
        pairs = zip(self.contenders[one].times, self.contenders[other].times, strict=True)
        return [mine / theirs for mine, theirs in pairs]

    def ratio(self, one: str, other: str) -> float | None:
        """The median of the ratios; None if one of the two failed."""
        if one in self.contenders and other in self.contenders:
            return statistics.median(self.ratios(one, other))
        return None

    def memory(self, one: str, other: str) -> float | None:
        """The memory of one contender divided by that of the other."""
        mine, theirs = (self.contenders[name].megabytes if name in self.contenders else None for name in (one, other))
        return mine / theirs if mine and theirs else None

    def fastest(self, names: Sequence[str]) -> str | None:
        """The fastest of these contenders; None if all of them failed."""
        present = [name for name in names if name in self.contenders]
        return min(present, key=lambda name: self.contenders[name].seconds) if present else None


@dataclass(frozen=True)
class Benchmark:
    """A comparison."""

    title: str
    contenders: Mapping[str, Contender]  # the reference first
    check: Callable[[Outputs], Mapping[str, Details]]  # details of each contender, or a Disagreement
    targets: Callable[[Table], list[Target]]
    facts: Callable[[Table], Details]  # about the work, and what explains the figures
    threads: tuple[int, ...] = (2,)  # one table each
    reduced_threads: tuple[int, ...] = ()  # at reduced size, if fewer
    rounds: int = 5
    warm_up: bool = True  # a round that is not timed, whose outputs must agree


def at_least(bound: float, words: str, measured: float | None) -> Target:
    """A target that is met from this bound upwards."""
    return Target(f"≥ {bound:.4g} {words}", measured, None if measured is None else measured >= bound)


def at_most(bound: float, words: str, measured: float | None) -> Target:
    """A target that is met up to this bound."""
    return Target(f"≤ {bound:.4g} {words}", measured, None if measured is None else measured <= bound)


def agree(outputs: Outputs, tolerance: float) -> dict[str, Details]:
    """Compare every output with that of the first contender, number by number."""
    first, *others = outputs
    details: dict[str, Details] = {}
    for name in others:
        found = float(abs(outputs[name] - outputs[first]).max())
        if not found <= tolerance:
            raise Disagreement(f"{name} differs from {first} by {found:.2g}, more than {tolerance:g}")
        details[name] = {"difference": f"{found:.1e}"}
    return details


def take_turns(
    runners: Mapping[str, Runner], rounds: int, check: Callable[[Outputs], object], *, warm_up: bool = True
) -> tuple[dict[str, list[float]], dict[str, str]]:
    """Let every contender work once per round: the seconds of each, and the errors of those that failed."""
    seconds: dict[str, list[float]] = {name: [] for name in runners}
    failed: dict[str, str] = {}
    with tempfile.TemporaryDirectory() as folder:
        for number in range(-1 if warm_up else 0, rounds):
            log(f"round {number + 1} of {rounds}" if number >= 0 else "warming up")
            names = [name for name in runners if name not in failed]
            turn = number % len(names)
            for name in names[turn:] + names[:turn]:
                keep = Path(folder) / f"{list(runners).index(name)}.npy" if number < 0 else None
                time.sleep(0.1)  # threads of the previous contender may spin for a moment
                try:
                    took = runners[name].work(keep)
                except ContenderFailed as error:
                    failed[name] = str(error)
                    continue
                if number >= 0:
                    seconds[name].append(took)
            if number < 0:
                check(load_outputs(Path(folder), list(runners)))
    return {name: times for name, times in seconds.items() if name not in failed}, failed


def load_outputs(folder: Path, names: Sequence[str]) -> dict[str, Any]:
    """The outputs of those contenders that have one."""
    import numpy as np

    paths = {name: folder / f"{number}.npy" for number, name in enumerate(names)}
    return {name: np.load(path) for name, path in paths.items() if path.is_file()}


def measure(benchmark: Benchmark, setting: Setting, rounds: int) -> Table:
    """Get every contender ready and let them take turns."""
    workers: dict[str, Worker] = {}
    failed: dict[str, str] = {}
    details: dict[str, Details] = {}
    reference = next(iter(benchmark.contenders))
    with ExitStack() as stack:
        for name, contender in benchmark.contenders.items():
            log(f"{setting.threads} threads: preparing {name}")
            try:
                workers[name] = Worker(name, contender, setting)
            except ContenderFailed as error:
                if name == reference:
                    raise SystemExit(f"{benchmark_name()}: {reference}: {error}") from None
                failed[name] = str(error)
                log(f"{name}: {error}")
            else:
                stack.callback(workers[name].close)
        times, crashed = take_turns(
            workers, rounds, lambda outputs: details.update(benchmark.check(outputs)), warm_up=benchmark.warm_up
        )
        if reference in crashed:
            raise SystemExit(f"{benchmark_name()}: {reference}: {crashed[reference]}")
        contenders = {}
        for name, own in times.items():
            worker = workers[name]
            explained = {**details.get(name, {}), **worker.extras()}
            memory = (worker.megabytes, worker.megabytes_later)
            contenders[name] = Measured(name, own, worker.how, *memory, explained, worker.versions)
    return Table(setting, contenders, {**failed, **crashed})


def table_to_json(benchmark: Benchmark, table: Table) -> dict[str, Any]:
    """A table with its targets and facts, as stored results have it."""
    reference = next(iter(table.contenders))
    ways = []
    for name, one in table.contenders.items():
        ratios = table.ratios(name, reference)
        low, middle, high = statistics.quantiles(ratios, n=4) if len(ratios) > 1 else ratios * 3
        ways.append(
            {
                "name": name,
                "times": one.times,
                "how": one.how,
                "megabytes": one.megabytes,
                "megabytes_later": one.megabytes_later,
                "told": dict(one.details),
                "versions": dict(one.versions),
                "seconds": one.seconds,
                "ratio": middle,
                "low": low,
                "high": high,
            }
        )
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
    parser.add_argument("--json", action="store_true", help="print the result as JSON")
    parser.add_argument("--full", action="store_true", help="run at full size")
    parser.add_argument("--rounds", type=int, default=benchmark.rounds, help="timed rounds")
    parser.add_argument("--threads", type=int, nargs="+", default=(), help="numbers of threads, one table each")
    for hidden in ("--work", "--prepare", "--setting"):
        parser.add_argument(hidden, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if name := arguments.work or arguments.prepare:
        setting = Setting(**json.loads(arguments.setting))
        serve(benchmark.contenders[name], setting, prepare=arguments.prepare is not None)
        return
    from plait import __version__
    from plait.encoder.find import find_checkpoint

    minilm = str(find_checkpoint("minilm").folder)
    few = () if arguments.full else benchmark.reduced_threads
    try:
        settings = [
            Setting(arguments.full, threads, minilm) for threads in arguments.threads or few or benchmark.threads
        ]
        tables = [measure(benchmark, setting, arguments.rounds) for setting in settings]
    except Disagreement as error:
        raise SystemExit(f"{benchmark_name()}: the outputs do not agree: {error}") from None
    result = {
        "benchmark": benchmark_name(),
        "title": benchmark.title,
        "size": "full" if arguments.full else "reduced",
        "rounds": arguments.rounds,
        "machine": machine(),
        "versions": {"plait": f"{__version__} ({commit()})", "torch": version("torch"), "python": python_version()},
        "tables": [table_to_json(benchmark, table) for table in tables],
    }
    print(json.dumps(result) if arguments.json else f"{section(result)}\n\n{origins([result])}")


def benchmark_name() -> str:
    """The name of the running benchmark: its file without the ending."""
    return Path(sys.argv[0]).stem


def log(message: str) -> None:
    print(f"{benchmark_name()}: {message}", file=sys.stderr, flush=True)
