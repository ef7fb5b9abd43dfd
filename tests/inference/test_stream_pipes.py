"""Standard input and standard output instead of files."""

import csv
import io
import json
import sys
from dataclasses import replace

import pytest

from counting_job import Notes, counting, errors_of, run
from plait.errors import DataError, RequestError
from plait.inference import stream
from plait.inference.stream import run_job
from plait.progress import SilentProgress
from streaming import read_rows, rows_of, write_rows

INPUTS = ["in.csv", "in.tsv", "in.csv.gz", "in.jsonl", "in.parquet"]


def test_csv_from_a_pipe_is_written_as_csv(pipe):
    out = pipe(counting(), b'id,sentence\n1,"a, b"\n2,\n3,ccc\n')
    assert out.decode() == 'id,sentence,label,score\n1,"a, b",a,4.0\n2,,,\n3,ccc,c,3.0\n'


def test_tsv_from_a_pipe_must_be_declared(pipe):
    assert pipe(counting(), b'id\tsentence\n1\ta "b\n', stdin_kind="tsv") == (
        b'id,sentence,label,score\n1,"a ""b",a,4.0\n'
    )


@pytest.mark.parametrize("begin", [b"", b"\xef\xbb\xbf", b"\n  "])
def test_jsonl_is_recognised_by_its_first_brace(pipe, begin):
    out = pipe(counting(), begin + b'{"sentence": "a", "n": [1]}\nno json\n{"sentence": "bb", "other": 1}\n')
    assert [json.loads(line) for line in out.splitlines()] == [
        {"sentence": "a", "n": [1], "label": "a", "score": 1.0},
        {"label": None, "score": None},
        {"sentence": "bb", "other": 1, "label": "b", "score": 2.0},
    ]


def test_jsonl_from_a_pipe_never_loses_a_key(pipe):
    lines = [{"sentence": "a"}, {"sentence": "b", "label": "mine"}, {"sentence": "c"}]
    data = b"".join(json.dumps(line).encode() + b"\n" for line in lines)
    with pytest.raises(DataError, match=r"^standard input:2: already has the column 'label', which the output adds; "):
        pipe(counting(), data)
    out = pipe(replace(counting(), prefix="my "), data)
    assert [json.loads(line) for line in out.splitlines()] == [
        {"sentence": "a", "my label": "a", "my score": 1.0},
        {"sentence": "b", "label": "mine", "my label": "b", "my score": 1.0},
        {"sentence": "c", "my label": "c", "my score": 1.0},
    ]


@pytest.mark.parametrize("kind", ["csv", "jsonl", "parquet", "npy"])
@pytest.mark.parametrize("name", ["in.csv", "in.jsonl"])
def test_a_pipe_and_a_file_give_the_same_output(pipe, kind, name, tmp_path):
    rows = [*rows_of(20), {**rows_of(1)[0], "sentence": ""}]
    if name == "in.jsonl":
        rows = [*rows, {"sentence": "x", "late": 1}]
    source = write_rows(tmp_path / name, rows)
    job = counting(width=2 if kind == "npy" else None)
    run(job, source, tmp_path / f"file.{kind}")
    assert pipe(job, source.read_bytes(), str(tmp_path / f"pipe.{kind}")) == b""
    assert (tmp_path / f"pipe.{kind}").read_bytes() == (tmp_path / f"file.{kind}").read_bytes()
    assert errors_of(tmp_path / f"pipe.{kind}")[0]["where"].startswith("standard input:")
    assert not list(tmp_path.glob(".*"))


def test_an_interrupted_pipe_leaves_nothing(pipe, monkeypatch, tmp_path):
    monkeypatch.setattr(stream, "_CHUNK_ROWS", 2)
    job = counting()

    def work(texts):
        if "e" in texts[0]:
            raise KeyboardInterrupt
        return job.work(texts)

    with pytest.raises(KeyboardInterrupt):
        pipe(replace(job, work=work), b"id,sentence\n1,a\n2,b\n3,c\n4,d\n5,e\n", str(tmp_path / "out.csv"))
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("name", INPUTS)
def test_a_file_can_be_written_to_standard_output(name, tmp_path, capsysbinary):
    source = write_rows(tmp_path / name, [{"id": "1", "sentence": "a"}, {"id": "2", "sentence": "bb"}])
    run_job(counting(), str(source), "-", None, SilentProgress())
    out = capsysbinary.readouterr().out.decode()
    if name in ("in.jsonl", "in.parquet"):
        assert [json.loads(line)["score"] for line in out.splitlines()] == [1.0, 2.0]
    else:
        assert [row["score"] for row in csv.DictReader(io.StringIO(out))] == ["1.0", "2.0"]
    assert [path.name for path in tmp_path.iterdir()] == [name]


def test_a_pipe_without_rows_gives_the_header(pipe):
    assert pipe(counting(), b"id,sentence\n") == b"id,sentence,label,score\n"
    with pytest.raises(DataError, match="standard input:1: the file is empty"):
        pipe(counting(), b"")
    for header, use in (
        (b"words", "--text words"),
        (b"id,text", "--text COLUMN"),
        (b"id,a sentence", "--text 'a sentence'"),
    ):
        with pytest.raises(DataError, match=rf"standard input:1: no column 'sentence'; .* \(use {use}\)$"):
            pipe(counting(), header + b"\n")
    with pytest.raises(DataError, match=r"no column 'one'; .* \(use --text COLUMN --text COLUMN\)$"):
        pipe(counting("one", "two"), b"two,three\n")


def test_bad_rows_of_a_pipe_are_reported_or_listed(pipe, tmp_path, monkeypatch):
    data = b"id,sentence\n" + b"1,\n2,a\n" * 30
    monkeypatch.setattr(stream, "_PIPE_ROWS", 7)
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BufferedReader(io.BytesIO(data))))
    run_job(counting(), "-", "-", None, notes := Notes())
    assert notes.messages[0] == "standard input:2: the text in column 'sentence' is empty"
    assert len(notes.messages) == 21
    assert notes.messages[20] == "... and 10 more bad rows; --errors FILE lists them all"
    pipe(counting(), data, errors=tmp_path / "list.jsonl")
    assert len(read_rows(tmp_path / "list.jsonl")) == 30


def test_a_closed_standard_input_is_reported(monkeypatch):
    monkeypatch.setattr(sys, "stdin", None)
    with pytest.raises(RequestError, match="--input -: standard input is closed"):
        run_job(counting(), "-", "-", None, SilentProgress())
