"""A peer is installed once, and again when its requirements change; if that fails, the reason is reported."""

import subprocess
from pathlib import Path

import pytest
import store
import venvs
from compare import Contender, Setting
from venvs import InstallError, last_line, python_of
from workers import ContenderFailed, Worker


@pytest.fixture
def installed(tmp_path, monkeypatch) -> list[str]:
    """The requirements that a fake pip installed; those that name `nothing` cannot be met."""
    monkeypatch.setattr(store, "STORE", tmp_path / "store")
    monkeypatch.setattr(venvs, "REQUIREMENTS", tmp_path)
    monkeypatch.setattr(venvs.venv, "create", lambda folder, with_pip: folder.mkdir())
    done: list[str] = []

    def pip(command, **options):
        wanted = Path(command[-1]).read_text(encoding="utf-8")
        done.append(wanted)
        refused = "ERROR: No matching distribution found for nothing\nERROR: more lines\n[notice] a new pip\n"
        return subprocess.CompletedProcess(command, int("nothing" in wanted), "", refused)

    monkeypatch.setattr(venvs.subprocess, "run", pip)
    return done


def test_environment_is_created_once_and_again_when_requirements_change(installed, tmp_path):
    (tmp_path / "peer.txt").write_text("one==1\n", encoding="utf-8")
    assert python_of("peer") == python_of("peer") == tmp_path / "store/venvs/peer/bin/python"
    (tmp_path / "peer.txt").write_text("one==2\n", encoding="utf-8")
    python_of("peer")
    assert installed == ["one==1\n", "one==2\n"]


def test_failed_installation_gives_the_reason_and_is_retried(installed, tmp_path):
    (tmp_path / "peer.txt").write_text("nothing==1\n", encoding="utf-8")
    for _ in range(2):
        with pytest.raises(InstallError, match=r"^No matching distribution found for nothing$"):
            python_of("peer")
    with pytest.raises(ContenderFailed, match=r"^cannot be installed: No matching distribution found for nothing$"):
        Worker("peer", Contender(dict, peer="peer"), Setting(full=False, threads=1))
    assert len(installed) == 3


@pytest.mark.parametrize(
    ("stderr", "line"),
    [
        ("Traceback\n  File x\nValueError: bad\n\n", "ValueError: bad"),
        ("ERROR: first\nERROR: second\n", "first"),
        ("", "no output"),
    ],
)
def test_last_line_is_the_reason_of_a_failure(stderr, line):
    assert last_line(stderr) == line


def test_every_requirement_of_every_peer_is_pinned():
    folder = Path(__file__).parent.parent.parent / "benchmarks/peers"
    lines = [line for path in folder.glob("*.txt") for line in path.read_text(encoding="utf-8").splitlines()]
    assert len(lines) > 10 and [line for line in lines if "==" not in line and not line.startswith("#")] == []
