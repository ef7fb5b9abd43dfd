"""`plait predict --every` as a user meets it."""

import json
import shutil
from pathlib import Path

import pytest

from plait.inference import stream
from streaming import read_rows, rows_of, train_model, write_rows


@pytest.fixture(scope="module")
def model(tiny_bert, tmp_path_factory) -> Path:
    return train_model(tmp_path_factory.mktemp("every"), tiny_bert)


@pytest.fixture
def files(tmp_path) -> dict[str, Path]:
    return {kind: write_rows(tmp_path / f"in.{kind}", rows_of(6)) for kind in ("csv", "jsonl", "tsv", "parquet")}


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def test_each_task_has_its_own_file_equal_to_predicting_it_alone(model, plait, files, tmp_path):
    every = [f"mood={files['csv']}", f"near={files['jsonl']}", f"same={files['tsv']}", f"far={files['parquet']}"]
    out, _ = plait("predict", model, "--every", every[0], "--every", every[1], *every[2:], "--output", tmp_path / "a/b")
    assert names(tmp_path / "a/b") == ["far.parquet", "mood.csv", "near.jsonl", "same.csv"]
    assert out.splitlines()[0] == f"6 rows in {tmp_path}/a/b/mood.csv"
    for given in every:
        task, _, source = given.partition("=")
        (path,) = (tmp_path / "a/b").glob(f"{task}.*")
        alone = tmp_path / f"alone{path.suffix}"
        plait("predict", model, task, "--input", source, "--output", alone)
        assert read_rows(path) == read_rows(alone)


def test_a_leaderboard_gets_its_own_names_and_format(model, plait, files, tmp_path):
    dev = files["csv"].rename(tmp_path / "ids-dev.csv")
    plait(
        "predict", model, "--every", f"mood={dev}", f"same={files['jsonl']}", f"near={files['jsonl']}",
        "--leaderboard", "--output", tmp_path / "out",
    )  # fmt: skip
    assert names(tmp_path / "out") == ["para-test-output.csv", "sst-dev-output.csv", "sts-test-output.csv"]
    lines = (tmp_path / "out/sst-dev-output.csv").read_text().splitlines()
    assert lines[0] == "id \t Predicted_Sentiment " and [line.split(" , ")[0] for line in lines[1:]] == list("012345")


def test_the_results_are_json_on_every_line(model, plait, files, tmp_path):
    out, _ = plait("predict", model, "--every", f"mood={files['csv']}", "--output", tmp_path / "out", "--json")
    last = json.loads(out.splitlines()[-1])
    assert (last["kind"], last["output"], last["rows"]) == ("result", str(tmp_path / "out/mood.csv"), 6)


def test_every_mistake_is_told_at_once_and_nothing_is_written(model, plait, files, tmp_path):
    good = f"mood={files['csv']}"
    _, told = plait(
        "predict", model, "--every", good, "moood=x.csv", "same=gone.csv", "near", good, "tags=hub:x",
        "--output", tmp_path / "out", code=2,
    )  # fmt: skip
    assert told.splitlines() == [
        "plait: --every moood=x.csv: the model has no task 'moood'; did you mean 'mood'?",
        "plait: --every same=gone.csv: no such file",
        "plait: --every near: expected TASK=FILE",
        f"plait: --every {good}: mood.csv is the file of mood already",
        "plait: --every tags=hub:x: is no file of a known kind; give .csv, .tsv, .jsonl or .parquet",
    ]
    assert not (tmp_path / "out").exists()


def test_files_that_do_not_fit_are_told_before_the_first_is_begun(model, plait, files, tmp_path):
    other, lines = tmp_path / "other.csv", tmp_path / "other.jsonl"
    other.write_text("words\nx\n")
    lines.write_text('{"words": "x"}\n')
    good = f"mood={files['csv']}"
    _, told = plait(
        "predict", model, "--every", good, f"same={other}", f"near={lines}", "--output", tmp_path / "out", code=2
    )
    assert [line.partition(";")[0] for line in told.splitlines()] == [
        f"plait: {file}:1: no column {column!r}" for file in (other, lines) for column in ("one", "two")
    ]
    assert not (tmp_path / "out").exists()


def test_no_input_is_written_over_by_the_predictions_of_another(model, plait, files, tmp_path):
    folder = tmp_path / "both"
    folder.mkdir()
    place = folder / "mood.csv"
    shutil.copyfile(files["csv"], place)
    before = place.read_bytes()
    _, told = plait("predict", model, "--every", f"mood={files['csv']}", f"same={place}", "--output", folder, code=2)
    assert told == f"plait: --output {folder}: mood.csv in it is an input; choose another folder\n"
    assert place.read_bytes() == before and [path.name for path in folder.iterdir()] == ["mood.csv"]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--every", "mood=in.csv"], "--every needs --output, a folder"),
        (["--every", "mood=in.csv", "--output", "in.csv"], "--output in.csv: is a file; with --every it is a folder"),
        (["--every", "mood=in.csv", "--output", "o", "--text", "x"], "are for one task, not for --every"),
        (["--every", "mood=in.csv", "--output", "o", "--input", "in.csv"], "are for one task, not for --every"),
        (["--every", "mood=in.csv", "--output", "o", "--resume"], "o: there is nothing to go on with; drop --resume"),
        (["--every", "tags=in.csv", "--output", "o", "--leaderboard"], "the task 'tags' has no place there"),
        (["mood", "--input", "in.csv", "--output", "o.csv", "--leaderboard"], "--leaderboard goes with --every"),
        (["--input", "in.csv", "--output", "o.csv"], "give TASK, or --every TASK=FILE"),
    ],
)
def test_a_wrong_request_is_one_message(model, plait, files, options, message, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    before = names(tmp_path)
    _, told = plait("predict", model, *options, code=2)
    assert message in told and "Traceback" not in told
    assert names(tmp_path) == before


def test_work_that_was_broken_off_goes_on(model, plait, files, tmp_path, monkeypatch):
    monkeypatch.setattr(stream, "ROWS", 2)
    every = ["--every", f"mood={files['csv']}", f"near={files['csv']}"]
    plait("predict", model, *every, "--output", tmp_path / "whole")
    work, done = stream.Stream.results, []

    def broken(self, records):
        done.append(records)
        if len(done) == 5:
            raise KeyboardInterrupt
        return work(self, records)

    monkeypatch.setattr(stream.Stream, "results", broken)
    _, told = plait("predict", model, *every, "--output", tmp_path / "out", code=130)
    assert "--resume" in told and names(tmp_path / "out") == [".near.csv.parts", "mood.csv"]
    _, told = plait("predict", model, *every, "--output", tmp_path / "out", "--resume")
    assert "going on after row 2" in told and names(tmp_path / "out") == ["mood.csv", "near.csv"]
    for name in ("mood.csv", "near.csv"):
        assert (tmp_path / "out" / name).read_bytes() == (tmp_path / "whole" / name).read_bytes()
