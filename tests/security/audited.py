"""Reads the whole corpus in this process, under an audit hook: `python audited.py CORPUS REPORT`

An audit hook sees what Python runs, opens and sends, and cannot be removed again; so this is a process of its own. The
libraries that open files by themselves are made to announce them.
"""

import contextlib
import json
import os
import socket
import sys
import sysconfig
import tempfile
import time
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any

import tokenizers
import torch

import plait
import plait.data.tokenize
import plait.encoder.unpickle
import plait.encoder.weights
import plait.model.directory.load
from plait.data.read import read_rows
from plait.errors import PlaitError
from plait.recipe.task import Source

corpus, report = Path(sys.argv[1]).resolve(), Path(sys.argv[2])
INSTALLED = [Path(path).resolve() for path in {*sysconfig.get_paths().values(), sys.prefix, sys.base_prefix}]
READABLE = [*INSTALLED, Path(plait.__file__).parent, corpus, *map(Path, ("/proc", "/sys", "/dev/null", "/dev/urandom"))]
READABLE.append(Path(os.environ["HF_HOME"]))  # the cache of the hub, which is asked about names
READABLE += [Path("/etc") / name for name in ("localtime", "mime.types", "ld.so.cache")]
WRITABLE = [Path(tempfile.gettempdir()).resolve(), Path("/dev/null")]
EXECUTED = ("os.system", "os.exec", "os.posix_spawn", "os.fork", "os.forkpty", "os.spawn", "subprocess.", "pty.")
EXECUTED += ("pickle.find_class", "ctypes.dlopen", "webbrowser.", "code.__new__", "os.startfile")
SENT = (
    "socket.connect",
    "socket.bind",
    "socket.getaddrinfo",
    "socket.gethostby",
    "socket.send",
    "urllib.",
    "http.client",
)
SENT += ("ftplib.", "smtplib.", "ssl.")
CHANGED = (
    "os.remove",
    "os.rename",
    "os.rmdir",
    "os.mkdir",
    "os.link",
    "os.symlink",
    "os.chmod",
    "os.truncate",
    "shutil.",
)
events: list[str] = []
watching = False


def _inside(path: Any, folders: list[Path]) -> bool:
    if isinstance(path, int) or path is None:
        return True  # an open file
    try:
        place = Path(os.path.abspath(os.fsdecode(path)))  # noqa: PTH100  # as it is named: a link may lead elsewhere
    except (TypeError, ValueError):
        return True  # a NUL, which opens nothing
    return any(place == folder or folder in place.parents for folder in folders)


def _hook(event: str, arguments: tuple[Any, ...]) -> None:
    if not watching:
        return
    if event == "open":
        path, mode, flags = arguments
        writes = bool((flags or 0) & (os.O_WRONLY | os.O_RDWR | os.O_CREAT)) or any(
            sign in (mode or "") for sign in "wax+"
        )
        if not _inside(path, WRITABLE if writes else [*READABLE, *WRITABLE]) or _inside(path, [corpus / "outside"]):
            events.append(f"{'wrote' if writes else 'opened'} {path!r}")
    elif event == "import":
        if arguments[1] and not _inside(arguments[1], INSTALLED):
            events.append(f"imported {arguments[1]!r}")
    elif event == "exec":
        file = getattr(arguments[0], "co_filename", "")
        if file.startswith("/") and not _inside(file, [*INSTALLED, Path(plait.__file__).parent]):
            events.append(f"executed {file!r}")
    elif event.startswith(EXECUTED):
        events.append(f"executed {event} {arguments!r:.200}")
    elif event.startswith(SENT):
        events.append(f"sent {event} {arguments!r:.200}")
    elif event.startswith(CHANGED) and not _inside(arguments[0], WRITABLE):
        events.append(f"changed {event} {arguments!r:.200}")


def _announce(module: Any, name: str) -> None:
    """Let a function that opens a file outside Python's sight raise the event of an opened file."""
    function = getattr(module, name)

    def announced(path: Any, *others: Any, **options: Any) -> Any:
        sys.audit("open", os.fspath(path), "r", 0)
        return function(path, *others, **options)

    setattr(module, name, announced)


class _AnnouncedTokenizer:
    """tokenizers.Tokenizer, whose `from_file` raises the event of an opened file."""

    from_str = staticmethod(tokenizers.Tokenizer.from_str)

    @staticmethod
    def from_file(path: str) -> tokenizers.Tokenizer:
        sys.audit("open", path, "r", 0)
        return tokenizers.Tokenizer.from_file(path)


def _read_model(folder: Path) -> object:
    model = plait.load(folder, device="cpu")
    return [model.embed(["a good film"]).shape, *(len(model.tasks[task].text) for task in model.tasks)]


def _read_data(file: Path) -> object:
    rows = read_rows([Source(file=str(file))], ["sentence", "mood"])
    return len(rows.origins), [bad.problem for bad in rows.bad[:3]]


def _read_pickle(file: Path) -> object:
    return plait.encoder.unpickle._find_state(plait.encoder.unpickle._load_safely(file), file)


READERS: dict[str, tuple[str, Callable[[Path], object]]] = {
    "models": ("*", _read_model),
    "recipes": ("*.yaml", plait.check),
    "data": ("*", _read_data),
    "pickles": ("*.[pb][ti]*", _read_pickle),
}


def _answer(read: Callable[[Path], object], path: Path) -> dict[str, Any]:
    """What reading a thing gave: a refusal, a result, or a traceback."""
    began, seen = time.process_time(), len(events)
    try:
        said = {"read": repr(read(path))}
    except PlaitError as error:
        said = {"refused": str(error)}
    except BaseException:
        said = {"traceback": traceback.format_exc()}
    return {**said, "seconds": time.process_time() - began, "events": events[seen:]}


def _read_everything() -> dict[str, Any]:
    return {
        f"{kind}/{path.name}": _answer(read, path)
        for kind, (pattern, read) in READERS.items()
        for path in sorted((corpus / kind).glob(pattern))
    }


def _connect() -> None:
    with contextlib.suppress(OSError):
        socket.create_connection(("127.0.0.1", 9), 0.1)


if __name__ == "__main__":
    torch.set_num_threads(1)
    for module in (plait.encoder.weights, plait.model.directory.load):
        _announce(module, "load_file")
    plait.data.tokenize.Tokenizer = _AnnouncedTokenizer  # type: ignore[misc]
    sys.addaudithook(_hook)
    _read_everything()  # so that libraries have imported what they need
    watching = True
    answers = _read_everything()
    seen = len(events)
    os.system("true")
    (corpus / "outside/secret.json").read_text()
    _connect()
    watching = False
    # The last events prove that the hook works.
    report.write_text(json.dumps({"answers": answers, "proof": events[seen:]}))
