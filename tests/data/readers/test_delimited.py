"""csv and tsv: every line of a malformed file is either read correctly, or reported with what is wrong."""

import csv
import gzip
import io

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from reading import (
    AFTER_QUOTE,
    CARRIAGE_RETURN,
    HEADER,
    NUL,
    OPEN_QUOTE,
    TOO_FEW,
    TOO_MANY,
    bad,
    check_every_line_is_accounted_for,
    good,
    mistakes,
    read,
)

# Case → file name, content, good rows (line, text), bad rows (line, problem).
FILES: dict[str, tuple[str, bytes, list[tuple[int, str]], list[tuple[int, str]]]] = {
    "a byte order mark": ("a.csv", b"\xef\xbb\xbf" + HEADER + b"a,1\nb,2\n", [(2, "a"), (3, "b")], []),
    "a byte order mark before a quoted header": (
        "a.csv",
        b'\xef\xbb\xbf"text","label"\r\n"a","1"\r\n',
        [(2, "a")],
        [],
    ),
    "a byte order mark in a later line is text": ("a.csv", HEADER + b"\xef\xbb\xbfa,1\n", [(2, "\ufeffa")], []),
    "CRLF": ("a.csv", b"text,label\r\na,1\r\nb,2\r\n", [(2, "a"), (3, "b")], []),
    "mixed line endings": (
        "a.csv",
        b"text,label\r\na,1\nb,2\r\n\r\n\nc,3",
        [(2, "a"), (3, "b"), (6, "c")],
        [],
    ),
    "a bare carriage return": (
        "a.csv",
        HEADER + b"a,1\rb,2\nc,3\nd\re,4\nf,5\n",
        [(3, "c"), (5, "f")],
        [(2, CARRIAGE_RETURN), (4, CARRIAGE_RETURN)],
    ),
    "a bare carriage return in a tsv": (
        "a.tsv",
        b'text\tlabel\na\t1\rb\t2\n"c\t3\n',
        [(3, '"c')],
        [(2, CARRIAGE_RETURN)],
    ),
    "a carriage return in quotes is text": ("a.csv", HEADER + b'"a\rb",1\nc,2\n', [(2, "a\rb"), (3, "c")], []),
    "NUL": ("a.csv", HEADER + b"a\0b,1\nc,2\nd,3\0\n", [(3, "c")], [(2, NUL), (4, NUL)]),
    "a quoted line feed": (
        "a.csv",
        HEADER + b'"one\ntwo\n\nfour",1\nfive,2\n"six\r\n",3\nseven,4\n',
        [(2, "one\ntwo\n\nfour"), (6, "five"), (7, "six\r\n"), (9, "seven")],
        [],
    ),
    "a quote in the middle of an unquoted field is text": (
        "a.csv",
        HEADER + b'6" nail,1\nsay "hi",2\na,3"\nb,4\n',
        [(2, '6" nail'), (3, 'say "hi"'), (4, "a"), (5, "b")],
        [],
    ),
    "a stray quote at the start of a field before valid rows": (
        "a.csv",
        HEADER + b'a,1\n"b,2\nc,3\nd,4\n',
        [(2, "a"), (4, "c"), (5, "d")],
        [(3, OPEN_QUOTE)],
    ),
    "a stray quote before a quoted row": (
        "a.csv",
        HEADER + b'a,1\n"b,2\n"c, c",3\nd\n',
        [(2, "a"), (4, "c, c")],
        [(3, AFTER_QUOTE), (5, TOO_FEW)],
    ),
    "a stray quote before a row of several lines": (
        "a.csv",
        HEADER + b'"a,1\n"b\nb",2\nc,3\n',
        [(3, "b\nb"), (5, "c")],
        [(2, AFTER_QUOTE)],
    ),
    "a stray quote before empty lines": (
        "a.csv",
        HEADER + b'"a,1\n\n\nb,2\n\nc,3\n',
        [(5, "b"), (7, "c")],
        [(2, OPEN_QUOTE)],
    ),
    "two stray quotes": (
        "a.csv",
        HEADER + b'a,1\n"b,2\nc,3\nd,4\n"e,5\nf,6\ng,7\n',
        [(2, "a"), (4, "c"), (5, "d"), (7, "f"), (8, "g")],
        [(3, AFTER_QUOTE), (6, OPEN_QUOTE)],
    ),
    "stray quotes in two consecutive rows": (
        "a.csv",
        HEADER + b'"a,1\n"b,2\nc,3\nd,4\n',
        [(4, "c"), (5, "d")],
        [(2, f"{AFTER_QUOTE} (lines 2 to 3)")],
    ),
    "stray quotes that make one field of three rows": (
        "a.csv",
        HEADER + b'a,1\n"b,2\nc,3\nd,4"\ne,5\n',
        [(2, "a"), (6, "e")],
        [(3, f"{TOO_FEW} (lines 3 to 5)")],
    ),
    "a stray quote in the last column": (
        "a.csv",
        HEADER + b'a,"1\nb,2\nc,3\n',
        [(3, "b"), (4, "c")],
        [(2, OPEN_QUOTE)],
    ),
    "a stray quote in the last line": ("a.csv", HEADER + b'a,1\n"b,2\n', [(2, "a")], [(3, OPEN_QUOTE)]),
    "a stray quote in a last line without a line ending": (
        "a.csv",
        HEADER + b'a,1\nb,"2',
        [(2, "a")],
        [(3, OPEN_QUOTE)],
    ),
    "a stray quote and a ragged row after it": (
        "a.csv",
        HEADER + b'"a,1\nb,2\nc,3\nd,4\ne\nf,5\n',
        [(3, "b"), (4, "c"), (5, "d"), (7, "f")],
        [(2, OPEN_QUOTE), (6, TOO_FEW)],
    ),
    "a stray quote and latin-1 after it": (
        "a.csv",
        HEADER + b'"a,1\nb,2\nc,3\nd,4\ncaf\xe9,5\nf,6\n',
        [(3, "b"), (4, "c"), (5, "d"), (7, "f")],
        [(2, OPEN_QUOTE), (6, "not UTF-8 at byte 3 of the line; save the file as UTF-8")],
    ),
    "a quote followed by junk": (
        "a.csv",
        HEADER + b'"a" b,1\nc,2\n"d"e,3\n"f" ,4\ng,5\n',
        [(3, "c"), (6, "g")],
        [(2, AFTER_QUOTE), (4, AFTER_QUOTE), (5, AFTER_QUOTE)],
    ),
    "unescaped quotes in a text of two lines": (
        "a.csv",
        HEADER + b'a,1\n"he said "hi" to\nmy friend",2\nc,3\n',
        [(2, "a"), (5, "c")],
        [(3, f"{AFTER_QUOTE} (lines 3 to 4)")],
    ),
    "unescaped quotes in a text with lines that look like rows": (
        "a.csv",
        HEADER + b'a,1\n"he said "hi" to\nmy friend, but\nnobody came\nto, well\nhim",2\nc,3\n',
        [(2, "a"), (8, "c")],
        [(3, f"{AFTER_QUOTE} (lines 3 to 7)")],
    ),
    "a quoted text that is never closed": (
        "a.csv",
        HEADER + b'a,1\n"one\ntwo\nthree, and so\non\n',
        [(2, "a")],
        [(3, f"{OPEN_QUOTE} (lines 3 to 6)")],
    ),
    "latin-1": (
        "a.csv",
        HEADER + b"caf\xe9,1\nb,2\n\xe9t\xe9,3\n",
        [(3, "b")],
        [
            (2, "not UTF-8 at byte 3 of the line; save the file as UTF-8"),
            (4, "not UTF-8 at byte 0 of the line; save the file as UTF-8"),
        ],
    ),
    "latin-1 in a text of several lines": (
        "a.csv",
        HEADER + b'"one\ncaf\xe9\nthree",1\nb,2\n',
        [(5, "b")],
        [(2, "not UTF-8 at byte 3 of the line; save the file as UTF-8 (lines 2 to 4)")],
    ),
    "ragged rows": (
        "a.csv",
        HEADER + b'a\nb,1\nc,2,3\n"d\nd"\ne,4\nf,5,6\n',
        [(3, "b"), (7, "e")],
        [(2, TOO_FEW), (4, TOO_MANY), (5, f"{TOO_FEW} (lines 5 to 6)"), (8, TOO_MANY)],
    ),
    "a trailing delimiter in one row": ("a.csv", HEADER + b"a,1,\nb,2\n", [(3, "b")], [(2, TOO_MANY)]),
    "a trailing delimiter in every line": (
        "a.csv",
        b"text,label,\na,1,\nb,2\nc,3,\n",
        [(2, "a"), (4, "c")],
        [(3, "2 fields, but the header has 3; complete or remove the row")],
    ),
    "lines of white space": (
        "a.csv",
        HEADER + b"a,1\n  \nb,2\n\t\n",
        [(2, "a"), (4, "b")],
        [(3, TOO_FEW), (5, TOO_FEW)],
    ),
    "empty texts are not rejected here": ("a.csv", HEADER + b',1\n"",2\n  ,3\n', [(2, ""), (3, ""), (4, "  ")], []),
    "only a header": ("a.csv", HEADER, [], []),
    "a header without a line ending": ("a.csv", b"text,label", [], []),
    "empty lines": ("a.csv", HEADER + b"\n\na,1\n\r\n\nb,2\n\n", [(4, "a"), (7, "b")], []),
    "semicolons": ("a.csv", b'text;label\na, b;1\n"c; d";2\ne\n', [(2, "a, b"), (3, "c; d")], [(4, TOO_FEW)]),
    "a stray quote in a file with semicolons": (
        "a.csv",
        b'text;label\n"a;1\nb;2\nc;3\n',
        [(3, "b"), (4, "c")],
        [(2, OPEN_QUOTE)],
    ),
    "tabs in a csv": (
        "a.csv",
        b'text\tlabel\na, b; c\t1\n"d\te"\t2\n"f\t3\ng\t4\n',
        [(2, "a, b; c"), (3, "d\te"), (5, "g")],
        [(4, OPEN_QUOTE)],
    ),
    "quotes in a tsv": (
        "a.tsv",
        b'text\tlabel\n"a\t1\nb"\t2\n"c"\t3\n"d" e\t4\nf\n""\t5\n',
        [(2, '"a'), (3, 'b"'), (4, '"c"'), (5, '"d" e'), (7, '""')],
        [(6, TOO_FEW)],
    ),
    "too many fields in a tsv": (
        "a.tsv",
        b"text\tlabel\na\t1\t2\nb\t2\n",
        [(3, "b")],
        [(2, "3 fields, but the header has 2; remove any extra '\\t'")],
    ),
    "a gzip file": (
        "a.csv.gz",
        gzip.compress(HEADER + b'a,1\n"b,2\nc,3\n', mtime=0),
        [(2, "a"), (4, "c")],
        [(3, OPEN_QUOTE)],
    ),
}


@pytest.mark.parametrize("case", FILES)
def test_every_line_is_read_correctly_or_reported(tmp_path, case):
    name, content, expected_good, expected_bad = FILES[case]
    rows = read(tmp_path, name, content)
    assert (good(rows), bad(rows)) == (expected_good, expected_bad)
    plain = gzip.decompress(content) if name.endswith(".gz") else content
    check_every_line_is_accounted_for(rows, plain)


def test_a_bad_row_keeps_its_original_text(tmp_path):
    rows = read(tmp_path, "a.csv", HEADER + b'"he "said"\nso",1\nb,2\nc,3\nd,4\ne\n\xe9,5\n')
    assert [row.row for row in rows.bad] == ['"he "said"\nso",1\n', "e\n", "\ufffd,5\n"]
    rows = read(tmp_path, "a.jsonl", b'{"text": "a"}\n{}\n{"text": ["a"], "label": 1}\nnull\n')
    assert [row.row for row in rows.bad] == [{"text": "a"}, {}, {"text": '["a"]', "label": "1"}, "null\n"]


def test_an_open_quote_before_thousands_of_rows_costs_one_row(tmp_path):
    content = HEADER + b'a,1\n"b,2\n' + b"".join(b"row %d,3\n" % number for number in range(2_500)) + b"short\nlast,4\n"
    rows = read(tmp_path, "a.csv", content)
    many = "a quoted field is longer than 1,000 lines; is a closing quote missing?"
    assert bad(rows) == [(3, many), (2_504, TOO_FEW)]
    assert good(rows) == [(2, "a"), *((4 + number, f"row {number}") for number in range(2_500)), (2_505, "last")]


def test_a_quoted_text_of_thousands_of_lines_is_one_bad_row(tmp_path):
    lines = b"\n".join(b"line %d" % number if number % 3 else b"so, well" for number in range(2_500))
    content = HEADER + b'a,1\n"' + lines + b'",2\nc,3\nd,4\n'
    rows = read(tmp_path, "a.csv", content)
    assert good(rows) == [(2, "a"), (2_503, "c"), (2_504, "d")]
    many = "a quoted field is longer than 1,000 lines; is a closing quote missing?"
    assert bad(rows) == [(3, f"{many} (lines 3 to 2502)")]


def test_an_empty_line_is_a_bad_row_if_there_is_only_one_column(tmp_path):
    rows = read(tmp_path, "a.csv", b'text\na\n\n"b\n\nc"\n\nd, e\n', ("text",))
    assert good(rows) == [(2, "a"), (4, "b\n\nc")]
    none = "0 fields, but the header has 1; complete or remove the row"
    assert bad(rows) == [(3, none), (7, none), (8, "2 fields, but the header has 1; quote texts that contain ','")]


# ---------------------------------------------------------------- valid files


def test_a_quoted_newline_does_not_shift_the_line_numbers_of_later_rows(tmp_path):
    rows = read(tmp_path, "a.csv", 'text,label\n"one\ntwo\n\nfour",1\nfive,2\n"six\r\n",3\nseven,4\n')
    assert rows.columns["text"] == ["one\ntwo\n\nfour", "five", "six\r\n", "seven"]
    assert rows.origins == ["a.csv:2", "a.csv:6", "a.csv:7", "a.csv:9"]


def test_doubled_quotes_are_one_quote(tmp_path):
    assert read(tmp_path, "a.csv", 'text,label\n"say ""hi"", ok",1\n""" """,2\n').columns["text"] == [
        'say "hi", ok',
        '" "',
    ]


def test_a_quote_inside_an_unquoted_field_is_plain_text(tmp_path):
    assert read(tmp_path, "a.csv", 'text,label\n6" nail,1\nsay "hi",2\n').columns["text"] == ['6" nail', 'say "hi"']


def test_quotes_are_plain_text_in_a_tsv_file(tmp_path):
    rows = read(tmp_path, "a.tsv", 'text\tlabel\n"open\t1\n"whole"\t2\nsay ""\t3\n')
    assert rows.columns["text"] == ['"open', '"whole"', 'say ""']


def test_quoting_overrides_the_file_name(tmp_path):
    assert read(tmp_path, "a.tsv", 'text\tlabel\n"a\tb"\t1\n', quoting="quoted").columns["text"] == ["a\tb"]
    assert read(tmp_path, "a.csv", 'text,label\n"open,1\n', quoting="unquoted").columns["text"] == ['"open']


def test_an_empty_line_in_a_file_with_one_column_is_reported(tmp_path):  # it may be a text that was lost
    assert mistakes(tmp_path, "a.csv", "text\na\n\nb\n", ("text",)) == [
        "a.csv:3: 0 fields, but the header has 1; complete or remove the row"
    ]


def test_empty_fields_and_spaces_are_kept_unchanged(tmp_path):
    assert read(tmp_path, "a.csv", "text,label\n, 1 \n").columns == {"text": [""], "label": [" 1 "]}


def test_a_file_with_only_a_header_has_no_rows(tmp_path):
    assert len(read(tmp_path, "a.csv", "text,label\n").origins) == 0


def test_a_very_long_field_is_read_completely(tmp_path):
    text = "word " * 100_000  # by default, the csv module stops at 131,072 characters
    assert read(tmp_path, "a.csv", f"text,label\n{text},1\n").columns["text"] == [text]


@settings(max_examples=100, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    rows=st.lists(st.tuples(st.text(st.characters(codec="utf-8", exclude_characters="\0")), st.sampled_from("01"))),
    delimiter=st.sampled_from(",;\t"),
    end=st.sampled_from(["\n", "\r\n"]),
)
def test_what_the_csv_module_writes_is_read_back(tmp_path, rows, delimiter, end):
    file = io.StringIO()
    writer = csv.writer(file, delimiter=delimiter, lineterminator=end, quoting=csv.QUOTE_ALL)
    writer.writerows([("text", "label"), *rows])
    found = read(tmp_path, "a.csv", file.getvalue())
    assert list(zip(found.columns["text"], found.columns["label"], strict=True)) == rows
    assert not found.bad
    lines = (tmp_path / "a.csv").read_bytes().split(b"\n")
    for origin, (text, _) in zip(found.origins, rows, strict=True):  # each origin is the line where its row begins
        begins = '"' + text.replace('"', '""').split("\n")[0]
        assert lines[int(origin.split(":")[1]) - 1].decode().startswith(begins)
