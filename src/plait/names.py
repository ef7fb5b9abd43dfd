"""Names from recipes, suites and model directories that become parts of paths: checked here, for everything."""

import unicodedata
from pathlib import Path, PurePosixPath

__all__ = ["name_problem", "path_inside", "shorten"]

_LONGEST = 200  # bytes; file systems allow 255, and endings are added


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


def shorten(name: str, longest: int = 60) -> str:
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
