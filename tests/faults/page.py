"""The table of docs/reliability.md, from the measured results."""

import json
from pathlib import Path
from typing import Any

from faults.table import FAULTS

__all__ = ["PAGE", "RESULTS", "table_of", "write_table"]

_DOCS = Path(__file__).parent.parent.parent / "docs"
PAGE, RESULTS = _DOCS / "reliability.md", _DOCS / "results" / "faults.json"
_BEGIN, _END = "<!-- measured -->\n", "<!-- end of measured -->\n"


def table_of(results: Path) -> str:
    """A row for each fault, with how often it was tried."""
    found = json.loads(results.read_text(encoding="utf-8"))
    lines = ["| row | fault | must happen | as it must be |", "|---|---|---|---|"]
    for row, fault in FAULTS.items():
        share, more = "not measured yet", ""
        if row in found:
            cases, failed = len(_tried(found[row])), len(found[row]["failures"])
            share = f"{cases - failed:,} of {cases:,}"
            more = f" (the full run has {found[row]['of']:,})" if found[row]["of"] > cases else ""
        lines.append(f"| `{row}` | {fault.title} | {fault.must} | {share}{more} |")
    return "\n".join(lines) + "\n"


def _tried(row: dict[str, Any]) -> set[int]:
    """The numbers of the cases that were tried."""
    return {number for start, stop, step in row["tried"] for number in range(start, stop, step)}


def write_table(page: Path, results: Path) -> None:
    text = page.read_text(encoding="utf-8")
    start, end = text.index(_BEGIN) + len(_BEGIN), text.index(_END)
    page.write_text(text[:start] + table_of(results) + text[end:], encoding="utf-8")
