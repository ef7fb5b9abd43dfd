"""Some cases of every row of the fault table; `make test-faults` runs all of them."""

from collections.abc import Iterator
from itertools import takewhile

import pytest

from faults.bench import Bench
from faults.processes import can_break_disks
from faults.table import FAULTS


@pytest.fixture(scope="module")
def bench() -> Iterator[Bench]:
    made = Bench()
    yield made
    made.close()


@pytest.mark.parametrize("row", FAULTS)
def test_fault(row: str, bench: Bench) -> None:
    if row == "disk" and not can_break_disks():
        pytest.skip("no C compiler for the shim that lets the disk fail")
    fault = FAULTS[row]
    count = fault.count(bench)
    numbers = takewhile(lambda number: number < count, fault.short)
    problems = [f"{row} {number}: {problem}" for number, problem in fault.cases(bench, numbers) if problem]
    assert not problems, "\n".join(problems)
