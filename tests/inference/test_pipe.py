"""Rows of a pipe are answered as they arrive: one at a time from a slow writer, in full chunks from a fast one."""

import io
import json
import os
import subprocess
import sys
import threading
from collections.abc import Iterator

import pytest

from counting_job import counting
from plait.data.readers.records import Record
from plait.inference import pipe
from plait.inference.pipe import pipe_chunks
from plait.inference.stream import run_job
from plait.progress import SilentProgress


def records(count: int) -> Iterator[Record]:
    return (Record(number, {"sentence": "a"}) for number in range(count))


def test_every_row_is_in_one_chunk_and_in_order():
    chunks = list(pipe_chunks(records(1000), 7, 1000))
    assert [record.line for chunk in chunks for record in chunk] == list(range(1000))
    assert max(map(len, chunks)) == 7


def test_a_chunk_does_not_wait_for_more_rows():
    second = threading.Event()

    def slow() -> Iterator[Record]:
        yield from records(1)
        assert second.wait(60)
        yield from records(1)

    chunks = pipe_chunks(slow(), 100, 1000)
    assert len(next(chunks)) == 1
    second.set()
    assert len(next(chunks)) == 1
    assert list(chunks) == []


def test_chunks_are_smaller_if_the_work_is_slow(monkeypatch):
    clock = iter(range(1000))  # each chunk takes a second
    monkeypatch.setattr(pipe, "monotonic", lambda: next(clock))
    sizes = [len(chunk) for chunk in _all_there(records(100), 100)]
    assert sizes == [32, 16, 8, 4, 2] + [1] * 38


def test_few_characters_are_read_ahead():
    read = []

    def long() -> Iterator[Record]:
        for record in records(1000):
            read.append(record)
            yield record._replace(values={"sentence": "a" * 100})

    chunks = pipe_chunks(long(), 1000, 500)
    next(chunks)
    chunks.close()
    assert len(read) <= 32 + 5 + 1


def test_an_error_while_reading_comes_after_the_rows_before_it():
    def failing() -> Iterator[Record]:
        yield from records(2)
        raise OSError("the disk is gone")

    chunks = pipe_chunks(failing(), 1, 1000)
    assert [len(next(chunks)), len(next(chunks))] == [1, 1]
    with pytest.raises(OSError, match="the disk is gone"):
        next(chunks)


def _all_there(rows: Iterator[Record], most: int) -> Iterator[list[Record]]:
    """Chunks of rows that have all arrived before the first is taken."""
    arrived = pipe._Arrived(most, 10_000)
    arrived.fill(rows)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(pipe, "_Arrived", lambda most, characters: arrived)
        patch.setattr(arrived, "fill", lambda rows: None)
        yield from pipe_chunks(rows, most, 10_000)


def test_a_job_answers_row_by_row(monkeypatch):
    from_writer, to_job = os.pipe()
    from_job, to_reader = os.pipe()
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(os.fdopen(from_writer, "rb")))
    monkeypatch.setattr(sys, "stdout", io.TextIOWrapper(os.fdopen(to_reader, "wb")))
    job = threading.Thread(target=run_job, args=(counting(), "-", "-", None, SilentProgress()))
    job.start()
    with os.fdopen(to_job, "wb", buffering=0) as rows, os.fdopen(from_job, "rb") as answers:
        timer = threading.Timer(60, rows.close)  # fail rather than wait for ever
        timer.start()
        rows.write(b"sentence\n")
        assert answers.readline() == b"sentence,label,score\n"
        for word in (b"one", b"two", b"three"):
            rows.write(word + b"\n")
            assert answers.readline() == b"%s,%s,%d.0\n" % (word, word[:1], len(word))
        timer.cancel()
        rows.close()
        job.join(60)
        sys.stdout.close()
        sys.stdin.close()
        assert answers.read() == b""


@pytest.mark.parametrize("command", [["predict", "{model}", "mood"], ["embed", "{model}"]])
def test_the_commands_are_co_processes(trained_run, command):
    given = [sys.executable, "-m", "plait", *(word.format(model=trained_run) for word in command), "--input", "-"]
    with subprocess.Popen(given, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as plait:
        timer = threading.Timer(120, plait.kill)
        timer.start()
        for text in ("a good film", "a bad film"):
            plait.stdin.write(json.dumps({"sentence": text}).encode() + b"\n")
            plait.stdin.flush()
            answer = json.loads(plait.stdout.readline())
            assert answer["sentence"] == text
            assert answer["prediction"] in ("high", "low") if command[0] == "predict" else answer["embedding"]
        timer.cancel()
        rest, errors = plait.communicate(timeout=60)
        assert (rest, plait.returncode) == (b"", 0), errors
        assert b"2 rows in standard output" in errors
