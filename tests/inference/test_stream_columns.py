"""Columns of the input are passed through to the output unchanged."""

import json
from dataclasses import replace

import pyarrow
import pyarrow.parquet
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from counting_job import counting, run
from plait.errors import DataError
from plait.inference import stream
from plait.inference.stream import Done
from streaming import read_rows, write_rows


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


def test_jsonl_rows_with_different_keys_keep_them_all(tmp_path, monkeypatch):
    monkeypatch.setattr(stream, "_CHUNK_ROWS", 2)
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
        ([2**60 + 1, 0.5], "string", ["1152921504606846977", "0.5"]),  # no float represents it exactly
        ([2**70, 1], "string", ["1180591620717411303424", "1"]),
        ([True, False], "bool", [True, False]),
        ([True, 1], "string", ["true", "1"]),
        ([None, None], "string", [None, None]),
        ([{"a": 1}, {}], "string", ['{"a": 1}', "{}"]),
        (["x", 1], "string", ["x", "1"]),
    ],
)
def test_a_parquet_column_has_a_type_that_fits_all_its_values(values, kind, cells, tmp_path, monkeypatch):
    monkeypatch.setattr(stream, "_CHUNK_ROWS", 1)
    source = write_rows(tmp_path / "in.jsonl", [{"sentence": "a", "x": value} for value in values])
    run(counting(), source, tmp_path / "out.parquet")
    column = pyarrow.parquet.read_table(tmp_path / "out.parquet")["x"]
    assert str(column.type) == kind and column.to_pylist() == cells


def test_parquet_types_are_kept(tmp_path, monkeypatch):
    import datetime
    import decimal

    monkeypatch.setattr(stream, "_CHUNK_ROWS", 2)
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
def test_a_column_with_the_name_of_a_result_is_refused_unless_there_is_a_prefix(name, kind, tmp_path, monkeypatch):
    monkeypatch.setattr(stream, "_CHUNK_ROWS", 1)
    rows = [{"sentence": "a", "x": "1"}, {"sentence": "bb", "x": "2"}]
    rows = [{**row, "label": "mine", "embedding": "own", "e1": "too"} for row in rows]
    if name == "in.jsonl":
        rows[0] = {"sentence": "a", "x": "1"}  # only a later row has the name
    source, output = write_rows(tmp_path / name, rows), tmp_path / f"out.{kind}"
    with pytest.raises(DataError) as refused:
        run(counting(), source, output)
    hint = "rename the column, or use --prefix for the added ones"
    assert str(refused.value) == f"{source}: already has the column 'label', which the output adds; {hint}"
    run(replace(counting(), prefix="my "), source, output)
    found = read_rows(output)
    assert [row["my label"] for row in found] == ["a", "b"] and "score" not in found[0]
    assert [float(row["my score"]) for row in found] == [1.0, 2.0]
    assert found[1]["label"] == "mine"
    with pytest.raises(DataError, match=f"already has the column '{'e1' if kind == 'csv' else 'embedding'}'"):
        run(counting(width=2), source, output)
    run(replace(counting(width=2), prefix="my "), source, output)
    found = read_rows(output)
    assert found[1]["embedding"] == "own" and found[1]["e1"] == "too"
    vectors = [[float(row["my e0"])] if kind == "csv" else row["my embedding"][:1] for row in found]
    assert vectors == [[1.0], [2.0]]
    run(counting(width=2), source, tmp_path / "out.npy")  # which has no columns


CELLS = st.text(st.characters(codec="utf-8", exclude_characters="\0"), max_size=8)
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.text(max_size=3), inner, max_size=2),
    max_leaves=4,
)


@settings(max_examples=150, deadline=None)
@given(notes=st.lists(CELLS, min_size=1, max_size=5))
def test_any_text_survives_csv_jsonl_and_parquet(notes, tmp_path_factory):
    folder = tmp_path_factory.mktemp("any")
    rows = [{"id": str(row), "note": note, "sentence": "a"} for row, note in enumerate(notes)]
    source = write_rows(folder / "in.csv", rows)
    expected = [{**row, "label": "a", "score": 1.0} for row in rows]
    for kind in ("csv", "jsonl", "parquet"):
        output = folder / f"out.{kind}"
        assert run(counting(), source, output).bad == 0
        found = [{**row, "score": float(row["score"])} for row in read_rows(output)]
        assert found == expected
        run(replace(counting(), prefix="my "), output, folder / f"again.{kind}")
        again = read_rows(folder / f"again.{kind}")
        assert [row["note"] for row in again] == notes and again[0]["my label"] == "a"


def sentence(row: dict) -> dict:
    """The value that the test itself sets for a key that it needs."""
    return {"sentence": "a"} if "sentence" in row else {}


@settings(max_examples=150, deadline=None)
@given(rows=st.lists(st.dictionaries(st.text(max_size=4), VALUES, max_size=3), min_size=1, max_size=5))
def test_any_json_passes_through_and_fits_into_every_format(rows, tmp_path_factory):
    folder = tmp_path_factory.mktemp("any")
    (folder / "in.jsonl").write_text("".join(json.dumps({**row, "sentence": "a"}) + "\n" for row in rows))
    assert run(counting(), folder / "in.jsonl", folder / "out.jsonl") == Done(len(rows), 0, None)
    found = [json.loads(line) for line in (folder / "out.jsonl").read_bytes().splitlines()]
    for row, before in zip(found, rows, strict=True):
        assert json.dumps({name: row[name] for name in before}) == json.dumps({**before, **sentence(before)})
    for kind in ("csv", "parquet"):
        run(counting(), folder / "in.jsonl", folder / f"out.{kind}")
        assert len(read_rows(folder / f"out.{kind}")) == len(rows)
