"""`plait calibrate` on the command line."""

import json

import pytest

import plait as library
from tiny import write_tasks


@pytest.fixture(scope="module")
def run(tiny_bert, tmp_path_factory):
    folder = tmp_path_factory.mktemp("calibrated")
    recipe = {**write_tasks(folder / "data", tiny_bert, rows=60), "epochs": 6, "lr": 3e-3}
    library.train(recipe, folder / "run", baselines=False)
    return folder / "run"


def test_a_copy_is_calibrated(run, plait, tmp_path):
    out, _ = plait("calibrate", run, "--out", tmp_path / "copy")
    assert f"{tmp_path}/copy, calibrated; effects on rows that were not fitted on" in out
    assert "mood: accuracy of the most certain rows: 100%" in out
    assert "near: not calibrated, it predicts a score" in out
    out, _ = plait("calibrate", run, "--task", "mood", "--abstain-for", "0.9", "--out", tmp_path / "more", "--json")
    found = json.loads(out.splitlines()[-1])
    assert list(found["tasks"]) == ["mood"] and found["tasks"]["mood"]["fitted"]["abstain_for"] == 0.9
    below = found["tasks"]["mood"]["abstain_below"]
    if below is not None:
        out, _ = plait("predict", tmp_path / "more", "mood", "the cat was", "--json")
        said = json.loads(out)
        assert (said["label"] is None) == (said["score"] < below)


def test_files_and_errors(run, plait, tmp_path):
    file = f"same={run.parent}/data/same-dev.csv"
    out, _ = plait("calibrate", run, "--on", file, "--threshold", "f1", "--out", tmp_path / "copy", "--json")
    assert json.loads(out.splitlines()[-1])["tasks"]["same"]["data"] == "the data given"
    _, errors = plait("calibrate", run, "--out", tmp_path / "copy", code=2)
    assert f"--out {tmp_path}/copy: already exists" in errors
    _, errors = plait("calibrate", run, "--abstain-for", "1.5", code=2)
    assert "--abstain-for" in errors
