"""`plait.report`: one page about a run, several runs, or a suite."""

from collections.abc import Sequence
from pathlib import Path

from plait.errors import PlaitError, RequestError
from plait.files import atomic_file
from plait.progress import Progress, SilentProgress
from plait.reporting.extra import has_extra, require_extra
from plait.reporting.facts import collect_run
from plait.reporting.page.blocks import Page
from plait.reporting.page.html import as_html
from plait.reporting.page.text import as_text
from plait.reporting.run_page import run_page
from plait.reporting.sampling import MOST_ROWS

__all__ = ["REPORT_NAME", "report", "report_text", "write_run_report"]

REPORT_NAME = "report.html"  # in a run


def report(
    *sources: str | Path,
    out: str | Path | None = None,
    rows: int = MOST_ROWS,
    progress: Progress | None = None,
) -> Path:
    """Write one HTML file about a run, about several runs side by side, or about a suite; returns its path."""
    require_extra()
    page = _page(sources, rows, progress or SilentProgress())
    path = Path(out) if out else Path(sources[0]) / REPORT_NAME
    with atomic_file(path) as temporary:
        temporary.write_text(as_html(page), encoding="utf-8")
    return path


def _page(sources, rows, progress) -> Page:
    return run_page(collect_run(Path(sources[0]), rows, progress))
