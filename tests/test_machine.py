"""The checks that make runs before it installs anything."""

import os
import subprocess
import sys
from pathlib import Path

REPO = Path(__file__).parent.parent
CHECK = ["/bin/sh", str(REPO / "scripts/check-machine.sh")]


def check(*arguments: str, path: str | None = None) -> subprocess.CompletedProcess:
    env = {**os.environ, "PATH": path or os.environ["PATH"]}
    return subprocess.run([*CHECK, *arguments], capture_output=True, text=True, env=env, cwd=REPO)


def fake(folder: Path, name: str, script: str) -> str:
    """A script in place of a Python of that name."""
    path = folder / name
    path.write_text(f"#!/bin/sh\n{script}\n")
    path.chmod(0o755)
    return str(path)


def test_a_suitable_machine_prints_its_python():
    done = check("1", sys.executable)
    assert (done.returncode, done.stdout.strip()) == (0, sys.executable)


def test_too_little_disk_space_gives_one_message():
    done = check("999999", sys.executable)
    assert done.returncode == 1 and done.stdout == ""
    assert "GB free on this disk, 999999 GB needed" in done.stderr and len(done.stderr.splitlines()) == 1


def test_an_old_python_gives_one_message(tmp_path):
    fake(tmp_path, "python3", 'case "$1" in --version) echo "Python 3.9.2";; *) exit 1;; esac')
    done = check("1", path=str(tmp_path))
    assert done.returncode == 1
    assert "needs Python 3.11 or newer, found: Python 3.9.2" in done.stderr and len(done.stderr.splitlines()) == 1


def test_a_requested_python_is_not_replaced_by_another():
    done = check("1", "/nowhere/python")
    assert done.returncode == 1 and "found: " in done.stderr and "/nowhere/python" in done.stderr and done.stdout == ""


def test_a_python_without_venv_gives_one_message(tmp_path):
    fake(tmp_path, "python3", 'case "$2" in *ensurepip*) exit 1;; *) exit 0;; esac')
    done = check("1", path=str(tmp_path))
    assert done.returncode == 1 and "has no venv module" in done.stderr and len(done.stderr.splitlines()) == 1
