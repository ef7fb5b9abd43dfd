"""A peer is installed once, and anew when its requirements change; one that cannot be had says why."""

import subprocess
from pathlib import Path

import pytest
import store
import venvs
from compare import Setting, Way
from venvs import InstallError, last_line, python_of
from workers import WayFailed, Worker


@pytest.fixture
def installed(tmp_path, monkeypatch) -> list[str]:
    """What was installed, by a pip that only notes it; requirements that name `nothing` cannot be met."""
    monkeypatch.setattr(store, "STORE", tmp_path / "store")
    monkeypatch.setattr(venvs, "REQUIREMENTS", tmp_path)
    monkeypatch.setattr(venvs.venv, "create", lambda folder, with_pip: folder.mkdir())
    done: list[str] = []

    def pip(command, **options):
        wanted = Path(command[-1]).read_text(encoding="utf-8")
        done.append(wanted)
        refused = "ERROR: No matching distribution found for nothing\nERROR: more words\n[notice] a new pip\n"
        return subprocess.CompletedProcess(command, int("nothing" in wanted), "", refused)

    monkeypatch.setattr(venvs.subprocess, "run", pip)
    return done


def test_an_environment_is_made_once_and_anew_when_its_requirements_change(installed, tmp_path):
    (tmp_path / "peer.txt").write_text("one==1\n", encoding="utf-8")
    assert python_of("peer") == python_of("peer") == tmp_path / "store/venvs/peer/bin/python"
    (tmp_path / "peer.txt").write_text("one==2\n", encoding="utf-8")
    python_of("peer")
    assert installed == ["one==1\n", "one==2\n"]


def test_a_peer_that_cannot_be_installed_says_why_and_is_tried_again(installed, tmp_path):
    (tmp_path / "peer.txt").write_text("nothing==1\n", encoding="utf-8")
    for _ in range(2):
        with pytest.raises(InstallError, match=r"^No matching distribution found for nothing$"):
            python_of("peer")
    with pytest.raises(WayFailed, match=r"^cannot be installed: No matching distribution found for nothing$"):
        Worker("peer", Way(dict, peer="peer"), Setting(full=False, threads=1))
    assert len(installed) == 3


@pytest.mark.parametrize(
    ("said", "line"),
    [
        ("Traceback\n  File x\nValueError: bad\n\n", "ValueError: bad"),
        ("ERROR: first\nERROR: second\n", "first"),
        ("", "it said nothing"),
    ],
)
def test_the_last_line_tells_what_went_wrong(said, line):
    assert last_line(said) == line


def test_every_requirement_of_a_peer_is_pinned():
    folder = Path(__file__).parent.parent.parent / "benchmarks/peers"
    lines = [line for path in folder.glob("*.txt") for line in path.read_text(encoding="utf-8").splitlines()]
    assert len(lines) > 10 and [line for line in lines if "==" not in line and not line.startswith("#")] == []
