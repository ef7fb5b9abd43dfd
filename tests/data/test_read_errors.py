"""Files that cannot be read, and bad rows: everything is reported at once, with file and line."""

import gzip

import pytest

from plait.data.read import FORMAT_NAMES, read_rows
from plait.errors import DataError
from reading import (
    AFTER_QUOTE,
    CARRIAGE_RETURN,
    EMPTY_FILE,
    HEADER,
    LATIN,
    NUL,
    OPEN_QUOTE,
    TOO_FEW,
    TOO_MANY,
    mistakes,
    read,
    sources,
)

DAMAGED = "the gzip data is corrupt or truncated; replace the file with an intact one"
COMPRESSED = gzip.compress(HEADER + b"".join(b"row %d,1\n" % number for number in range(5_000)), mtime=0)
UNREADABLE: dict[str, tuple[str, bytes, list[str]]] = {
    "an empty file": ("a.csv", b"", [f"a.csv:1: {EMPTY_FILE}"]),
    "an empty gzip file": ("a.csv.gz", gzip.compress(b""), [f"a.csv.gz:1: {EMPTY_FILE}"]),
    "only a byte order mark": (
        "a.csv",
        b"\xef\xbb\xbf",
        ["a.csv:1: the header line is empty; write the column names there"],
    ),
    "an empty header": (
        "a.csv",
        b"\n" + HEADER + b"a,1\n",
        ["a.csv:1: the header line is empty; write the column names there"],
    ),
    "UTF-16 with a byte order mark": ("a.csv", "text,label\na,1\n".encode("utf-16"), [f"a.csv:1: {NUL}"]),
    "UTF-16 without one": ("a.csv", "text,label\na,1\n".encode("utf-16-be"), [f"a.csv:1: {NUL}"]),
    "the line endings of old Macs": ("a.csv", b"text,label\ra,1\rb,2\r", [f"a.csv:1: {CARRIAGE_RETURN}"]),
    "a header in latin-1": (
        "a.csv",
        b"text,label,caf\xe9\na,1,2\n",
        ["a.csv:1: not UTF-8 at byte 14 of the line; save the file as UTF-8, or write encoding: latin-1 in the task"],
    ),
    "a header with an open quote": ("a.csv", b'"text,label\na,1\n', [f"a.csv:1: {OPEN_QUOTE}"]),
    "a header with text after a quote": ("a.csv", b'"text" x,label\na,1\n', [f"a.csv:1: {AFTER_QUOTE}"]),
    "a duplicate column": (
        "a.csv",
        b"text,label,text\na,1,b\n",
        ["a.csv:1: duplicate column 'text'; rename one of them"],
    ),
    "commas in a tsv": (
        "a.tsv",
        b"text,label\na,1\n",
        [
            "a.tsv:1: the only column is 'text,label'; separate columns by commas, semicolons, tabs or | in .csv, by "
            "tabs in .tsv"
        ],
    ),
    "a truncated gzip file": ("a.csv.gz", COMPRESSED[: len(COMPRESSED) // 2], [f"a.csv.gz: {DAMAGED}"]),
    "a gzip file that ends in its header": ("a.csv.gz", COMPRESSED[:10], [f"a.csv.gz: {DAMAGED}"]),
    "a gzip file without the end of its footer": ("a.csv.gz", COMPRESSED[:-4], [f"a.csv.gz: {DAMAGED}"]),
    "a gzip file with other bytes in it": (
        "a.jsonl.gz",
        COMPRESSED[:200] + b"XXXX" + COMPRESSED[204:],
        [f"a.jsonl.gz: {DAMAGED}"],
    ),
    "a file that is not gzip": ("a.csv.gz", HEADER + b"a,1\n", [f"a.csv.gz: {DAMAGED}"]),
    "a csv file named parquet": (
        "a.parquet",
        HEADER + b"a,1\n",
        [
            "a.parquet: cannot be read as parquet (Parquet magic bytes not found in footer. Either the file is "
            "corrupted or this is not a parquet file); replace it with an intact file"
        ],
    ),
    "an empty parquet file": (
        "a.parquet",
        b"",
        ["a.parquet: cannot be read as parquet (Parquet file size is 0 bytes); replace it with an intact file"],
    ),
    "an unknown file format": (
        "a.xls",
        HEADER,
        [f"a.xls: unknown file format; plait reads {FORMAT_NAMES}"],
    ),
}


@pytest.mark.parametrize("case", UNREADABLE)
def test_a_file_that_cannot_be_read_is_reported_with_the_reason(tmp_path, case):
    name, content, expected = UNREADABLE[case]
    with pytest.raises(DataError) as caught:
        read(tmp_path, name, content)
    assert [mistake.replace(f"{tmp_path}/", "") for mistake in caught.value.mistakes] == expected


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        ("text,label\na\nb,1,2\nc,3\n", {2: TOO_FEW, 3: TOO_MANY}),
        ('text,label\n"a\nb",1\nc\n', {4: TOO_FEW}),
        (b"text,label\na\0b,1\nc\n", {2: NUL, 3: TOO_FEW}),
        ('text,label\na,1\n"b,2\nc,3\n', {3: OPEN_QUOTE}),
        ('text,label\n"a" b,1\nc\n', {2: AFTER_QUOTE, 3: TOO_FEW}),
        ('text,label\n"a,1\n"b",2\nc\n', {2: AFTER_QUOTE, 4: TOO_FEW}),
        ("", {1: EMPTY_FILE}),
        ("texts,label\na,1\nb,2\n", {1: "no column 'text'; did you mean 'texts'?"}),
        ("Zeile,label\na,1\n", {1: "no column 'text'; allowed: Zeile, label"}),
        ("text,text,label\na,b,1\n", {1: "duplicate column 'text'; rename one of them"}),
    ],
)
def test_a_bad_csv_file_is_reported_with_line_and_problem(tmp_path, content, expected):
    assert mistakes(tmp_path, "a.csv", content) == [f"a.csv:{line}: {problem}" for line, problem in expected.items()]


@pytest.mark.parametrize(
    ("content", "line", "problem", "rows"),
    [
        (b"text,label\nok,1\ncaf\xe9,1\n", 3, "byte 3 of the line; save the file as UTF-8", "1 row is"),
        (b'text,label\n"a\n\xe9",1\n', 2, "byte 0 of the line; save the file as UTF-8 (lines 2 to 3)", "1 row is"),
        (b"text,label\n" + b"caf\xe9,1\n" * 20, 2, "byte 3 of the line; save the file as UTF-8", "20 rows are"),
    ],
)
def test_rows_in_another_encoding_are_counted_and_the_cure_is_named(tmp_path, content, line, problem, rows):
    first, *_, last = mistakes(tmp_path, "a.csv", content)
    assert first == f"a.csv:{line}: not UTF-8 at {problem}"
    assert last == f"a.csv: {rows} not UTF-8; {LATIN}"


def test_a_quote_that_is_never_closed_is_reported_by_the_line_where_it_opens(tmp_path):
    found = mistakes(tmp_path, "a.csv", 'text,label\n"a\nb","c\nd\ne\n')
    opens = "the quote that opens in line 3 is never closed; is a closing quote missing?"
    assert found == [f"a.csv:2: {opens} (lines 2 to 5)"]
    found = mistakes(tmp_path, "a.csv", 'text,label\n"a ""\nb","c\nd" e\n')
    after = "',' expected after '\"' of the field that begins in line 3; is a closing quote missing?"
    assert found == [f"a.csv:2: {after} (lines 2 to 4)"]


def test_every_missing_column_is_reported(tmp_path):
    found = "\n".join(mistakes(tmp_path, "a.csv", "txt,lable\na,1\n"))
    assert "no column 'text'; did you mean 'txt'?" in found
    assert "no column 'label'; did you mean 'lable'?" in found


@pytest.mark.parametrize("header", ["text,text\n", "text,labél\n".encode("latin-1"), '"text" x,label\n'])
def test_a_bad_header_is_one_mistake_not_one_per_row(tmp_path, header):
    content = (header if isinstance(header, bytes) else header.encode()) + b"a,b\n" * 30
    (found,) = mistakes(tmp_path, "a.csv", content)
    assert found.startswith("a.csv:1: ")


def test_a_file_with_old_mac_line_endings_is_one_mistake(tmp_path):
    (found,) = mistakes(tmp_path, "a.csv", "text,label\ra,1\rb,2\r")
    assert found.startswith("a.csv:1: ") and "quote" not in found


def test_only_20_bad_rows_per_file_are_listed_and_the_rest_counted(tmp_path):
    content = "text,label\n" + "bad\n" * 1_234
    assert mistakes(tmp_path, "a.csv", content) == [
        *(f"a.csv:{line}: {TOO_FEW}" for line in range(2, 22)),
        "a.csv: ... and 1,214 more bad rows, 1,234 in all",
    ]
    assert len(mistakes(tmp_path, "a.csv", "text,label\n" + "bad\n" * 20)) == 20


def test_bad_rows_of_all_files_are_reported_together(tmp_path):
    (tmp_path / "a.csv").write_text("text,label\na\n")
    (tmp_path / "b.jsonl").write_text('{"text": "b"}\n{"text": "c", "label": 1}\n[]\n')
    (tmp_path / "c.tsv").write_text("text\tlable\nc\t1\n")
    with pytest.raises(DataError) as caught:
        read_rows(sources(tmp_path, "a.csv", "b.jsonl", "c.tsv"), ["text", "label"])
    assert caught.value.mistakes == (
        f"{tmp_path}/c.tsv:1: no column 'label'; did you mean 'lable'?",
        f"a.csv:2: {TOO_FEW}",
        "b.jsonl:1: no column 'label'; allowed: text",
        "b.jsonl:3: expected one JSON object per line, found an array",
    )
    rows = read_rows(sources(tmp_path, "a.csv", "b.jsonl"), ["text", "label"])
    assert [(row.where, row.row) for row in rows.bad] == [
        ("a.csv:2", "a\n"),
        ("b.jsonl:1", {"text": "b"}),
        ("b.jsonl:3", "[]\n"),
    ]
    assert (rows.columns["text"], rows.origins) == (["c"], ["b.jsonl:2"])


def test_an_unreadable_file_does_not_hide_bad_rows_of_another(tmp_path):
    (tmp_path / "a.csv").write_text("text,label\na\n")
    (tmp_path / "b.xls").write_text("text,label\na\n")
    with pytest.raises(DataError) as caught:
        read_rows(sources(tmp_path, "b.xls", "gone.csv", "gone.jsonl", "gone.parquet", "a.csv"), ["text", "label"])
    assert caught.value.mistakes == (
        f"{tmp_path}/b.xls: unknown file format; plait reads {FORMAT_NAMES}",
        f"{tmp_path}/gone.csv: cannot be read: No such file or directory",
        f"{tmp_path}/gone.jsonl: cannot be read: No such file or directory",
        f"{tmp_path}/gone.parquet: cannot be read: No such file or directory",
        f"a.csv:2: {TOO_FEW}",
    )
