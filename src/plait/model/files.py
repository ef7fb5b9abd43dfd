"""Files and folders that appear whole or not at all."""

import ctypes
import hashlib
import os
import shutil
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from safetensors import SafetensorError
from safetensors.torch import save_file
from torch import Tensor

__all__ = ["save_tensors", "sha256_of", "sync", "whole_file", "whole_folder"]

AT_FDCWD = -100
SWAP = 2  # RENAME_EXCHANGE of Linux, RENAME_SWAP of macOS


def sha256_of(path: Path) -> str:
    """The fingerprint of a file."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def save_tensors(tensors: dict[str, Tensor], path: Path, metadata: dict[str, str] | None = None) -> None:
    """A safetensors file that others may read as any file; a full disk is an OSError here as everywhere."""
    path.touch()
    mode = path.stat().st_mode
    try:
        save_file(tensors, path, metadata)
    except SafetensorError as error:
        raise OSError(None, str(error), str(path)) from None
    path.chmod(mode)  # the library gives its files to their owner alone


@contextmanager
def whole_file(path: Path) -> Iterator[Path]:
    """A place to write a file that takes the name `path` once it is complete and on disk."""
    aside = path.with_name(f".{path.name}.{os.getpid()}.part")
    try:
        yield aside
        sync(aside)
        aside.replace(path)
        sync(path.parent)
    finally:
        aside.unlink(missing_ok=True)


@contextmanager
def whole_folder(path: Path) -> Iterator[Path]:
    """A folder to fill that takes the name `path`, in place of what had it, once it is complete and on disk."""
    aside = path.with_name(f".{path.name}.{os.getpid()}.part")
    shutil.rmtree(aside, ignore_errors=True)
    aside.mkdir(parents=True)
    try:
        yield aside
        sync_folder(aside)
        if path.exists():
            swap(aside, path)
        else:
            aside.rename(path)
        sync(path.parent)
    finally:
        shutil.rmtree(aside, ignore_errors=True)


def sync_folder(folder: Path) -> None:
    """Everything below a folder is on disk."""
    for place in folder.rglob("*"):
        sync(place)
    sync(folder)


def sync(path: Path) -> None:
    """A file or folder is on disk."""
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def swap(first: Path, second: Path) -> None:
    """Exchange two folders in one step, so that a reader always finds one of them under each name."""
    names = os.fsencode(first), os.fsencode(second)
    libc = ctypes.CDLL(None, use_errno=True)
    if sys.platform == "linux" and hasattr(libc, "renameat2"):
        failed = libc.renameat2(AT_FDCWD, names[0], AT_FDCWD, names[1], SWAP)
    elif sys.platform == "darwin":
        failed = libc.renamex_np(names[0], names[1], SWAP)
    else:
        failed = 1
    if failed:  # a file system without an exchange: two steps, the shortest gap there is
        old = second.with_name(f".{second.name}.{os.getpid()}.old")
        second.rename(old)
        first.rename(second)
        old.rename(first)
