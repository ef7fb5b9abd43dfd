"""Nothing in the corpus of hostile files is run, leads plait to files outside, or makes it send anything."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from hostile_corpus import make_corpus

HERE = Path(__file__).parent


@pytest.fixture(scope="module")
def report(untrained, tmp_path_factory) -> dict:
    folder = tmp_path_factory.mktemp("hostile")
    make_corpus(folder / "corpus", untrained)
    (folder / "temporary").mkdir()
    environment = {
        **os.environ,
        "TMPDIR": str(folder / "temporary"),
        "HF_HUB_OFFLINE": "1",
        "HF_HOME": str(folder / "hub"),
    }
    command = [sys.executable, HERE / "audited.py", folder / "corpus", folder / "report.json"]
    done = subprocess.run(command, env=environment, cwd=folder / "corpus", capture_output=True, text=True, timeout=600)
    assert done.returncode == 0, done.stdout + done.stderr
    assert not list(folder.rglob("ran")), "something was run"
    return json.loads((folder / "report.json").read_text())


def test_the_hook_sees_what_is_run_opened_and_sent(report):
    assert {line.split()[0] for line in report["proof"]} == {"executed", "opened", "sent"}


def test_nothing_was_run_opened_outside_or_sent(report):
    seen = {name: answer["events"] for name, answer in report["answers"].items() if answer["events"]}
    assert seen == {}


def test_everything_was_read_or_refused(report):
    broken = {name: answer["traceback"] for name, answer in report["answers"].items() if "traceback" in answer}
    assert broken == {}
    assert len(report["answers"]) > 60


def test_what_leads_outside_is_refused_with_its_name(report):
    refused = {name: answer["refused"] for name, answer in report["answers"].items() if "refused" in answer}
    for number in range(6):
        for kind in ("manifest", "index", "modules"):
            assert "inside the" in refused[f"models/{kind} {number}"], refused[f"models/{kind} {number}"]
    for name in ("zip.pt", "old.pt", "bare.bin"):
        assert "reading it would run code" in refused[f"pickles/{name}"]
    for name in ("absolute", "parent", "null"):
        assert "cannot be the name of a task" in refused[f"recipes/{name} task.yaml"]
    assert "unpacks to more than 100 times its size" in refused["data/bomb.csv.gz"]
