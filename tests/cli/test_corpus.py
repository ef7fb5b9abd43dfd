"""`plait embed` and `plait predict` on folders and shards, `--merge`, and `--engine ray` without Ray."""

import json
import sys

import pyarrow.parquet
import pytest

from streaming import read_rows, rows_of, write_rows


@pytest.fixture
def source(tmp_path):
    (tmp_path / "in").mkdir()
    rows = rows_of(20)
    rows[3]["sentence"] = ""
    for number in range(4):
        write_rows(tmp_path / f"in/{number}.jsonl", rows[5 * number : 5 * number + 5])
    return tmp_path / "in"


def test_a_folder_becomes_a_file_or_a_folder(plait, trained_run, source, tmp_path):
    plait("embed", trained_run, "--input", source, "--output", tmp_path / "out.parquet")
    out, _ = plait("embed", trained_run, "--input", source, "--output", tmp_path / "out")
    listed = tmp_path / "out/_part-00000-of-00001.parquet.errors.jsonl"
    assert out == f"20 rows in {tmp_path}/out, 1 of them bad and left empty: {listed}\n"
    assert json.loads(listed.read_text())["where"] == "0.jsonl:4"
    found = pyarrow.parquet.read_table(tmp_path / "out")
    assert found.equals(pyarrow.parquet.read_table(tmp_path / "out.parquet"))
    _, err = plait("embed", trained_run, "--input", source, "--output", tmp_path / "out")
    assert "shard 0 of 1 is already done" in err


def test_shards_are_processed_in_any_order_and_merged(plait, trained_run, source, tmp_path):
    predict = ("predict", trained_run, "mood", "--input", source, "--top-k", 1, "--prefix", "my ")
    for number in (2, 0):
        plait(*predict, "--output", tmp_path / "out", "--shards", 3, "--shard", number)
    _, err = plait("predict", "--merge", tmp_path / "out", code=2)
    assert err.splitlines()[-1] == f"plait: {tmp_path}/out: shard 1 of 3 is missing; run --shards 3 --shard 1"
    plait(*predict, "--output", tmp_path / "out", "--shards", 3, "--shard", 1)
    out, _ = plait("predict", "--merge", tmp_path / "out")
    assert out == f"20 rows in {tmp_path}/out, 1 of them bad and left empty\n"
    out, _ = plait("predict", "--merge", tmp_path / "out", "--output", tmp_path / "all.csv", "--json")
    assert json.loads(out.splitlines()[-1]) == {
        "kind": "result",
        "output": f"{tmp_path}/all.csv",
        "rows": 20,
        "bad": 1,
        "errors": f"{tmp_path}/all.csv.errors.jsonl",
    }
    plait(*predict, "--output", tmp_path / "whole.csv")
    assert read_rows(tmp_path / "all.csv") == read_rows(tmp_path / "whole.csv")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--shards", "2", "--output", "o"], "--shards N and --shard I go together; I is from 0 to N-1"),
        (["--shard", "0", "--output", "o"], "--shards N and --shard I go together"),
        (["--shards", "2", "--shard", "2", "--output", "o"], "--shard 2: with --shards 2, expected 0 to 1"),
        (["--shards", "2", "--shard", "0"], "--input and --output go together"),
        (["--shards", "2", "--shard", "0", "--output", "-"], "no pipes, --format or --errors"),
        (["--shards", "2", "--shard", "0", "--output", "o", "--errors", "e"], "no pipes, --format or --errors"),
        (["--shards", "2", "--shard", "0", "--output", "o.csv"], "--output o.csv: named like a file"),
        (["--shards", "2", "--shard", "0", "--output", "o", "--safe-csv"], "--safe-csv is for csv; shards are parquet"),
        (["--engine", "ray", "--shard", "0", "--output", "o"], "--engine ray processes all shards; drop --shard"),
        (["--merge", "o"], "--merge FOLDER goes with --output FILE, --safe-csv and --json only"),
        (["--output", "in/o"], "--output in/o: lies in the input folder; choose another place"),
    ],
)
def test_an_impossible_request_gives_one_message(plait, trained_run, source, options, message, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for command in (["embed", trained_run], ["predict", trained_run, "mood"]):
        _, err = plait(*command, "--input", "in", *options, code=2)
        assert message in err and "Traceback" not in err
    assert [path.name for path in tmp_path.iterdir()] == ["in"]


def test_what_shards_are_not_for(plait, trained_run, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for options, message in (
        (["mood", "a text", "--shards", "2"], "--shards, --shard and --engine ray go with --input, not with TEXT"),
        (["mood", "a text", "--engine", "ray"], "--shards, --shard and --engine ray go with --input, not with TEXT"),
        (["--every", "mood=x.csv", "--engine", "ray", "--output", "o"], "are for one task, not for --every"),
        (["mood", "--input", "none", "--shards", "2", "--shard", "0", "--output", "o"], "no such file or folder"),
    ):
        _, err = plait("predict", trained_run, *options, code=2)
        assert message in err
    assert "give MODEL" in plait("embed", code=2)[1] and "give MODEL and TASK" in plait("predict", code=2)[1]
    assert "--merge FOLDER goes with" in plait("embed", "--merge", "none", "--prefix", "x", code=2)[1]
    _, err = plait("embed", "--merge", "none", code=2)
    assert err == "plait: none: no parts of shards; give the folder that --shards wrote to\n"


def test_without_ray_the_engine_says_what_to_install(plait, trained_run, source, tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "ray", None)
    monkeypatch.setitem(sys.modules, "ray.data", None)
    _, err = plait("embed", trained_run, "--input", source, "--output", tmp_path / "o", "--engine", "ray", code=2)
    assert err.startswith("plait: --engine ray needs the package ray")
    assert err.endswith('; pip install "plait[cluster]"\n')
    assert not (tmp_path / "o").exists()
