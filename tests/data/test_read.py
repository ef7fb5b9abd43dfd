"""Reading csv, tsv and jsonl: values and lines as written, and every bad row of every file at once."""

import csv
import gzip
import io
import json
from pathlib import Path

import pyarrow
import pyarrow.parquet
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from plait.data.read import Rows, read_rows, row_mistakes
from plait.errors import DataError
from plait.recipe.schema import Source


def sources(folder: Path, *names: str) -> list[Source]:
    return [Source(file=str(folder / name)) for name in names]


def read(
    folder: Path, name: str, content: str | bytes, columns: tuple[str, ...] = ("text", "label"), **options
) -> Rows:
    (folder / name).write_bytes(content.encode() if isinstance(content, str) else content)
    return read_rows(sources(folder, name), columns, **options)


def mistakes(folder: Path, name: str, content: str | bytes, columns: tuple[str, ...] = ("text", "label")) -> list[str]:
    """Every bad row, or what is wrong with the file."""
    try:
        found = row_mistakes(read(folder, name, content, columns).bad)
    except DataError as error:
        found = list(error.mistakes)
    assert found
    return [mistake.replace(f"{folder}/", "") for mistake in found]


# ---------------------------------------------------------------- what is read


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("a.csv", "text,label\na; b,1\nc,2\n"),
        ("a.csv", "text,label\na; b,1\nc,2"),  # no newline at the end
        ("a.csv", 'text;label\n"a; b";1\nc;2\n'),
        ("a.csv", "text\tlabel\na; b\t1\nc\t2\n"),
        ("a.tsv", "text\tlabel\na; b\t1\nc\t2\n"),
        ("a.csv", "text,label\r\na; b,1\r\nc,2\r\n"),
        ("a.csv", "\ufefftext,label\na; b,1\nc,2\n"),
        ("a.csv", '\ufeff"text","label"\n"a; b","1"\n"c","2"\n'),
        ("a.csv", "other,label,,text\nx,1,y,a; b\nx,2,y,c\n"),  # other columns, one without a name
        ("a.jsonl", '{"text": "a; b", "label": 1}\n{"label": "2", "text": "c", "other": []}\n'),
        ("a.ndjson", '\ufeff{"text": "a; b", "label": 1}\r\n{"text": "c", "label": 2}'),
    ],
)
def test_every_format_gives_the_same_rows(tmp_path, name, content):
    rows = read(tmp_path, name, content)
    assert rows.columns == {"text": ["a; b", "c"], "label": ["1", "2"]}
    first = 1 if "json" in name else 2
    assert rows.origins == [f"{name}:{first}", f"{name}:{first + 1}"]
    assert len(rows) == 2


def test_a_quoted_newline_belongs_to_its_row_and_the_next_rows_keep_their_lines(tmp_path):
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


def test_quoting_overrides_the_ending_of_the_name(tmp_path):
    assert read(tmp_path, "a.tsv", 'text\tlabel\n"a\tb"\t1\n', quoting="quoted").columns["text"] == ["a\tb"]
    assert read(tmp_path, "a.csv", 'text,label\n"open,1\n', quoting="unquoted").columns["text"] == ['"open']


def test_empty_lines_between_rows_are_skipped_and_counted(tmp_path):
    rows = read(tmp_path, "a.csv", "text,label\n\na,1\n\n\r\nb,2\n\n")
    assert rows.origins == ["a.csv:3", "a.csv:6"]
    assert read(tmp_path, "a.jsonl", '\n{"text": "a", "label": 1}\n  \n{"text": "b", "label": 1}\n').origins == [
        "a.jsonl:2",
        "a.jsonl:4",
    ]


def test_an_empty_line_of_a_file_with_one_column_is_a_row_without_text(tmp_path):  # it cannot be told from a lost text
    assert mistakes(tmp_path, "a.csv", "text\na\n\nb\n", ("text",)) == ["a.csv:3: 0 fields where the header has 1"]


def test_empty_fields_and_spaces_are_kept_as_they_are(tmp_path):
    assert read(tmp_path, "a.csv", "text,label\n, 1 \n").columns == {"text": [""], "label": [" 1 "]}


def test_a_header_alone_gives_no_rows(tmp_path):
    assert len(read(tmp_path, "a.csv", "text,label\n")) == 0


def test_json_numbers_and_truth_values_become_the_text_of_a_csv_file(tmp_path):
    lines = [{"text": "a", "label": value} for value in (1, 1.5, True, None, "2.0")]
    rows = read(tmp_path, "a.jsonl", "".join(json.dumps(line) + "\n" for line in lines))
    assert rows.columns["label"] == ["1", "1.5", "true", "", "2.0"]


def test_line_separators_of_unicode_end_no_row(tmp_path):
    assert read(tmp_path, "a.csv", "text,label\na\u2028b\x85c,1\n").columns["text"] == ["a\u2028b\x85c"]
    assert read(tmp_path, "a.jsonl", '{"text": "a\u2028b", "label": 1}\n').columns["text"] == ["a\u2028b"]


def test_a_very_long_field_is_read_whole(tmp_path):
    text = "word " * 100_000  # the csv module stops at 131,072 characters unless told
    assert read(tmp_path, "a.csv", f"text,label\n{text},1\n").columns["text"] == [text]


def test_files_are_read_one_after_the_other(tmp_path):
    (tmp_path / "a.csv").write_text("text,label\na,1\n")
    (tmp_path / "b.tsv").write_text("label\ttext\n2\tb\n")
    (tmp_path / "c.jsonl").write_text('{"text": "c", "label": 3}\n')
    rows = read_rows(sources(tmp_path, "b.tsv", "a.csv", "c.jsonl"), ["text", "label"])
    assert rows.columns == {"text": ["b", "a", "c"], "label": ["2", "1", "3"]}
    assert rows.origins == ["b.tsv:2", "a.csv:2", "c.jsonl:1"]


def write_parquet(path: Path, columns: dict[str, list], **options) -> None:
    pyarrow.parquet.write_table(pyarrow.table(columns), path, **options)


@pytest.mark.parametrize("ending", ["parquet", "pq"])
def test_parquet_gives_the_text_of_a_csv_file(tmp_path, ending):
    columns = {"label": [1, None, 3], "text": ["a; b", "c", None], "score": [0.5, float("nan"), 2.0]}
    write_parquet(tmp_path / f"a.{ending}", {**columns, "sure": [True, False, None]})
    rows = read_rows(sources(tmp_path, f"a.{ending}"), ["text", "label", "score", "sure"])
    assert rows.columns == {
        "text": ["a; b", "c", ""],
        "label": ["1", "", "3"],
        "score": ["0.5", "", "2.0"],
        "sure": ["true", "false", ""],
    }
    assert rows.origins == [f"a.{ending}:1", f"a.{ending}:2", f"a.{ending}:3"] and not rows.bad


def test_parquet_is_read_over_all_its_batches(tmp_path):
    count = 10_000  # more than are held at a time
    texts = [f"text {number}" for number in range(count)]
    write_parquet(tmp_path / "a.parquet", {"text": texts, "label": list(range(count))}, row_group_size=3_000)
    rows = read_rows(sources(tmp_path, "a.parquet"), ["text", "label"])
    assert rows.columns == {"text": texts, "label": [str(number) for number in range(count)]}
    assert rows.origins[-1] == f"a.parquet:{count}"


def test_a_column_that_parquet_lacks_is_named(tmp_path):
    write_parquet(tmp_path / "a.parquet", {"text": ["a"], "lable": [1]})
    with pytest.raises(DataError) as caught:
        read_rows(sources(tmp_path, "a.parquet"), ["text", "label"])
    assert str(caught.value) == f"{tmp_path}/a.parquet:1: no column 'label'; did you mean 'lable'?"


def test_a_list_is_read_where_lists_may_stand_and_a_bad_row_elsewhere(tmp_path):
    write_parquet(tmp_path / "a.parquet", {"text": ["a", "b"], "topics": [["x", "y"], []]})
    (tmp_path / "a.jsonl").write_text('{"text": "a", "topics": ["x", "y"]}\n{"text": "b", "topics": []}\n')
    for name in ("a.parquet", "a.jsonl"):
        rows = read_rows(sources(tmp_path, name), ["text", "topics"], lists=["topics"])
        assert rows.columns["topics"] == ['["x", "y"]', "[]"] and not rows.bad
        rows = read_rows(sources(tmp_path, name), ["text", "topics"])
        assert [row.problem for row in rows.bad] == ["the value of 'topics' is not plain text"] * 2


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("a.csv.gz", b"text,label\na,1\nb,2\n"),
        ("a.TSV.GZ", b"text\tlabel\na\t1\nb\t2\n"),
        ("a.jsonl.gz", b'{"text": "a", "label": 1}\n{"text": "b", "label": 2}\n'),
    ],
)
def test_a_packed_file_is_read_like_one_that_is_not(tmp_path, name, content):
    assert read(tmp_path, name, gzip.compress(content)).columns == {"text": ["a", "b"], "label": ["1", "2"]}
    parts = gzip.compress(content[:20]) + gzip.compress(content[20:])
    assert read(tmp_path, name, parts).columns == {"text": ["a", "b"], "label": ["1", "2"]}


# ---------------------------------------------------------------- some of the rows


def some(folder: Path, name: str, columns: tuple[str, ...] = ("text", "label"), **where: str) -> Rows:
    return read_rows([Source(file=str(folder / name), where=where)], columns)


def test_only_the_rows_with_the_wanted_values_are_read(tmp_path):
    (tmp_path / "a.csv").write_text("text,label,split,lang\na,1,train,en\nb,2,dev,en\nc,3, train ,de\nd,4,train,en\n")
    assert some(tmp_path, "a.csv", split="train").columns == {"text": ["a", "c", "d"], "label": ["1", "3", "4"]}
    rows = some(tmp_path, "a.csv", split="train", lang="en")
    assert (rows.columns["text"], rows.origins) == (["a", "d"], ["a.csv:2", "a.csv:5"])
    assert list(rows.columns) == ["text", "label"]
    assert len(some(tmp_path, "a.csv", split="test")) == 0


def test_what_other_rows_hold_does_not_matter_but_their_shape_does(tmp_path):
    (tmp_path / "a.jsonl").write_text(
        '{"text": ["x"], "label": 1, "split": "dev"}\n'
        '{"text": "a", "label": 1, "split": "train"}\n'
        '{"label": 1, "split": "dev"}\n'
        '{"text": "b", "label": 1}\n'
        '{"text": \n'
    )
    rows = some(tmp_path, "a.jsonl", split="train")
    assert rows.columns["text"] == ["a"]
    assert [(row.where, row.problem) for row in rows.bad] == [
        ("a.jsonl:4", "no column 'split'; allowed: label, text"),
        ("a.jsonl:5", "not JSON: Expecting value at column 10"),
    ]


def test_numbers_and_truth_values_choose_rows_as_they_are_written(tmp_path):
    (tmp_path / "a.jsonl").write_text('{"text": "a", "fold": 1, "ok": true}\n{"text": "b", "fold": 2, "ok": false}\n')
    chosen = Source.model_validate({"file": str(tmp_path / "a.jsonl"), "where": {"fold": 2, "ok": False}})
    assert read_rows([chosen], ["text"]).columns == {"text": ["b"]}


def test_a_column_that_chooses_rows_and_is_not_there_is_named(tmp_path):
    (tmp_path / "a.csv").write_text("text,label,splt\na,1,train\n")
    with pytest.raises(DataError, match=r"no column 'split'; did you mean 'splt'\?"):
        some(tmp_path, "a.csv", split="train")


def test_one_file_may_be_read_twice_for_different_rows(tmp_path):
    (tmp_path / "a.csv").write_text("text,label,split\na,1,x\nb,2,y\nc,3,z\n")
    both = [Source(file=str(tmp_path / "a.csv"), where={"split": value}) for value in ("z", "x")]
    rows = read_rows(both, ["text", "label"])
    assert (rows.columns["text"], rows.origins) == (["c", "a"], ["a.csv:4", "a.csv:2"])


def test_files_of_one_name_are_shown_with_their_folders(tmp_path):
    for name in ("x", "y"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "a.csv").write_text(f"text,label\n{name},1\nshort\n")
    (tmp_path / "b.csv").write_text("text,label\nb,1\n")
    rows = read_rows(sources(tmp_path, "x/a.csv", "y/a.csv", "b.csv"), ["text", "label"])
    assert rows.origins == [f"{tmp_path}/x/a.csv:2", f"{tmp_path}/y/a.csv:2", "b.csv:2"]
    assert [row.where for row in rows.bad] == [f"{tmp_path}/x/a.csv:3", f"{tmp_path}/y/a.csv:3"]


def test_a_column_wanted_twice_is_read_once(tmp_path):
    assert read(tmp_path, "a.csv", "text,label\na,1\n", ("text", "text")).columns == {"text": ["a"]}


@settings(max_examples=100, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    rows=st.lists(st.tuples(st.text(st.characters(codec="utf-8", exclude_characters="\0")), st.sampled_from("01"))),
    delimiter=st.sampled_from(",;\t"),
    end=st.sampled_from(["\n", "\r\n"]),
)
def test_whatever_the_csv_module_writes_is_read_back(tmp_path, rows, delimiter, end):
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


# ---------------------------------------------------------------- what is refused


RAGGED = "1 fields where the header has 2"
OPEN = "',' expected after '\"'; is a quote left open?"


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        ("text,label\na\nb,1,2\nc,3\n", {2: RAGGED, 3: "3 fields where the header has 2"}),
        ('text,label\n"a\nb",1\nc\n', {4: RAGGED}),
        (b"text,label\na\0b,1\nc\n", {2: "a NUL byte; the file may be UTF-16, save it as UTF-8", 3: RAGGED}),
        (b"text,label\nok,1\ncaf\xe9,1\n", {3: "not UTF-8 at byte 3 of the line; save the file as UTF-8"}),
        (b'text,label\n"a\n\xe9",1\n', {2: "not UTF-8 at byte 0 of the line; save the file as UTF-8 (lines 2 to 3)"}),
        ('text,label\na,1\n"b,2\nc,3\n', {3: "unexpected end of data; is a quote left open?"}),
        ('text,label\n"a" b,1\nc\n', {2: OPEN, 3: RAGGED}),
        ('text,label\n"a,1\n"b",2\nc\n', {2: OPEN, 4: RAGGED}),
        ("", {1: "the file is empty; expected a header line"}),
        ("texts,label\na,1\nb,2\n", {1: "no column 'text'; did you mean 'texts'?"}),
        ("Zeile,label\na,1\n", {1: "no column 'text'; allowed: Zeile, label"}),
        ("text,text,label\na,b,1\n", {1: "column 'text' stands twice"}),
    ],
)
def test_a_bad_csv_file_says_where_and_what(tmp_path, content, expected):
    assert mistakes(tmp_path, "a.csv", content) == [f"a.csv:{line}: {problem}" for line, problem in expected.items()]


@pytest.mark.parametrize(
    ("line", "problem"),
    [
        ('{"text": "a"}', "no column 'label'; allowed: text"),
        ('{"text": "a", "lable": 1}', "no column 'label'; did you mean 'lable'?"),
        ('{"text": "a" "label": 1}', "not JSON: Expecting ',' delimiter at column 14"),
        ("text,label", "not JSON: Expecting value at column 1"),
        ("[1, 2]", "expected an object, found list"),
        ('"text"', "expected an object, found str"),
        (b'{"text": "\xff", "label": 1}', "not UTF-8 at byte 10 of the line; save the file as UTF-8"),
    ],
)
def test_a_bad_json_line_says_where_and_what(tmp_path, line, problem):
    good = b'{"text": "a", "label": 1}\n'
    content = good + b"\n" + (line if isinstance(line, bytes) else line.encode()) + b"\n" + good
    assert mistakes(tmp_path, "a.jsonl", content) == [f"a.jsonl:3: {problem}"]


def test_every_column_that_a_file_lacks_is_named(tmp_path):
    found = "\n".join(mistakes(tmp_path, "a.csv", "txt,lable\na,1\n"))
    assert "no column 'text'; did you mean 'txt'?" in found
    assert "no column 'label'; did you mean 'lable'?" in found


@pytest.mark.parametrize("header", ["text,text\n", "text,labél\n".encode("latin-1"), '"text" x,label\n'])
def test_a_bad_header_is_one_mistake_and_not_one_for_each_row(tmp_path, header):
    content = (header if isinstance(header, bytes) else header.encode()) + b"a,b\n" * 30
    (found,) = mistakes(tmp_path, "a.csv", content)
    assert found.startswith("a.csv:1: ")


def test_a_file_with_the_line_ends_of_old_macs_is_one_mistake(tmp_path):
    (found,) = mistakes(tmp_path, "a.csv", "text,label\ra,1\rb,2\r")
    assert found.startswith("a.csv:1: ") and "quote" not in found


def test_more_than_20_bad_rows_of_a_file_are_counted(tmp_path):
    content = "text,label\n" + "bad\n" * 1_234
    assert mistakes(tmp_path, "a.csv", content) == [
        *(f"a.csv:{line}: 1 fields where the header has 2" for line in range(2, 22)),
        "a.csv: ... and 1,214 more bad rows, 1,234 in all",
    ]
    assert len(mistakes(tmp_path, "a.csv", "text,label\n" + "bad\n" * 20)) == 20


def test_the_bad_rows_of_all_files_come_at_once(tmp_path):
    (tmp_path / "a.csv").write_text("text,label\na\n")
    (tmp_path / "b.jsonl").write_text('{"text": "b"}\n{"text": "c", "label": 1}\n[]\n')
    (tmp_path / "c.tsv").write_text("text\tlable\nc\t1\n")
    with pytest.raises(DataError) as caught:
        read_rows(sources(tmp_path, "a.csv", "b.jsonl", "c.tsv"), ["text", "label"])
    assert caught.value.mistakes == (
        f"{tmp_path}/c.tsv:1: no column 'label'; did you mean 'lable'?",
        "a.csv:2: 1 fields where the header has 2",
        "b.jsonl:1: no column 'label'; allowed: text",
        "b.jsonl:3: expected an object, found list",
    )
    rows = read_rows(sources(tmp_path, "a.csv", "b.jsonl"), ["text", "label"])
    assert [(row.where, row.row) for row in rows.bad] == [
        ("a.csv:2", "a\n"),
        ("b.jsonl:1", {"text": "b"}),
        ("b.jsonl:3", "[]\n"),
    ]
    assert (rows.columns["text"], rows.origins) == (["c"], ["b.jsonl:2"])


def test_a_file_that_cannot_be_read_hides_no_bad_row_of_another(tmp_path):
    (tmp_path / "a.csv").write_text("text,label\na\n")
    (tmp_path / "b.xls").write_text("text,label\na\n")
    with pytest.raises(DataError) as caught:
        read_rows(sources(tmp_path, "b.xls", "gone.csv", "gone.jsonl", "gone.parquet", "a.csv"), ["text", "label"])
    assert caught.value.mistakes == (
        f"{tmp_path}/b.xls: unknown kind of file; give .csv, .tsv or .jsonl (also as .gz), or .parquet",
        f"{tmp_path}/gone.csv: cannot be read: No such file or directory",
        f"{tmp_path}/gone.jsonl: cannot be read: No such file or directory",
        f"{tmp_path}/gone.parquet: cannot be read: No such file or directory",
        "a.csv:2: 1 fields where the header has 2",
    )


def test_the_ending_of_a_name_may_be_in_capitals(tmp_path):
    assert read(tmp_path, "A.CSV", "text,label\na,1\n").columns["text"] == ["a"]


def test_a_json_text_that_is_a_list_or_an_object_is_refused(tmp_path):
    found = mistakes(tmp_path, "a.jsonl", '{"text": ["a"], "label": 1}\n{"text": "a", "label": {"b": 1}}\n')
    assert [mistake.split(": ")[0] for mistake in found] == ["a.jsonl:1", "a.jsonl:2"]


def test_json_nested_too_deeply_is_a_bad_row(tmp_path):
    (found,) = mistakes(tmp_path, "a.jsonl", "[" * 100_000 + "\n")
    assert found.startswith("a.jsonl:1: not JSON")


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
def test_the_files_of_cs224n_are_read_as_they_are(real_data, name, columns, count):
    rows = read_rows(sources(real_data / "cs224n", f"{name}.csv"), columns)
    assert len(rows) == count and not rows.bad
    assert (rows.origins[0], rows.origins[-1]) == (f"{name}.csv:2", f"{name}.csv:{count + 1}")
    for column in columns[: 1 if columns[0] == "sentence" else 2]:
        assert all(text.strip() for text in rows.columns[column])
        assert sum(" " in text.strip() for text in rows.columns[column]) > 0.99 * count  # sentences, not ids
