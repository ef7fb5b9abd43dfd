"""Work on a large file that survives a kill: finished parts in a folder beside the output, joined at the end."""

import fcntl
import json
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch

from plait.errors import RequestError
from plait.inference.writers import Header, Writer
from plait.model.files import sync, whole_file

__all__ = ["Parts"]

NOTHING = "there is nothing to go on with; drop --resume"


class Parts:
    """The parts of one output. A part counts once the journal names it, and it is on disk before that."""

    def __init__(self, output: Path) -> None:
        self.output = output
        self.folder = output.with_name(f".{output.name}.parts")
        self.journal = self.folder / "journal.jsonl"
        self.parts: list[dict[str, int]] = []

    @contextmanager
    def open(self, request: dict[str, Any], *, resume: bool) -> Iterator[None]:
        """Begin, or go on with the same request; only one process at a time."""
        if resume and not self.journal.is_file():
            raise RequestError(f"{self.output}: {NOTHING}")
        with self.locked():
            if resume:
                self.go_on(request)
            else:
                for path in self.folder.iterdir():
                    if path.name != "lock":
                        path.unlink()
                self.note({"request": request, "threads": torch.get_num_threads()})
            try:
                yield
            except BaseException:
                if not (
                    self.parts and request["input"]
                ):  # nothing is lost, or it was a pipe, which does not come again
                    self.remove()
                raise
            self.remove()

    @contextmanager
    def locked(self) -> Iterator[None]:
        """The folder is there, and no other process uses it."""
        self.folder.mkdir(exist_ok=True)
        path = self.folder / "lock"
        with path.open("w") as lock:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                free = os.path.samestat(os.fstat(lock.fileno()), path.stat())  # else its folder was just removed
            except (BlockingIOError, FileNotFoundError):
                free = False
            if not free:
                raise RequestError(f"{self.output}: another process is writing it")
            yield

    def go_on(self, request: dict[str, Any]) -> None:
        """Take up the parts that are done, if they are parts of this request."""
        lines, length = [], 0
        for line in self.journal.read_bytes().splitlines(keepends=True):
            try:
                lines.append(json.loads(line if line.endswith(b"\n") else b""))
            except ValueError:  # a kill cut it short
                os.truncate(self.journal, length)
                break
            length += len(line)
        if not lines:
            raise RequestError(f"{self.output}: {NOTHING}")
        begun, self.parts = lines[0], lines[1:]
        if changed := [what for what, value in request.items() if begun["request"].get(what) != value]:
            what = " and the ".join(changed)
            raise RequestError(f"{self.output}: the {what} changed since it was begun; begin again without --resume")
        torch.set_num_threads(begun["threads"])  # another number of threads adds in another order

    def remove(self) -> None:
        """Leave nothing behind; without its journal, what is half removed is not gone on with."""
        self.journal.unlink()
        shutil.rmtree(self.folder)

    def done(self, what: str) -> int:
        """How many rows, or bad ones, the finished parts have."""
        return sum(part[what] for part in self.parts)

    def add(self, data: bytes, errors: bytes, **facts: int) -> None:
        """A finished part."""
        number = len(self.parts)
        for path, content in ((self.part(number), data), (self.errors(number), errors)):
            if content:
                path.write_bytes(content)
                sync(path)
        self.note(facts)
        self.parts.append(facts)

    def part(self, number: int) -> Path:
        """Where a part is."""
        return self.folder / f"{number:08d}"

    def errors(self, number: int) -> Path:
        """Where the bad rows of a part are; no file where there are none."""
        return self.folder / f"{number:08d}.errors"

    def note(self, line: dict[str, Any]) -> None:
        """A line of the journal, on disk."""
        with self.journal.open("a", encoding="utf-8") as file:
            file.write(json.dumps(line) + "\n")
            file.flush()
            os.fsync(file.fileno())

    def finish(self, writer: Writer, header: Header, errors: Path) -> None:
        """The whole output, and the file of errors if there are any; each appears complete."""
        numbers = range(len(self.parts))
        if self.done("bad"):
            with whole_file(errors) as aside, aside.open("wb") as file:
                for number in numbers:
                    if self.parts[number]["bad"]:
                        file.write(self.errors(number).read_bytes())
        else:
            errors.unlink(missing_ok=True)  # of an earlier run
        whole = self.folder / "whole"  # a kill leaves it where the next run removes it
        with whole.open("wb") as file:
            writer.join([self.part(number) for number in numbers], header, file)
        sync(whole)
        whole.replace(self.output)
        sync(self.output.parent)
