"""Files of rows with their texts."""

import csv

import pytest

from plait.evaluation.row_files import write_rows

ROW = {"prediction": "+1", "score": -0.5, "texts": ("=SUM(A1:A9)", "plain")}


@pytest.mark.parametrize(
    ("safe_csv", "cells"), [(True, ["+1", "-0.5", "'=SUM(A1:A9)", "plain"]), (False, ["+1", "-0.5", *ROW["texts"]])]
)
def test_formulas_are_defused_on_request_but_numbers_never(safe_csv, cells, tmp_path):
    write_rows([ROW], tmp_path / "rows.csv", safe_csv=safe_csv)
    with (tmp_path / "rows.csv").open(newline="") as file:
        assert list(csv.reader(file)) == [["prediction", "score", "text", "text2"], cells]
