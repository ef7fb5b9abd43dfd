"""Speeds that were measured on this machine, kept in the user's cache directory."""

import json
import os
import platform
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch

from plait.files import write_json

__all__ = ["cache_file", "cached_measurement"]

_MAX_AGE = 30 * 24 * 3600.0  # seconds
_TOLERATED = 0.2  # of a core that other programs may use
_TICK = 0.02  # seconds; the counters of the system are no more precise


def cached_measurement(what: str, about: str, measure: Callable[[], Any]) -> Any:
    """The stored figure for this processor and this torch; measured now if there is none, or only an old one.

    A figure that was measured while other programs kept the cores busy is not stored, and an old one from a quiet
    machine is preferred to it. Works without a cache too.
    """
    path = cache_file()
    key = f"{what} | {about} | {_processor()} | {os.cpu_count()} cores | torch {torch.__version__}"
    stored = _read_cache(path).get(key)
    if stored and time.time() - stored["measured"] < _MAX_AGE:
        return stored["figure"]
    figure, quiet = _measure_quietly(measure)
    if not quiet:
        return stored["figure"] if stored else figure
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        write_json(path, {**_read_cache(path), key: {"figure": figure, "measured": time.time()}})
    except OSError:
        pass
    return figure


def _measure_quietly(measure: Callable[[], Any]) -> tuple[Any, bool]:
    """A figure, and whether other programs left as many cores idle as torch has threads."""
    began, busy, own = time.monotonic(), _busy_seconds(), time.process_time()
    figure = measure()
    others = (_busy_seconds() - busy) - (time.process_time() - own)
    spare = (os.cpu_count() or 1) - torch.get_num_threads()
    return figure, others <= (spare + _TOLERATED) * (time.monotonic() - began) + _TICK


def _busy_seconds() -> float:
    """The seconds that all cores together have worked since the start of the machine; 0 where it is not known."""
    try:
        user, nice, system = Path("/proc/stat").read_text(encoding="ascii").split(maxsplit=4)[1:4]
    except (OSError, ValueError):
        return 0.0
    return (int(user) + int(nice) + int(system)) / os.sysconf("SC_CLK_TCK")


def cache_file() -> Path:
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "plait" / "measured.json"


def _read_cache(path: Path) -> dict[str, Any]:
    """All stored figures; none if the file is missing or broken."""
    try:
        known = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    figures = known.items() if isinstance(known, dict) else ()
    return {key: entry for key, entry in figures if isinstance(entry, dict) and entry.keys() == {"figure", "measured"}}


def _processor() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        return platform.processor() or platform.machine()
    return next((line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")), platform.machine())
