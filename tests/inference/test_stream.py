"""Files of every format, processed chunk by chunk: one row out per row in, in order."""

from pathlib import Path

import numpy as np
import pyarrow
import pyarrow.parquet
import pytest

from counting_job import Notes, counting, run
from plait.data.readers.records import Record
from plait.errors import DataError, RequestError
from plait.inference import inputs, stream
from plait.inference.jobs import embed_job, predict_job
from plait.inference.stream import Done
from streaming import TASKS, read_rows, rows_of, write_rows

INPUTS = ["in.csv", "in.tsv", "in.csv.gz", "in.jsonl", "in.parquet"]


# Formats


@pytest.mark.parametrize("name", INPUTS)
@pytest.mark.parametrize("kind", ["csv", "jsonl", "parquet"])
def test_predictions_are_added_to_the_columns_of_the_file(predictor, name, kind, tmp_path):
    rows = rows_of(20)
    source, output = write_rows(tmp_path / name, rows), tmp_path / f"out.{kind}"
    job = predict_job(predictor, predictor.task("mood"), ["sentence"])
    assert run(job, source, output) == Done(20, 0, None)
    if name == "in.tsv":
        rows = [{**row, "note": row["note"].replace("\n", " ")} for row in rows]
    predictions = predictor.predict("mood", [row["sentence"] for row in rows])
    expected = [
        {
            **row,
            "prediction": one.label,
            "probability": one.score,
            **{f"p({k})": p for k, p in one.probabilities.items()},
        }
        for row, one in zip(rows, predictions, strict=True)
    ]
    if kind == "csv":
        expected = [{name: str(cell) for name, cell in row.items()} for row in expected]
    assert read_rows(output) == expected
    assert sorted(path.name for path in tmp_path.iterdir()) == sorted([name, output.name])


@pytest.mark.parametrize("name", INPUTS)
@pytest.mark.parametrize("kind", ["csv", "jsonl", "parquet", "npy"])
def test_embeddings_are_added_to_the_columns_of_the_file(predictor, name, kind, tmp_path):
    rows = rows_of(20)
    source, output = write_rows(tmp_path / name, rows), tmp_path / f"out.{kind}"
    run(embed_job(predictor, "sentence"), source, output)
    embedded = predictor.embed([row["sentence"] for row in rows])
    if kind == "npy":
        assert np.array_equal(np.load(output), embedded)
        return
    found = read_rows(output)
    vectors = [row["embedding"] if kind != "csv" else [float(row[f"e{n}"]) for n in range(16)] for row in found]
    assert np.array_equal(np.float32(vectors), embedded)
    assert [row["id"] for row in found] == [row["id"] for row in rows]
    if name != "in.tsv":
        assert [row["note"] for row in found] == [row["note"] for row in rows]


@pytest.mark.parametrize("task", TASKS)
@pytest.mark.parametrize("kind", ["csv", "jsonl", "parquet"])
def test_every_kind_of_task(predictor, task, kind, tmp_path):
    rows = rows_of(12)
    spec = predictor.task(task)
    output = tmp_path / f"out.{kind}"
    run(predict_job(predictor, spec, TASKS[task]), write_rows(tmp_path / "in.csv", rows), output)
    texts = [tuple(row[column] for column in TASKS[task]) for row in rows]
    expected = predictor.predict(task, texts if len(TASKS[task]) > 1 else [text for (text,) in texts])
    found = read_rows(output)
    scored = spec.labels.kind == "score"
    scores = [float(row["prediction" if scored else "probability"]) for row in found]
    assert scores == [prediction.score for prediction in expected]
    if scored:
        assert set(found[0]) == {*rows[0], "prediction"}
        return
    labels = [prediction.label for prediction in expected]
    if task == "tags":
        labels = ["|".join(label) if kind == "csv" else list(label) for label in labels]
    assert [row["prediction"] for row in found] == labels
    assert set(found[0]) == {*rows[0], "prediction", "probability", *(f"p({name})" for name in spec.labels.names)}


def test_columns_other_than_in_training_can_be_read(predictor, tmp_path):
    source = write_rows(tmp_path / "in.csv", [{"x": "a dog"}, {"x": "a cat"}])
    run(predict_job(predictor, predictor.task("mood"), ["x"]), source, tmp_path / "out.csv")
    expected = predictor.predict("mood", ["a dog", "a cat"]).labels
    assert [row["prediction"] for row in read_rows(tmp_path / "out.csv")] == expected
    with pytest.raises(RequestError, match="the task 'near' reads 2 text columns, 1 given"):
        predict_job(predictor, predictor.task("near"), ["x"])


# Empty files and refused requests


@pytest.mark.parametrize("kind", ["csv", "jsonl", "parquet", "npy"])
def test_a_file_without_rows_gives_an_output_without_rows(kind, tmp_path):
    (tmp_path / "in.csv").write_text("id,sentence\n")
    output = tmp_path / f"out.{kind}"
    assert run(counting(width=3 if kind == "npy" else None), tmp_path / "in.csv", output) == Done(0, 0, None)
    if kind == "npy":
        assert np.load(output).shape == (0, 3)
    else:
        assert read_rows(output) == []
    if kind == "parquet":
        assert pyarrow.parquet.read_schema(output).names == ["id", "sentence", "label", "score"]


def test_an_empty_file_is_refused_unless_it_is_jsonl(tmp_path):
    (tmp_path / "in.csv").touch()
    with pytest.raises(DataError, match=r"in\.csv:1: the file is empty"):
        run(counting(), tmp_path / "in.csv", tmp_path / "out.csv")
    (tmp_path / "in.jsonl").touch()
    assert run(counting(), tmp_path / "in.jsonl", tmp_path / "out.csv").rows == 0
    assert (tmp_path / "out.csv").read_text() == "label,score\n"


@pytest.mark.parametrize("name", INPUTS)
def test_a_missing_column_is_reported_once_and_nothing_is_written(name, tmp_path):
    source = write_rows(tmp_path / name, rows_of(9))
    with pytest.raises(DataError) as caught:
        run(counting("sentense"), source, tmp_path / "out.csv")
    assert caught.value.mistakes == (
        f"{source}:1: no column 'sentense'; did you mean 'sentence'? (use --text sentence)",
    )
    assert [path.name for path in tmp_path.iterdir()] == [name]


def test_two_columns_with_the_same_name_are_refused(tmp_path):
    table = pyarrow.table([["a"], ["b"], ["c"]], names=["sentence", "x", "x"])
    pyarrow.parquet.write_table(table, tmp_path / "in.parquet")
    with pytest.raises(DataError, match=r"in\.parquet:1: column 'x' occurs twice"):
        run(counting(), tmp_path / "in.parquet", tmp_path / "out.csv")


def test_outputs_that_would_overwrite_something_are_refused(tmp_path):
    source = write_rows(tmp_path / "in.csv", rows_of(3))
    before = source.read_bytes()
    (tmp_path / "link.csv").symlink_to(source)
    (tmp_path / "folder.csv").mkdir()
    for output, options, message in (
        (source, {}, "is the input itself"),
        (tmp_path / "link.csv", {}, "is the input itself"),
        (tmp_path / "none/out.csv", {}, "its folder does not exist"),
        (tmp_path / "folder.csv", {}, "not a regular file"),
        (tmp_path / "out.csv", {"errors": source}, "--errors .* is the input itself"),
        (tmp_path / "out.csv", {"errors": tmp_path / "out.csv"}, "--errors .* is the output itself"),
        (tmp_path / "out.csv", {"errors": tmp_path / "none/errors"}, "--errors .* its folder does not exist"),
        (tmp_path / "out.csv", {"errors": Path("/dev/null")}, "--errors /dev/null: not a regular file"),
    ):
        with pytest.raises(RequestError, match=message):
            run(counting(), source, output, **options)
    assert source.read_bytes() == before
    assert sorted(path.name for path in tmp_path.iterdir()) == ["folder.csv", "in.csv", "link.csv"]


def test_a_damaged_file_leaves_nothing_if_no_part_was_finished(tmp_path):
    source = write_rows(tmp_path / "in.csv.gz", rows_of(3000))
    source.write_bytes(source.read_bytes()[:20000])
    with pytest.raises(DataError, match="the gzip data is corrupt or truncated"):
        run(counting(), source, tmp_path / "out.csv")
    assert [path.name for path in tmp_path.iterdir()] == ["in.csv.gz"]


def test_rows_may_have_very_many_columns_only_if_the_output_is_jsonl(tmp_path, monkeypatch):
    monkeypatch.setattr(inputs, "_MOST_COLUMNS", 5)
    rows = [{"sentence": "a", f"key {row}": row} for row in range(20)] + [{"sentence": "b", "late": "x"}]
    source = write_rows(tmp_path / "in.jsonl", rows)
    with pytest.raises(DataError, match=r"in\.jsonl: more than 5 columns; choose \.jsonl as output"):
        run(counting(), source, tmp_path / "out.csv")
    run(counting(), source, tmp_path / "out.jsonl")
    found = read_rows(tmp_path / "out.jsonl")
    assert found[7] == {"sentence": "a", "key 7": 7, "label": "a", "score": 1.0}
    assert found[20]["late"] == "x"
    write_rows(source, [*rows, {"sentence": "c", "label": "mine"}])  # found however late it is
    with pytest.raises(DataError, match=r"in\.jsonl: already has the column 'label', which the output adds"):
        run(counting(), source, tmp_path / "out.jsonl")


# Chunks


@pytest.mark.parametrize("name", ["in.csv", "in.jsonl", "in.parquet"])
@pytest.mark.parametrize("kind", ["csv", "jsonl", "parquet", "npy"])
def test_chunks_of_any_size_give_the_same_output(name, kind, tmp_path, monkeypatch):
    rows = rows_of(50)
    for bad in (0, 6, 7, 8, 49):
        rows[bad]["sentence"] = ""
    source = write_rows(tmp_path / name, rows)
    job = counting(width=3 if kind == "npy" else None)
    run(job, source, tmp_path / f"one.{kind}")
    for setting, value in (
        ("_CHUNK_ROWS", 7),
        ("_CHUNK_ROWS", 1),
        ("_CHUNK_ROWS", 50),
        ("_CHUNK_CHARACTERS", 300),
        ("_CHUNK_CHARACTERS", 1),
    ):
        with monkeypatch.context() as patch:
            patch.setattr(stream, setting, value)
            run(job, source, output := tmp_path / f"many.{kind}")
        if kind == "parquet":
            assert pyarrow.parquet.read_table(output).equals(pyarrow.parquet.read_table(tmp_path / "one.parquet"))
        else:
            assert output.read_bytes() == (tmp_path / f"one.{kind}").read_bytes()
        lists = [tmp_path / f"{stem}.{kind}.errors.jsonl" for stem in ("one", "many")]
        assert lists[0].read_bytes() == lists[1].read_bytes()


def test_a_chunk_of_long_texts_has_fewer_rows(monkeypatch):
    monkeypatch.setattr(stream, "_CHUNK_CHARACTERS", 10)
    records = [Record(row, {"x": "a" * length}) for row, length in enumerate((4, 4, 4, 20, 1, 1, 1))]
    groups = [[record.line for record in group] for group in stream._chunks(iter(records), 3, 0)]
    assert groups == [[0, 1, 2], [3], [4, 5, 6]]
    assert [[record.line for record in group] for group in stream._chunks(iter(records), 2, 0)] == [
        [0, 1], [2, 3], [4, 5], [6],
    ]  # fmt: skip
    assert [[record.line for record in group] for group in stream._chunks(iter(records), 3, 4)] == [[4, 5, 6]]


def test_the_size_of_chunks_changes_only_the_last_bits(predictor, tmp_path, monkeypatch):
    source = write_rows(tmp_path / "in.csv", rows_of(50))
    job = embed_job(predictor, "sentence")
    run(job, source, tmp_path / "one.npy")
    monkeypatch.setattr(stream, "_CHUNK_ROWS", 7)
    run(job, source, tmp_path / "many.npy")
    # float32 sums in another order; therefore a resumed output has the same chunks as an uninterrupted one
    np.testing.assert_allclose(np.load(tmp_path / "many.npy"), np.load(tmp_path / "one.npy"), rtol=0, atol=2e-6)


def test_truncated_inputs_are_reported(predictor, tmp_path):
    source = write_rows(tmp_path / "in.csv", [{"sentence": "dog " * 100}, {"sentence": "a cat"}, {"sentence": ""}])
    run(embed_job(predictor, "sentence"), source, tmp_path / "out.npy", progress=(notes := Notes()))
    assert notes.messages == ["1 of 2 inputs were truncated to 40 tokens"]
