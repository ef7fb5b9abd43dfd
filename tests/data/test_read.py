"""Reading files: every format gives the same rows, and `where` selects some of them."""

import gzip
from pathlib import Path

import pyarrow
import pyarrow.parquet
import pytest

from plait.data.read import Rows, read_rows
from plait.errors import DataError
from plait.recipe.task import Source
from reading import read, sources


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("a.csv", "text,label\na; b,1\nc,2\n"),
        ("a.csv", "text,label\na; b,1\nc,2"),  # no newline at the end
        ("a.csv", 'text;label\n"a; b";1\nc;2\n'),
        ("a.csv", 'text|label\n"a; b"|1\nc|2\n'),
        ("a.csv", "text\tlabel\na; b\t1\nc\t2\n"),
        ("a.tsv", "text\tlabel\na; b\t1\nc\t2\n"),
        ("a.csv", "text,label\r\na; b,1\r\nc,2\r\n"),
        ("a.csv", "\ufefftext,label\na; b,1\nc,2\n"),
        ("a.csv", '\ufeff"text","label"\n"a; b","1"\n"c","2"\n'),
        ("a.csv", "other,label,,text\nx,1,y,a; b\nx,2,y,c\n"),  # other columns, one without a name
        ("a.jsonl", '{"text": "a; b", "label": 1}\n{"label": "2", "text": "c", "other": []}\n'),
        ("a.json", '[{"text": "a; b", "label": 1},\n{"label": "2", "text": "c", "other": []}]\n'),
        ("a.json", '{"text": "a; b", "label": 1}\n{"text": "c", "label": 2}\n'),
        ("a.ndjson", '\ufeff{"text": "a; b", "label": 1}\r\n{"text": "c", "label": 2}'),
    ],
)
def test_every_format_gives_the_same_rows(tmp_path, name, content):
    rows = read(tmp_path, name, content)
    assert rows.columns == {"text": ["a; b", "c"], "label": ["1", "2"]}
    first = 1 if "json" in name else 2
    assert rows.origins == [f"{name}:{first}", f"{name}:{first + 1}"]
    assert len(rows.origins) == 2


def test_empty_lines_between_rows_are_skipped_but_counted(tmp_path):
    rows = read(tmp_path, "a.csv", "text,label\n\na,1\n\n\r\nb,2\n\n")
    assert rows.origins == ["a.csv:3", "a.csv:6"]
    assert read(tmp_path, "a.jsonl", '\n{"text": "a", "label": 1}\n  \n{"text": "b", "label": 1}\n').origins == [
        "a.jsonl:2",
        "a.jsonl:4",
    ]


def test_unicode_line_separators_do_not_end_a_row(tmp_path):
    assert read(tmp_path, "a.csv", "text,label\na\u2028b\x85c,1\n").columns["text"] == ["a\u2028b\x85c"]
    assert read(tmp_path, "a.jsonl", '{"text": "a\u2028b", "label": 1}\n').columns["text"] == ["a\u2028b"]


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("a.csv", "text,label\ncafé,1\nœuvre €,2\n"),
        ("a.tsv", "text\tlabel\ncafé\t1\nœuvre €\t2\n"),
        ("a.jsonl", '{"text": "café", "label": 1}\n{"text": "œuvre €", "label": 2}\n'),
    ],
)
def test_a_file_in_another_encoding_is_read(tmp_path, name, content):
    assert len(read(tmp_path, name, content.encode("cp1252")).bad) == 2
    rows = read(tmp_path, name, content.encode("cp1252"), encoding="cp1252")
    assert rows.columns["text"] == ["café", "œuvre €"] and not rows.bad
    rows = read(tmp_path, name, content.encode("cp1252") + b"\x81\n", encoding="cp1252")
    assert [row.problem for row in rows.bad] == ["not cp1252 at byte 0 of the line; save the file as UTF-8"]


def test_stray_quotes_between_bars_cost_one_row(tmp_path):
    content = 'text|label\n"a|1\n' + "".join(f"b {number}|2\n" for number in range(9))
    rows = read(tmp_path, "a.csv", content)
    assert [row.where for row in rows.bad] == ["a.csv:2"] and len(rows.origins) == 9


def test_files_are_read_in_order(tmp_path):
    (tmp_path / "a.csv").write_text("text,label\na,1\n")
    (tmp_path / "b.tsv").write_text("label\ttext\n2\tb\n")
    (tmp_path / "c.jsonl").write_text('{"text": "c", "label": 3}\n')
    rows = read_rows(sources(tmp_path, "b.tsv", "a.csv", "c.jsonl"), ["text", "label"])
    assert rows.columns == {"text": ["b", "a", "c"], "label": ["2", "1", "3"]}
    assert rows.origins == ["b.tsv:2", "a.csv:2", "c.jsonl:1"]


def test_a_list_is_read_in_a_list_column_and_is_a_bad_row_elsewhere(tmp_path):
    table = pyarrow.table({"text": ["a", "b"], "topics": [["x", "y"], []]})
    pyarrow.parquet.write_table(table, tmp_path / "a.parquet")
    (tmp_path / "a.jsonl").write_text('{"text": "a", "topics": ["x", "y"]}\n{"text": "b", "topics": []}\n')
    for name in ("a.parquet", "a.jsonl"):
        rows = read_rows(sources(tmp_path, name), ["text", "topics"], lists=["topics"])
        assert rows.columns["topics"] == ['["x", "y"]', "[]"] and not rows.bad
        rows = read_rows(sources(tmp_path, name), ["text", "topics"])
        assert [row.problem for row in rows.bad] == [
            "column 'topics' contains a list or an object; expected plain text"
        ] * 2


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("a.csv.gz", b"text,label\na,1\nb,2\n"),
        ("a.TSV.GZ", b"text\tlabel\na\t1\nb\t2\n"),
        ("a.jsonl.gz", b'{"text": "a", "label": 1}\n{"text": "b", "label": 2}\n'),
    ],
)
def test_a_gzip_file_is_read_like_any_other(tmp_path, name, content):
    assert read(tmp_path, name, gzip.compress(content)).columns == {"text": ["a", "b"], "label": ["1", "2"]}
    parts = gzip.compress(content[:20]) + gzip.compress(content[20:])
    assert read(tmp_path, name, parts).columns == {"text": ["a", "b"], "label": ["1", "2"]}


# ---------------------------------------------------------------- selecting rows


def select(folder: Path, name: str, columns: tuple[str, ...] = ("text", "label"), **where: str) -> Rows:
    return read_rows([Source(file=str(folder / name), where=where)], columns)


def test_only_rows_with_the_given_values_are_read(tmp_path):
    (tmp_path / "a.csv").write_text("text,label,split,lang\na,1,train,en\nb,2,dev,en\nc,3, train ,de\nd,4,train,en\n")
    assert select(tmp_path, "a.csv", split="train").columns == {"text": ["a", "c", "d"], "label": ["1", "3", "4"]}
    rows = select(tmp_path, "a.csv", split="train", lang="en")
    assert (rows.columns["text"], rows.origins) == (["a", "d"], ["a.csv:2", "a.csv:5"])
    assert list(rows.columns) == ["text", "label"]
    assert len(select(tmp_path, "a.csv", split="test").origins) == 0


def test_the_values_of_other_rows_do_not_matter_but_they_must_be_valid_rows(tmp_path):
    (tmp_path / "a.jsonl").write_text(
        '{"text": ["x"], "label": 1, "split": "dev"}\n'
        '{"text": "a", "label": 1, "split": "train"}\n'
        '{"label": 1, "split": "dev"}\n'
        '{"text": "b", "label": 1}\n'
        '{"text": \n'
    )
    rows = select(tmp_path, "a.jsonl", split="train")
    assert rows.columns["text"] == ["a"]
    assert [(row.where, row.problem) for row in rows.bad] == [
        ("a.jsonl:4", "no column 'split'; allowed: label, text"),
        ("a.jsonl:5", "invalid JSON at column 10: Expecting value"),
    ]


def test_numbers_and_booleans_can_select_rows(tmp_path):
    (tmp_path / "a.jsonl").write_text('{"text": "a", "fold": 1, "ok": true}\n{"text": "b", "fold": 2, "ok": false}\n')
    chosen = Source.model_validate({"file": str(tmp_path / "a.jsonl"), "where": {"fold": 2, "ok": False}})
    assert read_rows([chosen], ["text"]).columns == {"text": ["b"]}


def test_a_missing_column_in_where_is_reported(tmp_path):
    (tmp_path / "a.csv").write_text("text,label,splt\na,1,train\n")
    with pytest.raises(DataError, match=r"no column 'split'; did you mean 'splt'\?"):
        select(tmp_path, "a.csv", split="train")


def test_one_file_can_be_read_twice_for_different_rows(tmp_path):
    (tmp_path / "a.csv").write_text("text,label,split\na,1,x\nb,2,y\nc,3,z\n")
    both = [Source(file=str(tmp_path / "a.csv"), where={"split": value}) for value in ("z", "x")]
    rows = read_rows(both, ["text", "label"])
    assert (rows.columns["text"], rows.origins) == (["c", "a"], ["a.csv:4", "a.csv:2"])


def test_files_with_the_same_name_are_shown_with_their_folders(tmp_path):
    for name in ("x", "y"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "a.csv").write_text(f"text,label\n{name},1\nshort\n")
    (tmp_path / "b.csv").write_text("text,label\nb,1\n")
    rows = read_rows(sources(tmp_path, "x/a.csv", "y/a.csv", "b.csv"), ["text", "label"])
    assert rows.origins == [f"{tmp_path}/x/a.csv:2", f"{tmp_path}/y/a.csv:2", "b.csv:2"]
    assert [row.where for row in rows.bad] == [f"{tmp_path}/x/a.csv:3", f"{tmp_path}/y/a.csv:3"]


def test_a_column_requested_twice_is_read_once(tmp_path):
    assert read(tmp_path, "a.csv", "text,label\na,1\n", ("text", "text")).columns == {"text": ["a"]}


def test_the_file_extension_may_be_upper_case(tmp_path):
    assert read(tmp_path, "A.CSV", "text,label\na,1\n").columns["text"] == ["a"]


# ---------------------------------------------------------------- real files

SENTENCE = ("sentence", "sentiment")
PAIR = ("sentence1", "sentence2")


@pytest.mark.parametrize(
    ("name", "columns", "count"),
    [
        ("ids-sst-train", SENTENCE, 8_544),
        ("ids-sst-dev", SENTENCE, 1_101),
        ("ids-sst-test-student", ("sentence",), 2_210),  # its header is shifted by one column
        ("sts-train", (*PAIR, "similarity"), 6_040),
        ("sts-dev", (*PAIR, "similarity"), 863),
        ("sts-test-student", PAIR, 1_725),
        ("quora-train", (*PAIR, "is_duplicate"), 43_563),
        ("quora-dev", (*PAIR, "is_duplicate"), 10_100),
        ("ids-cfimdb-train", SENTENCE, 1_707),
        ("ids-cfimdb-dev", SENTENCE, 245),
    ],
)
def test_the_cs224n_files_are_read_without_bad_rows(real_data, name, columns, count):
    rows = read_rows(sources(real_data / "cs224n", f"{name}.csv"), columns)
    assert len(rows.origins) == count and not rows.bad
    assert (rows.origins[0], rows.origins[-1]) == (f"{name}.csv:2", f"{name}.csv:{count + 1}")
    for column in columns[: 1 if columns[0] == "sentence" else 2]:
        assert all(text.strip() for text in rows.columns[column])
        assert sum(" " in text.strip() for text in rows.columns[column]) > 0.99 * count  # sentences, not ids
