"""Each output format, written in parts and joined, as other programs read it."""

import csv
import io
import json
from pathlib import Path

import numpy as np
import pyarrow
import pyarrow.parquet
import pytest

from plait.data.readers.delimited import read_delimited
from plait.errors import DataError
from plait.inference.writers import WRITERS, Chunk, Header

HEADER = Header({"id": "text", "note": "text"}, {"label": "text", "score": "number"})
ROWS = [
    ({"id": "1", "note": 'Zoë said, "☃"\nand left'}, ("high", 0.1)),
    ({"id": "2", "note": "a\rb"}, None),
    ({"id": "3"}, ("low", 1e-17)),
    ({}, None),
]


def chunk_of(rows: list, width: int | None = None) -> Chunk:
    """Rows of (passed, added); a vector counts up from the row's number."""
    vectors = None
    if width is not None:
        vectors = np.array([np.arange(width) + number if added is not None else [np.nan] * width
                            for number, (_, added) in enumerate(rows)], np.float32).reshape(-1, width)  # fmt: skip
    return Chunk([passed for passed, _ in rows], [added for _, added in rows], vectors)


def written(kind: str, header: Header, chunks: list[Chunk], folder: Path) -> bytes:
    """The whole file of some chunks."""
    paths = []
    for number, chunk in enumerate(chunks):
        paths.append(folder / str(number))
        paths[-1].write_bytes(WRITERS[kind].part(chunk, header))
    file = io.BytesIO()
    WRITERS[kind].join(paths, header, file)
    return file.getvalue()


def table_of(data: bytes) -> pyarrow.Table:
    return pyarrow.parquet.read_table(io.BytesIO(data))


def test_csv_keeps_every_row_whatever_its_content(tmp_path):
    data = written("csv", HEADER, [chunk_of(ROWS)], tmp_path)
    assert list(csv.reader(io.StringIO(data.decode(), newline=""))) == [
        ["id", "note", "label", "score"],
        ["1", 'Zoë said, "☃"\nand left', "high", "0.1"],
        ["2", "a\rb", "", ""],
        ["3", "", "low", "1e-17"],
        ["", "", "", ""],
    ]


def test_plait_reads_its_own_csv_without_a_bad_row(tmp_path):
    table = read_delimited(
        io.BytesIO(written("csv", HEADER, [chunk_of(ROWS)], tmp_path)), "x", delimiter=None, quoted=True
    )
    records = list(table.records)
    assert [record.problem for record in records] == [None] * 4
    assert records[1].values["note"] == "a\rb"


def test_jsonl_keeps_types_and_keys_of_each_row(tmp_path):
    rows = [
        ({"n": 1, "x": 1.5, "b": True, "none": None, "list": [1, "a", {"k": [None]}], "big": 2**70}, ("high", 0.5)),
        ({"other": "☃ \u2028"}, None),
    ]
    lines = written("jsonl", Header({}, HEADER.added), [chunk_of(rows)], tmp_path).decode().split("\n")
    assert [json.loads(line) for line in lines[:-1]] == [
        {**rows[0][0], "label": "high", "score": 0.5},
        {"other": "☃ \u2028", "label": None, "score": None},
    ]
    assert "☃" in lines[1] and lines[2] == ""


def test_a_lone_surrogate_never_makes_an_invalid_utf8_file(tmp_path):
    rows = [({"id": "\ud800", "note": "☃"}, ("high", 0.5))]
    assert json.loads(written("jsonl", HEADER, [chunk_of(rows)], tmp_path))["id"] == "\ud800"
    assert written("csv", HEADER, [chunk_of(rows)], tmp_path).decode().splitlines()[1] == "?,☃,high,0.5"
    assert table_of(written("parquet", HEADER, [chunk_of(rows)], tmp_path)).to_pylist()[0]["id"] == "?"
    odd = Header({"\ud800": "text"}, {"score": "number"})
    assert table_of(written("parquet", odd, [chunk_of([({"\ud800": "x"}, (1.0,))])], tmp_path)).to_pylist() == [
        {"?": "x", "score": 1.0}
    ]


@pytest.mark.parametrize(("kind", "width"), [("csv", None), ("csv", 3), ("jsonl", None), ("jsonl", 3), ("npy", 3)])
def test_parts_of_any_size_give_the_same_bytes(kind, width, tmp_path):
    header = Header(HEADER.passed, {} if width else HEADER.added, width)
    rows = [(passed, added if not width or added is None else ()) for passed, added in ROWS]
    whole = chunk_of(rows, width)
    pieces = [
        Chunk([whole.passed[n]], [whole.added[n]], None if width is None else whole.vectors_nD[n : n + 1])
        for n in range(len(rows))
    ]
    assert written(kind, header, [whole], tmp_path) == written(kind, header, pieces, tmp_path)


def test_parts_of_any_size_give_the_same_parquet_rows_and_types(tmp_path):
    types = {"n": "integer", "x": "number", "b": "truth", "mixed": "text", "late": "text"}
    header = Header(types, {"label": "texts", "score": "number"}, 2)
    rows = [
        ({"n": None, "x": 1}, None),
        ({"n": 2**60, "x": 0.5, "b": False, "mixed": [1, "a"]}, (("p", "q"), 0.25)),
        ({"mixed": 1, "late": "ü"}, ((), 1.0)),
    ]
    whole = chunk_of(rows, 2)
    pieces = [Chunk([whole.passed[n]], [whole.added[n]], whole.vectors_nD[n : n + 1]) for n in range(3)]
    one, three = (table_of(written("parquet", header, chunks, tmp_path)) for chunks in ([whole], pieces))
    assert one.equals(three) and one.schema == three.schema
    assert [str(kind) for kind in one.schema.types[:5]] == ["int64", "double", "bool", "string", "string"]
    empty = {"b": None, "mixed": None, "late": None}
    assert one.to_pylist() == [
        {**empty, "n": None, "x": 1.0, "label": None, "score": None, "embedding": None},
        {**empty, "n": 2**60, "x": 0.5, "b": False, "mixed": '[1, "a"]', "label": ["p", "q"], "score": 0.25,
         "embedding": [1.0, 2.0]},
        {**empty, "n": None, "x": None, "mixed": "1", "late": "ü", "label": [], "score": 1.0, "embedding": [2.0, 3.0]},
    ]  # fmt: skip


def test_parquet_combines_small_parts_into_larger_row_groups(tmp_path, monkeypatch):
    rows = [({"id": "x" * 10}, ("high", 0.5))]
    data = written("parquet", HEADER, [chunk_of(rows)] * 20, tmp_path)
    assert pyarrow.parquet.ParquetFile(io.BytesIO(data)).num_row_groups == 1
    monkeypatch.setattr("plait.inference.writers._ROW_GROUP", 100)
    data = written("parquet", HEADER, [chunk_of(rows)] * 20, tmp_path)
    assert 2 < pyarrow.parquet.ParquetFile(io.BytesIO(data)).num_row_groups < 20
    assert table_of(data).num_rows == 20


def test_vectors_are_exact_and_missing_for_bad_rows(tmp_path):
    header = Header({"id": "text"}, {}, 3)
    tenth = np.float32(0.1)
    chunk = Chunk([{"id": "1"}, {"id": "2"}], [(), None], np.array([[tenth, -1e-30, 3], [np.nan] * 3], np.float32))
    vectors = np.load(io.BytesIO(written("npy", header, [chunk], tmp_path)))
    assert vectors.dtype == np.float32 and np.array_equal(vectors, chunk.vectors_nD, equal_nan=True)
    first, second = map(json.loads, written("jsonl", header, [chunk], tmp_path).splitlines())
    assert np.array_equal(np.float32(first["embedding"]), vectors[0]) and second == {"id": "2", "embedding": None}
    names, good, bad = csv.reader(io.StringIO(written("csv", header, [chunk], tmp_path).decode()))
    assert names == ["id", "e0", "e1", "e2"] and bad == ["2", "", "", ""]
    assert np.array_equal(np.float32([float(cell) for cell in good[1:]]), vectors[0])
    table = table_of(written("parquet", header, [chunk], tmp_path))
    assert table.schema.field("embedding").type == pyarrow.list_(pyarrow.float32())
    assert np.array_equal(np.float32(table["embedding"][0].as_py()), vectors[0])
    assert table["embedding"][1].as_py() is None


@pytest.mark.parametrize("kind", WRITERS)
def test_an_output_without_rows_still_has_its_columns(kind, tmp_path):
    added = {"npy": {}, "leaderboard": {"label": "text"}}.get(kind, {"label": "text", "score": "number"})
    data = written(kind, Header({"id": "text"}, added, 4), [], tmp_path)
    if kind == "leaderboard":
        assert data == b"id \t label \n"
    elif kind == "csv":
        assert data == b"id,label,score,e0,e1,e2,e3\n"
    elif kind == "jsonl":
        assert data == b""
    elif kind == "npy":
        assert np.load(io.BytesIO(data)).shape == (0, 4)
    else:
        schema = table_of(data).schema
        assert schema.names == ["id", "label", "score", "embedding"]
        assert [str(kind) for kind in schema.types[:3]] == ["string", "string", "double"]


def test_the_names_of_new_columns_do_not_depend_on_the_input():
    for passed in ({"id": "text"}, {"score": "text"}):
        assert Header(passed, HEADER.added).columns("csv") == ["label", "score"]
    vectors = Header({"id": "text"}, {}, 2, "my ")
    assert vectors.columns("csv") == ["my e0", "my e1"] and vectors.columns("jsonl") == ["my embedding"]
    assert WRITERS["csv"].first(vectors) == b"id,my e0,my e1\n"


def test_columns_that_could_not_both_be_kept_are_refused():
    HEADER.check("csv", "in.csv", ["id", "note"])
    HEADER.check("leaderboard", "in.csv", ["label"])  # which leaves out the columns of the input
    with pytest.raises(DataError, match=r"^in.csv: already has the columns 'score', 'label', which the output adds; "):
        HEADER.check("csv", "in.csv", ["score", "id", "label"])
    with pytest.raises(DataError, match=r"the columns 'e0', 'e1', 'e2', 'e3', 'e4', \.\.\., which"):
        Header({}, {}, 9).check("csv", "in.csv", [f"e{number}" for number in range(9)])


def test_multilabel_predictions_share_one_cell(tmp_path):
    header = Header({}, {"label": "texts"})
    rows = [({}, (("a", "b"),)), ({}, ((),)), ({}, None)]
    assert written("csv", header, [chunk_of(rows)], tmp_path) == b'label\na|b\n""\n""\n'
    lines = written("jsonl", header, [chunk_of(rows)], tmp_path).splitlines()
    assert lines == [b'{"label": ["a", "b"]}', b'{"label": []}', b'{"label": null}']
    assert table_of(written("parquet", header, [chunk_of(rows)], tmp_path))["label"].to_pylist() == [
        ["a", "b"],
        [],
        None,
    ]


def test_safe_csv_defuses_formulas_but_not_numbers(tmp_path):
    passed = {"id": "-1.5", "note": '=HYPERLINK("x")'}
    rows = [(passed, ("@label", -0.5)), ({"id": "+1 a", "note": "\tx"}, ("a=b", 1e-17)), ({"note": "-"}, None)]
    header = Header({"id": "text", "note": "text"}, {"label": "text", "score": "number"}, safe_csv=True)
    data = written("csv", header, [chunk_of(rows)], tmp_path)
    assert list(csv.reader(io.StringIO(data.decode(), newline="")))[1:] == [
        ["-1.5", '\'=HYPERLINK("x")', "'@label", "-0.5"],
        ["'+1 a", "'\tx", "a=b", "1e-17"],
        ["", "'-", "", ""],
    ]
    assert written("csv", HEADER, [chunk_of(rows)], tmp_path).count(b"'") == 0
