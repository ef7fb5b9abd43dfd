"""A virtual environment for each peer, created on first use from peers/NAME.txt and again when that file changes."""

import os
import shlex
import shutil
import subprocess
import sys
import venv
from pathlib import Path

from store import store_folder

REQUIREMENTS = Path(__file__).resolve().parent / "peers"


class InstallError(Exception):
    """A peer cannot be installed here."""


def python_of(peer: str) -> Path:
    """The Python of a peer's environment."""
    folder, wanted = store_folder("venvs") / peer, (REQUIREMENTS / f"{peer}.txt").read_text(encoding="utf-8")
    python, installed = folder / "bin/python", folder / "installed.txt"
    if installed.is_file() and installed.read_text(encoding="utf-8") == wanted:
        return python
    print(f"installing {peer} …", file=sys.stderr, flush=True)
    shutil.rmtree(folder, ignore_errors=True)
    venv.create(folder, with_pip=True)
    options = ["--quiet", "--disable-pip-version-check", *shlex.split(os.environ.get("PIP_FLAGS", ""))]
    command = [python, "-m", "pip", "install", *options, "-r", REQUIREMENTS / f"{peer}.txt"]
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode:
        raise InstallError(last_line(done.stderr))
    installed.write_text(wanted, encoding="utf-8")
    return python


def last_line(stderr: str) -> str:
    """The line of a failed program's output that says why it failed."""
    lines = [line.strip() for line in stderr.splitlines() if line.strip()]
    errors = [line for line in lines if line.startswith("ERROR:")]  # pip writes many; the first gives the reason
    return (errors or lines[-1:] or ["no output"])[0].removeprefix("ERROR: ")
