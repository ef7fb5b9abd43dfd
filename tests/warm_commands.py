"""Commands and code in processes that start warm: forked from a server that has imported torch and plait already."""

import multiprocessing
import os
import runpy
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

_PRELOAD = [
    "plait.cli.display",
    "plait.cli.stopping",
    "plait.evaluation.evaluate_model",
    "plait.inference.stream",
    "plait.training.train",
]


def run_plait(arguments: list[str], folder: Path) -> subprocess.CompletedProcess[str]:
    """Run `plait` with these arguments in a folder; the result is that of `subprocess.run`."""
    return _run(_command_line, ["plait", *arguments], folder)


def run_code(code: str, folder: Path) -> subprocess.CompletedProcess[str]:
    """Run Python code in a folder, as `python -c` does."""
    return _run(_code, ["-c", code], folder)


def run_module(command: list[str], **options: object) -> subprocess.CompletedProcess[str]:
    """A stand-in for `subprocess.run` of `python … -m MODULE ARGUMENT…`; the options are not needed."""
    return _run(_module, command[command.index("-m") + 1 :], Path.cwd())


def _run(work: Callable[[list[str]], None], words: list[str], folder: Path) -> subprocess.CompletedProcess[str]:
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(_PRELOAD)  # without effect once the server runs
    with tempfile.TemporaryDirectory() as place:
        files = [Path(place) / name for name in ("out", "err")]
        process = context.Process(target=_work, args=(work, words, folder, dict(os.environ), files))
        process.start()
        process.join()
        out, errors = (file.read_text(encoding="utf-8") if file.exists() else "" for file in files)
    assert process.exitcode is not None, "it was waited for"
    return subprocess.CompletedProcess(words, process.exitcode, out, errors)


def _work(
    work: Callable[[list[str]], None], words: list[str], folder: Path, environment: dict[str, str], files: list[Path]
) -> None:
    for number, file in enumerate(files, start=1):
        with file.open("w") as stream:
            os.dup2(stream.fileno(), number)
    os.environ.clear()
    os.environ.update(environment)
    os.chdir(folder)
    sys.argv = words
    work(words)


def _command_line(words: list[str]) -> None:
    from plait.cli.main import main

    main()


def _code(words: list[str]) -> None:
    exec(compile(words[1], "<string>", "exec"), {"__name__": "__main__"})


def _module(words: list[str]) -> None:
    runpy.run_module(words[0], run_name="__main__", alter_sys=True)
