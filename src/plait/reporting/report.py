"""`plait.report`: one page about a run, several runs, or a suite."""

from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

from plait.errors import RequestError
from plait.files import atomic_file
from plait.progress import Progress, SilentProgress
from plait.reporting.comparison_page import comparison_page
from plait.reporting.extra import has_extra, require_extra
from plait.reporting.facts import collect_run
from plait.reporting.page.blocks import Page
from plait.reporting.page.html import page_html
from plait.reporting.page.text import page_text
from plait.reporting.run_page import run_page
from plait.reporting.sampling import REPORT_ROWS
from plait.reporting.suite_page import suite_page
from plait.reporting.suite_source import TABLE_NAME, read_table
from plait.runs.directory import RunDirectory
from plait.runs.result import Result

__all__ = ["REPORT_NAME", "report", "report_text", "write_run_report"]

REPORT_NAME = "report.html"


def report(
    *sources: str | Path | Result,
    out: str | Path | None = None,
    data: str | Path | None = None,
    rows: int = REPORT_ROWS,
    suite: str | None = None,
    profile: str | None = None,
    progress: Progress | None = None,
) -> Path:
    """Write one HTML file about a run, about several runs side by side, or about a suite; returns its path.

    A source is the folder of a run, what `plait.train` returned, or for a suite the results file or the folder of
    `plait experiment`. The file is `out`, by default report.html in the folder of one run or suite, and in the current
    folder for several. `data` is a folder to look for data files in, if they have moved. At most `rows` rows of each
    split are predicted. `suite` and `profile` say what a results file belongs to, if its name does not.
    """
    require_extra()
    given = _sources(sources)
    path = Path(out) if out else _default_place(given)
    _check_place(path)
    page = _page(given, data, rows, suite, profile, progress or SilentProgress())
    with atomic_file(path) as temporary:
        temporary.write_text(page_html(page), encoding="utf-8")
    return path


def report_text(
    *sources: str | Path | Result,
    data: str | Path | None = None,
    rows: int = REPORT_ROWS,
    suite: str | None = None,
    profile: str | None = None,
    progress: Progress | None = None,
) -> str:
    """The same in short, as plain text; it needs no further packages."""
    return page_text(_page(_sources(sources), data, rows, suite, profile, progress or SilentProgress()))


def write_run_report(folder: Path, progress: Progress) -> Path | None:
    """The report at the end of a training; None without the packages, or if it cannot be written."""
    if not has_extra():
        return None
    with suppress(Exception):  # the model is trained and saved, which is what was asked for
        return report(folder, progress=progress)
    progress.end()
    progress.note(f"the report could not be written; plait report {folder} says why")
    return None


def _sources(sources: Sequence[str | Path | Result]) -> list[Path]:
    given = [source.run if isinstance(source, Result) else Path(source) for source in sources]
    if not given:
        raise RequestError("give at least one run, or the results of a suite")
    if missing := [source for source in given if not source.exists()]:
        raise RequestError(*(f"{source}: no such file or folder" for source in missing))
    if len(given) > 1 and (suites := [source for source in given if _is_suite(source)]):
        raise RequestError(f"{suites[0]}: results of a suite have a page of their own; give them alone")
    names = [source.resolve() for source in given]
    if len(set(names)) < len(names):
        raise RequestError("the same run is given twice; give different runs")
    return given


def _is_suite(source: Path) -> bool:
    return source.is_file() or (not RunDirectory(source).has_begun and (source / TABLE_NAME).is_file())


def _default_place(sources: Sequence[Path]) -> Path:
    first = sources[0]
    if len(sources) > 1:
        return Path(REPORT_NAME)
    return first / REPORT_NAME if first.is_dir() else first.with_suffix(".html")


def _check_place(path: Path) -> None:
    if path.is_dir():
        raise RequestError(f"`out` {path}: a folder; give the name of a file")
    if not path.resolve().parent.is_dir():
        raise RequestError(f"`out` {path}: its folder does not exist")


def _page(
    sources: Sequence[Path],
    data: str | Path | None,
    rows: int,
    suite: str | None,
    profile: str | None,
    progress: Progress,
) -> Page:
    if rows < 1:
        raise RequestError(f"the argument `rows`: expected at least 1, found {rows}")
    if _is_suite(sources[0]):
        return suite_page(read_table(sources[0], suite, profile))
    if suite or profile:
        raise RequestError("`suite` and `profile` belong to a results file; a run knows its own")
    short = [source.resolve().name for source in sources]
    names = short if len(set(short)) == len(short) else [str(source) for source in sources]
    folder = Path(data) if data else None
    runs = [collect_run(source, name, rows, folder, progress) for source, name in zip(sources, names, strict=True)]
    return run_page(runs[0]) if len(runs) == 1 else comparison_page(runs)
