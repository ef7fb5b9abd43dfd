"""A contender in its own process: it gets ready once, then does the work each time it is asked.

The two sides exchange lines of JSON. A worker runs the benchmark's own file, with the Python of a peer if the contender
needs one. It may use as many cores as it has threads, for everything it does.
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

from machine import process_megabytes, versions_of
from venvs import InstallError, last_line, python_of

Work = Callable[[], object]


@dataclass(frozen=True)
class Setting:
    """What every contender receives."""

    full: bool
    threads: int
    minilm: str = ""  # the folder of its weights
    prepared: Any = None  # what the contender's own `prepare` returned


@dataclass(frozen=True)
class Ready:
    """The work, whose output is compared with that of other contenders, and what else a contender reports."""

    work: Work
    extras: Mapping[str, Callable[[], object]] = field(default_factory=dict)  # computed once, after the last round
    how: str = ""  # what was chosen, such as the batch size


@dataclass(frozen=True)
class Contender:
    """One implementation of the work."""

    make: Callable[[Setting], Work | Ready]
    peer: str | None = None  # NAME of peers/NAME.txt; None: the Python that runs the benchmark
    imports: tuple[str, ...] = ()  # modules imported before memory is counted, and whose versions are reported
    how: str = ""  # how it is called
    prepare: Callable[[Setting], object] | None = None  # runs first, in a separate process
    environment: Mapping[str, str] = field(default_factory=dict)


class ContenderFailed(Exception):
    """A contender could not be installed, or crashed; the message is the last line of its output."""


def serve(contender: Contender, setting: Setting, *, prepare: bool) -> None:
    """The worker's side: get ready, then answer requests until there are no more."""
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)  # keep what libraries print out of the answers
    os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[-setting.threads :])

    def answer(value: object) -> None:
        print(json.dumps(value), file=answers, flush=True)

    if prepare:
        assert contender.prepare is not None
        answer(contender.prepare(setting))
        return
    for module in contender.imports:
        importlib.import_module(module)
    if "torch" in sys.modules:
        sys.modules["torch"].set_num_threads(setting.threads)
    before = process_megabytes("VmRSS")
    made = contender.make(setting)
    ready = made if isinstance(made, Ready) else Ready(made)
    answer({"how": ready.how, "versions": versions_of(contender.imports)})
    for line in sys.stdin:
        request = json.loads(line)
        if request["what"] == "extras":
            answer({name: compute() for name, compute in ready.extras.items()})
            continue
        gc.collect()
        started = time.perf_counter()
        output = ready.work()
        seconds = time.perf_counter() - started
        if output is not None and request["keep"]:
            import numpy as np

            np.save(request["keep"], np.asarray(output))
        children = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss / 1024  # processes that the work started
        answer({"seconds": seconds, "megabytes": max(process_megabytes("VmHWM") - before, children)})


class Worker:
    """The benchmark's side."""

    def __init__(self, name: str, contender: Contender, setting: Setting) -> None:
        """Start the process and wait until it is ready."""
        self.name = name
        try:
            python = Path(sys.executable) if contender.peer is None else python_of(contender.peer)
        except InstallError as error:
            raise ContenderFailed(f"cannot be installed: {error}") from None
        if contender.prepare:
            self._start(python, contender, setting, "--prepare")
            setting = Setting(**{**asdict(setting), "prepared": self._answer()})
            self.close()
        self._start(python, contender, setting, "--work")
        about = self._answer()
        self.how = "; ".join(part for part in (contender.how, about["how"]) if part)
        self.versions: dict[str, str] = about["versions"]
        self.megabytes = self.megabytes_later = 0.0

    def work(self, keep: Path | None = None) -> float:
        """Do the work once; the seconds it took. With `keep`, the output is saved to that .npy file."""
        done = self._ask("work", keep)
        self.megabytes = self.megabytes or done["megabytes"]
        self.megabytes_later = done["megabytes"]
        return float(done["seconds"])

    def extras(self) -> dict[str, Any]:
        """What else the contender reports."""
        found: dict[str, Any] = self._ask("extras")
        return found

    def close(self) -> None:
        self.process.communicate()
        self.output.close()

    def _start(self, python: Path, contender: Contender, setting: Setting, mode: str) -> None:
        """Start a process in which every library is limited to the given threads."""
        self.output = tempfile.TemporaryFile("w+", encoding="utf-8", errors="replace")  # noqa: SIM115
        count = str(setting.threads)
        environment = {**os.environ, "HF_HUB_OFFLINE": "1", "OMP_NUM_THREADS": count, "RAYON_NUM_THREADS": count}
        if contender.peer is not None:
            environment.pop("PYTHONPATH", None)
        self.process = subprocess.Popen(
            [python, sys.argv[0], mode, self.name, "--setting", json.dumps(asdict(setting))],
            env={**environment, **contender.environment},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self.output,
            text=True,
        )

    def _ask(self, what: str, keep: Path | None = None) -> Any:
        """Send a request and wait for the answer."""
        assert self.process.stdin is not None
        try:
            self.process.stdin.write(json.dumps({"what": what, "keep": keep and str(keep)}) + "\n")
            self.process.stdin.flush()
        except BrokenPipeError:
            pass  # the process has ended; reading its answer finds out why
        return self._answer()

    def _answer(self) -> Any:
        """The next answer; if the process has ended, an error with the last line of its output."""
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        if line:
            return json.loads(line)
        self.process.wait()
        self.output.seek(0)
        written = self.output.read()
        self.close()
        raise ContenderFailed(last_line(written))
