"""Files of every kind, worked through chunk by chunk: one row out for each row in, in order, whatever the row."""

import csv
import io
import json
import os
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow
import pyarrow.parquet
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from plait.data.records import Record
from plait.errors import DataError, RequestError
from plait.inference import inputs, stream
from plait.inference.predictor import load
from plait.inference.stream import Done, Job, embed_job, predict_job, run_job
from plait.model.watch import Silent
from streaming import TASKS, read_rows, rows_of, train_model, write_rows

INPUTS = ["in.csv", "in.tsv", "in.csv.gz", "in.jsonl", "in.parquet"]


@pytest.fixture(scope="module")
def predictor(tiny_bert, tmp_path_factory):
    return load(train_model(tmp_path_factory.mktemp("stream"), tiny_bert))


class Notes(Silent):
    """Remembers what was said."""

    def __init__(self) -> None:
        self.said: list[str] = []

    def note(self, message: str) -> None:
        self.said.append(message)


def counting(*text: str, identity: str = "model", width: int | None = None) -> Job:
    """A job without a model: the letters of each text, so that every result can be told by hand."""

    def work(texts):
        rows = list(zip(*texts, strict=True))
        vectors = np.array([[len(row[0])] * width for row in rows], np.float32) if width else None
        return [() if width else (row[0][:1], float(sum(map(len, row)))) for row in rows], vectors

    added = {} if width else {"label": "text", "score": "number"}
    return Job(
        "counting",
        identity,
        text or ("sentence",),
        added,
        width,
        None,
        work,
        9,
        lambda texts: (len(texts[0]), 0),
    )


def run(job: Job, source: Path, output: Path, **options) -> Done:
    return run_job(job, str(source), str(output), output.suffix[1:], options.pop("watcher", Silent()), **options)


@pytest.fixture
def pipe(monkeypatch, capsysbinary):
    """Run a job from the standard input to a file or to the standard output, whose bytes come back."""

    def through(job: Job, data: bytes, output: str = "-", **options) -> bytes:
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BufferedReader(io.BytesIO(data))))
        run_job(job, "-", output, None if output == "-" else Path(output).suffix[1:], Silent(), **options)
        return capsysbinary.readouterr().out

    return through


def errors_of(output: Path) -> list[dict]:
    return read_rows(output.with_name(f"{output.name}.errors.jsonl"))


# Every kind of input and output


@pytest.mark.parametrize("name", INPUTS)
@pytest.mark.parametrize("kind", ["csv", "jsonl", "parquet"])
def test_predictions_stand_beside_the_columns_of_the_file(predictor, name, kind, tmp_path):
    rows = rows_of(20)
    source, output = write_rows(tmp_path / name, rows), tmp_path / f"out.{kind}"
    job = predict_job(predictor, predictor.task("mood"), ["sentence"], "model")
    assert run(job, source, output) == Done(20, 0, None)
    if name == "in.tsv":
        rows = [{**row, "note": row["note"].replace("\n", " ")} for row in rows]
    predictions = predictor.predict("mood", [row["sentence"] for row in rows])
    expected = [
        {**row, "label": said.label, "score": said.score, **{f"p({k})": p for k, p in said.probabilities.items()}}
        for row, said in zip(rows, predictions, strict=True)
    ]
    if kind == "csv":
        expected = [{name: str(cell) for name, cell in row.items()} for row in expected]
    assert read_rows(output) == expected
    assert sorted(path.name for path in tmp_path.iterdir()) == sorted([name, output.name])


@pytest.mark.parametrize("name", INPUTS)
@pytest.mark.parametrize("kind", ["csv", "jsonl", "parquet", "npy"])
def test_embeddings_stand_beside_the_columns_of_the_file(predictor, name, kind, tmp_path):
    rows = rows_of(20)
    source, output = write_rows(tmp_path / name, rows), tmp_path / f"out.{kind}"
    run(embed_job(predictor, "sentence", "model"), source, output)
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
    run(predict_job(predictor, spec, TASKS[task], "model"), write_rows(tmp_path / "in.csv", rows), output)
    texts = [tuple(row[column] for column in TASKS[task]) for row in rows]
    said = predictor.predict(task, texts if len(TASKS[task]) > 1 else [text for (text,) in texts])
    found = read_rows(output)
    assert [float(row["score"]) for row in found] == [prediction.score for prediction in said]
    if spec.labels.kind == "score":
        assert set(found[0]) == {*rows[0], "score"}
        return
    labels = [prediction.label for prediction in said]
    if task == "tags":
        labels = ["|".join(label) if kind == "csv" else list(label) for label in labels]
    assert [row["label"] for row in found] == labels
    assert set(found[0]) == {*rows[0], "label", "score", *(f"p({name})" for name in spec.labels.names)}


def test_other_columns_than_in_training_can_be_read(predictor, tmp_path):
    source = write_rows(tmp_path / "in.csv", [{"x": "a dog"}, {"x": "a cat"}])
    run(predict_job(predictor, predictor.task("mood"), ["x"], "model"), source, tmp_path / "out.csv")
    said = predictor.predict("mood", ["a dog", "a cat"])
    assert [row["label"] for row in read_rows(tmp_path / "out.csv")] == [prediction.label for prediction in said]
    with pytest.raises(RequestError, match="the task 'near' reads 2 text columns, 1 given"):
        predict_job(predictor, predictor.task("near"), ["x"], "model")


# What passes through


def test_json_passes_through_unchanged(tmp_path):
    line = (
        '{"sentence": "a ☃\\u2028 \\"x\\"\\n", "n": 1, "x": 1.0, "big": 123456789012345678901234567890, "t": true, '
        '"none": null, "list": [1, "a", {"k": []}], "": "unnamed"}'
    )
    source = tmp_path / "in.jsonl"
    source.write_text(line + '\n\n{"sentence": "b", "other": {"deep": [null]}}\n', encoding="utf-8")
    run(counting(), source, tmp_path / "out.jsonl")
    first, second = read_rows(tmp_path / "out.jsonl")
    assert json.dumps(first) == json.dumps({**json.loads(line), "label": "a", "score": 9.0})
    assert second == {"sentence": "b", "other": {"deep": [None]}, "label": "b", "score": 1.0}


def test_rows_of_jsonl_with_different_keys_keep_all_of_them(tmp_path, monkeypatch):
    monkeypatch.setattr(stream, "ROWS", 2)
    rows = [
        {"sentence": "a"},
        {"sentence": "b", "n": 1},
        {"sentence": "c", "late": True, "n": 2.5},
        {"sentence": "d", "mixed": 1},
        {"mixed": "x", "sentence": "e", "list": [1]},
    ]
    source = write_rows(tmp_path / "in.jsonl", rows)
    for kind in ("csv", "jsonl", "parquet"):
        run(counting(), source, tmp_path / f"out.{kind}")
    assert read_rows(tmp_path / "out.jsonl") == [{**row, "label": row["sentence"], "score": 1.0} for row in rows]
    assert (tmp_path / "out.csv").read_text().splitlines() == [
        "sentence,n,late,mixed,list,label,score",
        "a,,,,,a,1.0",
        "b,1,,,,b,1.0",
        "c,2.5,true,,,c,1.0",
        "d,,,1,,d,1.0",
        "e,,,x,[1],e,1.0",
    ]
    table = pyarrow.parquet.read_table(tmp_path / "out.parquet")
    assert table["n"].to_pylist() == [None, 1.0, 2.5, None, None]
    assert table["late"].to_pylist() == [None, None, True, None, None]
    assert table["mixed"].to_pylist() == [None, None, None, "1", "x"]
    assert table["list"].to_pylist() == [None, None, None, None, "[1]"]


@pytest.mark.parametrize(
    ("values", "kind", "cells"),
    [
        ([1, None, 3], "int64", [1, None, 3]),
        ([1, 2.5], "double", [1.0, 2.5]),
        ([2**60 + 1], "int64", [2**60 + 1]),
        ([2**60 + 1, 0.5], "string", ["1152921504606846977", "0.5"]),  # no float holds it
        ([2**70, 1], "string", ["1180591620717411303424", "1"]),
        ([True, False], "bool", [True, False]),
        ([True, 1], "string", ["true", "1"]),
        ([None, None], "string", [None, None]),
        ([{"a": 1}, {}], "string", ['{"a": 1}', "{}"]),
        (["x", 1], "string", ["x", "1"]),
    ],
)
def test_a_column_of_parquet_has_the_type_that_its_values_have_in_common(values, kind, cells, tmp_path, monkeypatch):
    monkeypatch.setattr(stream, "ROWS", 1)
    source = write_rows(tmp_path / "in.jsonl", [{"sentence": "a", "x": value} for value in values])
    run(counting(), source, tmp_path / "out.parquet")
    column = pyarrow.parquet.read_table(tmp_path / "out.parquet")["x"]
    assert str(column.type) == kind and column.to_pylist() == cells


def test_the_types_of_parquet_pass_through(tmp_path, monkeypatch):
    import datetime
    import decimal

    monkeypatch.setattr(stream, "ROWS", 2)
    table = pyarrow.table(
        {
            "sentence": ["a", "", None, "d", "e"],
            "small": pyarrow.array([1, None, 3, 4, 5], pyarrow.int8()),
            "single": pyarrow.array([0.1, None, 3, 4, 5], pyarrow.float32()),
            "when": pyarrow.array([datetime.datetime(2020, 1, 2, 3, 4, 5, 6)] * 5, pyarrow.timestamp("us", "UTC")),
            "price": pyarrow.array([decimal.Decimal("1.50")] * 5, pyarrow.decimal128(10, 2)),
            "bytes": pyarrow.array([b"\xff\x00"] * 5),
            "words": pyarrow.array([["a", None], None, [], ["b"], ["c"]]),
            "nested": pyarrow.array([{"k": [1]}] * 5),
            "sort": pyarrow.array(["p", "q", "p", None, "r"]).dictionary_encode(),
        }
    )
    pyarrow.parquet.write_table(table, tmp_path / "in.parquet")
    before = pyarrow.parquet.read_table(tmp_path / "in.parquet")
    assert run(counting(), tmp_path / "in.parquet", tmp_path / "out.parquet").bad == 2
    after = pyarrow.parquet.read_table(tmp_path / "out.parquet")
    assert after.drop_columns(["label", "score"]).equals(before)
    assert after["label"].to_pylist() == ["a", None, None, "d", "e"]
    run(counting(), tmp_path / "in.parquet", tmp_path / "out.jsonl")
    first = read_rows(tmp_path / "out.jsonl")[0]
    assert first["single"] == 0.1 and first["when"] == "2020-01-02 03:04:05.000006+00:00" and first["price"] == "1.50"


@pytest.mark.parametrize("name", ["in.csv", "in.jsonl", "in.parquet"])
@pytest.mark.parametrize("kind", ["csv", "jsonl", "parquet"])
def test_a_column_that_has_the_name_of_a_result_keeps_it(name, kind, tmp_path, monkeypatch):
    monkeypatch.setattr(stream, "ROWS", 1)
    rows = [{"sentence": "a", "x": "1"}, {"sentence": "bb", "x": "2"}]
    rows = [{**row, "label": "mine", "embedding": "own", "e1": "too"} for row in rows]
    if name == "in.jsonl":
        rows[0] = {"sentence": "a", "x": "1"}  # only a later row has the name
    source, output = write_rows(tmp_path / name, rows), tmp_path / f"out.{kind}"
    run(counting(), source, output)
    found = read_rows(output)
    assert [row["predicted label"] for row in found] == ["a", "b"] and "score" not in found[0]
    assert [float(row["predicted score"]) for row in found] == [1.0, 2.0]
    assert found[1]["label"] == "mine"
    run(counting(width=2), source, output)
    found = read_rows(output)
    assert found[1]["embedding"] == "own" and found[1]["e1"] == "too"
    vectors = [[float(row["predicted e0"])] if kind == "csv" else row["predicted embedding"][:1] for row in found]
    assert vectors == [[1.0], [2.0]]
    run(counting(), output, tmp_path / "again.jsonl")
    run(counting(), tmp_path / "again.jsonl", tmp_path / "third.jsonl")
    assert read_rows(tmp_path / "third.jsonl")[1]["predicted predicted label"] == "b"


CELLS = st.text(st.characters(codec="utf-8", exclude_characters="\0"), max_size=8)
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.text(max_size=3), inner, max_size=2),
    max_leaves=4,
)


@settings(max_examples=150, deadline=None)
@given(notes=st.lists(CELLS, min_size=1, max_size=5))
def test_any_text_passes_through_csv_and_parquet(notes, tmp_path_factory):
    folder = tmp_path_factory.mktemp("any")
    rows = [{"id": str(row), "note": note, "sentence": "a"} for row, note in enumerate(notes)]
    source = write_rows(folder / "in.csv", rows)
    expected = [{**row, "label": "a", "score": 1.0} for row in rows]
    for kind in ("csv", "jsonl", "parquet"):
        output = folder / f"out.{kind}"
        assert run(counting(), source, output).bad == 0
        found = [{**row, "score": float(row["score"])} for row in read_rows(output)]
        assert found == expected
        run(counting(), output, folder / f"again.{kind}")
        again = read_rows(folder / f"again.{kind}")
        assert [row["note"] for row in again] == notes and again[0]["predicted label"] == "a"


def sentence(row: dict) -> dict:
    """What the test itself puts in the place of a key that it needs."""
    return {"sentence": "a"} if "sentence" in row else {}


@settings(max_examples=150, deadline=None)
@given(rows=st.lists(st.dictionaries(st.text(max_size=4), VALUES, max_size=3), min_size=1, max_size=5))
def test_any_json_passes_through_and_goes_into_every_kind_of_table(rows, tmp_path_factory):
    folder = tmp_path_factory.mktemp("any")
    (folder / "in.jsonl").write_text("".join(json.dumps({**row, "sentence": "a"}) + "\n" for row in rows))
    assert run(counting(), folder / "in.jsonl", folder / "out.jsonl") == Done(len(rows), 0, None)
    found = [json.loads(line) for line in (folder / "out.jsonl").read_bytes().splitlines()]
    for row, before in zip(found, rows, strict=True):
        assert json.dumps({name: row[name] for name in before}) == json.dumps({**before, **sentence(before)})
    for kind in ("csv", "parquet"):
        run(counting(), folder / "in.jsonl", folder / f"out.{kind}")
        assert len(read_rows(folder / f"out.{kind}")) == len(rows)


# Bad rows

BAD = {
    "ragged": b"9,one,two\n",
    "empty text": b"9,\n",
    "blank text": b"9,  \t\n",
    "latin-1": b"9,caf\xe9\n",
    "NUL": b"9,a\0b\n",
}


@pytest.mark.parametrize("what", BAD)
@pytest.mark.parametrize("places", [{0}, {4}, {2}, {0, 1, 2, 3, 4}, set(), {1, 3}])
def test_a_bad_row_is_left_empty_and_listed_and_shifts_nothing(what, places, tmp_path, monkeypatch):
    monkeypatch.setattr(stream, "ROWS", 2)
    lines = [BAD[what] if row in places else f"{row},{'abcde'[row]}\n".encode() for row in range(5)]
    (tmp_path / "in.csv").write_bytes(b"id,sentence\n" + b"".join(lines))
    expected = [None if row in places else "abcde"[row] for row in range(5)]
    for kind in ("csv", "jsonl", "parquet"):
        done = run(counting(), tmp_path / "in.csv", output := tmp_path / f"out.{kind}")
        assert (done.rows, done.bad) == (5, len(places))
        assert [row["label"] or None for row in read_rows(output)] == expected
        if not places:
            assert done.errors is None and not output.with_name(f"{output.name}.errors.jsonl").exists()
            continue
        assert [line["where"] for line in errors_of(output)] == [f"in.csv:{row + 2}" for row in sorted(places)]
        assert all(line["problem"] and line["row"] for line in errors_of(output))
    run(counting(width=2), tmp_path / "in.csv", tmp_path / "out.npy")
    missing = np.isnan(np.load(tmp_path / "out.npy")).all(axis=1)
    assert missing.tolist() == [row in places for row in range(5)]


def test_the_reason_and_the_row_stand_in_the_list_of_errors(tmp_path):
    (tmp_path / "in.csv").write_bytes(b'id,sentence\n1,"two\nlines"\n2,\n3,a,b\n4,caf\xe9\n5,fine\n')
    run(counting(), tmp_path / "in.csv", tmp_path / "out.csv")
    assert errors_of(tmp_path / "out.csv") == [
        {"where": "in.csv:4", "problem": "the text in column 'sentence' is empty", "row": {"id": "2", "sentence": ""}},
        {"where": "in.csv:5", "problem": "3 fields where the header has 2", "row": "3,a,b\n"},
        {
            "where": "in.csv:6",
            "problem": "not UTF-8 at byte 5 of the line; save the file as UTF-8",
            "row": "4,caf\ufffd\n",
        },
    ]
    assert [row["id"] for row in read_rows(tmp_path / "out.csv")] == ["1", "2", "", "", "5"]


def test_bad_rows_of_jsonl(tmp_path):
    lines = [
        '{"sentence": "a"}',
        "no json",
        '["a"]',
        '{"other": "b"}',
        '{"sentence": ["a"]}',
        '{"sentence": null}',
        '{"sentence": "\\ud800"}',
        "{}",
        '{"sentence": 7}',
    ]
    (tmp_path / "in.jsonl").write_text("\n".join(lines) + "\n")
    for kind in ("csv", "jsonl", "parquet"):
        assert run(counting(), tmp_path / "in.jsonl", output := tmp_path / f"out.{kind}").bad == 7
        assert [row["label"] or None for row in read_rows(output)] == ["a", *[None] * 7, "7"]
    problems = [line["problem"] for line in errors_of(tmp_path / "out.csv")]
    assert problems == [
        "not JSON: Expecting value at column 1",
        "expected an object, found list",
        "no column 'sentence'; allowed: other",
        "the value of 'sentence' is not plain text",
        "the text in column 'sentence' is empty",
        "the text in column 'sentence' has half a character (a lone surrogate)",
        "no column 'sentence'; allowed: none",
    ]
    assert read_rows(tmp_path / "out.jsonl")[3] == {"other": "b", "label": None, "score": None}


def test_jsonl_without_one_sound_row_is_no_reason_to_stop(tmp_path):
    (tmp_path / "in.jsonl").write_text("no\njson\n")
    assert run(counting(), tmp_path / "in.jsonl", tmp_path / "out.csv") == Done(2, 2, tmp_path / "out.csv.errors.jsonl")
    assert (tmp_path / "out.csv").read_text() == "label,score\n,\n,\n"


def test_one_empty_side_makes_a_pair_bad(tmp_path):
    source = write_rows(tmp_path / "in.csv", [{"one": "a", "two": "b"}, {"one": "a", "two": ""}])
    run(counting("one", "two"), source, tmp_path / "out.csv")
    assert [row["score"] for row in read_rows(tmp_path / "out.csv")] == ["2.0", ""]
    assert errors_of(tmp_path / "out.csv")[0]["problem"] == "the text in column 'two' is empty"


def test_the_list_of_errors_can_go_elsewhere_and_an_old_one_goes_away(tmp_path):
    (tmp_path / "bad.csv").write_text("id,sentence\n1,\n2,a\n")
    (tmp_path / "good.csv").write_text("id,sentence\n1,a\n")
    listed, output = tmp_path / "list.jsonl", tmp_path / "out.csv"
    assert run(counting(), tmp_path / "bad.csv", output, errors=listed).errors == listed
    assert len(read_rows(listed)) == 1 and not (tmp_path / "out.csv.errors.jsonl").exists()
    run(counting(), tmp_path / "good.csv", output, errors=listed)
    assert not listed.exists()
    run(counting(), tmp_path / "bad.csv", output)
    assert len(errors_of(output)) == 1
    run(counting(), tmp_path / "good.csv", output)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["bad.csv", "good.csv", "out.csv"]


# Nothing, too much, and the wrong thing


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


def test_an_empty_file(tmp_path):
    (tmp_path / "in.csv").touch()
    with pytest.raises(DataError, match=r"in\.csv:1: the file is empty"):
        run(counting(), tmp_path / "in.csv", tmp_path / "out.csv")
    (tmp_path / "in.jsonl").touch()
    assert run(counting(), tmp_path / "in.jsonl", tmp_path / "out.csv").rows == 0
    assert (tmp_path / "out.csv").read_text() == "label,score\n"


@pytest.mark.parametrize("name", INPUTS)
def test_a_missing_column_is_told_once_and_nothing_is_written(name, tmp_path):
    source = write_rows(tmp_path / name, rows_of(9))
    with pytest.raises(DataError) as caught:
        run(counting("sentense"), source, tmp_path / "out.csv")
    assert caught.value.mistakes == (f"{source}:1: no column 'sentense'; did you mean 'sentence'?",)
    assert [path.name for path in tmp_path.iterdir()] == [name]


def test_two_columns_of_one_name_are_refused(tmp_path):
    table = pyarrow.table([["a"], ["b"], ["c"]], names=["sentence", "x", "x"])
    pyarrow.parquet.write_table(table, tmp_path / "in.parquet")
    with pytest.raises(DataError, match=r"in\.parquet:1: column 'x' stands twice"):
        run(counting(), tmp_path / "in.parquet", tmp_path / "out.csv")


def test_places_that_would_lose_something_are_refused(tmp_path):
    source = write_rows(tmp_path / "in.csv", rows_of(3))
    before = source.read_bytes()
    (tmp_path / "link.csv").symlink_to(source)
    (tmp_path / "folder.csv").mkdir()
    for output, options, message in (
        (source, {}, "is the input itself"),
        (tmp_path / "link.csv", {}, "is the input itself"),
        (tmp_path / "none/out.csv", {}, "its folder does not exist"),
        (tmp_path / "folder.csv", {}, "is not a plain file"),
        (tmp_path / "out.csv", {"errors": source}, "--errors .* is the input itself"),
        (tmp_path / "out.csv", {"errors": tmp_path / "out.csv"}, "--errors .* is the output itself"),
        (tmp_path / "out.csv", {"errors": tmp_path / "none/errors"}, "--errors .* its folder does not exist"),
        (tmp_path / "out.csv", {"errors": Path("/dev/null")}, "--errors /dev/null: is not a plain file"),
    ):
        with pytest.raises(RequestError, match=message):
            run(counting(), source, output, **options)
    assert source.read_bytes() == before
    assert sorted(path.name for path in tmp_path.iterdir()) == ["folder.csv", "in.csv", "link.csv"]


def test_a_damaged_file_leaves_nothing_if_no_part_was_done(tmp_path):
    source = write_rows(tmp_path / "in.csv.gz", rows_of(3000))
    source.write_bytes(source.read_bytes()[:20000])
    with pytest.raises(DataError, match="the gzip data is damaged or cut short"):
        run(counting(), source, tmp_path / "out.csv")
    assert [path.name for path in tmp_path.iterdir()] == ["in.csv.gz"]


def test_rows_may_name_very_many_columns_only_where_the_output_has_none_for_each(tmp_path, monkeypatch):
    monkeypatch.setattr(inputs, "MOST_COLUMNS", 5)
    rows = [{"sentence": "a", f"key {row}": row} for row in range(20)] + [{"sentence": "b", "label": "x"}]
    source = write_rows(tmp_path / "in.jsonl", rows)
    with pytest.raises(DataError, match=r"rows name more than 5 columns; choose \.jsonl as output"):
        run(counting(), source, tmp_path / "out.csv")
    run(counting(), source, tmp_path / "out.jsonl")
    found = read_rows(tmp_path / "out.jsonl")
    assert found[7] == {"sentence": "a", "key 7": 7, "predicted label": "a", "predicted score": 1.0}
    assert found[20]["label"] == "x"


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
    for setting, value in (("ROWS", 7), ("ROWS", 1), ("ROWS", 50), ("CHARACTERS", 300), ("CHARACTERS", 1)):
        with monkeypatch.context() as patch:
            patch.setattr(stream, setting, value)
            run(job, source, output := tmp_path / f"many.{kind}")
        if kind == "parquet":
            assert pyarrow.parquet.read_table(output).equals(pyarrow.parquet.read_table(tmp_path / "one.parquet"))
        else:
            assert output.read_bytes() == (tmp_path / f"one.{kind}").read_bytes()
        lists = [tmp_path / f"{stem}.{kind}.errors.jsonl" for stem in ("one", "many")]
        assert lists[0].read_bytes() == lists[1].read_bytes()


def test_a_chunk_ends_where_its_texts_grow_long(monkeypatch):
    monkeypatch.setattr(stream, "CHARACTERS", 10)
    records = [Record(row, {"x": "a" * length}) for row, length in enumerate((4, 4, 4, 20, 1, 1, 1))]
    groups = [[record.line for record in group] for group in stream.grouped(iter(records), 3, 0)]
    assert groups == [[0, 1, 2], [3], [4, 5, 6]]
    assert [[record.line for record in group] for group in stream.grouped(iter(records), 2, 0)] == [
        [0, 1], [2, 3], [4, 5], [6],
    ]  # fmt: skip
    assert [[record.line for record in group] for group in stream.grouped(iter(records), 3, 4)] == [[4, 5, 6]]


def test_predictions_in_other_chunks_are_equal_but_for_the_last_bits(predictor, tmp_path, monkeypatch):
    source = write_rows(tmp_path / "in.csv", rows_of(50))
    job = embed_job(predictor, "sentence", "model")
    run(job, source, tmp_path / "one.npy")
    monkeypatch.setattr(stream, "ROWS", 7)
    run(job, source, tmp_path / "many.npy")
    # float32 sums in other orders: that is why parts are cut at the same rows whether a run was broken off or not
    np.testing.assert_allclose(np.load(tmp_path / "many.npy"), np.load(tmp_path / "one.npy"), rtol=0, atol=2e-6)


def test_inputs_that_were_cut_are_told(predictor, tmp_path):
    source = write_rows(tmp_path / "in.csv", [{"sentence": "dog " * 100}, {"sentence": "a cat"}, {"sentence": ""}])
    run(embed_job(predictor, "sentence", "model"), source, tmp_path / "out.npy", watcher=(notes := Notes()))
    assert notes.said == ["1 of 2 inputs were cut at 40 tokens"]


# Going on


class Broken(Exception):
    """In place of a kill."""


def break_off(job: Job, source: Path, output: Path, after: int, **options) -> None:
    """Work until so many chunks are done."""
    chunks = 0

    def work(texts):
        nonlocal chunks
        if chunks == after:
            raise Broken
        chunks += 1
        return job.work(texts)

    with pytest.raises(Broken):
        run(replace(job, work=work), source, output, **options)


@pytest.fixture
def begun(tmp_path, monkeypatch):
    """An output that was broken off after 3 of 8 parts: its job, its input and its place."""
    monkeypatch.setattr(stream, "ROWS", 7)
    source = write_rows(tmp_path / "in.csv", rows_of(50))
    break_off(job := counting(), source, tmp_path / "out.csv", 3)
    return job, source, tmp_path / "out.csv"


def test_nothing_is_seen_of_an_output_that_was_broken_off(begun, tmp_path):
    assert sorted(path.name for path in tmp_path.iterdir()) == [".out.csv.parts", "in.csv"]


@pytest.mark.parametrize("kind", ["csv", "jsonl", "parquet", "npy"])
@pytest.mark.parametrize("after", [1, 4, 6])
def test_an_output_that_was_gone_on_with_has_the_same_bytes(kind, after, predictor, tmp_path, monkeypatch):
    monkeypatch.setattr(stream, "ROWS", 7)
    rows = rows_of(50)
    for bad in (0, 6, 7, 8, 30, 49):
        rows[bad]["sentence"] = ""
    source = write_rows(tmp_path / "in.jsonl", rows)
    job = predict_job(predictor, predictor.task("mood"), ["sentence"], "model")
    if kind == "npy":
        job = embed_job(predictor, "sentence", "model")
    run(job, source, whole := tmp_path / f"whole.{kind}")
    break_off(job, source, output := tmp_path / f"out.{kind}", after)
    notes = Notes()
    assert run(job, source, output, resume=True, watcher=notes) == Done(50, 6, tmp_path / f"out.{kind}.errors.jsonl")
    assert notes.said == [f"going on after row {7 * after}"]
    assert output.read_bytes() == whole.read_bytes()
    assert (tmp_path / f"out.{kind}.errors.jsonl").read_bytes() == (
        tmp_path / f"whole.{kind}.errors.jsonl"
    ).read_bytes()
    assert not list(tmp_path.glob(".*"))


def test_going_on_with_something_else_is_refused_and_harms_nothing(begun, tmp_path):
    job, source, output = begun
    for other, message in (
        (counting(identity="other"), "the model or task changed since it was begun"),
        (counting("one"), "the text columns changed since it was begun; begin again without --resume"),
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


def test_beginning_again_forgets_what_was_broken_off(begun, tmp_path):
    _, source, output = begun
    run(counting("two"), source, output)
    run(counting("two"), source, tmp_path / "whole.csv")
    assert output.read_bytes() == (tmp_path / "whole.csv").read_bytes()
    assert not list(tmp_path.glob(".*"))


def test_there_must_be_something_to_go_on_with(tmp_path):
    source = write_rows(tmp_path / "in.csv", rows_of(3))
    with pytest.raises(RequestError, match=r"out\.csv: there is nothing to go on with; drop --resume"):
        run(counting(), source, tmp_path / "out.csv", resume=True)
    (tmp_path / ".out.csv.parts").mkdir()
    (tmp_path / ".out.csv.parts/journal.jsonl").write_text('{"request": ')
    with pytest.raises(RequestError, match="there is nothing to go on with"):
        run(counting(), source, tmp_path / "out.csv", resume=True)
    run(counting(), source, tmp_path / "out.csv")
    with pytest.raises(RequestError, match="there is nothing to go on with"):
        run(counting(), source, tmp_path / "out.csv", resume=True)


@pytest.mark.parametrize("line", ['{"rows": 7, "b', '{"rows": 7, "bad": 0}', "\0\0\0\n"])
def test_a_line_of_the_journal_that_was_cut_short_does_not_count(begun, line, tmp_path):
    job, source, output = begun
    with (tmp_path / ".out.csv.parts/journal.jsonl").open("a") as file:
        file.write(line)
    (tmp_path / ".out.csv.parts/00000003").write_bytes(b"half of a p")
    assert run(job, source, output, resume=True, watcher=(notes := Notes())).rows == 50
    assert notes.said == ["going on after row 21"]
    run(job, source, tmp_path / "whole.csv")
    assert output.read_bytes() == (tmp_path / "whole.csv").read_bytes()


def test_going_on_keeps_to_the_number_of_threads(begun, tmp_path):
    import torch

    job, source, output = begun
    journal = tmp_path / ".out.csv.parts/journal.jsonl"
    first, *others = journal.read_text().splitlines()
    journal.write_text("\n".join([json.dumps({**json.loads(first), "threads": 3}), *others]) + "\n")
    before = torch.get_num_threads()
    try:
        run(job, source, output, resume=True)
        assert torch.get_num_threads() == 3
    finally:
        torch.set_num_threads(before)


def test_an_old_output_stays_until_the_new_one_is_whole(begun, tmp_path):
    job, source, output = begun
    output.write_text("old")
    with pytest.raises(RequestError):
        run(counting("one"), source, output, resume=True)
    assert output.read_text() == "old"
    run(job, source, output, resume=True)
    assert len(read_rows(output)) == 50


# Pipes


def test_csv_comes_out_of_a_pipe_as_csv(pipe):
    out = pipe(counting(), b'id,sentence\n1,"a, b"\n2,\n3,ccc\n')
    assert out.decode() == 'id,sentence,label,score\n1,"a, b",a,4.0\n2,,,\n3,ccc,c,3.0\n'


def test_tsv_must_be_said(pipe):
    assert pipe(counting(), b'id\tsentence\n1\ta "b\n', stdin_kind="tsv") == (
        b'id,sentence,label,score\n1,"a ""b",a,4.0\n'
    )


@pytest.mark.parametrize("begin", [b"", b"\xef\xbb\xbf", b"\n  "])
def test_jsonl_is_known_by_its_first_brace(pipe, begin):
    out = pipe(counting(), begin + b'{"sentence": "a", "n": [1]}\nno json\n{"sentence": "bb", "other": 1}\n')
    assert [json.loads(line) for line in out.splitlines()] == [
        {"sentence": "a", "n": [1], "label": "a", "score": 1.0},
        {"label": None, "score": None},
        {"sentence": "bb", "other": 1, "label": "b", "score": 2.0},
    ]


def test_a_pipe_of_jsonl_never_writes_over_a_key(pipe, monkeypatch):
    monkeypatch.setattr(stream, "ROWS_OF_PIPE", 1)
    lines = [{"sentence": "a"}, {"sentence": "b", "label": "mine"}, {"sentence": "c"}]
    out = pipe(counting(), b"".join(json.dumps(line).encode() + b"\n" for line in lines))
    assert [json.loads(line) for line in out.splitlines()] == [
        {"sentence": "a", "label": "a", "score": 1.0},
        {"sentence": "b", "label": "mine", "predicted label": "b", "predicted score": 1.0},
        {"sentence": "c", "predicted label": "c", "predicted score": 1.0},
    ]


@pytest.mark.parametrize("kind", ["csv", "jsonl", "parquet", "npy"])
@pytest.mark.parametrize("name", ["in.csv", "in.jsonl"])
def test_a_pipe_into_a_file_is_as_the_file_would_be(pipe, kind, name, tmp_path):
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


def test_a_pipe_that_was_broken_off_leaves_nothing(pipe, monkeypatch, tmp_path):
    monkeypatch.setattr(stream, "ROWS", 2)
    job = counting()

    def work(texts):
        if "e" in texts[0]:
            raise KeyboardInterrupt
        return job.work(texts)

    with pytest.raises(KeyboardInterrupt):
        pipe(replace(job, work=work), b"id,sentence\n1,a\n2,b\n3,c\n4,d\n5,e\n", str(tmp_path / "out.csv"))
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("name", INPUTS)
def test_a_file_to_the_standard_output(name, tmp_path, capsysbinary):
    source = write_rows(tmp_path / name, [{"id": "1", "sentence": "a"}, {"id": "2", "sentence": "bb"}])
    run_job(counting(), str(source), "-", None, Silent())
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
    with pytest.raises(DataError, match="standard input:1: no column 'sentence'"):
        pipe(counting(), b"id,text\n")


def test_bad_rows_of_a_pipe_are_told_or_listed(pipe, tmp_path, monkeypatch):
    data = b"id,sentence\n" + b"1,\n2,a\n" * 30
    monkeypatch.setattr(stream, "ROWS_OF_PIPE", 7)
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BufferedReader(io.BytesIO(data))))
    run_job(counting(), "-", "-", None, notes := Notes())
    assert notes.said[0] == "standard input:2: the text in column 'sentence' is empty"
    assert len(notes.said) == 21
    assert notes.said[20] == "... and 10 more bad rows; --errors FILE lists them all"
    pipe(counting(), data, errors=tmp_path / "list.jsonl")
    assert len(read_rows(tmp_path / "list.jsonl")) == 30


def test_a_closed_standard_input_is_told(monkeypatch):
    monkeypatch.setattr(sys, "stdin", None)
    with pytest.raises(RequestError, match="--input -: the standard input is closed"):
        run_job(counting(), "-", "-", None, Silent())
