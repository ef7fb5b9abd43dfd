"""parquet: the same rows as from a csv file, and damaged files are reported."""

import re
from pathlib import Path

import pyarrow
import pyarrow.parquet
import pytest

from plait.data.read import read_rows
from plait.errors import DataError
from reading import read, sources


def write_parquet(path: Path, columns: dict[str, list], **options) -> None:
    pyarrow.parquet.write_table(pyarrow.table(columns), path, **options)


@pytest.mark.parametrize("ending", ["parquet", "pq"])
def test_values_become_the_text_of_a_csv_file(tmp_path, ending):
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


def test_all_batches_are_read(tmp_path):
    count = 10_000  # more than one batch
    texts = [f"text {number}" for number in range(count)]
    write_parquet(tmp_path / "a.parquet", {"text": texts, "label": list(range(count))}, row_group_size=3_000)
    rows = read_rows(sources(tmp_path, "a.parquet"), ["text", "label"])
    assert rows.columns == {"text": texts, "label": [str(number) for number in range(count)]}
    assert rows.origins[-1] == f"a.parquet:{count}"


def test_a_missing_column_is_reported(tmp_path):
    write_parquet(tmp_path / "a.parquet", {"text": ["a"], "lable": [1]})
    with pytest.raises(DataError) as caught:
        read_rows(sources(tmp_path, "a.parquet"), ["text", "label"])
    assert str(caught.value) == f"{tmp_path}/a.parquet:1: no column 'label'; did you mean 'lable'?"


def test_a_file_with_damaged_rows_reports_how_far_it_was_read(tmp_path):
    table = pyarrow.table({"text": [f"text {number}" for number in range(9_000)], "label": list(range(9_000))})
    pyarrow.parquet.write_table(table, tmp_path / "whole.parquet", row_group_size=4_500, compression="none")
    content = bytearray((tmp_path / "whole.parquet").read_bytes())
    assert len(read(tmp_path, "a.parquet", bytes(content)).origins) == 9_000
    middle = len(content) // 2
    content[middle : middle + 40_000] = b"\xff" * len(content[middle : middle + 40_000])
    with pytest.raises(DataError) as caught:
        read(tmp_path, "a.parquet", bytes(content))
    problem = r"cannot be read (as parquet|after row [\d,]+) \(.+\); replace it with an intact file"
    assert re.fullmatch(rf"{tmp_path}/a\.parquet: {problem}", str(caught.value))


def test_errors_of_pyarrow_that_are_no_value_errors_are_reported(tmp_path, monkeypatch):
    write_parquet(tmp_path / "a.parquet", {"text": ["a"], "label": ["x"]})

    def damaged(self, **options):
        raise pyarrow.lib.ArrowIndexError("Index 202 out of bounds")

    monkeypatch.setattr(pyarrow.parquet.ParquetFile, "iter_batches", damaged)
    with pytest.raises(DataError, match=r"a.parquet: cannot be read after row 0 \(Index 202 out of bounds\)"):
        read_rows(sources(tmp_path, "a.parquet"), ["text", "label"])
