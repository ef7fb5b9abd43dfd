"""Processes that start warm: they are forked from a server that has imported torch and plait already."""

import atexit
import ctypes
import multiprocessing
import os
import resource
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from multiprocessing import forkserver
from pathlib import Path
from typing import Any

from faults.warm import ENCODER

__all__ = [
    "CREATE",
    "HANGS",
    "READ",
    "REMOVE",
    "WRITE",
    "Child",
    "DiskFault",
    "Ended",
    "can_break_disks",
    "disk_calls",
    "limit_memory",
    "plait",
    "start",
    "start_server",
]

HANGS = 900.0  # seconds after which a process counts as hanging, on a busy machine too
_PRELOAD = [
    "plait.cli.display",
    "plait.cli.stopping",
    "plait.inference.stream",
    "plait.training.train",
    "pyarrow.parquet",
    "faults.warm",
]
_SHIM = Path(__file__).with_name("disk.c")
WRITE, CREATE, REMOVE, READ = 1, 2, 4, 8  # as in disk.c


@dataclass(frozen=True)
class DiskFault:
    """System calls of some kinds on files below a folder fail, from the first to the last; a first of 0 only counts."""

    folder: Path
    kinds: int
    error: int
    first: int = 1
    last: int = 2**62

    def begin(self) -> None:
        _shim().disk_fail(os.fsencode(self.folder), self.kinds, self.first, self.last, self.error)


def disk_calls(kinds: int) -> int:
    """How many system calls of these kinds this process made, of those that may fail."""
    return sum(int(_shim().disk_calls(kind)) for kind in (WRITE, CREATE, REMOVE, READ) if kinds & kind)


def _shim() -> Any:
    library = ctypes.CDLL(None)
    library.disk_fail.argtypes = [ctypes.c_char_p, ctypes.c_int, ctypes.c_long, ctypes.c_long, ctypes.c_int]
    library.disk_calls.argtypes, library.disk_calls.restype = [ctypes.c_int], ctypes.c_long
    return library


@dataclass(frozen=True)
class Ended:
    """How a process ended."""

    code: int  # negative: the signal that killed it
    log: str  # standard output and standard error
    seconds: float

    @property
    def is_clean(self) -> bool:
        """Whether it said what it had to say without a traceback."""
        return "Traceback" not in self.log


class Child:
    """A process that works, or has ended."""

    def __init__(self, process: Any, log: Path) -> None:
        self._process, self._log = process, log
        self._began = time.monotonic()

    @property
    def pid(self) -> int:
        return int(self._process.pid)

    def wait(self, seconds: float = HANGS) -> Ended | None:
        """How it ended; None if it still works after that time."""
        self._process.join(seconds)
        if self._process.exitcode is None:
            return None
        log = self._log.read_text(encoding="utf-8", errors="replace") if self._log.exists() else ""
        return Ended(self._process.exitcode, log, time.monotonic() - self._began)

    def end(self) -> Ended:
        """How it ended; a process that hangs is killed, which its code shows."""
        return self.wait() or self.kill()

    def kill(self) -> Ended:
        self._process.kill()
        ended = self.wait(60)
        assert ended is not None, "nothing survives a kill"
        return ended

    def signal(self, number: int) -> None:
        if self._process.exitcode is None:
            os.kill(self.pid, number)


def start(function: Callable[..., None], *arguments: Any, log: Path, fault: DiskFault | None = None) -> Child:
    """Call a function of a module in a new process, with its output in a file."""
    process = multiprocessing.get_context("forkserver").Process(target=_work, args=(function, arguments, log, fault))
    process.start()
    return Child(process, log)


def plait(*arguments: object, change: Callable[[], None] | None = None) -> None:
    """The command line, as the program `plait` runs it; `change` is called before."""
    from plait.cli.main import main

    if change:
        change()
    sys.argv = ["plait", *map(str, arguments)]
    main()


def _work(function: Callable[..., None], arguments: tuple[Any, ...], log: Path, fault: DiskFault | None) -> None:
    import torch

    with log.open("w") as file:
        os.dup2(file.fileno(), 1)
        os.dup2(file.fileno(), 2)
    signal.signal(signal.SIGINT, signal.default_int_handler)
    torch.set_num_threads(1)
    os.environ["COLUMNS"] = "1000"
    if fault:
        fault.begin()
    function(*arguments)


def limit_memory(more: int) -> None:
    """Let this process grow by so many bytes of address space, and no further."""
    pages = int(Path("/proc/self/statm").read_text().split()[0])
    size = pages * resource.getpagesize() + more
    resource.setrlimit(resource.RLIMIT_AS, (size, size))


def can_break_disks() -> bool:
    """Whether the shim can be built here."""
    return sys.platform == "linux" and shutil.which("cc") is not None


@cache
def start_server(encoder: Path) -> None:
    """Start the server that cases are forked from, warmed up, with the shim that lets the disk fail."""
    context = multiprocessing.get_context("forkserver")
    forkserver._forkserver._stop()  # another test may have started one without the shim
    context.set_forkserver_preload(_PRELOAD)
    before = dict(os.environ)
    os.environ |= {"OMP_NUM_THREADS": "1", ENCODER: str(encoder)}
    if can_break_disks():
        place = tempfile.mkdtemp()
        atexit.register(shutil.rmtree, place, ignore_errors=True)
        library = f"{place}/disk.so"
        subprocess.run(["cc", "-O1", "-shared", "-fPIC", "-o", library, str(_SHIM), "-ldl"], check=True)
        os.environ["LD_PRELOAD"] = library
    forkserver.ensure_running()
    os.environ.clear()
    os.environ.update(before)
