"""Lines that are too long are reported, and never held in memory."""

import pytest

import plait.data.readers.lines
from reading import HEADER, OPEN_QUOTE, bad, good, line_of, read


@pytest.mark.parametrize("end", [b"\n", b"\r\n", b""])
def test_a_line_that_is_too_long_is_reported_but_not_kept(tmp_path, monkeypatch, end):
    monkeypatch.setattr(plait.data.readers.lines, "MOST_BYTES", 50)
    long = b"x" * 130 + b",1" + end
    rows = read(tmp_path, "a.csv", HEADER + b"a,1\n" + long + (b"b,2\n" if end else b""))
    assert good(rows) == [(2, "a"), (4, "b")][: 2 if end else 1]
    what = f"the line has {len(long)} bytes; shorten it to 50 or less"
    assert [(line_of(row.where), row.problem, row.row) for row in rows.bad] == [(3, what, "\n")]
    rows = read(tmp_path, "a.jsonl", b'{"text": "a", "label": 1}\n' + long)
    assert (good(rows), bad(rows)) == ([(1, "a")], [(2, what)])


def test_a_line_of_exactly_the_maximum_length_is_read(tmp_path, monkeypatch):
    monkeypatch.setattr(plait.data.readers.lines, "MOST_BYTES", 50)
    rows = read(tmp_path, "a.csv", HEADER + b"x" * 47 + b",1\n" + b"y" * 48 + b",1\nz,1\n")
    assert good(rows) == [(2, "x" * 47), (4, "z")]
    assert bad(rows) == [(3, "the line has 51 bytes; shorten it to 50 or less")]


def test_losing_a_closing_quote_with_a_long_line_affects_no_other_row(tmp_path, monkeypatch):
    monkeypatch.setattr(plait.data.readers.lines, "MOST_BYTES", 50)
    content = HEADER + b'a,1\n"one\n' + b"x" * 60 + b'",2\nc,3\nd,4\ne,5\n'
    rows = read(tmp_path, "a.csv", content)
    assert good(rows) == [(2, "a"), (5, "c"), (6, "d"), (7, "e")]
    assert bad(rows) == [(3, OPEN_QUOTE), (4, "the line has 64 bytes; shorten it to 50 or less")]
