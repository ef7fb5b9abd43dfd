"""json: lists of objects."""

import gzip
import json

import pytest

from plait.data.read import open_table
from plait.errors import DataError
from reading import LATIN, bad, good, mistakes, read

LIST = "expected a list of objects, such as [{...}, {...}], or one object per line"


def test_items_are_rows_with_the_line_they_begin_on(tmp_path):
    rows = [{"text": "a\nb", "label": 1}, {"label": None, "text": "c"}, {"text": "d", "label": True}]
    found = read(tmp_path, "a.json", json.dumps(rows, indent=1))
    assert found.columns == {"text": ["a\nb", "c", "d"], "label": ["1", "", "true"]}
    assert good(found) == [(2, "a\nb"), (6, "c"), (10, "d")]
    assert read(tmp_path, "b.json", json.dumps(rows)).origins == ["b.json:1"] * 3
    assert read(tmp_path, "c.json.gz", gzip.compress(json.dumps(rows).encode())).columns == found.columns
    assert read(tmp_path, "d.json", "\ufeff[]").origins == []


def test_values_keep_their_types(tmp_path):
    (tmp_path / "a.json").write_text('[{"n": 1, "x": [2], "y": 0.5}]')
    (record,) = open_table(tmp_path / "a.json").records
    assert record.cells == {"n": 1, "x": [2], "y": 0.5}
    assert record.values == {"n": "1", "x": "[2]", "y": "0.5"}


def test_items_that_are_no_objects_or_lack_a_column_are_bad_rows(tmp_path):
    rows = read(tmp_path, "a.json", '[\n{"text": "a", "label": 1},\n"b",\n{"text": "c"},\nnull]')
    assert good(rows) == [(2, "a")]
    assert bad(rows) == [
        (3, "expected a list of JSON objects, found a string"),
        (4, "no column 'label'; allowed: text"),
        (5, "expected a list of JSON objects, found null"),
    ]
    assert [row.row for row in rows.bad] == ['"b"', {"text": "c"}, "null"]


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        ("", f"a.json:1: the file is empty; {LIST}"),
        ("3", f"a.json:1: {LIST}"),
        ('{\n "rows": []\n}', f"a.json:1: {LIST}"),
        ('{"rows": [{"text": "a"}]}', f"a.json:1: {LIST}"),
        ('[{"text": "a", "label": 1},\n{"text": }]', "a.json:2: invalid JSON at column 10: Expecting value"),
        ('[{"text": "a", "label": 1},\n]', "a.json:2: invalid JSON at column 1: Expecting value"),
        (
            '[\n{"text": "a", "label": 1}\n',
            "a.json:3: invalid JSON: expected , or ] after an item of the list; is the file complete?",
        ),
        ("[]\n[{}]", "a.json:1: invalid JSON: there is more after the end of the list; keep one list per file"),
        ('[\n{"a": 1, "a": 2}]', "a.json:2: duplicate key 'a'; remove one of them"),
        ("[" * 100_000, "a.json:1: invalid JSON: nested too deeply"),
        (
            b'[\n{"text": "\xe9"}]',
            "a.json:2: not UTF-8; save the file as UTF-8, or write encoding: latin-1 in the task",
        ),
    ],
)
def test_a_file_that_is_no_list_is_reported_with_the_reason(tmp_path, content, expected):
    with pytest.raises(DataError):
        read(tmp_path, "a.json", content)
    assert mistakes(tmp_path, "a.json", content) == [expected]


def test_a_list_in_another_encoding_is_read(tmp_path):
    content = '[{"text": "é", "label": 1}]'.encode("latin-1")
    assert read(tmp_path, "a.json", content, encoding="latin-1").columns["text"] == ["é"]
    lines = mistakes(tmp_path, "b.json", b'{"text": "a", "label": 1}\n{"text": "\xe9", "label": 1}\n')
    assert lines[-1] == f"b.json: 1 row is not UTF-8; {LATIN}"
