"""The charts, as Vega-Lite specifications. Their modules load on first use, since altair is an extra."""

from importlib import import_module
from typing import Any


def __getattr__(name: str) -> Any:
    if name not in ("comparisons", "data", "tasks", "training"):
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return import_module(f"{__name__}.{name}")
