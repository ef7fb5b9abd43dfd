"""What was measured on this machine once and is not measured again: plait's file in the user's cache directory."""

import json
import os
import platform
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch

from plait.model.files import whole_file

__all__ = ["memory_file", "remembered"]


def remembered(what: str, about: str, measure: Callable[[], Any]) -> Any:
    """The figure, measured if it is not known of this processor and this torch; a cache that cannot be kept is none."""
    path = memory_file()
    key = f"{what} | {about} | {processor()} | {os.cpu_count()} cores | torch {torch.__version__}"
    if key in (known := read_memory(path)):
        return known[key]
    found = measure()
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with whole_file(path) as aside:
            aside.write_text(json.dumps({**read_memory(path), key: found}, indent=1), encoding="utf-8")
    except OSError:
        pass
    return found


def memory_file() -> Path:
    """Where it is kept."""
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "plait" / "measured.json"


def read_memory(path: Path) -> dict[str, Any]:
    """All that is known; nothing where the file is missing or broken."""
    try:
        known = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return known if isinstance(known, dict) else {}


def processor() -> str:
    """The name of the processor."""
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        return platform.processor() or platform.machine()
    return next((line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")), platform.machine())
