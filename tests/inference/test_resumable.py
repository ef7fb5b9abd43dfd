"""An interrupted output can be resumed, and then has the same bytes."""

import json
import os
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from counting_job import Notes, counting, run
from plait.errors import RequestError
from plait.files import add_digest, take_digest
from plait.inference import stream
from plait.inference.jobs import Job, embed_job, predict_job
from plait.inference.stream import Done
from streaming import read_rows, rows_of, write_rows


class Interrupted(Exception):
    """Instead of a kill."""


def interrupt(job: Job, source: Path, output: Path, after: int, **options) -> None:
    """Run a job until `after` chunks are finished."""
    chunks = 0

    def work(texts):
        nonlocal chunks
        if chunks == after:
            raise Interrupted
        chunks += 1
        return job.work(texts)

    with pytest.raises(Interrupted):
        run(replace(job, work=work), source, output, **options)


@pytest.fixture
def begun(tmp_path, monkeypatch):
    """The job, the input and the place of an output that was interrupted after 3 of 8 parts."""
    monkeypatch.setattr(stream, "_CHUNK_ROWS", 7)
    source = write_rows(tmp_path / "in.csv", rows_of(50))
    interrupt(job := counting(), source, tmp_path / "out.csv", 3)
    return job, source, tmp_path / "out.csv"


def test_an_interrupted_output_is_not_visible(begun, tmp_path):
    assert sorted(path.name for path in tmp_path.iterdir()) == [".out.csv.parts", "in.csv"]


@pytest.mark.parametrize("kind", ["csv", "jsonl", "parquet", "npy"])
@pytest.mark.parametrize("after", [1, 4, 6])
def test_a_resumed_output_has_the_same_bytes(kind, after, predictor, tmp_path, monkeypatch):
    monkeypatch.setattr(stream, "_CHUNK_ROWS", 7)
    rows = rows_of(50)
    for bad in (0, 6, 7, 8, 30, 49):
        rows[bad]["sentence"] = ""
    source = write_rows(tmp_path / "in.jsonl", rows)
    job = predict_job(predictor, predictor.task("mood"), ["sentence"])
    if kind == "npy":
        job = embed_job(predictor, "sentence")
    run(job, source, whole := tmp_path / f"whole.{kind}")
    interrupt(job, source, output := tmp_path / f"out.{kind}", after)
    notes = Notes()
    assert run(job, source, output, resume=True, progress=notes) == Done(50, 6, tmp_path / f"out.{kind}.errors.jsonl")
    assert notes.messages == [f"resuming after row {7 * after}"]
    assert output.read_bytes() == whole.read_bytes()
    assert (tmp_path / f"out.{kind}.errors.jsonl").read_bytes() == (
        tmp_path / f"whole.{kind}.errors.jsonl"
    ).read_bytes()
    assert not list(tmp_path.glob(".*"))


def test_resuming_a_different_request_is_refused_and_harms_nothing(begun, tmp_path):
    job, source, output = begun
    for other, message in (
        (counting(identity="other"), "the model or task changed since it was begun"),
        (counting("one"), "the text columns changed since it was begun; start again without --resume"),
        (counting("one", identity="other"), "the model or task and the text columns changed"),
    ):
        with pytest.raises(RequestError, match=message):
            run(other, source, output, resume=True)
    before = source.stat()
    source.write_bytes(source.read_bytes() + b"x\n")
    with pytest.raises(RequestError, match=r"out\.csv: the input changed since it was begun"):
        run(job, source, output, resume=True)
    source.write_bytes(source.read_bytes()[:-2])
    os.utime(source, ns=(before.st_atime_ns, before.st_mtime_ns))
    assert run(job, source, output, resume=True).rows == 50


def test_starting_again_discards_an_interrupted_output(begun, tmp_path):
    _, source, output = begun
    run(counting("two"), source, output)
    run(counting("two"), source, tmp_path / "whole.csv")
    assert output.read_bytes() == (tmp_path / "whole.csv").read_bytes()
    assert not list(tmp_path.glob(".*"))


def test_resuming_needs_an_interrupted_output(tmp_path):
    source = write_rows(tmp_path / "in.csv", rows_of(3))
    with pytest.raises(RequestError, match=r"out\.csv: there is nothing to resume; drop --resume"):
        run(counting(), source, tmp_path / "out.csv", resume=True)
    (tmp_path / ".out.csv.parts").mkdir()
    (tmp_path / ".out.csv.parts/journal.jsonl").write_text('{"request": ')
    with pytest.raises(RequestError, match="there is nothing to resume"):
        run(counting(), source, tmp_path / "out.csv", resume=True)
    run(counting(), source, tmp_path / "out.csv")
    with pytest.raises(RequestError, match="there is nothing to resume"):
        run(counting(), source, tmp_path / "out.csv", resume=True)


@pytest.mark.parametrize("line", ['{"rows": 7, "b', '{"rows": 7, "bad": 0}', "\0\0\0\n"])
def test_an_incomplete_line_of_the_journal_does_not_count(begun, line, tmp_path):
    job, source, output = begun
    with (tmp_path / ".out.csv.parts/journal.jsonl").open("a") as file:
        file.write(line)
    (tmp_path / ".out.csv.parts/00000003").write_bytes(b"half of a p")
    assert run(job, source, output, resume=True, progress=(notes := Notes())).rows == 50
    assert notes.messages == ["resuming after row 21"]
    run(job, source, tmp_path / "whole.csv")
    assert output.read_bytes() == (tmp_path / "whole.csv").read_bytes()


def test_resuming_uses_the_same_number_of_threads(begun, tmp_path):
    job, source, output = begun
    journal = tmp_path / ".out.csv.parts/journal.jsonl"
    first, *others = journal.read_text().splitlines()
    begun, _ = take_digest(json.loads(first))
    journal.write_text("\n".join([json.dumps(add_digest({**begun, "threads": 3})), *others]) + "\n")
    before = torch.get_num_threads()
    try:
        run(job, source, output, resume=True)
        assert torch.get_num_threads() == 3
    finally:
        torch.set_num_threads(before)


def test_an_old_output_stays_until_the_new_one_is_complete(begun, tmp_path):
    job, source, output = begun
    output.write_text("old")
    with pytest.raises(RequestError):
        run(counting("one"), source, output, resume=True)
    assert output.read_text() == "old"
    run(job, source, output, resume=True)
    assert len(read_rows(output)) == 50
