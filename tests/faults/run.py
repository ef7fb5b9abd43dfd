"""The full fault table, or some rows of it.

    python tests/faults/run.py [ROW…] [--every N] [--from N] [--count N] [--json FILE]

A row is tried as often as the table says. `--every` tries each N-th case, `--from` starts at a later one, `--count`
tries fewer: `--from 17 --count 1` repeats case 17. Results are added to docs/results/faults.json, with failures, and
to the table of docs/reliability.md; delete the file to start again. Exit code 1 if a case failed.
"""

import argparse
import json
import platform
import sys
import time
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

if __name__ == "__main__":
    sys.path[:0] = [str(Path(__file__).parent.parent), str(Path(__file__).parent.parent.parent / "benchmarks")]

from faults.bench import Bench
from faults.page import PAGE, RESULTS, write_table
from faults.table import FAULTS


def run_row(bench: Bench, row: str, *, first: int, every: int, count: int | None) -> dict[str, Any]:
    """Try the cases of a row, with a line of progress."""
    import torch

    fault = FAULTS[row]
    whole = fault.count(bench)
    numbers = range(first, whole, every)[:count]
    failures: dict[str, str] = {}
    began = time.monotonic()
    for done, (number, problem) in enumerate(fault.cases(bench, numbers), start=1):
        if problem:
            failures[str(number)] = problem
            print(f"\r{row} {number}: {problem}", flush=True)
        if done == len(numbers) or done % 10 == 0 or sys.stdout.isatty():
            spent = time.monotonic() - began
            left = spent / done * (len(numbers) - done)
            line = f"{row}: {done:,} of {len(numbers):,}, {len(failures)} failed, {spent:,.0f} s, {left:,.0f} s left"
            print(f"\r{line}", end="\n" if done == len(numbers) or not sys.stdout.isatty() else "", flush=True)
    return {
        "of": whole,
        "tried": [[numbers.start, numbers.stop, numbers.step]],
        "failures": failures,
        "date": datetime.now(UTC).date().isoformat(),
        "python": platform.python_version(),
        "torch": torch.__version__,
    }


def merged(before: dict[str, Any], now: dict[str, Any]) -> dict[str, Any]:
    """A row after some more cases, or some cases again."""
    if before["of"] != now["of"]:
        return now
    again = {number for start, stop, step in now["tried"] for number in range(start, stop, step)}
    failures = {number: problem for number, problem in before["failures"].items() if int(number) not in again}
    return {
        **now,
        "tried": before["tried"] + now["tried"],
        "failures": {**failures, **now["failures"]},
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("rows", nargs="*", metavar="ROW", help=", ".join(FAULTS))
    parser.add_argument("--every", type=int, default=1, metavar="N")
    parser.add_argument("--count", type=int, metavar="N")
    parser.add_argument("--from", dest="first", type=int, default=0, metavar="N")
    parser.add_argument("--json", type=Path, default=RESULTS, metavar="FILE")
    arguments = parser.parse_args()
    if unknown := set(arguments.rows) - set(FAULTS):
        parser.error(f"no row {', '.join(sorted(unknown))}; there are {', '.join(FAULTS)}")
    bench, failed = Bench(), 0
    try:
        for row in arguments.rows or FAULTS:
            result = run_row(bench, row, first=arguments.first, every=arguments.every, count=arguments.count)
            failed += len(result["failures"])
            known = json.loads(arguments.json.read_text()) if arguments.json.exists() else {}
            found = {**known, row: merged(known[row], result) if row in known else result}
            ordered = {name: found[name] for name in FAULTS if name in found}
            arguments.json.write_text(json.dumps(ordered, indent=1, ensure_ascii=False) + "\n")
    finally:
        bench.close()
    if arguments.json == RESULTS:
        write_table(PAGE, RESULTS)
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
