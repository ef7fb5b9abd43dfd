"""Processes that plait starts: the same Python, which imports nothing from the current folder."""

import os
import sys
from collections.abc import Mapping
from pathlib import Path

__all__ = ["module_command", "safe_environment"]


def module_command(module: str, *arguments: object, options: tuple[str, ...] = ()) -> list[str]:
    """The command that runs a module of plait; start it with `safe_environment()`.

    -P: without it, a numpy.py beside the data would be imported instead of numpy.
    """
    return [sys.executable, "-P", *options, "-m", module, *map(str, arguments)]


def safe_environment(given: Mapping[str, str] | None = None) -> dict[str, str]:
    """The environment (default: this process's) without the entries of PYTHONPATH that mean the current folder."""
    environment = dict(os.environ if given is None else given)
    folders = [folder for folder in environment.pop("PYTHONPATH", "").split(os.pathsep) if not _is_current(folder)]
    if folders:
        environment["PYTHONPATH"] = os.pathsep.join(folders)
    return environment


def _is_current(folder: str) -> bool:
    return Path(folder).resolve() == Path.cwd()  # an empty entry is the current folder
