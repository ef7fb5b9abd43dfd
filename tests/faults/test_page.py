"""docs/reliability.md shows what was measured, and nothing else."""

import json

from faults.page import PAGE, RESULTS, table_of
from faults.table import FAULTS


def test_page_has_the_measured_table():
    assert table_of(RESULTS) in PAGE.read_text(encoding="utf-8")


def test_no_measured_case_failed():
    measured = json.loads(RESULTS.read_text(encoding="utf-8"))
    assert measured.keys() <= FAULTS.keys()
    assert not [row for row, result in measured.items() if result["failures"]]
