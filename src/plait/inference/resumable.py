"""A large output that survives a kill: finished parts in a folder beside it, joined at the end."""

import errno
import hashlib
import json
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch

from plait.errors import ExecutionError, RequestError
from plait.files import add_digest, atomic_file, lock, sync, take_digest
from plait.inference.writers import Header, Writer

__all__ = ["ResumableOutput"]

_NOTHING = "there is nothing to resume; drop --resume"
_OF_THE_DISK = (errno.ENOSPC, errno.EDQUOT, errno.EIO, errno.EROFS, errno.EFBIG)


class ResumableOutput:
    """The parts of one output. A part counts once the journal lists it, and it is on disk before that."""

    def __init__(self, output: Path, again: str = "start again without --resume") -> None:
        """`again` is what to do if another request began this output."""
        self.output = output
        self.again = again
        self.folder = output.with_name(f".{output.name}.parts")
        self.journal = self.folder / "journal.jsonl"
        self.parts: list[dict[str, Any]] = []

    @property
    def is_begun(self) -> bool:
        """Whether there is something to resume."""
        return self.journal.is_file() and b"\n" in self.journal.read_bytes()

    @property
    def rows_on_disk(self) -> int:
        """How many rows are done, also while another process writes them."""
        try:
            lines = self.journal.read_bytes().split(b"\n")[1:-1]  # the last may be incomplete
        except OSError:
            return 0
        return sum(int(json.loads(line)["rows"]) for line in lines)

    @contextmanager
    def open(self, request: dict[str, Any], *, resume: bool) -> Iterator[None]:
        """Begin, or resume the same request; only one process at a time."""
        if resume and not self.journal.is_file():
            raise RequestError(f"{self.output}: {_NOTHING}")
        with self._locked():
            if resume:
                self._resume(request)
            else:
                for path in self.folder.iterdir():
                    if path.name != "lock":
                        path.unlink()
                self._append({"request": request, "threads": torch.get_num_threads()})
            try:
                with self._explain_full_disk(resumable=bool(request["input"])):
                    yield
            except BaseException:
                if not (self.parts and request["input"]):  # nothing is lost, or it was a pipe and cannot be read again
                    self._remove()
                raise
            self._remove()

    @contextmanager
    def _explain_full_disk(self, *, resumable: bool) -> Iterator[None]:
        """Name the output, and say that the finished parts stay."""
        try:
            yield
        except OSError as error:
            if error.errno not in _OF_THE_DISK:
                raise
            go_on = "continue with --resume" if self.parts and resumable else "start again"
            raise ExecutionError(f"{self.output}: {error.strerror}; once that is solved, {go_on}") from None

    @contextmanager
    def _locked(self) -> Iterator[None]:
        """Create the folder and keep other processes out of it."""
        self.folder.mkdir(exist_ok=True)
        with lock(self.folder / "lock", wait=False) as held:
            if not held:
                raise RequestError(f"{self.output}: another process is writing it")
            yield

    def _resume(self, request: dict[str, Any]) -> None:
        """Continue with the finished parts, if they belong to this request."""
        lines: list[dict[str, Any]] = []
        length = 0
        for line in self.journal.read_bytes().splitlines(keepends=True):
            try:
                value, _ = take_digest(json.loads(line if line.endswith(b"\n") else b""))
                if lines and not self._is_whole(len(lines) - 1, value):
                    raise ValueError("the part was changed")
            except (ValueError, AttributeError):  # incomplete, because the process was killed, or damaged
                os.truncate(self.journal, length)
                break
            lines.append(value)
            length += len(line)
        if not lines:
            raise RequestError(f"{self.output}: {_NOTHING}")
        begun, self.parts = lines[0], lines[1:]
        if changed := [what for what, value in request.items() if begun["request"].get(what) != value]:
            what = " and the ".join(changed)
            raise RequestError(f"{self.output}: the {what} changed since it was begun; {self.again}")
        torch.set_num_threads(begun["threads"])  # another number of threads would sum in another order

    def _remove(self) -> None:
        """Delete everything; the journal first, so that a half-deleted folder cannot be resumed."""
        self.journal.unlink()
        shutil.rmtree(self.folder)

    def discard(self) -> None:
        """Delete what a process left that was killed after its output was complete."""
        if self.folder.is_dir():
            with self._locked():
                self.journal.unlink(missing_ok=True)
                shutil.rmtree(self.folder)

    def done(self, what: str) -> int:
        """How many rows, or bad rows, the finished parts have."""
        return sum(part[what] for part in self.parts)

    def add(self, data: bytes, errors: bytes, **facts: int) -> None:
        number = len(self.parts)
        for path, content in ((self._part(number), data), (self._errors(number), errors)):
            if content:
                path.write_bytes(content)
                sync(path)
        line = {**facts, "content": _digest(data, errors)}
        self._append(line)
        self.parts.append(line)

    def _is_whole(self, number: int, line: dict[str, Any]) -> bool:
        """Whether the files of a part are as they were written; those of an older plait have no digest."""
        contents = [path.read_bytes() if path.is_file() else b"" for path in (self._part(number), self._errors(number))]
        return line.get("content") in (None, _digest(*contents))

    def _part(self, number: int) -> Path:
        return self.folder / f"{number:08d}"

    def _errors(self, number: int) -> Path:
        """The bad rows of a part; there is no file if it has none."""
        return self.folder / f"{number:08d}.errors"

    def _append(self, line: dict[str, Any]) -> None:
        """Append a line to the journal, and flush it to disk."""
        with self.journal.open("a", encoding="utf-8") as file:
            file.write(json.dumps(add_digest(line)) + "\n")
            file.flush()
            os.fsync(file.fileno())

    def finish(self, writer: Writer, header: Header, errors: Path) -> None:
        """Write the whole output, and the errors file if there are any; each appears atomically."""
        numbers = range(len(self.parts))
        if self.done("bad"):
            with atomic_file(errors) as aside, aside.open("wb") as file:
                for number in numbers:
                    if self.parts[number]["bad"]:
                        file.write(self._errors(number).read_bytes())
        else:
            errors.unlink(missing_ok=True)  # of an earlier run
        whole = self.folder / "whole"  # after a kill, the next run deletes it
        with whole.open("wb") as file:
            writer.join([self._part(number) for number in numbers], header, file)
        sync(whole)
        whole.replace(self.output)
        sync(self.output.parent)


def _digest(data: bytes, errors: bytes) -> str:
    return hashlib.sha256(len(data).to_bytes(8, "little") + data + errors).hexdigest()
