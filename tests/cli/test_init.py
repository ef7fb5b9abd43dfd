"""`plait init` on the command line."""

import json

import pytest

from drafts import texts
from tiny import write_csv


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """A folder with one data file; the working directory is beside it."""
    (tmp_path / "data").mkdir()
    rows = zip(texts(), texts(seed=1), "ab" * 20, "wxyz" * 10, strict=True)
    write_csv(tmp_path / "data" / "posts.csv", ["subject", "body", "mood", "topic"], list(rows))
    monkeypatch.chdir(tmp_path)
    return tmp_path / "data"


def test_init_names_the_files_that_it_does_not_use(folder, plait):
    (folder / "empty.csv").write_text("")
    (folder / "a.txt").write_text("")
    (folder / "b.txt").write_text("")
    (folder / "more").mkdir()
    write_csv(
        folder / "more" / "second.csv", ["text", "label"], [[text, "ab"[n % 2]] for n, text in enumerate(texts())]
    )
    out, _ = plait("init", "data")
    assert "data/empty.csv is not used: line 1: the file is empty; add a header line with the column names\n" in out
    assert "data/a.txt, data/b.txt are not used: plain text; " in out
    assert "data/more is not used: a sub-folder; --recursive goes into it\n" in out
    out, _ = plait("init", "data", "--recursive", "--force", "--json")
    found = json.loads(out)
    assert [task["task"] for task in found["tasks"]] == ["second", "posts"]
    assert list(found["unused"]) == ["data/empty.csv", "data/a.txt", "data/b.txt"]


def test_init_takes_the_columns_that_are_named(folder, plait):
    out, _ = plait("init", "data", "--text", "body", "--text", "subject", "--label", "topic", "--json")
    (task,) = json.loads(out)["tasks"]
    assert (task["text"], task["label"], task["classes"]) == (["body", "subject"], ["topic"], ["w", "x", "y", "z"])


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--label", "topics"], "no column 'topics'; did you mean 'topic'? its columns are subject, body, mood, topic"),
        (["--label", "body", "--text", "body"], "--text body: the column is given twice; each column has one role"),
        (
            ["--label", "a", "--text", "b", "--text", "c", "--text", "d"],
            "--text: 3 columns; a task has one text, a pair",
        ),
    ],
)
def test_columns_that_make_no_sense_are_refused(folder, plait, options, message):
    _, errors = plait("init", "data/posts.csv", *options, code=2)
    assert message in errors
