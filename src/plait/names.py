"""Names from recipes, suites and model directories that become parts of paths: checked here, for everything."""

import unicodedata
from pathlib import Path, PurePosixPath

__all__ = ["excerpt", "name_problem", "path_inside", "path_problem"]

_LONGEST = 200  # bytes; endings are added
_LONGEST_PART, _LONGEST_PATH = 255, 4095  # what file systems allow


def name_problem(name: str) -> str | None:
    """Why a name cannot be that of a file or folder inside another, if it cannot: "contains '/'"."""
    if not name.strip():
        return "is empty"
    if name in (".", ".."):
        return "means a folder"
    for sign in ("/", "\\", "\0"):
        if sign in name:
            return f"contains {sign!r}"
    if any(unicodedata.category(sign) in ("Cc", "Cs") for sign in name):
        return "contains a control character or half a character"
    if len(name.encode()) > _LONGEST:
        return f"is longer than {_LONGEST} bytes"
    return None


def path_problem(path: str) -> str | None:
    """Why a text cannot be a path on any system, if it cannot."""
    if "\0" in path or any(unicodedata.category(sign) == "Cs" for sign in path):
        return "contains a NUL or half a character"
    if any(len(part.encode()) > _LONGEST_PART for part in path.split("/")) or len(path.encode()) > _LONGEST_PATH:
        return "is too long for a path"
    return None


def excerpt(name: str, longest: int = 60) -> str:
    """A name for a message, which a whole file could stand in for."""
    return name if len(name) <= longest else f"{name[:longest]} ..."


def path_inside(folder: Path, name: object) -> Path | None:
    """The file that a relative path names inside a folder; None if it leads elsewhere or is no path.

    Symbolic links are not followed: the hub's cache consists of them.
    """
    if not isinstance(name, str) or not name or "\0" in name or "\\" in name:
        return None
    path = PurePosixPath(name)
    return None if path.is_absolute() or ".." in path.parts or not path.parts else folder / path
