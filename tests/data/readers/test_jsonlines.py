"""jsonl: every line is either read correctly, or reported with what is wrong."""

import gzip
import json

import pytest

from reading import NUL, bad, good, mistakes, read

# Case → content, good rows (line, text), bad rows (line, problem).
FILES: dict[str, tuple[bytes, list[tuple[int, str]], list[tuple[int, str]]]] = {
    "invalid JSON": (
        b'{"text": "a", "label": 1}\n{"text": "b", "label": }\ntext,label\n{"text": "c", "label": 2}\n',
        [(1, "a"), (4, "c")],
        [(2, "invalid JSON at column 24: Expecting value"), (3, "invalid JSON at column 1: Expecting value")],
    ),
    "two objects on one line": (
        b'{"text": "a", "label": 1}{"text": "b", "label": 1}\n{"text": "c", "label": 2} x\n',
        [],
        [(1, "invalid JSON at column 26: Extra data"), (2, "invalid JSON at column 27: Extra data")],
    ),
    "an object on two lines": (
        b'{"text": "a",\n "label": 1}\n',
        [],
        [
            (1, "invalid JSON at column 14: Expecting property name enclosed in double quotes"),
            (2, "invalid JSON at column 9: Extra data"),
        ],
    ),
    "a truncated line": (
        b'{"text": "a", "label": 1}\n{"text": "b", "la',
        [(1, "a")],
        [(2, "invalid JSON at column 15: Unterminated string")],
    ),
    "values that are not objects": (
        b'[1, 2]\n"text"\n3\nnull\ntrue\n{"text": "a", "label": 1}\n',
        [(6, "a")],
        [
            (1, "expected one JSON object per line, found an array"),
            (2, "expected one JSON object per line, found a string"),
            (3, "expected one JSON object per line, found a number"),
            (4, "expected one JSON object per line, found null"),
            (5, "expected one JSON object per line, found a boolean"),
        ],
    ),
    "one array for the whole file": (
        b'[\n{"text": "a", "label": 1},\n{"text": "b", "label": 2}\n]\n',
        [(3, "b")],
        [
            (1, "invalid JSON at column 2: Expecting value"),
            (2, "invalid JSON at column 26: Extra data"),
            (4, "invalid JSON at column 1: Expecting value"),
        ],
    ),
    "nested texts": (
        b'{"text": ["a"], "label": 1}\n{"text": {"b": 1}, "label": 1}\n{"text": "c", "label": [1]}\n',
        [],
        [
            (1, "column 'text' contains a list or an object; expected plain text"),
            (2, "column 'text' contains a list or an object; expected plain text"),
            (3, "column 'label' contains a list or an object; expected plain text"),
        ],
    ),
    "missing keys": (
        b'{"text": "a"}\n{"text": "a", "lable": 1}\n{}\n{"text": "a", "label": null}\n',
        [(4, "a")],
        [
            (1, "no column 'label'; allowed: text"),
            (2, "no column 'label'; did you mean 'lable'?"),
            (3, "no column 'text'; allowed: none"),
        ],
    ),
    "duplicate keys": (
        b'{"text": "a", "text": "b", "label": 1}\n{"text": "c", "label": 1, "x": {"y": 1, "y": 2}}\n',
        [],
        [(1, "duplicate key 'text'; remove one of them"), (2, "duplicate key 'y'; remove one of them")],
    ),
    "empty lines": (
        b'\n{"text": "a", "label": 1}\n  \n\r\n{"text": "b", "label": 1}\r\n\n',
        [(2, "a"), (5, "b")],
        [],
    ),
    "latin-1 and NUL": (
        b'{"text": "caf\xe9", "label": 1}\n{"text": "a\0", "label": 1}\n{"text": "b", "label": 1}\n',
        [(3, "b")],
        [(1, "not UTF-8 at byte 13 of the line; save the file as UTF-8"), (2, NUL)],
    ),
    "UTF-16": (
        '{"text": "a", "label": 1}\n'.encode("utf-16"),
        [],
        [(1, NUL), (2, NUL)],  # the second byte of the line feed is on a line of its own
    ),
    "a control character in a text": (
        b'{"text": "a\tb", "label": 1}\n{"text": "c", "label": 1}\n',
        [(2, "c")],
        [(1, "invalid JSON at column 12: Invalid control character")],
    ),
}


@pytest.mark.parametrize("case", FILES)
def test_every_line_is_read_correctly_or_reported(tmp_path, case):
    content, expected_good, expected_bad = FILES[case]
    rows = read(tmp_path, "a.jsonl", content)
    assert (good(rows), bad(rows)) == (expected_good, expected_bad)
    assert (read(tmp_path, "a.ndjson.gz", gzip.compress(content)).columns) == rows.columns


def test_missing_values_are_empty_and_numbers_are_text(tmp_path):
    lines = b'{"text": "a", "label": NaN}\n{"text": NaN, "label": null}\n{"text": 3, "label": true}\n'
    assert read(tmp_path, "a.jsonl", lines).columns == {"text": ["a", "", "3"], "label": ["", "", "true"]}


def test_numbers_and_booleans_become_text(tmp_path):
    lines = [{"text": "a", "label": value} for value in (1, 1.5, True, None, "2.0")]
    rows = read(tmp_path, "a.jsonl", "".join(json.dumps(line) + "\n" for line in lines))
    assert rows.columns["label"] == ["1", "1.5", "true", "", "2.0"]


@pytest.mark.parametrize(
    ("line", "problem"),
    [
        ('{"text": "a"}', "no column 'label'; allowed: text"),
        ('{"text": "a", "lable": 1}', "no column 'label'; did you mean 'lable'?"),
        ('{"text": "a" "label": 1}', "invalid JSON at column 14: Expecting ',' delimiter"),
        ("text,label", "invalid JSON at column 1: Expecting value"),
        ("[1, 2]", "expected one JSON object per line, found an array"),
        ('"text"', "expected one JSON object per line, found a string"),
        (b'{"text": "\xff", "label": 1}', "not UTF-8 at byte 10 of the line; save the file as UTF-8"),
    ],
)
def test_a_bad_line_is_reported_with_its_problem(tmp_path, line, problem):
    good = b'{"text": "a", "label": 1}\n'
    content = good + b"\n" + (line if isinstance(line, bytes) else line.encode()) + b"\n" + good
    assert mistakes(tmp_path, "a.jsonl", content)[0] == f"a.jsonl:3: {problem}"


def test_a_list_or_object_in_place_of_text_is_reported(tmp_path):
    found = mistakes(tmp_path, "a.jsonl", '{"text": ["a"], "label": 1}\n{"text": "a", "label": {"b": 1}}\n')
    assert [mistake.split(": ")[0] for mistake in found] == ["a.jsonl:1", "a.jsonl:2"]


def test_json_that_is_nested_too_deeply_is_a_bad_row(tmp_path):
    (found,) = mistakes(tmp_path, "a.jsonl", "[" * 100_000 + "\n")
    assert found.startswith("a.jsonl:1: invalid JSON: nested too deeply")
