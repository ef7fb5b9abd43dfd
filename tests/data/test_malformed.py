"""Malformed files: the rows that are good, exactly; the rows that are bad, each with its line and what is wrong."""

import csv
import gzip
import io
import json
import re
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import plait
import plait.data.lines
from plait.data.examples import examples_from
from plait.data.labels import Kind, labels_from
from plait.data.read import BadRow, Rows, read_rows
from plait.errors import DataError, PlaitError
from plait.evaluation.find import find_split
from plait.model.about import read_about
from plait.model.load import load_model
from plait.model.watch import Silent
from plait.recipe.schema import Source


def read(folder: Path, name: str, content: bytes, columns: tuple[str, ...] = ("text", "label"), **options) -> Rows:
    (folder / name).write_bytes(content)
    return read_rows([Source(file=str(folder / name))], columns, **options)


def line_of(where: str) -> int:
    return int(where.rpartition(":")[2])


def good(rows: Rows) -> list[tuple[int, str]]:
    return [(line_of(where), text) for where, text in zip(rows.origins, rows.columns["text"], strict=True)]


def bad(rows: Rows) -> list[tuple[int, str]]:
    return [(line_of(row.where), row.problem) for row in rows.bad]


def lines_of_bad(row: BadRow) -> range:
    """The lines that a bad row says it goes over."""
    first = line_of(row.where)
    several = re.search(rf"\(lines {first} to (\d+)\)$", row.problem)
    return range(first, int(several[1]) + 1 if several else first + 1)


def lines_of_good(rows: Rows, row: int) -> range:
    """The lines that a good row goes over: one more for each line feed in its fields."""
    first = line_of(rows.origins[row])
    return range(first, first + 1 + sum(column[row].count("\n") for column in rows.columns.values()))


def accounted_lines(rows: Rows) -> list[int]:
    """Every line that a row, good or bad, goes over; a line of two rows stands twice."""
    spans = [lines_of_good(rows, row) for row in range(len(rows))] + [lines_of_bad(row) for row in rows.bad]
    return sorted(line for span in spans for line in span)


def check_accounts(rows: Rows, content: bytes) -> None:
    """Every line below the header belongs to one row, good or bad; empty ones need not."""
    found = accounted_lines(rows)
    assert len(set(found)) == len(found)
    lines = content.split(b"\n")
    filled = {number for number, line in enumerate(lines, start=1) if number > 1 and line.removesuffix(b"\r")}
    assert filled <= set(found) <= set(range(2, len(lines) + 1))


# ---------------------------------------------------------------- csv and tsv

SHORT = "1 fields where the header has 2"
LONG = "3 fields where the header has 2"
JUNK = "',' expected after '\"'; is a quote left open?"
OPEN = "unexpected end of data; is a quote left open?"
NUL = "a NUL byte; the file may be UTF-16, save it as UTF-8"
CARRIAGE = "a carriage return within a row; save the file with line feeds as line ends"
H = b"text,label\n"

DELIMITED: dict[str, tuple[str, bytes, list[tuple[int, str]], list[tuple[int, str]]]] = {
    "a byte order mark": ("a.csv", b"\xef\xbb\xbf" + H + b"a,1\nb,2\n", [(2, "a"), (3, "b")], []),
    "a byte order mark before a quoted header": (
        "a.csv",
        b'\xef\xbb\xbf"text","label"\r\n"a","1"\r\n',
        [(2, "a")],
        [],
    ),
    "a byte order mark in a later line is text": ("a.csv", H + b"\xef\xbb\xbfa,1\n", [(2, "\ufeffa")], []),
    "CRLF": ("a.csv", b"text,label\r\na,1\r\nb,2\r\n", [(2, "a"), (3, "b")], []),
    "mixed line ends": (
        "a.csv",
        b"text,label\r\na,1\nb,2\r\n\r\n\nc,3",
        [(2, "a"), (3, "b"), (6, "c")],
        [],
    ),
    "a carriage return alone": (
        "a.csv",
        H + b"a,1\rb,2\nc,3\nd\re,4\nf,5\n",
        [(3, "c"), (5, "f")],
        [(2, CARRIAGE), (4, CARRIAGE)],
    ),
    "a carriage return alone in a tsv": (
        "a.tsv",
        b'text\tlabel\na\t1\rb\t2\n"c\t3\n',
        [(3, '"c')],
        [(2, CARRIAGE)],
    ),
    "a carriage return in quotes is text": ("a.csv", H + b'"a\rb",1\nc,2\n', [(2, "a\rb"), (3, "c")], []),
    "NUL": ("a.csv", H + b"a\0b,1\nc,2\nd,3\0\n", [(3, "c")], [(2, NUL), (4, NUL)]),
    "a quoted line feed": (
        "a.csv",
        H + b'"one\ntwo\n\nfour",1\nfive,2\n"six\r\n",3\nseven,4\n',
        [(2, "one\ntwo\n\nfour"), (6, "five"), (7, "six\r\n"), (9, "seven")],
        [],
    ),
    "a quote in the middle of an unquoted field is text": (
        "a.csv",
        H + b'6" nail,1\nsay "hi",2\na,3"\nb,4\n',
        [(2, '6" nail'), (3, 'say "hi"'), (4, "a"), (5, "b")],
        [],
    ),
    "a stray quote at the start of a field before whole rows": (
        "a.csv",
        H + b'a,1\n"b,2\nc,3\nd,4\n',
        [(2, "a"), (4, "c"), (5, "d")],
        [(3, OPEN)],
    ),
    "a stray quote before a quoted row": (
        "a.csv",
        H + b'a,1\n"b,2\n"c, c",3\nd\n',
        [(2, "a"), (4, "c, c")],
        [(3, JUNK), (5, SHORT)],
    ),
    "a stray quote before a row that goes over lines": (
        "a.csv",
        H + b'"a,1\n"b\nb",2\nc,3\n',
        [(3, "b\nb"), (5, "c")],
        [(2, JUNK)],
    ),
    "a stray quote before empty lines": (
        "a.csv",
        H + b'"a,1\n\n\nb,2\n\nc,3\n',
        [(5, "b"), (7, "c")],
        [(2, OPEN)],
    ),
    "two stray quotes": (
        "a.csv",
        H + b'a,1\n"b,2\nc,3\nd,4\n"e,5\nf,6\ng,7\n',
        [(2, "a"), (4, "c"), (5, "d"), (7, "f"), (8, "g")],
        [(3, JUNK), (6, OPEN)],
    ),
    "stray quotes in two rows that follow each other": (
        "a.csv",
        H + b'"a,1\n"b,2\nc,3\nd,4\n',
        [(4, "c"), (5, "d")],
        [(2, f"{JUNK} (lines 2 to 3)")],
    ),
    "stray quotes that make one field of three rows": (
        "a.csv",
        H + b'a,1\n"b,2\nc,3\nd,4"\ne,5\n',
        [(2, "a"), (6, "e")],
        [(3, f"{SHORT} (lines 3 to 5)")],
    ),
    "a stray quote in the last column": (
        "a.csv",
        H + b'a,"1\nb,2\nc,3\n',
        [(3, "b"), (4, "c")],
        [(2, OPEN)],
    ),
    "a stray quote in the last line": ("a.csv", H + b'a,1\n"b,2\n', [(2, "a")], [(3, OPEN)]),
    "a stray quote in the last line without its end": ("a.csv", H + b'a,1\nb,"2', [(2, "a")], [(3, OPEN)]),
    "a stray quote and a ragged row behind it": (
        "a.csv",
        H + b'"a,1\nb,2\nc,3\nd,4\ne\nf,5\n',
        [(3, "b"), (4, "c"), (5, "d"), (7, "f")],
        [(2, OPEN), (6, SHORT)],
    ),
    "a stray quote and latin-1 behind it": (
        "a.csv",
        H + b'"a,1\nb,2\nc,3\nd,4\ncaf\xe9,5\nf,6\n',
        [(3, "b"), (4, "c"), (5, "d"), (7, "f")],
        [(2, OPEN), (6, "not UTF-8 at byte 3 of the line; save the file as UTF-8")],
    ),
    "a quote followed by junk": (
        "a.csv",
        H + b'"a" b,1\nc,2\n"d"e,3\n"f" ,4\ng,5\n',
        [(3, "c"), (6, "g")],
        [(2, JUNK), (4, JUNK), (5, JUNK)],
    ),
    "quotes that are not doubled in a text of two lines": (
        "a.csv",
        H + b'a,1\n"he said "hi" to\nmy friend",2\nc,3\n',
        [(2, "a"), (5, "c")],
        [(3, f"{JUNK} (lines 3 to 4)")],
    ),
    "quotes that are not doubled in a text with lines that look like rows": (
        "a.csv",
        H + b'a,1\n"he said "hi" to\nmy friend, but\nnobody came\nto, well\nhim",2\nc,3\n',
        [(2, "a"), (8, "c")],
        [(3, f"{JUNK} (lines 3 to 7)")],
    ),
    "a text that is never closed": (
        "a.csv",
        H + b'a,1\n"one\ntwo\nthree, and so\non\n',
        [(2, "a")],
        [(3, f"{OPEN} (lines 3 to 6)")],
    ),
    "latin-1": (
        "a.csv",
        H + b"caf\xe9,1\nb,2\n\xe9t\xe9,3\n",
        [(3, "b")],
        [
            (2, "not UTF-8 at byte 3 of the line; save the file as UTF-8"),
            (4, "not UTF-8 at byte 0 of the line; save the file as UTF-8"),
        ],
    ),
    "latin-1 in a text of several lines": (
        "a.csv",
        H + b'"one\ncaf\xe9\nthree",1\nb,2\n',
        [(5, "b")],
        [(2, "not UTF-8 at byte 3 of the line; save the file as UTF-8 (lines 2 to 4)")],
    ),
    "ragged rows": (
        "a.csv",
        H + b'a\nb,1\nc,2,3\n"d\nd"\ne,4\nf,5,6\n',
        [(3, "b"), (7, "e")],
        [(2, SHORT), (4, LONG), (5, f"{SHORT} (lines 5 to 6)"), (8, LONG)],
    ),
    "a trailing delimiter in one row": ("a.csv", H + b"a,1,\nb,2\n", [(3, "b")], [(2, LONG)]),
    "a trailing delimiter in every line": (
        "a.csv",
        b"text,label,\na,1,\nb,2\nc,3,\n",
        [(2, "a"), (4, "c")],
        [(3, "2 fields where the header has 3")],
    ),
    "white space alone": (
        "a.csv",
        H + b"a,1\n  \nb,2\n\t\n",
        [(2, "a"), (4, "b")],
        [(3, SHORT), (5, SHORT)],
    ),
    "empty texts are rows here": ("a.csv", H + b',1\n"",2\n  ,3\n', [(2, ""), (3, ""), (4, "  ")], []),
    "a header alone": ("a.csv", H, [], []),
    "a header without its end": ("a.csv", b"text,label", [], []),
    "empty lines": ("a.csv", H + b"\n\na,1\n\r\n\nb,2\n\n", [(4, "a"), (7, "b")], []),
    "semicolons": ("a.csv", b'text;label\na, b;1\n"c; d";2\ne\n', [(2, "a, b"), (3, "c; d")], [(4, SHORT)]),
    "a stray quote beside semicolons": (
        "a.csv",
        b'text;label\n"a;1\nb;2\nc;3\n',
        [(3, "b"), (4, "c")],
        [(2, OPEN)],
    ),
    "tabs in a csv": (
        "a.csv",
        b'text\tlabel\na, b; c\t1\n"d\te"\t2\n"f\t3\ng\t4\n',
        [(2, "a, b; c"), (3, "d\te"), (5, "g")],
        [(4, OPEN)],
    ),
    "quotes in a tsv": (
        "a.tsv",
        b'text\tlabel\n"a\t1\nb"\t2\n"c"\t3\n"d" e\t4\nf\n""\t5\n',
        [(2, '"a'), (3, 'b"'), (4, '"c"'), (5, '"d" e'), (7, '""')],
        [(6, SHORT)],
    ),
    "a packed file": (
        "a.csv.gz",
        gzip.compress(H + b'a,1\n"b,2\nc,3\n', mtime=0),
        [(2, "a"), (4, "c")],
        [(3, OPEN)],
    ),
}


@pytest.mark.parametrize("case", DELIMITED)
def test_every_line_of_a_malformed_file_is_read_exactly_or_named(tmp_path, case):
    name, content, expected_good, expected_bad = DELIMITED[case]
    rows = read(tmp_path, name, content)
    assert (good(rows), bad(rows)) == (expected_good, expected_bad)
    plain = gzip.decompress(content) if name.endswith(".gz") else content
    check_accounts(rows, plain)


def test_a_bad_row_is_kept_as_it_was(tmp_path):
    rows = read(tmp_path, "a.csv", H + b'"he "said"\nso",1\nb,2\nc,3\nd,4\ne\n\xe9,5\n')
    assert [row.row for row in rows.bad] == ['"he "said"\nso",1\n', "e\n", "\ufffd,5\n"]
    rows = read(tmp_path, "a.jsonl", b'{"text": "a"}\n{}\n{"text": ["a"], "label": 1}\nnull\n')
    assert [row.row for row in rows.bad] == [{"text": "a"}, {}, {"text": '["a"]', "label": "1"}, "null\n"]


@pytest.mark.parametrize("end", [b"\n", b"\r\n", b""])
def test_a_line_that_is_too_long_is_named_and_not_held(tmp_path, monkeypatch, end):
    monkeypatch.setattr(plait.data.lines, "LONGEST", 50)
    long = b"x" * 130 + b",1" + end
    rows = read(tmp_path, "a.csv", H + b"a,1\n" + long + (b"b,2\n" if end else b""))
    assert good(rows) == [(2, "a"), (4, "b")][: 2 if end else 1]
    what = f"a line of {len(long)} bytes; lines of up to 50 are read"
    assert [(line_of(row.where), row.problem, row.row) for row in rows.bad] == [(3, what, "\n")]
    rows = read(tmp_path, "a.jsonl", b'{"text": "a", "label": 1}\n' + long)
    assert (good(rows), bad(rows)) == ([(1, "a")], [(2, what)])


def test_a_line_as_long_as_is_allowed_is_read(tmp_path, monkeypatch):
    monkeypatch.setattr(plait.data.lines, "LONGEST", 50)
    rows = read(tmp_path, "a.csv", H + b"x" * 47 + b",1\n" + b"y" * 48 + b",1\nz,1\n")
    assert good(rows) == [(2, "x" * 47), (4, "z")]
    assert bad(rows) == [(3, "a line of 51 bytes; lines of up to 50 are read")]


def test_a_long_line_that_held_the_closing_quote_takes_no_other_row_with_it(tmp_path, monkeypatch):
    monkeypatch.setattr(plait.data.lines, "LONGEST", 50)
    content = H + b'a,1\n"one\n' + b"x" * 60 + b'",2\nc,3\nd,4\ne,5\n'
    rows = read(tmp_path, "a.csv", content)
    assert good(rows) == [(2, "a"), (5, "c"), (6, "d"), (7, "e")]
    assert bad(rows) == [(3, OPEN), (4, "a line of 64 bytes; lines of up to 50 are read")]


def test_a_quote_left_open_before_thousands_of_rows_costs_one_row(tmp_path):
    content = H + b'a,1\n"b,2\n' + b"".join(b"row %d,3\n" % number for number in range(2_500)) + b"short\nlast,4\n"
    rows = read(tmp_path, "a.csv", content)
    many = "a quoted text of more than 1,000 lines; is a quote left open?"
    assert bad(rows) == [(3, many), (2_504, SHORT)]
    assert good(rows) == [(2, "a"), *((4 + number, f"row {number}") for number in range(2_500)), (2_505, "last")]


def test_a_text_of_thousands_of_lines_is_one_bad_row_and_none_of_its_lines_is_a_row(tmp_path):
    lines = b"\n".join(b"line %d" % number if number % 3 else b"so, well" for number in range(2_500))
    content = H + b'a,1\n"' + lines + b'",2\nc,3\nd,4\n'
    rows = read(tmp_path, "a.csv", content)
    assert good(rows) == [(2, "a"), (2_503, "c"), (2_504, "d")]
    many = "a quoted text of more than 1,000 lines; is a quote left open?"
    assert bad(rows) == [(3, f"{many} (lines 3 to 2502)")]


def test_an_empty_line_of_one_column_is_a_bad_row(tmp_path):
    rows = read(tmp_path, "a.csv", b'text\na\n\n"b\n\nc"\n\nd, e\n', ("text",))
    assert good(rows) == [(2, "a"), (4, "b\n\nc")]
    none = "0 fields where the header has 1"
    assert bad(rows) == [(3, none), (7, none), (8, "2 fields where the header has 1")]


# ---------------------------------------------------------------- a quote put anywhere

# Every field begins with a letter: else a quote may make one sound record of two rows, as in `"a,1` and `b,",c"`, and
# nobody could tell.
TEXT = st.builds(str.__add__, st.sampled_from("ab"), st.text(st.sampled_from('ab ,"\n'), max_size=6))


def written(rows: list[tuple[str, ...]]) -> list[str]:
    """Each row as the csv module writes it."""
    lines = []
    for row in rows:
        file = io.StringIO()
        csv.writer(file, lineterminator="\n").writerow(row)
        lines.append(file.getvalue())
    return lines


@settings(max_examples=300, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    rows=st.lists(st.tuples(TEXT, TEXT), min_size=1, max_size=8),
    data=st.data(),
)
def test_a_quote_put_anywhere_harms_its_own_row_and_no_other(tmp_path, rows, data):
    pieces = written(rows)
    touched = data.draw(st.integers(0, len(rows) - 1), label="touched")
    place = data.draw(st.integers(0, len(pieces[touched]) - 1), label="place")
    pieces[touched] = pieces[touched][:place] + '"' + pieces[touched][place:]
    content = "text,label\n" + "".join(pieces)
    starts = [2 + "".join(pieces[:row]).count("\n") for row in range(len(rows) + 1)]
    own = range(starts[touched], starts[touched + 1])  # the lines of the row that was touched
    found = read(tmp_path, "a.csv", content.encode())

    check_accounts(found, content.encode())

    begins = {line_of(where): row for row, where in enumerate(found.origins)}
    values = list(zip(found.columns["text"], found.columns["label"], strict=True))
    for row, expected in enumerate(rows):
        if row != touched:
            assert values[begins[starts[row]]] == expected, starts[row]
    for line, row in begins.items():  # what else was read stands in the row that was touched
        assert line in own or values[row] == rows[starts.index(line)], line


# ---------------------------------------------------------------- jsonl

JSON_LINES: dict[str, tuple[bytes, list[tuple[int, str]], list[tuple[int, str]]]] = {
    "wrong JSON": (
        b'{"text": "a", "label": 1}\n{"text": "b", "label": }\ntext,label\n{"text": "c", "label": 2}\n',
        [(1, "a"), (4, "c")],
        [(2, "not JSON: Expecting value at column 24"), (3, "not JSON: Expecting value at column 1")],
    ),
    "two objects in a line": (
        b'{"text": "a", "label": 1}{"text": "b", "label": 1}\n{"text": "c", "label": 2} x\n',
        [],
        [(1, "not JSON: Extra data at column 26"), (2, "not JSON: Extra data at column 27")],
    ),
    "an object over two lines": (
        b'{"text": "a",\n "label": 1}\n',
        [],
        [
            (1, "not JSON: Expecting property name enclosed in double quotes at column 14"),
            (2, "not JSON: Extra data at column 9"),
        ],
    ),
    "a line cut short": (
        b'{"text": "a", "label": 1}\n{"text": "b", "la',
        [(1, "a")],
        [(2, "not JSON: Unterminated string starting at at column 15")],
    ),
    "no objects": (
        b'[1, 2]\n"text"\n3\nnull\ntrue\n{"text": "a", "label": 1}\n',
        [(6, "a")],
        [
            (1, "expected an object, found list"),
            (2, "expected an object, found str"),
            (3, "expected an object, found int"),
            (4, "expected an object, found NoneType"),
            (5, "expected an object, found bool"),
        ],
    ),
    "a whole file in one array": (
        b'[\n{"text": "a", "label": 1},\n{"text": "b", "label": 2}\n]\n',
        [(3, "b")],
        [
            (1, "not JSON: Expecting value at column 2"),
            (2, "not JSON: Extra data at column 26"),
            (4, "not JSON: Expecting value at column 1"),
        ],
    ),
    "nested texts": (
        b'{"text": ["a"], "label": 1}\n{"text": {"b": 1}, "label": 1}\n{"text": "c", "label": [1]}\n',
        [],
        [
            (1, "the value of 'text' is not plain text"),
            (2, "the value of 'text' is not plain text"),
            (3, "the value of 'label' is not plain text"),
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
    "doubled keys": (
        b'{"text": "a", "text": "b", "label": 1}\n{"text": "c", "label": 1, "x": {"y": 1, "y": 2}}\n',
        [],
        [(1, "the key 'text' stands twice"), (2, "the key 'y' stands twice")],
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
        [(1, NUL), (2, NUL)],  # the second byte of the line feed stands behind it
    ),
    "a control character in a text": (
        b'{"text": "a\tb", "label": 1}\n{"text": "c", "label": 1}\n',
        [(2, "c")],
        [(1, "not JSON: Invalid control character at at column 12")],
    ),
}


@pytest.mark.parametrize("case", JSON_LINES)
def test_every_line_of_malformed_jsonl_is_read_exactly_or_named(tmp_path, case):
    content, expected_good, expected_bad = JSON_LINES[case]
    rows = read(tmp_path, "a.jsonl", content)
    assert (good(rows), bad(rows)) == (expected_good, expected_bad)
    assert (read(tmp_path, "a.ndjson.gz", gzip.compress(content)).columns) == rows.columns


def test_what_is_missing_in_jsonl_is_empty_and_numbers_are_text(tmp_path):
    lines = b'{"text": "a", "label": NaN}\n{"text": NaN, "label": null}\n{"text": 3, "label": true}\n'
    assert read(tmp_path, "a.jsonl", lines).columns == {"text": ["a", "", "3"], "label": ["", "", "true"]}


# ---------------------------------------------------------------- files that cannot be read at all

DAMAGED = "cannot be unpacked: the gzip data is damaged or cut short"
PACKED = gzip.compress(H + b"".join(b"row %d,1\n" % number for number in range(5_000)), mtime=0)
UNREADABLE: dict[str, tuple[str, bytes, list[str]]] = {
    "an empty file": ("a.csv", b"", ["a.csv:1: the file is empty; expected a header line"]),
    "an empty packed file": ("a.csv.gz", gzip.compress(b""), ["a.csv.gz:1: the file is empty; expected a header line"]),
    "a byte order mark alone": (
        "a.csv",
        b"\xef\xbb\xbf",
        ["a.csv:1: the header line is empty; expected the names of the columns"],
    ),
    "an empty header": (
        "a.csv",
        b"\n" + H + b"a,1\n",
        ["a.csv:1: the header line is empty; expected the names of the columns"],
    ),
    "UTF-16 with a byte order mark": ("a.csv", "text,label\na,1\n".encode("utf-16"), [f"a.csv:1: {NUL}"]),
    "UTF-16 without one": ("a.csv", "text,label\na,1\n".encode("utf-16-be"), [f"a.csv:1: {NUL}"]),
    "the line ends of old Macs": ("a.csv", b"text,label\ra,1\rb,2\r", [f"a.csv:1: {CARRIAGE}"]),
    "a header that is latin-1": (
        "a.csv",
        b"text,label,caf\xe9\na,1,2\n",
        ["a.csv:1: not UTF-8 at byte 14 of the line; save the file as UTF-8"],
    ),
    "a header with an open quote": ("a.csv", b'"text,label\na,1\n', [f"a.csv:1: {OPEN}"]),
    "a header with junk behind a quote": ("a.csv", b'"text" x,label\na,1\n', [f"a.csv:1: {JUNK}"]),
    "a doubled header name": ("a.csv", b"text,label,text\na,1,b\n", ["a.csv:1: column 'text' stands twice"]),
    "commas in a tsv": (
        "a.tsv",
        b"text,label\na,1\n",
        [
            "a.tsv:1: no column 'text'; allowed: text,label",
            "a.tsv:1: no column 'label'; did you mean 'text,label'?",
        ],
    ),
    "a gzip file cut short": ("a.csv.gz", PACKED[: len(PACKED) // 2], [f"a.csv.gz: {DAMAGED}"]),
    "a gzip file cut in its head": ("a.csv.gz", PACKED[:10], [f"a.csv.gz: {DAMAGED}"]),
    "a gzip file cut in its tail": ("a.csv.gz", PACKED[:-4], [f"a.csv.gz: {DAMAGED}"]),
    "a gzip file with other bytes in it": (
        "a.jsonl.gz",
        PACKED[:200] + b"XXXX" + PACKED[204:],
        [f"a.jsonl.gz: {DAMAGED}"],
    ),
    "a file that is not gzip": ("a.csv.gz", H + b"a,1\n", [f"a.csv.gz: {DAMAGED}"]),
    "a parquet file that is none": (
        "a.parquet",
        H + b"a,1\n",
        [
            "a.parquet: cannot be read as parquet: Parquet magic bytes not found in footer. "
            "Either the file is corrupted or this is not a parquet file."
        ],
    ),
    "an empty parquet file": (
        "a.parquet",
        b"",
        ["a.parquet: cannot be read as parquet: Parquet file size is 0 bytes"],
    ),
    "a kind of file that is not known": (
        "a.xlsx",
        H,
        ["a.xlsx: unknown kind of file; give .csv, .tsv or .jsonl (also as .gz), or .parquet"],
    ),
}


@pytest.mark.parametrize("case", UNREADABLE)
def test_a_file_that_cannot_be_read_says_why(tmp_path, case):
    name, content, expected = UNREADABLE[case]
    with pytest.raises(DataError) as caught:
        read(tmp_path, name, content)
    assert [mistake.replace(f"{tmp_path}/", "") for mistake in caught.value.mistakes] == expected


def test_a_parquet_file_with_damaged_rows_says_how_far_it_was_read(tmp_path):
    import pyarrow
    import pyarrow.parquet

    table = pyarrow.table({"text": [f"text {number}" for number in range(9_000)], "label": list(range(9_000))})
    pyarrow.parquet.write_table(table, tmp_path / "whole.parquet", row_group_size=4_500, compression="none")
    content = bytearray((tmp_path / "whole.parquet").read_bytes())
    assert len(read(tmp_path, "a.parquet", bytes(content))) == 9_000
    middle = len(content) // 2
    content[middle : middle + 40_000] = b"\xff" * len(content[middle : middle + 40_000])
    with pytest.raises(DataError) as caught:
        read(tmp_path, "a.parquet", bytes(content))
    assert re.fullmatch(rf"{tmp_path}/a\.parquet: cannot be read (as parquet|after row [\d,]+): .+", str(caught.value))


# ---------------------------------------------------------------- texts and labels

RANGE = "is outside the range 0 to 5; the label's `range` sets it"
LABELS: dict[str, tuple[Kind, dict, list[str], dict[int, str]]] = {
    "classes that are given": (
        "classes",
        {"classes": {"low": "low", "high": "high"}},
        ["low", "mid", "", "nan", "NaN", " high ", "inf", "LOW"],
        {
            3: "the label 'mid' is not one of the classes of the training data: low, high",
            4: "the label is empty",
            5: "the label is nan, not a number",
            6: "the label is NaN, not a number",
            8: "the label 'inf' is not one of the classes of the training data: low, high",
            9: "the label 'LOW' is not one of the classes of the training data: low, high",
        },
    ),
    "scores": (
        "score",
        {"range": (0, 5)},
        ["0", "5.0", "5.01", "-1", "high", "NaN", "nan", "inf", "-Infinity", "", "  ", "1,5", "0x1", "1_0", "1e400"],
        {
            4: f"the label 5.01 {RANGE}",
            5: f"the label -1 {RANGE}",
            6: "the label 'high' is not a number",
            7: "the label is NaN, not a number",
            8: "the label is nan, not a number",
            9: "the label 'inf' is not a number",
            10: "the label '-Infinity' is not a number",
            11: "the label is empty",
            12: "the label is empty",
            13: "the label '1,5' is not a number",
            14: "the label '0x1' is not a number",
            15: "the label '1_0' is not a number",
            16: "the label '1e400' is not a number",
        },
    ),
    "yes or no": (
        "yes_no",
        {},
        ["1", "no", "2", "", "NaN", "maybe", "TRUE"],
        {
            4: "the label '2' is neither yes (1, true) nor no (0, false)",
            5: "the label is empty",
            6: "the label is NaN, not a number",
            7: "the label 'maybe' is neither yes (1, true) nor no (0, false)",
        },
    ),
    "several labels": (
        "several",
        {"classes": {"a": "a", "b": "b"}, "separator": "|"},
        ["a|b", "", "b", "a|c", "c|d"],
        {
            5: "the label 'c' is not one of the classes of the training data: a, b",
            6: "the label 'c' is not one of the classes of the training data: a, b",
        },
    ),
    "several labels as lists": (
        "several",
        {"classes": {"a": "a", "b": "b"}},
        ['["a"]', "[]", "a", '{"a": 1}', '["a", ["b"]]', "[null]", '["x"]'],
        {
            4: "the label 'a' is not a list; give the label's `separator` if it is one of words",
            5: "the label '{\"a\": 1}' is not a list; give the label's `separator` if it is one of words",
            6: 'the label \'["a", ["b"]]\' is not a list; give the label\'s `separator` if it is one of words',
            7: "the label '[null]' is not a list; give the label's `separator` if it is one of words",
            8: "the label 'x' is not one of the classes of the training data: a, b",
        },
    ),
}


@pytest.mark.parametrize("case", LABELS)
def test_every_label_that_means_nothing_is_a_bad_row(tmp_path, case):
    kind, given_labels, values, expected = LABELS[case]
    content = "".join(written([("text", "label"), *((f"text {number}", value) for number, value in enumerate(values))]))
    rows = read(tmp_path, "a.csv", content.encode())
    labels = labels_from({"label": values}, kind, **given_labels)
    examples, found = examples_from(rows, ["text"], ["label"], labels)
    assert {line_of(row.where): row.problem for row in found} == expected
    assert examples.origins == [f"a.csv:{line}" for line in range(2, 2 + len(values)) if line not in expected]
    assert [row.row for row in found] == [
        {"text": f"text {line - 2}", "label": values[line - 2]} for line in sorted(expected)
    ]


def test_texts_that_say_nothing_are_bad_rows(tmp_path):
    content = b'text,more,label\na,b,1\n,b,1\na,"  ",1\n"\n",b,1\nc,d,0\n\xc2\xa0,b,1\n'
    rows = read(tmp_path, "a.csv", content, ("text", "more", "label"))
    examples, found = examples_from(rows, ["text", "more"], ["label"], labels_from({"label": []}, "yes_no"))
    assert bad(Rows({}, [], found)) == [
        (3, "the text in column 'text' is empty"),
        (4, "the text in column 'more' is empty"),
        (5, "the text in column 'text' is empty"),
        (8, "the text in column 'text' is empty"),
    ]
    assert examples.texts == (["a", "c"], ["b", "d"])


def test_half_a_character_in_jsonl_is_a_bad_row(tmp_path):
    lines = [
        b'{"text": "\\ud83d\\ude00", "label": "x"}',
        b'{"text": "\\ud83d", "label": "x"}',
        b'{"text": "a", "label": "\\udc00"}',
    ]
    rows = read(tmp_path, "a.jsonl", b"\n".join(lines))
    labels = labels_from({"label": rows.columns["label"]}, "classes", classes={"x": "x", "y": "y"})
    examples, found = examples_from(rows, ["text"], ["label"], labels)
    assert examples.texts == (["😀"],)
    assert bad(Rows({}, [], found)) == [
        (2, "the text in column 'text' has half a character (a lone surrogate)"),
        (3, "the label has half a character (a lone surrogate)"),
    ]


def test_bad_rows_come_file_by_file_in_the_order_of_their_lines(tmp_path):
    (tmp_path / "a.csv").write_bytes(H + b",1\nb\nc,7\n")
    (tmp_path / "b.csv").write_bytes(H + b"a,1\n" * 7 + b",1\nb\n,1\n")
    rows = read_rows([Source(file=str(tmp_path / name)) for name in ("a.csv", "b.csv")], ["text", "label"])
    _, found = examples_from(rows, ["text"], ["label"], labels_from({"label": []}, "yes_no"))
    assert [row.where for row in found] == ["a.csv:2", "a.csv:3", "a.csv:4", "b.csv:9", "b.csv:10", "b.csv:11"]


# ---------------------------------------------------------------- in a recipe


def spoil(recipe: dict, task: str, split: str, lines: bytes) -> None:
    """Put lines behind the 25 of a file."""
    with Path(recipe["tasks"][task][split]).open("ab") as file:
        file.write(lines)


def spoil_all(recipe: dict) -> list[dict[str, object]]:
    """Bad rows in files of every task, and how `bad-rows.jsonl` tells of them."""
    spoil(recipe, "mood", "train", b"short\n" * 23 + b",low\n" + b"caf\xe9,low\n")
    spoil(recipe, "mood", "dev", b"a cat,angry\n")
    spoil(recipe, "same", "train", b'"a cat,a dog,1\na dog,a cat,0\na dog,a dog,1\na cat,a cat,1\n')
    spoil(recipe, "near", "dev", b"a cat,a dog,9\na cat,a dog,nan\na cat,a dog,5\n")
    latin = "not UTF-8 at byte 3 of the line; save the file as UTF-8"
    mood = [
        *((f"mood-train.csv:{line}", SHORT, "short\n") for line in range(26, 49)),
        ("mood-train.csv:49", "the text in column 'sentence' is empty", {"sentence": "", "mood": "low"}),
        ("mood-train.csv:50", latin, "caf\ufffd,low\n"),
        (
            "mood-dev.csv:26",
            "the label 'angry' is not one of the classes of the training data: high, low",
            {"sentence": "a cat", "mood": "angry"},
        ),
    ]
    same = [("same-train.csv:26", OPEN, '"a cat,a dog,1\n')]
    pair = {"one": "a cat", "two": "a dog"}
    near = [
        ("near-dev.csv:26", f"the label 9 {RANGE}", {**pair, "near": "9"}),
        ("near-dev.csv:27", "the label is nan, not a number", {**pair, "near": "nan"}),
    ]
    return [
        {"task": task, "where": where, "problem": problem, "row": row}
        for task, rows in (("mood", mood), ("same", same), ("near", near))
        for where, problem, row in rows
    ]


class Notes(Silent):
    def __init__(self) -> None:
        self.told: list[str] = []

    def note(self, text: str) -> None:
        self.told.append(text)


def test_bad_rows_stop_a_run_and_are_listed_all_at_once(tiny_recipe, tmp_path):
    recipe = tiny_recipe()
    expected = [f"{row['where']}: {row['problem']}" for row in spoil_all(recipe)]
    with pytest.raises(PlaitError) as caught:
        plait.train(recipe, tmp_path / "run")
    more = "mood-train.csv: ... and 5 more bad rows, 25 in all"
    assert list(caught.value.mistakes) == [*expected[:20], more, *expected[25:]]
    assert not (tmp_path / "run" / "run.json").exists()


def test_a_file_that_cannot_be_read_hides_no_bad_row_of_another_task(tiny_recipe, tmp_path):
    recipe = tiny_recipe()
    Path(recipe["tasks"]["same"]["dev"]).write_bytes(b"")
    spoil(recipe, "same", "train", b"short\n")
    spoil(recipe, "near", "dev", b"short\n")
    with pytest.raises(PlaitError) as caught:
        plait.train(recipe, tmp_path / "run")
    assert list(caught.value.mistakes) == [
        f"{recipe['tasks']['same']['dev']}:1: the file is empty; expected a header line",
        "same-train.csv:26: 1 fields where the header has 3",
        "near-dev.csv:26: 1 fields where the header has 3",
    ]


def test_bad_rows_are_left_out_and_written_down_where_the_recipe_says_so(tiny_recipe, tmp_path):
    recipe = tiny_recipe(bad_rows="skip", epochs=1)
    expected = spoil_all(recipe)
    notes = Notes()
    result = plait.train(recipe, tmp_path / "run", baselines=False, watcher=notes)
    listed = tmp_path / "run" / "bad-rows.jsonl"
    assert [json.loads(line) for line in listed.read_text().splitlines()] == expected
    for task, count in (("mood", 26), ("same", 1), ("near", 2)):
        assert f"{task}: {count:,} bad rows were left out; they are listed in {listed}" in notes.told
    data = read_about(result.model)["data"]
    rows = {task: {split: data[task][split][0]["rows"] for split in ("train", "dev")} for task in recipe["tasks"]}
    assert rows == {
        "mood": {"train": 24, "dev": 24},
        "same": {"train": 27, "dev": 24},
        "near": {"train": 24, "dev": 25},
    }
    examples = find_split(load_model(result.run, device="cpu"), result.run, read_about(result.model), "dev", None)
    assert {task: len(part) for task, part in examples.items()} == {"mood": 24, "same": 24, "near": 25}
    assert examples["near"].origins[-1] == "near-dev.csv:28"


def test_a_bad_row_of_a_file_that_two_splits_read_is_listed_once(tiny_recipe, tmp_path):
    recipe = tiny_recipe(bad_rows="skip", epochs=1)
    task = recipe["tasks"]["mood"]
    lines = Path(task["train"]).read_text().splitlines()
    parted = [f"{line},{'train' if number % 3 else 'dev'}" for number, line in enumerate(lines[1:])]
    (tmp_path / "all.csv").write_text("\n".join([f"{lines[0]},split", *parted, "short", ",low,dev\n"]))
    for split in ("train", "dev"):
        task[split] = {"file": str(tmp_path / "all.csv"), "where": {"split": split}}
    result = plait.train(recipe, tmp_path / "run", baselines=False)
    listed = [json.loads(line) for line in (result.run / "bad-rows.jsonl").read_text().splitlines()]
    assert [(row["where"], row["problem"]) for row in listed] == [
        ("all.csv:26", "1 fields where the header has 3"),
        ("all.csv:27", "the text in column 'sentence' is empty"),
    ]
    data = read_about(result.model)["data"]["mood"]
    assert {split: data[split][0]["rows"] for split in data} == {"train": 16, "dev": 8}


def test_bad_rows_come_in_the_order_of_the_file_though_dev_is_a_share_of_it(tiny_recipe, tmp_path):
    recipe = tiny_recipe()
    recipe["tasks"]["mood"] |= {"dev": 0.4, "label": {"column": "mood", "classes": ["low", "high"]}}
    spoil(recipe, "mood", "train", b"".join(b"text %d,angry\n" % number for number in range(22)))
    with pytest.raises(PlaitError) as caught:
        plait.train(recipe, tmp_path / "run")
    what = "the label 'angry' is not one of the classes of the training data: low, high"
    assert list(caught.value.mistakes) == [
        *(f"mood-train.csv:{line}: {what}" for line in range(26, 46)),
        "mood-train.csv: ... and 2 more bad rows, 22 in all",
    ]


def test_without_bad_rows_a_run_writes_no_list_of_them(tiny_recipe, tmp_path):
    plait.train(tiny_recipe(bad_rows="skip", epochs=1), tmp_path / "run", baselines=False)
    assert not (tmp_path / "run" / "bad-rows.jsonl").exists()


def test_a_file_of_bad_rows_alone_is_refused_though_they_are_left_out(tiny_recipe, tmp_path):
    recipe = tiny_recipe(bad_rows="skip")
    Path(recipe["tasks"]["same"]["dev"]).write_bytes(b"one,two,same\nshort\n")
    with pytest.raises(PlaitError) as caught:
        plait.train(recipe, tmp_path / "run")
    assert list(caught.value.mistakes) == ["tasks.same.dev: the data has no rows that can be used"]
