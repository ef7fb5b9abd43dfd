"""Speeds that were measured on this machine, kept in the user's cache directory so that they are measured once."""

import json
import os
import platform
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch

from plait.files import write_json

__all__ = ["cache_file", "cached_measurement"]


def cached_measurement(what: str, about: str, measure: Callable[[], Any]) -> Any:
    """The stored figure for this processor and this torch, measured now if there is none; works without a cache too."""
    path = cache_file()
    key = f"{what} | {about} | {_processor()} | {os.cpu_count()} cores | torch {torch.__version__}"
    if key in (known := _read_cache(path)):
        return known[key]
    figure = measure()
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        write_json(path, {**_read_cache(path), key: figure})
    except OSError:
        pass
    return figure


def cache_file() -> Path:
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "plait" / "measured.json"


def _read_cache(path: Path) -> dict[str, Any]:
    """All stored figures; none if the file is missing or broken."""
    try:
        known = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return known if isinstance(known, dict) else {}


def _processor() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        return platform.processor() or platform.machine()
    return next((line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")), platform.machine())
