"""The profile `quick`, for recipes that define none: a trial that shows whether everything works."""

from collections.abc import Mapping
from typing import Any

__all__ = ["QUICK", "QUICK_LIMITS", "quick_keys"]

QUICK = "quick"
QUICK_LIMITS = {"rows": 500, "dev_rows": 200, "epochs": 2}
_UNSET = ("steps", "choose_rows")  # epochs replace steps; so few dev rows are not divided


def quick_keys(values: Mapping[str, Any]) -> dict[str, Any]:
    """The keys to lay over a recipe: fewer rows and epochs, also where a task or a stage has its own."""
    keys = {name: _at_most(values.get(name), most) for name, most in QUICK_LIMITS.items()}
    keys |= _own_limits(values)
    if isinstance(stages := values.get("stages"), list):
        keys["stages"] = [{**stage, **_own_limits(stage)} if isinstance(stage, Mapping) else stage for stage in stages]
    return keys


def _own_limits(block: Mapping[str, Any]) -> dict[str, Any]:
    """The keys of a recipe, a stage or a task that would make a trial long."""
    keys: dict[str, Any] = {name: _at_most(block[name], most) for name, most in QUICK_LIMITS.items() if name in block}
    if block.get("steps") is not None:
        keys["epochs"] = QUICK_LIMITS["epochs"]
    keys |= {name: None for name in _UNSET if block.get(name) is not None}
    if isinstance(tasks := block.get("tasks"), Mapping):
        keys["tasks"] = {
            name: {**task, **_own_limits(task)} if isinstance(task, Mapping) else task for name, task in tasks.items()
        }
    return keys


def _at_most(value: Any, most: int) -> Any:
    """A number up to the limit; anything else that is wrong stays, to be reported."""
    return most if value is None or (isinstance(value, int) and value > most) else value
