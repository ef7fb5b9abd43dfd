"""Files and folders on disk: atomic writes, locks, digests, JSON.

A reader of an atomic file or folder sees the old content or the new one, never a mixture.
"""

import ctypes
import fcntl
import hashlib
import json
import os
import shutil
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from torch import Tensor

__all__ = [
    "atomic_file",
    "atomic_folder",
    "dump_json",
    "lock",
    "read_json",
    "remove_leftovers",
    "save_tensors",
    "sha256_of",
    "sync",
    "write_json",
]

_AT_FDCWD = -100
_SWAP = 2  # RENAME_EXCHANGE on Linux, RENAME_SWAP on macOS


def sha256_of(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def dump_json(value: object) -> str:
    """Indented JSON that ends with a line feed."""
    return json.dumps(value, indent=2, ensure_ascii=False) + "\n"


def write_json(path: Path, value: object) -> None:
    """Write JSON atomically."""
    with atomic_file(path) as temporary:
        temporary.write_text(dump_json(value), encoding="utf-8")


def read_json(path: Path) -> Any:
    """The content of a JSON file; raises OSError or ValueError."""
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except RecursionError:
        raise ValueError("nested too deeply") from None


def save_tensors(tensors: "dict[str, Tensor]", path: Path, metadata: dict[str, str] | None = None) -> None:
    """Write a safetensors file with the usual permissions; a full disk raises OSError like any other write."""
    from safetensors import SafetensorError
    from safetensors.torch import save_file

    path.touch()
    mode = path.stat().st_mode
    try:
        save_file(tensors, path, metadata)
    except SafetensorError as error:
        raise OSError(None, str(error), str(path)) from None
    path.chmod(mode)  # safetensors makes its files readable by their owner only


@contextmanager
def atomic_file(path: Path) -> Iterator[Path]:
    """A temporary file that replaces `path` once it is complete and on disk."""
    temporary = path.with_name(f".{path.name}.{os.getpid()}.part")
    try:
        yield temporary
        sync(temporary)
        temporary.replace(path)
        sync(path.parent)
    finally:
        temporary.unlink(missing_ok=True)


@contextmanager
def atomic_folder(path: Path) -> Iterator[Path]:
    """A temporary folder that replaces `path` once it is complete and on disk."""
    temporary = path.with_name(f".{path.name}.{os.getpid()}.part")
    shutil.rmtree(temporary, ignore_errors=True)
    temporary.mkdir(parents=True)
    try:
        yield temporary
        _sync_folder(temporary)
        if path.exists():
            _swap(temporary, path)
        else:
            temporary.rename(path)
        sync(path.parent)
    finally:
        shutil.rmtree(temporary, ignore_errors=True)


def remove_leftovers(folder: Path) -> None:
    """Delete temporary files and folders that a killed process left behind."""
    for left in (*folder.glob(".*.part"), *folder.glob(".*.old")):
        shutil.rmtree(left) if left.is_dir() else left.unlink()


@contextmanager
def lock(path: Path, *, wait: bool = True) -> Iterator[bool]:
    """Hold an exclusive lock that ends with the process; yields False if another process has it and `wait` is off."""
    with path.open("w") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | (0 if wait else fcntl.LOCK_NB))
            # The file may have been deleted, with its folder, before the lock was taken.
            held = wait or os.path.samestat(os.fstat(file.fileno()), path.stat())
        except (BlockingIOError, FileNotFoundError):
            held = False
        yield held


def sync(path: Path) -> None:
    """Flush a file or folder to disk."""
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def _sync_folder(folder: Path) -> None:
    for path in folder.rglob("*"):
        sync(path)
    sync(folder)


def _swap(first: Path, second: Path) -> None:
    """Exchange two folders in one step, so that a reader always finds one of them under each name."""
    names = os.fsencode(first), os.fsencode(second)
    libc = ctypes.CDLL(None, use_errno=True)
    if sys.platform == "linux" and hasattr(libc, "renameat2"):
        failed = libc.renameat2(_AT_FDCWD, names[0], _AT_FDCWD, names[1], _SWAP)
    elif sys.platform == "darwin":
        failed = libc.renamex_np(names[0], names[1], _SWAP)
    else:
        failed = 1
    if failed:  # this file system has no exchange: two renames, with the shortest possible gap
        old = second.with_name(f".{second.name}.{os.getpid()}.old")
        second.rename(old)
        first.rename(second)
        old.rename(first)
