"""`plait ensemble` and `plait train --keep` on the command line."""

import json
from pathlib import Path

import numpy as np
import pytest
from ruamel.yaml import YAML

from plait.model.directory.record import open_directory
from streaming import read_rows, rows_of, write_rows
from tiny import write_tasks


@pytest.fixture(scope="module")
def folder(tiny_bert, tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("ensemble")
    YAML().dump(write_tasks(folder / "data", tiny_bert), folder / "recipe.yaml")
    return folder


@pytest.fixture
def ensemble(folder, plait) -> Path:
    """An ensemble of two models that one run kept, built once."""
    if not (folder / "both").is_dir():
        out, _ = plait(
            "train", folder / "recipe.yaml", "--out", folder / "run", "--no-baselines", "--no-report", "--keep", 2
        )
        assert out.splitlines()[-1].startswith("kept, best first: epoch")
        out, _ = plait("ensemble", f"{folder}/run@epoch1", f"{folder}/run@epoch2", "--out", folder / "both")
        both = folder / "both"
        assert out == f"an ensemble of 2 models in {both}; plait evaluate {both} --data FOLDER scores it\n"
    return folder / "both"


def test_an_ensemble_predicts_for_files_and_texts(ensemble, plait, tmp_path):
    source = write_rows(tmp_path / "in.csv", rows_of(9))
    plait("predict", ensemble, "mood", "--input", source, "--output", tmp_path / "out.csv")
    parts = []
    for number in (1, 2):
        part = tmp_path / f"part{number}.csv"
        plait("predict", ensemble / f"members/{number}", "mood", "--input", source, "--output", part)
        parts.append(read_rows(part))
    for row, *apart in zip(read_rows(tmp_path / "out.csv"), *parts, strict=True):
        mean = np.mean([float(one["p(high)"]) for one in apart])
        assert float(row["p(high)"]) == pytest.approx(mean, abs=1e-9)
        assert row["prediction"] == ("high" if mean > 0.5 else "low")
    out, _ = plait("predict", ensemble, "near", "a dog", "a cat", "--json")
    assert 0 <= json.loads(out)["score"] <= 5
    plait("predict", ensemble, "--every", f"mood={source}", f"near={source}", "--output", tmp_path / "every")
    assert read_rows(tmp_path / "every/mood.csv") == read_rows(tmp_path / "out.csv")


def test_an_ensemble_embeds(ensemble, plait, tmp_path):
    source = write_rows(tmp_path / "in.jsonl", rows_of(9))
    plait("embed", ensemble, "--input", source, "--text", "sentence", "--output", tmp_path / "out.npy")
    vectors = np.load(tmp_path / "out.npy")
    assert vectors.shape == (9, 32) and np.linalg.norm(vectors, axis=1) == pytest.approx(1, abs=1e-6)


def test_an_ensemble_is_evaluated_and_compared_with_its_members(ensemble, plait, tmp_path):
    data = ("--data", ensemble.parent / "data")
    out, _ = plait("evaluate", ensemble, *data, "--json", "--mistakes", tmp_path / "wrong.csv")
    result = json.loads(out.splitlines()[-1])
    assert set(result["scores"]) == {"mood", "same", "near"} and set(result["order"]) == {"same", "near"}
    assert set(result["baselines"]) == {"mean of members", "best member"} and (tmp_path / "wrong.csv").is_file()
    assert "best member" in plait("evaluate", ensemble, *data)[0]


def test_a_soup_is_built_and_reported(ensemble, plait, tmp_path):
    run = ensemble.parent / "run"
    out, _ = plait("ensemble", f"{run}@epoch1", f"{run}@epoch2", "--soup", "--out", tmp_path / "soup", "--json")
    assert json.loads(out) == {
        "kind": "result",
        "output": str(tmp_path / "soup"),
        "members": [f"{run}@epoch1", f"{run}@epoch2"],
        "soup": True,
    }
    members = open_directory(tmp_path / "soup").record.provenance.members
    assert [member["name"] for member in members] == ["run@epoch1", "run@epoch2"]
    assert "mood" in plait("evaluate", tmp_path / "soup", "--data", ensemble.parent / "data")[0]


def test_an_invalid_request_gives_one_message(ensemble, plait, tmp_path):
    run = ensemble.parent / "run"
    _, err = plait("ensemble", run, f"{run}@epoch7", "--out", tmp_path / "x", code=2)
    assert err.startswith(f"plait: {run}@epoch7: the run kept no model 'epoch7'; did you mean 'epoch")
    assert err.count("\n") == 1 and not (tmp_path / "x").exists()
    _, err = plait("train", "--resume", run, "--keep", 3, code=2)
    assert "a resumed run keeps its settings; drop --keep" in err


def test_a_task_whose_dev_rows_the_members_do_not_share_is_not_scored(folder, plait, tmp_path):
    for seed in (1, 2):
        plait(
            "train", folder / "recipe.yaml", "--out", tmp_path / f"run{seed}", "--no-baselines",
            "--set", f"seed={seed}", "--set", "tasks.mood.dev=0.25", "--set", "epochs=1",
        )  # fmt: skip
    plait("ensemble", tmp_path / "run1", tmp_path / "run2", "--out", tmp_path / "both")
    out, err = plait("evaluate", tmp_path / "both", "--data", folder / "data", "--json")
    assert list(json.loads(out.splitlines()[-1])["scores"]) == ["same", "near"]
    note = "mood: not scored, its members do not share their dev data; give labelled data with --on TASK=FILE"
    assert note in out + err
