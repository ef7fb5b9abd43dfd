"""Ways of doing the same work, timed in turns: medians, the ratio of each to the first, and its spread.

A benchmark gives its ways by name, the one to compare with first; each is made by a function that gives the work to be
timed. Each round does every work once, in an order that turns with the round, so that whatever else the machine does
hits all of them alike; a ratio is that of one round, and the median of these is what counts. Memory is the peak of a
process that makes and does nothing but one of them, beyond what it held after the imports.
"""

import argparse
import json
import platform
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

Work = Callable[[], object]
Ways = Mapping[str, Callable[[], Work]]  # name → what makes the work ready


@dataclass(frozen=True)
class Measured:
    """One way of doing the work."""

    name: str
    seconds: float  # median
    ratio: float  # its time over that of the first way, median of the rounds
    low: float  # of the ratio, the first and the third quartile
    high: float
    megabytes: float | None = None


def take_turns(ways: Ways, rounds: int) -> list[Measured]:
    """Do every work once a round; a first round is not counted."""
    seconds: dict[str, list[float]] = {name: [] for name in ways}
    works = {name: make() for name, make in ways.items()}
    for number in range(-1, rounds):
        names = list(ways)
        turn = number % len(names)
        for name in names[turn:] + names[:turn]:
            began = time.perf_counter()
            works[name]()
            if number >= 0:
                seconds[name].append(time.perf_counter() - began)
    first = seconds[next(iter(ways))]
    found = []
    for name, own in seconds.items():
        ratios = [mine / base for mine, base in zip(own, first, strict=True)]
        low, _, high = statistics.quantiles(ratios, n=4) if len(ratios) > 1 else (ratios[0],) * 3
        found.append(Measured(name, statistics.median(own), statistics.median(ratios), low, high))
    return found


def megabytes_of(make: Callable[[], Work]) -> float:
    """The peak of this process while it makes and does a work twice, beyond what it held before; Linux only."""
    before = status("VmRSS")
    work = make()
    work()
    work()
    return (status("VmHWM") - before) / 1024


def status(key: str) -> int:
    """A figure of this process, in kB."""
    with Path("/proc/self/status").open(encoding="ascii") as file:
        return next(int(line.split()[1]) for line in file if line.startswith(key))


def run(
    title: str,
    ways: Ways,
    *,
    rounds: int,
    facts: Mapping[str, object],
    check: Callable[[], None] = lambda: None,
) -> None:
    """The command line of a benchmark: the table of its ways, or --json. The caller has imported what they need."""
    parser = argparse.ArgumentParser(description=title)
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--rounds", type=int, default=rounds)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--memory-of", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    import torch

    torch.set_num_threads(arguments.threads)
    if arguments.memory_of:
        print(megabytes_of(ways[arguments.memory_of]))
        return
    check()
    found = take_turns(ways, arguments.rounds)
    found = [Measured(**{**asdict(one), "megabytes": memory_apart(one.name, arguments.threads)}) for one in found]
    machine = {"processor": platform.processor() or platform.machine(), "torch": torch.__version__}
    about = {"title": title, "rounds": arguments.rounds, "threads": arguments.threads, **facts, **machine}
    if arguments.json:
        print(json.dumps({**about, "ways": [asdict(one) for one in found]}))
    else:
        print(table(about, found))


def memory_apart(name: str, threads: int) -> float:
    """What a way needs, measured in a process of its own."""
    command = [sys.executable, sys.argv[0], "--memory-of", name, "--threads", str(threads)]
    return float(subprocess.run(command, check=True, capture_output=True, text=True).stdout.split()[-1])


def table(about: Mapping[str, object], found: Sequence[Measured]) -> str:
    """Markdown for people."""
    facts = ", ".join(f"{key} {value}" for key, value in about.items() if key != "title")
    lines = [f"**{about['title']}** ({facts})", "", "| way | seconds | time, as a ratio | quartiles | MB |"]
    lines.append("|---|---|---|---|---|")
    for one in found:
        memory = "" if one.megabytes is None else f"{one.megabytes:,.0f}"
        lines.append(f"| {one.name} | {one.seconds:.3f} | {one.ratio:.2f} | {one.low:.2f}–{one.high:.2f} | {memory} |")
    return "\n".join(lines)
