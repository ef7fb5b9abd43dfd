"""A way of doing the work in a process of its own: ready once, it then does the work each time it is told to.

The two sides talk in lines of JSON. The worker runs the file of the benchmark itself, with the Python of a peer where
the way belongs to one. It has as many cores as threads are asked for: whatever it does beside the work, it does there.
"""

import gc
import importlib
import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from machine import status, versions_of
from venvs import InstallError, last_line, python_of

Work = Callable[[], object]


@dataclass(frozen=True)
class Setting:
    """What every way is told."""

    full: bool
    threads: int
    minilm: str = ""  # the folder of its weights
    prepared: Any = None  # what the way's own `prepare` gave


@dataclass(frozen=True)
class Ready:
    """The work, and what else a way tells; the work gives its output, which is compared with that of the others."""

    work: Work
    more: Mapping[str, Callable[[], object]] = field(default_factory=dict)  # asked for once, after the last round
    how: str = ""  # what was chosen, such as the size of batches


@dataclass(frozen=True)
class Way:
    """One way of doing the work."""

    make: Callable[[Setting], Work | Ready]
    peer: str | None = None  # of peers/NAME.txt; None: the Python that runs the benchmark
    imports: tuple[str, ...] = ()  # modules that are there before memory is counted, and whose versions are told
    how: str = ""  # how it is called, in words
    prepare: Callable[[Setting], object] | None = None  # done before, in a process of its own
    environment: Mapping[str, str] = field(default_factory=dict)


class WayFailed(Exception):
    """A way that cannot be had or that broke down; its message is the last line it said."""


def serve(way: Way, setting: Setting, *, prepare: bool) -> None:
    """What the worker does: make ready, then answer until nothing more is asked."""
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)  # what libraries print must not stand between the answers
    os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[-setting.threads :])

    def answer(said: object) -> None:
        print(json.dumps(said), file=answers, flush=True)

    if prepare:
        assert way.prepare is not None
        answer(way.prepare(setting))
        return
    for module in way.imports:
        importlib.import_module(module)
    if "torch" in sys.modules:
        sys.modules["torch"].set_num_threads(setting.threads)
    before = status("VmRSS")
    made = way.make(setting)
    ready = made if isinstance(made, Ready) else Ready(made)
    answer({"how": ready.how, "versions": versions_of(way.imports)})
    for line in sys.stdin:
        asked = json.loads(line)
        if asked["what"] == "more":
            answer({name: tell() for name, tell in ready.more.items()})
            continue
        gc.collect()
        began = time.perf_counter()
        output = ready.work()
        seconds = time.perf_counter() - began
        if output is not None and asked["keep"]:
            import numpy as np

            np.save(asked["keep"], np.asarray(output))
        started = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss / 1024  # processes that the work started
        answer({"seconds": seconds, "megabytes": max(status("VmHWM") - before, started)})


class Worker:
    """The side that asks."""

    def __init__(self, name: str, way: Way, setting: Setting) -> None:
        """Start it, and wait until it is ready."""
        self.name = name
        try:
            python = Path(sys.executable) if way.peer is None else python_of(way.peer)
        except InstallError as error:
            raise WayFailed(f"cannot be installed: {error}") from None
        if way.prepare:
            self.start(python, way, setting, "--prepare")
            setting = Setting(**{**asdict(setting), "prepared": self.answer()})
            self.close()
        self.start(python, way, setting, "--work")
        about = self.answer()
        self.how = "; ".join(part for part in (way.how, about["how"]) if part)
        self.versions: dict[str, str] = about["versions"]
        self.megabytes = self.megabytes_later = 0.0

    def start(self, python: Path, way: Way, setting: Setting, task: str) -> None:
        """A process of it; everything in it keeps to the threads that are given."""
        self.said = tempfile.TemporaryFile("w+", encoding="utf-8", errors="replace")  # noqa: SIM115
        count = str(setting.threads)
        environment = {**os.environ, "HF_HUB_OFFLINE": "1", "OMP_NUM_THREADS": count, "RAYON_NUM_THREADS": count}
        if way.peer is not None:
            environment.pop("PYTHONPATH", None)
        self.process = subprocess.Popen(
            [python, sys.argv[0], task, self.name, "--setting", json.dumps(asdict(setting))],
            env={**environment, **way.environment},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self.said,
            text=True,
        )

    def work(self, keep: Path | None = None) -> float:
        """Do the work once: seconds. The output is kept in a file of numpy."""
        done = self.ask("work", keep)
        self.megabytes = self.megabytes or done["megabytes"]
        self.megabytes_later = done["megabytes"]
        return float(done["seconds"])

    def more(self) -> dict[str, Any]:
        """What else it tells."""
        told: dict[str, Any] = self.ask("more")
        return told

    def ask(self, what: str, keep: Path | None = None) -> Any:
        """Tell it to do something, and wait for the answer."""
        assert self.process.stdin is not None
        try:
            self.process.stdin.write(json.dumps({"what": what, "keep": keep and str(keep)}) + "\n")
            self.process.stdin.flush()
        except BrokenPipeError:
            pass  # it has ended; its answer says why
        return self.answer()

    def answer(self) -> Any:
        """Its next line; where it has ended instead, what it said at its end."""
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        if line:
            return json.loads(line)
        self.process.wait()
        self.said.seek(0)
        said = self.said.read()
        self.close()
        raise WayFailed(last_line(said))

    def close(self) -> None:
        """End it."""
        self.process.communicate()
        self.said.close()
