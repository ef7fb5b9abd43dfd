"""The command line in processes that start warm: forked from a server that has imported torch and plait already."""

import multiprocessing
import os
import subprocess
import sys
import tempfile
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
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(_PRELOAD)  # without effect once the server runs
    with tempfile.TemporaryDirectory() as place:
        files = [Path(place) / name for name in ("out", "err")]
        process = context.Process(target=_work, args=(arguments, folder, dict(os.environ), files))
        process.start()
        process.join()
        out, errors = (file.read_text(encoding="utf-8") if file.exists() else "" for file in files)
    assert process.exitcode is not None, "it was waited for"
    return subprocess.CompletedProcess(["plait", *arguments], process.exitcode, out, errors)


def _work(arguments: list[str], folder: Path, environment: dict[str, str], files: list[Path]) -> None:
    from plait.cli.main import main

    for number, file in enumerate(files, start=1):
        with file.open("w") as stream:
            os.dup2(stream.fileno(), number)
    os.environ.clear()
    os.environ.update(environment)
    os.chdir(folder)
    sys.argv = ["plait", *arguments]
    main()
