"""`plait predict` and `plait embed` with files and pipes on the command line."""

import csv
import io
import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from streaming import TASKS, read_rows, rows_of, write_rows


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


@pytest.fixture
def source(tmp_path) -> Path:
    return write_rows(tmp_path / "in.csv", rows_of(9))


@pytest.mark.parametrize("task", TASKS)
@pytest.mark.parametrize("kind", ["csv", "jsonl", "parquet"])
def test_predict_a_file(trained_run, plait, source, task, kind, tmp_path):
    out, _ = plait("predict", trained_run, task, "--input", source, "--output", output := tmp_path / f"out.{kind}")
    assert out == f"9 rows in {output}\n"
    assert [row["id"] for row in read_rows(output)] == [str(row) for row in range(9)]
    assert names(tmp_path) == ["in.csv", output.name]


@pytest.mark.parametrize("given", ["json", "json.gz", "xlsx"])
@pytest.mark.parametrize("kind", ["csv", "jsonl", "parquet"])
def test_predict_lists_and_spreadsheets(trained_run, plait, given, kind, tmp_path):
    source, same = (write_rows(tmp_path / f"in.{form}", rows_of(9)) for form in (given, "csv"))
    for name in (source, same):
        plait(
            "predict", trained_run, "same", "--input", name, "--output", tmp_path / f"{name.stem}-{name.suffix}.{kind}"
        )
    found, expected = (read_rows(tmp_path / f"{name.stem}-{name.suffix}.{kind}") for name in (source, same))
    assert found == expected and len(found) == 9


@pytest.mark.parametrize(("given", "written"), [("json", "mood.jsonl"), ("xlsx", "mood.csv")])
def test_predict_every_list_and_spreadsheet(trained_run, plait, given, written, tmp_path):
    source = write_rows(tmp_path / f"in.{given}", rows_of(9))
    plait("predict", trained_run, "--every", f"mood={source}", "--output", tmp_path / "out")
    assert names(tmp_path / "out") == [written] and len(read_rows(tmp_path / "out" / written)) == 9


@pytest.mark.parametrize("kind", ["csv", "jsonl", "parquet", "npy"])
def test_embed_a_file(trained_run, plait, source, kind, tmp_path):
    plait("embed", trained_run, "--input", source, "--output", output := tmp_path / f"out.{kind}")
    if kind == "npy":
        assert np.load(output).shape == (9, 16)
    else:
        assert len(read_rows(output)) == 9


def test_a_plain_encoder_embeds_the_column_text(tiny_roberta, plait, tmp_path):
    source = write_rows(tmp_path / "in.jsonl", [{"text": "a dog"}, {"text": "a cat"}])
    plait("embed", tiny_roberta, "--input", source, "--output", tmp_path / "out.npy")
    assert np.load(tmp_path / "out.npy").shape == (2, 16)
    _, err = plait("predict", tiny_roberta, "mood", "--input", source, "--output", tmp_path / "out.csv", code=2)
    assert "not a plait model" in err


def test_other_text_columns_can_be_given(trained_run, plait, tmp_path):
    source = write_rows(tmp_path / "in.csv", [{"x": "a dog", "y": "a cat"}])
    output = tmp_path / "out.csv"
    plait("predict", trained_run, "near", "--input", source, "--output", output, "--text", "x", "--text", "y")
    assert list(read_rows(output)[0]) == ["x", "y", "prediction"]
    plait("embed", trained_run, "--input", source, "--output", tmp_path / "out.npy", "--text", "y")
    _, err = plait("predict", trained_run, "near", "--input", source, "--output", output, "--text", "x", code=2)
    assert err == "plait: the task 'near' reads 2 text columns, 1 given\n"


def test_bad_rows_are_counted_and_listed(trained_run, plait, tmp_path):
    source = tmp_path / "in.csv"
    source.write_bytes(b"id,sentence\n1,\n2,a dog\n3,caf\xe9\n")
    output = tmp_path / "out.csv"
    out, _ = plait("predict", trained_run, "mood", "--input", source, "--output", output)
    assert out == f"3 rows in {output}, 2 of them bad and left empty: {output}.errors.jsonl\n"
    assert [bool(row["prediction"]) for row in read_rows(output)] == [False, True, False]
    assert [row["where"] for row in read_rows(tmp_path / "out.csv.errors.jsonl")] == ["in.csv:2", "in.csv:4"]
    out, _ = plait(
        "predict", trained_run, "mood", "--input", source, "--output", output, "--errors", tmp_path / "bad", "--json"
    )
    assert json.loads(out.splitlines()[-1]) == {
        "kind": "result", "output": str(output), "rows": 3, "bad": 2, "errors": str(tmp_path / "bad"),
    }  # fmt: skip
    assert len(read_rows((tmp_path / "bad").rename(tmp_path / "bad.jsonl"))) == 2


def test_a_missing_column_gives_one_message(trained_run, plait, source, tmp_path):
    options = ("--input", source, "--output", tmp_path / "o.npy", "--text", "sentense")
    _, err = plait("embed", trained_run, *options, code=2)
    assert err == f"plait: {source}:1: no column 'sentense'; did you mean 'sentence'? (use --text sentence)\n"
    assert names(tmp_path) == ["in.csv"]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--input", "in.csv", "--output", "in.csv"], "--output in.csv: is the input itself; choose another name"),
        (["--input", "in.csv", "--output", "none/o.csv"], "--output none/o.csv: its folder does not exist"),
        (["--input", "in.csv", "--output", "o.txt"], "o.txt: unknown file format; use .csv, .jsonl or .parquet"),
        (["--input", "in.csv", "--output", "o.npy"], "unknown file format"),
        (["--input", "in.csv", "--output", "o.csv.gz"], "unknown file format"),
        (["--input", "none.csv", "--output", "o.csv"], "--input none.csv: no such file"),
        (["--input", ".", "--output", "o.csv"], "--output o.csv: lies in the input folder; choose another place"),
        (["--input", "note.txt", "--output", "o.csv"], "note.txt: unknown file format; plait reads .csv, .tsv"),
        (["--input", "in.csv", "--output", "o.csv", "--resume"], "o.csv: there is nothing to resume"),
        (["--input", "in.csv", "--output", "o.csv", "--errors", "in.csv"], "--errors in.csv: is the input itself"),
        (["--input", "in.csv"], "--input and --output go together"),
        (["--input", "in.csv", "--output", "o.csv", "--format", "csv"], "--format is for standard input"),
        (["--input", "-", "--output", "o.csv", "--resume"], "--resume needs two files; a pipe cannot be resumed"),
        (["--input", "in.csv", "--output", "-", "--resume"], "--resume needs two files; a pipe cannot be resumed"),
        (["--input", "in.csv", "--output", "-", "--json"], "drop one of them"),
        (["--output", "o.csv"], "give TEXT (two for a pair), or --input FILE"),
        (["a dog", "--input", "in.csv"], "give TEXT (two for a pair), or --input FILE"),
        (["a dog", "--output", "o.csv"], "go with --input, not with TEXT"),
        (["a dog", "--resume"], "go with --input, not with TEXT"),
        (["a dog", "--text", "sentence"], "go with --input, not with TEXT"),
    ],
)  # fmt: skip
def test_an_invalid_request_gives_one_message_and_writes_nothing(
    trained_run, plait, source, options, message, tmp_path, monkeypatch
):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "note.txt").touch()
    _, err = plait("predict", trained_run, "mood", *options, code=2)
    assert message in err and "Traceback" not in err
    assert names(tmp_path) == ["in.csv", "note.txt"]


def test_the_suffix_of_a_file_may_be_in_capitals(trained_run, plait, source, tmp_path):
    plait("predict", trained_run, "mood", "--input", source, "--output", tmp_path / "OUT.CSV")
    assert len(read_rows(tmp_path / "OUT.CSV")) == 9


def test_missing_pyarrow_is_reported_before_the_work(trained_run, plait, source, monkeypatch, tmp_path):
    monkeypatch.setitem(sys.modules, "pyarrow.parquet", None)
    _, err = plait("predict", trained_run, "mood", "--input", source, "--output", tmp_path / "out.parquet", code=2)
    assert "parquet needs pyarrow" in err and names(tmp_path) == ["in.csv"]


def test_a_pipe_of_csv(trained_run, plait):
    out, err = plait("predict", trained_run, "mood", "--input", "-", stdin='id,sentence\n1,"a\nß"\n2,\n'.encode())
    rows = list(csv.DictReader(io.StringIO(out)))
    assert [row["sentence"] for row in rows] == ["a\nß", ""] and rows[0]["prediction"] and not rows[1]["prediction"]
    assert "standard input:4: the text in column 'sentence' is empty" in err
    assert "2 rows in standard output, 1 of them bad and left empty" in err


def test_a_pipe_of_jsonl(trained_run, plait, tmp_path):
    data = b'{"sentence": "a dog", "n": [1, null]}\n{"sentence": "a cat", "late": true}\n'
    out, _ = plait("predict", trained_run, "mood", "--input", "-", stdin=data)
    first, second = map(json.loads, out.splitlines())
    assert first["n"] == [1, None] and second["late"] is True and {"prediction", "probability"} <= second.keys()
    plait("predict", trained_run, "mood", "--input", "-", "--output", tmp_path / "out.csv", stdin=data)
    assert list(read_rows(tmp_path / "out.csv")[0])[:4] == ["sentence", "n", "late", "prediction"]
    out, _ = plait("embed", trained_run, "--input", "-", stdin=data)
    assert len(json.loads(out.splitlines()[0])["embedding"]) == 16


def test_a_pipe_of_tsv_and_a_file_to_a_pipe(trained_run, plait, source):
    out, _ = plait("predict", trained_run, "mood", "--input", "-", "--format", "tsv", stdin=b"id\tsentence\n1\ta dog\n")
    assert out.splitlines()[1].startswith("1,a dog,")
    out, _ = plait("predict", trained_run, "mood", "--input", source, "--output", "-")
    assert len(list(csv.DictReader(io.StringIO(out)))) == 9


def test_an_empty_pipe_gives_one_message(trained_run, plait):
    _, err = plait("predict", trained_run, "mood", "--input", "-", code=2)
    assert err == "plait: standard input:1: the file is empty; add a header line with the column names\n"


def test_a_pipe_whose_reader_goes_away_ends_without_an_error(trained_run, tmp_path):
    source = write_rows(tmp_path / "in.csv", rows_of(5000))
    command = f"{sys.executable} -m plait predict {trained_run} mood --input -"
    line = f"cat {source} | {command} | head -2; echo ${{PIPESTATUS[@]}}"
    out = subprocess.run(["bash", "-c", line], capture_output=True, text=True, timeout=120)
    assert out.stdout.startswith("id,sentence,one,two,a,b,c,note,prediction,probability,p(high),p(low)\n0,")
    assert out.stderr.startswith("predicting mood\n") and not {"Traceback", "Exception", "Error"} & set(
        out.stderr.split()
    )
    assert out.stdout.splitlines()[-1].split()[1:] == ["1", "0"]


def test_a_closed_standard_input_gives_one_message(trained_run):
    line = f"{sys.executable} -m plait predict {trained_run} mood --input - <&-"
    out = subprocess.run(["bash", "-c", line], capture_output=True, text=True, timeout=120)
    assert out.returncode == 2 and out.stderr == "plait: --input -: standard input is closed\n"
