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
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from itertools import chain
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

if TYPE_CHECKING:
    from torch import Tensor

__all__ = [
    "Lock",
    "add_digest",
    "atomic_file",
    "atomic_folder",
    "dump_json",
    "lock",
    "read_json",
    "read_json_with_digest",
    "remove_leftovers",
    "save_tensors",
    "sha256_of",
    "sync",
    "take_digest",
    "write_json",
    "write_json_with_digest",
]

_AT_FDCWD = -100
_SWAP = 2  # RENAME_EXCHANGE on Linux, RENAME_SWAP on macOS
_DIGEST = "sha256"  # the key of a JSON file's own digest


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


def write_json_with_digest(path: Path, value: Mapping[str, Any]) -> None:
    """Write JSON atomically, with the digest of its content as one more key."""
    write_json(path, add_digest(value))


def read_json_with_digest(path: Path) -> tuple[dict[str, Any], bool]:
    """What was written, and whether a digest was written with it; raises OSError, or ValueError if they disagree.

    Files of an older plait have no digest.
    """
    return take_digest(dict(read_json(path)))


def add_digest(value: Mapping[str, Any]) -> dict[str, Any]:
    """A JSON object with the digest of its content as one more key."""
    return {**value, _DIGEST: _digest_of_json(value)}


def take_digest(value: Mapping[str, Any]) -> tuple[dict[str, Any], bool]:
    """The object without its digest, and whether it had one; raises ValueError if they disagree."""
    content = {key: item for key, item in value.items() if key != _DIGEST}
    if _DIGEST in value and value[_DIGEST] != _digest_of_json(content):
        raise ValueError("its content does not match its digest")
    return content, _DIGEST in value


def _digest_of_json(value: Mapping[str, Any]) -> str:
    read_back = json.loads(json.dumps(value))  # keys are strings, tuples are lists
    return hashlib.sha256(json.dumps(read_back, sort_keys=True).encode()).hexdigest()


def save_tensors(tensors: "Mapping[str, Tensor]", path: Path, metadata: Mapping[str, str] | None = None) -> str:
    """Write a safetensors file, and return its sha256.

    The bytes are those of safetensors' own `save_file`. Another thread hashes them meanwhile, so that the digest costs
    no time, and a full disk raises OSError like any other write.
    """
    order = sorted(tensors, key=lambda name: (-tensors[name].element_size(), name))
    header: dict[str, Any] = {"__metadata__": dict(metadata)} if metadata else {}
    end = 0
    for name in order:
        start, end = end, end + tensors[name].nbytes
        shape = list(tensors[name].shape)
        header[name] = {"dtype": _dtype_name(tensors[name]), "shape": shape, "data_offsets": [start, end]}
    text = json.dumps(header, separators=(",", ":"), ensure_ascii=False).encode()
    text += b" " * (-len(text) % 8)
    digest = hashlib.sha256()
    with path.open("wb") as file, ThreadPoolExecutor(1) as thread:
        blocks: Iterator[bytes | memoryview] = (_bytes_of(tensors[name]) for name in order)
        for block in chain([len(text).to_bytes(8, "little") + text], blocks):
            thread.submit(digest.update, block)
            file.write(block)
    return digest.hexdigest()


def _dtype_name(tensor: "Tensor") -> str:
    """The name of a tensor's type in safetensors: F32, BF16, I64, …"""
    kind = str(tensor.dtype).removeprefix("torch.")
    for long, short in (("bfloat", "BF"), ("float", "F"), ("uint", "U"), ("int", "I"), ("bool", "BOOL")):
        if kind.startswith(long):
            return short + kind.removeprefix(long)
    raise TypeError(f"{kind} cannot be saved")


def _bytes_of(tensor: "Tensor") -> memoryview:
    from torch import uint8

    return tensor.detach().cpu().contiguous().flatten().view(uint8).numpy().data


@contextmanager
def atomic_file(path: Path) -> Iterator[Path]:
    """A temporary file that replaces `path` once it is complete and on disk."""
    temporary = path.with_name(f".{path.name}.{os.getpid()}.part")
    try:
        with _naming(path, temporary):
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
    try:
        with _naming(path, temporary):
            temporary.mkdir()
            yield temporary
            _sync_folder(temporary)
            if path.exists():
                _swap(temporary, path)
            else:
                temporary.rename(path)
            sync(path.parent)
    finally:
        shutil.rmtree(temporary, ignore_errors=True)


@contextmanager
def _naming(path: Path, temporary: Path) -> Iterator[None]:
    """Let errors of the system name what is written: a full disk names nothing, or what is copied there."""
    try:
        yield
    except OSError as error:
        if error.filename is None or str(temporary) in f"{error.filename} {error.filename2}":
            error.filename, error.filename2 = str(path), None
        raise


def remove_leftovers(folder: Path) -> None:
    """Delete temporary files and folders that a killed process left behind."""
    for left in (*folder.glob(".*.part"), *folder.glob(".*.old")):
        shutil.rmtree(left) if left.is_dir() else left.unlink()


class Lock:
    """A lock that this process holds on a file."""

    def __init__(self, path: Path, file: IO[str]) -> None:
        self.path = path
        self._file = file

    def is_current(self) -> bool:
        """Whether the file is still there; it may have been deleted, moved or replaced with its folder."""
        try:
            return os.path.samestat(os.fstat(self._file.fileno()), self.path.stat())
        except OSError:
            return False


@contextmanager
def lock(path: Path, *, wait: bool = True) -> Iterator[Lock | None]:
    """Hold an exclusive lock that ends with the process; yields None if another process has it and `wait` is off."""
    with path.open("w") as file:
        held = Lock(path, file)
        try:
            fcntl.flock(file, fcntl.LOCK_EX | (0 if wait else fcntl.LOCK_NB))
        except BlockingIOError:
            yield None
            return
        # The file may have been deleted, with its folder, before the lock was taken.
        yield held if wait or held.is_current() else None


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
