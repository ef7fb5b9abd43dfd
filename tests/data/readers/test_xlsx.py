"""xlsx: the first sheet of a spreadsheet."""

import datetime
import sys

import pytest

from drafts import texts
from plait.data.read import open_table, read_rows
from plait.drafting.draft import draft_recipe
from plait.drafting.files import data_files
from plait.errors import DataError
from reading import bad, sources
from streaming import write_sheets
from tiny import write_csv


def test_the_first_sheet_is_read_as_text(tmp_path):
    rows = [["text", "label", "when"], ["a\nb", 1, datetime.datetime(2024, 1, 2)], [], ["é", 2.5, None], [True, "x"]]
    write_sheets(tmp_path / "a.xlsx", rows, [["other"], ["b"]])
    found = read_rows(sources(tmp_path, "a.xlsx"), ["text", "label", "when"])
    assert found.columns == {
        "text": ["a\nb", "é", "true"],
        "label": ["1", "2.5", "x"],
        "when": ["2024-01-02 00:00:00", "", ""],
    }
    assert found.origins == ["a.xlsx:2", "a.xlsx:4", "a.xlsx:5"]


def test_a_row_with_more_cells_than_the_header_is_bad(tmp_path):
    write_sheets(tmp_path / "a.xlsx", [["text", "label", None], ["a", 1], ["b", 2, None, "more"]])
    found = read_rows(sources(tmp_path, "a.xlsx"), ["text", "label"])
    assert found.columns["text"] == ["a"]
    assert bad(found) == [(3, "4 cells, but the header has 2; name the columns, or empty the cells")]


def test_columns_without_a_name_are_named_after_their_place(tmp_path):
    write_sheets(tmp_path / "a.xlsx", [[None, None, "text"], [1, 2, "a"]])
    assert open_table(tmp_path / "a.xlsx").columns == ("column 1", "column 2", "text")


@pytest.mark.parametrize(
    ("rows", "problem"),
    [
        ([], ":1: the first row of the first sheet is empty; write the column names there"),
        ([["text", "text"], ["a", "b"]], ":1: duplicate column 'text'; rename one of them"),
    ],
)
def test_a_sheet_without_a_proper_header_is_refused(tmp_path, rows, problem):
    write_sheets(tmp_path / "a.xlsx", rows)
    with pytest.raises(DataError) as caught:
        open_table(tmp_path / "a.xlsx")
    assert caught.value.mistakes == (f"{tmp_path}/a.xlsx{problem}",)


def test_a_damaged_file_is_refused(tmp_path):
    pytest.importorskip("openpyxl")
    (tmp_path / "a.xlsx").write_bytes(b"text,label\n")
    with pytest.raises(DataError, match=r"a\.xlsx: cannot be read as \.xlsx \(File is not a zip file\); save it again"):
        open_table(tmp_path / "a.xlsx")


def test_without_openpyxl_a_message_says_what_to_install(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "openpyxl", None)
    (tmp_path / "a.xlsx").write_bytes(b"")
    problem = '.xlsx needs openpyxl; pip install "plait[data]", or save it as .csv'
    with pytest.raises(DataError) as caught:
        open_table(tmp_path / "a.xlsx")
    assert caught.value.mistakes == (f"{tmp_path}/a.xlsx: {problem}",)
    write_csv(tmp_path / "b.csv", ["text", "label"], [[text, "ab"[n % 2]] for n, text in enumerate(texts())])
    assert draft_recipe(data_files([tmp_path])).unused == {f"{tmp_path}/a.xlsx": problem}


def test_a_recipe_is_drafted_for_a_spreadsheet(tmp_path):
    write_sheets(tmp_path / "a.xlsx", [["text", "label"], *([text, "ab"[n % 2]] for n, text in enumerate(texts()))])
    (task,) = draft_recipe([tmp_path / "a.xlsx"], encoding="latin-1").tasks
    assert (task.guess.text, task.guess.label) == (("text",), ("label",))
    assert (task.rows, task.encoding) == ({"train": 40}, "utf-8")
