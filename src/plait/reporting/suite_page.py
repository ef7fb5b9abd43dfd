"""The page of a suite: its table with the paper's figures, and a chart of each column."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from plait.reporting import charts as drawn
from plait.reporting.colours import task_colours
from plait.reporting.page.blocks import Block, Chart, ChartGroup, Notes, Page, PageTable, Section
from plait.reporting.wording import minutes, signed

__all__ = ["suite_page"]

_DIFFERS = {"encoder": "encoder", "rows": "training rows", "epochs": "epochs"}
_Entries = Mapping[tuple[str, str], Mapping[str, Any]]  # row and column → its record in table.json


def suite_page(table: Mapping[str, Any]) -> Page:
    """The page of a table as table.json has it."""
    entries = {(entry["row"], entry["column"]): entry for entry in table["entries"]}
    columns: dict[str, str] = table["columns"]
    rows = [row["row"] for row in table["rows"]]
    done, cells = (sum(row[key] for row in table["rows"]) for key in ("done", "cells"))
    seeds = ", ".join(map(str, table["seeds"]))
    folds = f" × {table['folds']} folds" if table["folds"] else ""
    sections = [
        Section(
            "Scores",
            f"Mean ± standard deviation over seeds {seeds}{folds} on {table['split']}; below it the paper's figure "
            "and the distance from it.",
            list(_scores(table, entries, columns)),
        ),
        Section(
            "Plots",
            "Dots are measured means, ticks single cells, diamonds the paper's figures.",
            [ChartGroup(list(_plots(rows, columns, entries)))],
        ),
        Section(
            "Gains",
            "What each row gains over the row that it is tested against, with 95 % intervals; p is corrected for all "
            "rows of a column (Holm), and * marks p < 0.05.",
            list(_gains(entries, columns)),
        ),
        Section(
            "Groups", "Gains pooled over groups of data sets, with 95 % intervals.", list(_groups(table["pooled"]))
        ),
        Section("Cells", "How much of the table is done.", list(_cells(table))),
    ]
    subtitle = f"{len(rows)} rows · {done:,} of {cells:,} cells done"
    return Page(table["title"], subtitle, [section for section in sections if section.blocks])


def _scores(table: Mapping[str, Any], entries: _Entries, columns: Mapping[str, str]) -> Iterator[Block]:
    rows = [[row["row"], *(_score(entries.get((row["row"], column))) for column in columns)] for row in table["rows"]]
    yield PageTable(("row", *columns.values()), rows)
    differs = {what for entry in entries.values() for what in entry["differs"]}
    if differs:
        listed = ", ".join(_DIFFERS[what] for what in _DIFFERS if what in differs)
        yield Notes([f"Measured figures that differ from the paper's settings (≠) do so in: {listed}."])


def _score(entry: Mapping[str, Any] | None) -> str:
    """The measured figure above the paper's."""
    if entry is None:
        return "–"
    measured = "–"
    if entry["mean"] is not None:
        spread = f" ± {entry['deviation']:.3f}" if entry["deviation"] is not None else ""
        measured = f"{entry['mean']:.3f}{spread}{' ≠' if entry['differs'] else ''}"
    if entry["paper"] is None:
        return measured
    distance = f" ({signed(entry['from_paper'])})" if entry["from_paper"] is not None else ""
    return f"{measured}\npaper {entry['paper']:.3f}{distance}"


def _plots(rows: Sequence[str], columns: Mapping[str, str], entries: _Entries) -> Iterator[Chart]:
    colours = task_colours(list(columns))
    for column, heading in columns.items():
        marks = [mark for row in rows for mark in _marks(row, entries.get((row, column)))]
        shown = [row for row in rows if any(mark["row"] == row for mark in marks)]
        if marks:
            yield _plot(marks, shown, heading, colours[column])


def _plot(marks: list[dict[str, Any]], rows: list[str], heading: str, colour: str) -> Chart:
    return Chart(f"{heading}.", "", lambda: drawn.comparisons.draw_suite_column(marks, rows, heading, colour))


def _marks(row: str, entry: Mapping[str, Any] | None) -> Iterator[dict[str, Any]]:
    if entry is None:
        return
    for value in entry["values"]:
        yield {"row": row, "kind": "cell", "score": value}
    for kind, key in (("measured", "mean"), ("paper", "paper")):
        if entry[key] is not None:
            yield {"row": row, "kind": kind, "score": entry[key]}


def _gains(entries: _Entries, columns: Mapping[str, str]) -> Iterator[Block]:
    rows: dict[tuple[str, str], list[str]] = {}
    for (row, column), entry in entries.items():
        if entry["gain"] is not None:
            cells = rows.setdefault((row, entry["against"]), ["–"] * len(columns))
            cells[list(columns).index(column)] = _gain(entry)
    if rows:
        listed = [[*names, *cells] for names, cells in rows.items()]
        yield PageTable(("row", "against", *columns.values()), listed)


def _gain(entry: Mapping[str, Any]) -> str:
    if entry["p"] is None or entry["low"] is None:
        return signed(entry["gain"])
    p = "p < 0.001" if entry["p"] < 0.001 else f"p {entry['p']:.3f}"
    star = "*" if entry["p"] < 0.05 else ""
    return f"{signed(entry['gain'])}{star}\n{signed(entry['low'])} to {signed(entry['high'])}\n{p}"


def _groups(pooled: Sequence[Mapping[str, Any]]) -> Iterator[Block]:
    rows = [
        [
            one["method"],
            one["against"],
            one["group"],
            signed(one["gain"]) if one["gain"] is not None else "–",
            f"{signed(one['low'])} to {signed(one['high'])}" if one["low"] is not None else "–",
            signed(one["paper"]) if one["paper"] is not None else "–",
            f"{one['sets']} of {one['of']}",
        ]
        for one in pooled
    ]
    if rows:
        yield PageTable(("method", "against", "group", "gain", "95 % interval", "paper", "data sets"), rows)


def _cells(table: Mapping[str, Any]) -> Iterator[Block]:
    rows = [
        [row["row"], f"{row['done']} of {row['cells']}", minutes(row["seconds"])]
        for row in table["rows"]
        if row["cells"] and not row["free"]
    ]
    yield PageTable(("row", "cells done", "time"), rows, brief=False)
    failed = [f"Failed: {message}" for row in table["rows"] for message in row["failed"]]
    if failed:
        yield Notes(failed)
