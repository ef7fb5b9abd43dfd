"""A bad row gets an empty result and a line in the file of errors; the other rows are not affected."""

import numpy as np
import pytest

from counting_job import counting, errors_of, run
from plait.inference import stream
from plait.inference.stream import Done
from streaming import read_rows, write_rows

BAD = {
    "ragged": b"9,one,two\n",
    "empty text": b"9,\n",
    "blank text": b"9,  \t\n",
    "latin-1": b"9,caf\xe9\n",
    "NUL": b"9,a\0b\n",
}


@pytest.mark.parametrize("what", BAD)
@pytest.mark.parametrize("places", [{0}, {4}, {2}, {0, 1, 2, 3, 4}, set(), {1, 3}])
def test_a_bad_row_is_left_empty_and_listed_and_shifts_no_other(what, places, tmp_path, monkeypatch):
    monkeypatch.setattr(stream, "_CHUNK_ROWS", 2)
    lines = [BAD[what] if row in places else f"{row},{'abcde'[row]}\n".encode() for row in range(5)]
    (tmp_path / "in.csv").write_bytes(b"id,sentence\n" + b"".join(lines))
    expected = [None if row in places else "abcde"[row] for row in range(5)]
    for kind in ("csv", "jsonl", "parquet"):
        done = run(counting(), tmp_path / "in.csv", output := tmp_path / f"out.{kind}")
        assert (done.rows, done.bad) == (5, len(places))
        assert [row["label"] or None for row in read_rows(output)] == expected
        if not places:
            assert done.errors is None and not output.with_name(f"{output.name}.errors.jsonl").exists()
            continue
        assert [line["where"] for line in errors_of(output)] == [f"in.csv:{row + 2}" for row in sorted(places)]
        assert all(line["problem"] and line["row"] for line in errors_of(output))
    run(counting(width=2), tmp_path / "in.csv", tmp_path / "out.npy")
    missing = np.isnan(np.load(tmp_path / "out.npy")).all(axis=1)
    assert missing.tolist() == [row in places for row in range(5)]


def test_the_file_of_errors_has_the_reason_and_the_row(tmp_path):
    (tmp_path / "in.csv").write_bytes(b'id,sentence\n1,"two\nlines"\n2,\n3,a,b\n4,caf\xe9\n5,fine\n')
    run(counting(), tmp_path / "in.csv", tmp_path / "out.csv")
    assert errors_of(tmp_path / "out.csv") == [
        {"where": "in.csv:4", "problem": "the text in column 'sentence' is empty", "row": {"id": "2", "sentence": ""}},
        {
            "where": "in.csv:5",
            "problem": "3 fields, but the header has 2; quote texts that contain ','",
            "row": "3,a,b\n",
        },
        {
            "where": "in.csv:6",
            "problem": "not UTF-8 at byte 5 of the line; save the file as UTF-8",
            "row": "4,caf\ufffd\n",
        },
    ]
    assert [row["id"] for row in read_rows(tmp_path / "out.csv")] == ["1", "2", "", "", "5"]


def test_bad_rows_in_jsonl(tmp_path):
    lines = [
        '{"sentence": "a"}',
        "no json",
        '["a"]',
        '{"other": "b"}',
        '{"sentence": ["a"]}',
        '{"sentence": null}',
        '{"sentence": "\\ud800"}',
        "{}",
        '{"sentence": 7}',
    ]
    (tmp_path / "in.jsonl").write_text("\n".join(lines) + "\n")
    for kind in ("csv", "jsonl", "parquet"):
        assert run(counting(), tmp_path / "in.jsonl", output := tmp_path / f"out.{kind}").bad == 7
        assert [row["label"] or None for row in read_rows(output)] == ["a", *[None] * 7, "7"]
    problems = [line["problem"] for line in errors_of(tmp_path / "out.csv")]
    assert problems == [
        "invalid JSON at column 1: Expecting value",
        "expected one JSON object per line, found an array",
        "no column 'sentence'; allowed: other",
        "column 'sentence' contains a list or an object; expected plain text",
        "the text in column 'sentence' is empty",
        "the text in column 'sentence' contains a lone surrogate, which is half a character",
        "no column 'sentence'; allowed: none",
    ]
    assert read_rows(tmp_path / "out.jsonl")[3] == {"other": "b", "label": None, "score": None}


def test_jsonl_without_a_single_good_row_is_processed(tmp_path):
    (tmp_path / "in.jsonl").write_text("no\njson\n")
    assert run(counting(), tmp_path / "in.jsonl", tmp_path / "out.csv") == Done(2, 2, tmp_path / "out.csv.errors.jsonl")
    assert (tmp_path / "out.csv").read_text() == "label,score\n,\n,\n"


def test_a_pair_with_one_empty_text_is_bad(tmp_path):
    source = write_rows(tmp_path / "in.csv", [{"one": "a", "two": "b"}, {"one": "a", "two": ""}])
    run(counting("one", "two"), source, tmp_path / "out.csv")
    assert [row["score"] for row in read_rows(tmp_path / "out.csv")] == ["2.0", ""]
    assert errors_of(tmp_path / "out.csv")[0]["problem"] == "the text in column 'two' is empty"


def test_errors_can_be_listed_elsewhere_and_an_old_list_is_removed(tmp_path):
    (tmp_path / "bad.csv").write_text("id,sentence\n1,\n2,a\n")
    (tmp_path / "good.csv").write_text("id,sentence\n1,a\n")
    listed, output = tmp_path / "list.jsonl", tmp_path / "out.csv"
    assert run(counting(), tmp_path / "bad.csv", output, errors=listed).errors == listed
    assert len(read_rows(listed)) == 1 and not (tmp_path / "out.csv.errors.jsonl").exists()
    run(counting(), tmp_path / "good.csv", output, errors=listed)
    assert not listed.exists()
    run(counting(), tmp_path / "bad.csv", output)
    assert len(errors_of(output)) == 1
    run(counting(), tmp_path / "good.csv", output)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["bad.csv", "good.csv", "out.csv"]
