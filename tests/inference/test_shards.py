"""Each shard writes one part; a restart repeats nothing, and a merge writes what one process would have written."""

import json
from dataclasses import replace

import numpy as np
import pyarrow.parquet
import pytest

from counting_job import Notes, counting, run
from plait.errors import DataError, RequestError
from plait.inference import stream
from plait.inference.corpus import Shard
from plait.inference.jobs import embed_job, predict_job
from plait.inference.merge import check_parts, merge_parts
from plait.inference.shards import run_shard
from plait.inference.stream import Done
from plait.progress import SilentProgress
from streaming import TASKS, read_rows, rows_of, write_rows


@pytest.fixture
def source(tmp_path, monkeypatch):
    """50 rows, of which 4 are bad, in chunks of 7."""
    monkeypatch.setattr(stream, "_CHUNK_ROWS", 7)
    rows = rows_of(50)
    for bad in (0, 6, 30, 49):
        rows[bad] |= dict.fromkeys(("sentence", "one", "a"), "")
    return write_rows(tmp_path / "in.csv", rows)


def shards(job, source, folder, count, numbers=None, progress=None):
    numbers = range(count) if numbers is None else numbers
    return [run_shard(job, str(source), folder, Shard(n, count), progress or SilentProgress()) for n in numbers]


def merge(folder, output) -> Done:
    return merge_parts(folder, output, output.suffix[1:], SilentProgress())


def mistakes_of(folder) -> tuple[str, ...]:
    with pytest.raises(RequestError) as caught:
        check_parts(folder, SilentProgress())
    return caught.value.mistakes


@pytest.mark.parametrize("task", [*TASKS, None])
def test_merged_shards_equal_the_output_of_one_process(task, predictor, source, tmp_path):
    job = (
        embed_job(predictor, "sentence") if task is None else predict_job(predictor, predictor.task(task), TASKS[task])
    )
    job = replace(job, prefix="new ")
    done = shards(job, source, tmp_path / "parts", 3)
    assert sum(one.rows for one in done) == 50 and sum(one.bad for one in done) == 4
    for kind in ("parquet", "csv", "jsonl", *(["npy"] if task is None else [])):
        output, whole = tmp_path / f"out.{kind}", tmp_path / f"whole.{kind}"
        assert merge(tmp_path / "parts", output) == Done(50, 4, tmp_path / f"out.{kind}.errors.jsonl")
        run(job, source, whole)
        if kind == "parquet":  # row groups differ
            assert pyarrow.parquet.read_table(output).equals(pyarrow.parquet.read_table(whole))
        elif kind == "npy":
            assert np.array_equal(np.load(output), np.load(whole), equal_nan=True)
        else:
            assert output.read_bytes() == whole.read_bytes()
        errors = [path.with_name(f"{path.name}.errors.jsonl").read_bytes() for path in (output, whole)]
        assert errors[0] == errors[1]


def test_a_folder_of_parts_reads_as_one_data_set_in_order(source, tmp_path):
    shards(counting(), source, tmp_path / "parts", 3)
    found = pyarrow.parquet.read_table(tmp_path / "parts")
    assert found.column("id").to_pylist() == [str(number) for number in range(50)]


def test_more_shards_than_rows(source, tmp_path):
    short = write_rows(tmp_path / "short.csv", rows_of(2))
    shards(counting(), short, tmp_path / "parts", 30)
    assert merge(tmp_path / "parts", tmp_path / "out.csv") == Done(2, 0, None)
    assert [row["id"] for row in read_rows(tmp_path / "out.csv")] == ["0", "1"]


def test_a_finished_shard_is_not_repeated(source, tmp_path):
    shards(counting(), source, tmp_path / "parts", 3)
    before = (tmp_path / "parts/part-00001-of-00003.parquet").stat()
    job = replace(counting(), work=None)  # fails if it is called
    notes = Notes()
    (done,) = shards(job, source, tmp_path / "parts", 3, [0], notes)
    assert notes.messages == ["shard 0 of 3 is already done"]
    assert done == Done(done.rows, 2, tmp_path / "parts/_part-00000-of-00003.parquet.errors.jsonl")
    assert (tmp_path / "parts/part-00001-of-00003.parquet").stat() == before


def test_an_interrupted_shard_continues_by_itself(source, tmp_path):
    chunks = ["first"]

    def work(texts):
        chunks.pop()  # the second raises
        return counting().work(texts)

    with pytest.raises(IndexError):
        shards(replace(counting(), work=work), source, tmp_path / "parts", 2, [0])
    with pytest.raises(
        RequestError, match=r"text columns changed since it was begun; delete .*0-of-00002\.parquet\.parts"
    ):
        shards(counting("one"), source, tmp_path / "parts", 2, [0])
    notes = Notes()
    shards(counting(), source, tmp_path / "parts", 2, progress=notes)
    assert notes.messages == ["resuming after row 7"]
    merge(tmp_path / "parts", tmp_path / "out.csv")
    run(counting(), source, tmp_path / "whole.csv")
    assert (tmp_path / "out.csv").read_bytes() == (tmp_path / "whole.csv").read_bytes()


def test_what_a_process_left_that_was_killed_at_the_end_is_deleted(source, tmp_path):
    shards(counting(), source, tmp_path / "parts", 2)
    left = tmp_path / "parts/.part-00001-of-00002.parquet.parts"
    left.mkdir()
    (left / "journal.jsonl").write_text("{}\n")
    check_parts(tmp_path / "parts", SilentProgress())  # it does no harm
    shards(counting(), source, tmp_path / "parts", 2, [1])
    assert not left.exists()


def test_a_lost_or_damaged_record_means_that_the_shard_is_done_again(source, tmp_path):
    shards(counting(), source, tmp_path / "parts", 2)
    record = tmp_path / "parts/_part-00001-of-00002.parquet.json"
    written = record.read_text()
    for damage in (None, written[:40], "[]", json.dumps({"format": 1})):
        record.write_text(damage) if damage else record.unlink()
        assert "shard 1 of 2 is missing" in mistakes_of(tmp_path / "parts")[0]
        shards(counting(), source, tmp_path / "parts", 2, [1])
        assert record.read_text() == written
    (tmp_path / "parts/part-00001-of-00002.parquet").unlink()
    shards(counting(), source, tmp_path / "parts", 2, [1])
    check_parts(tmp_path / "parts", SilentProgress())


# Refused


def test_shards_of_another_request_are_refused(source, tmp_path):
    folder = tmp_path / "parts"
    shards(counting(), source, folder, 2)
    part = folder / "part-00000-of-00002.parquet"
    for job, what in ((counting("one"), "text columns"), (counting(identity="other"), "model or task")):
        with pytest.raises(RequestError) as caught:
            shards(job, source, folder, 2, [0])
        assert caught.value.mistakes == (
            f"{part}: the {what} changed since it was written; choose another folder, or delete this one",
        )
    with pytest.raises(RequestError, match="holds parts of 2 shards, not 3; choose another folder"):
        shards(counting(), source, folder, 3, [0])
    with source.open("a") as file:
        file.write("x")
    with pytest.raises(RequestError, match="the input changed since it was written"):
        shards(counting(), source, folder, 2, [0])


def test_a_missing_column_leaves_no_folder(source, tmp_path):
    with pytest.raises(DataError, match="no column 'sentense'"):
        shards(counting("sentense"), source, tmp_path / "parts", 2, [0])
    assert not (tmp_path / "parts").exists()


def test_all_mistakes_of_a_request_are_reported_at_once(source, tmp_path):
    with pytest.raises(RequestError) as caught:
        shards(counting(), source, tmp_path / "x.parquet", 2, [2])
    assert caught.value.mistakes == (
        "--shard 2: with --shards 2, expected 0 to 1",
        f"--output {tmp_path}/x.parquet: named like a file; shards need a folder, and --merge makes a file of them",
    )
    with pytest.raises(RequestError, match="holds the input; choose another folder"):
        shards(counting(), source, tmp_path, 2)
    with pytest.raises(RequestError, match="is a file; shards need a folder"):
        shards(counting(), source, source, 2)


def test_a_merge_names_everything_that_is_missing_damaged_or_mixed(source, tmp_path):
    folder = tmp_path / "parts"
    shards(counting(), source, folder, 6, [0, 2, 3])
    with pytest.raises(TypeError):  # interrupted
        shards(replace(counting(), work=None), source, folder, 6, [5])
    (folder / ".part-00005-of-00006.parquet.parts").mkdir(exist_ok=True)
    (folder / ".part-00005-of-00006.parquet.parts/journal.jsonl").write_text("{}\n")
    shards(counting(), source, other := tmp_path / "other", 6, [0])
    damaged = folder / "part-00002-of-00006.parquet"
    damaged.write_bytes(damaged.read_bytes()[:-1] + b"?")
    record = folder / "_part-00003-of-00006.parquet.json"
    written = json.loads(record.read_text())
    written["request"]["engine"] = "onnx"
    record.write_text(json.dumps(written))
    assert mistakes_of(folder) == (
        f"{folder}: shards 1 and 4 of 6 are missing; run --shards 6 --shard NUMBER",
        f"{folder}: shard 5 of 6 is not finished; run --shards 6 --shard 5",
        f"{folder}: shard 3 differs from shard 0 in the engine; delete its part and run it again",
        f"{damaged}: damaged; delete it, and run --shard 2 again",
    )
    with pytest.raises(RequestError):
        merge(folder, tmp_path / "out.csv")
    assert not (tmp_path / "out.csv").exists()
    for path in other.iterdir():
        (folder / path.name.replace("-of-00006", "-of-00009")).write_bytes(path.read_bytes())
    assert mistakes_of(folder) == (f"{folder}: parts of 6 and of 9 shards; delete those of all but one",)


def test_a_merge_needs_parts_and_a_possible_output(source, tmp_path):
    assert mistakes_of(tmp_path) == (f"{tmp_path}: no parts of shards; give the folder that --shards wrote to",)
    assert mistakes_of(tmp_path / "none") == (
        f"{tmp_path}/none: no parts of shards; give the folder that --shards wrote to",
    )
    shards(counting(), source, tmp_path / "parts", 1)
    with pytest.raises(RequestError, match=r"\.npy holds embeddings only"):
        merge(tmp_path / "parts", tmp_path / "out.npy")
    with pytest.raises(RequestError, match="its folder does not exist"):
        merge(tmp_path / "parts", tmp_path / "none/out.csv")
