"""`plait predict --every` on the command line."""

import json
import shutil
from pathlib import Path

import pytest

from plait.data.read import FORMAT_NAMES
from plait.inference import stream
from streaming import read_rows, rows_of, write_rows


@pytest.fixture
def files(tmp_path) -> dict[str, Path]:
    return {kind: write_rows(tmp_path / f"in.{kind}", rows_of(6)) for kind in ("csv", "jsonl", "tsv", "parquet")}


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def test_each_task_gets_the_same_file_as_when_predicted_alone(trained_run, plait, files, tmp_path):
    every = [f"mood={files['csv']}", f"near={files['jsonl']}", f"same={files['tsv']}", f"far={files['parquet']}"]
    options = ("--every", every[0], "--every", every[1], *every[2:])
    out, _ = plait("predict", trained_run, *options, "--output", tmp_path / "a/b")
    assert names(tmp_path / "a/b") == ["far.parquet", "mood.csv", "near.jsonl", "same.csv"]
    assert out.splitlines()[0] == f"6 rows in {tmp_path}/a/b/mood.csv"
    for given in every:
        task, _, source = given.partition("=")
        (path,) = (tmp_path / "a/b").glob(f"{task}.*")
        alone = tmp_path / f"alone{path.suffix}"
        plait("predict", trained_run, task, "--input", source, "--output", alone)
        assert read_rows(path) == read_rows(alone)


def test_leaderboard_files_have_their_own_names_and_format(trained_run, plait, files, tmp_path):
    dev = files["csv"].rename(tmp_path / "ids-dev.csv")
    plait(
        "predict", trained_run, "--every", f"mood={dev}", f"same={files['jsonl']}", f"near={files['jsonl']}",
        "--leaderboard", "--output", tmp_path / "out",
    )  # fmt: skip
    assert names(tmp_path / "out") == ["para-test-output.csv", "sst-dev-output.csv", "sts-test-output.csv"]
    lines = (tmp_path / "out/sst-dev-output.csv").read_text().splitlines()
    assert lines[0] == "id \t Predicted_Sentiment " and [line.split(" , ")[0] for line in lines[1:]] == list("012345")


def test_the_results_as_json(trained_run, plait, files, tmp_path):
    out, _ = plait("predict", trained_run, "--every", f"mood={files['csv']}", "--output", tmp_path / "out", "--json")
    last = json.loads(out.splitlines()[-1])
    assert (last["kind"], last["output"], last["rows"]) == ("result", str(tmp_path / "out/mood.csv"), 6)


def test_all_mistakes_are_reported_at_once_and_nothing_is_written(trained_run, plait, files, tmp_path):
    good = f"mood={files['csv']}"
    _, err = plait(
        "predict", trained_run, "--every", good, "moood=x.csv", "same=gone.csv", "near", good, "tags=hub:x",
        "--output", tmp_path / "out", code=2,
    )  # fmt: skip
    assert err.splitlines() == [
        "plait: --every moood=x.csv: the model has no task 'moood'; did you mean 'mood'?",
        "plait: --every same=gone.csv: no such file",
        "plait: --every near: expected TASK=FILE",
        f"plait: --every {good}: mood.csv is already the output of mood",
        f"plait: --every tags=hub:x: unknown file format; plait reads {FORMAT_NAMES}",
    ]
    assert not (tmp_path / "out").exists()


def test_files_without_the_needed_columns_are_reported_before_the_first_begins(trained_run, plait, files, tmp_path):
    other, lines = tmp_path / "other.csv", tmp_path / "other.jsonl"
    other.write_text("words\nx\n")
    lines.write_text('{"words": "x"}\n')
    good = f"mood={files['csv']}"
    _, err = plait(
        "predict", trained_run, "--every", good, f"same={other}", f"near={lines}", "--output", tmp_path / "out", code=2
    )
    assert [line.partition(";")[0] for line in err.splitlines()] == [
        f"plait: {file}:1: no column {column!r}" for file in (other, lines) for column in ("one", "two")
    ]
    assert not (tmp_path / "out").exists()


def test_predictions_never_overwrite_the_input_of_another_task(trained_run, plait, files, tmp_path):
    folder = tmp_path / "both"
    folder.mkdir()
    place = folder / "mood.csv"
    shutil.copyfile(files["csv"], place)
    before = place.read_bytes()
    every = ("--every", f"mood={files['csv']}", f"same={place}")
    _, err = plait("predict", trained_run, *every, "--output", folder, code=2)
    assert err == f"plait: --output {folder}: its file mood.csv is an input; choose another folder\n"
    assert place.read_bytes() == before and [path.name for path in folder.iterdir()] == ["mood.csv"]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--every", "mood=in.csv"], "--every needs --output, a folder"),
        (["--every", "mood=in.csv", "--output", "in.csv"], "--output in.csv: is a file; --every needs a folder"),
        (["--every", "mood=in.csv", "--output", "o", "--text", "x"], "are for one task, not for --every"),
        (["--every", "mood=in.csv", "--output", "o", "--input", "in.csv"], "are for one task, not for --every"),
        (["--every", "mood=in.csv", "--output", "o", "--resume"], "o: there is nothing to resume; drop --resume"),
        (["--every", "tags=in.csv", "--output", "o", "--leaderboard"], "the task 'tags' cannot be submitted"),
        (["mood", "--input", "in.csv", "--output", "o.csv", "--leaderboard"], "--leaderboard goes with --every"),
        (["--input", "in.csv", "--output", "o.csv"], "give TASK, or --every TASK=FILE"),
    ],
)
def test_an_invalid_request_gives_one_message(trained_run, plait, files, options, message, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    before = names(tmp_path)
    _, err = plait("predict", trained_run, *options, code=2)
    assert message in err and "Traceback" not in err
    assert names(tmp_path) == before


def test_an_interrupted_prediction_is_resumed(trained_run, plait, files, tmp_path, monkeypatch):
    monkeypatch.setattr(stream, "_CHUNK_ROWS", 2)
    every = ["--every", f"mood={files['csv']}", f"near={files['csv']}"]
    plait("predict", trained_run, *every, "--output", tmp_path / "whole")
    results, done = stream._Stream._results, []

    def interrupted(self, records):
        done.append(records)
        if len(done) == 5:
            raise KeyboardInterrupt
        return results(self, records)

    monkeypatch.setattr(stream._Stream, "_results", interrupted)
    _, err = plait("predict", trained_run, *every, "--output", tmp_path / "out", code=130)
    assert "--resume" in err and names(tmp_path / "out") == [".near.csv.parts", "mood.csv"]
    _, err = plait("predict", trained_run, *every, "--output", tmp_path / "out", "--resume")
    assert "resuming after row 2" in err and names(tmp_path / "out") == ["mood.csv", "near.csv"]
    for name in ("mood.csv", "near.csv"):
        assert (tmp_path / "out" / name).read_bytes() == (tmp_path / "whole" / name).read_bytes()
