"""A suite's table for people (terminal, Markdown) and for machines (CSV, JSON)."""

import csv
from collections.abc import Mapping, Sequence
from io import StringIO
from typing import Any

from plait.experiments.entries import Comparison, Departure, Entry, Line
from plait.experiments.figure import Mark

__all__ = ["as_csv", "as_json", "as_markdown", "gain_rows", "marks_for_figure", "score_rows", "sentences"]

SIGNS: Mapping[Departure, str] = {"encoder": "ᵉ", "rows": "ʳ", "epochs": "ⁿ"}
DEPARTURES: Mapping[Departure, str] = {"encoder": "encoder", "rows": "training rows", "epochs": "epochs"}
FOLDS_TEST = "a t-test over folds and seeds that allows for their common training rows (Nadeau and Bengio 2003)"
SEEDS_TEST = "an interval of the luck of dev rows (paired bootstrap) and of seeds (Student's t), added as squares"
NOTHING = "–"


def digits(value: float | None, *, sign: bool = False) -> str:
    """Three digits, with a real minus."""
    if value is None:
        return NOTHING
    return f"{value:{'+' if sign else ''}.3f}".replace("-", "−")


def measured(entry: Entry) -> str:
    """Mean ± deviation and the marks."""
    if entry.mean is None:
        return NOTHING
    spread = f" ± {digits(entry.deviation)}" if entry.deviation is not None else ""
    return f"{digits(entry.mean)}{spread}{''.join(SIGNS[departure] for departure in entry.departures)}"


def beside_paper(entry: Entry) -> str:
    """The paper's figure, and how far the measured one is from it."""
    if entry.paper is None:
        return ""
    apart = f" ({digits(entry.from_paper, sign=True)})" if entry.from_paper is not None else ""
    return f"paper {digits(entry.paper)}{apart}"


def score_rows(table: Comparison, join: str = "\n") -> tuple[list[str], list[list[str]]]:
    """The headings and the rows of the scores, each measured figure above the paper's."""
    names = ["row", *table.columns.values(), "cells"]
    rows = []
    for line in table.lines:
        entries = [join.join(filter(None, (measured(entry), beside_paper(entry)))) for entry in line.entries.values()]
        rows.append([line.name, *entries, f"{line.done} of {line.cells}" if line.cells else NOTHING])
    return names, rows


def gain_rows(table: Comparison) -> tuple[list[str], list[list[str]]]:
    """The headings and the rows of what each row gains over the one that it is tested against."""
    names = ["row", "against", *table.columns.values()]
    rows = [
        [line.name, line.opponent or "", *(gained(entry) for entry in line.entries.values())]
        for line in table.lines
        if any(entry.gain for entry in line.entries.values())
    ]
    return names, rows


def gained(entry: Entry) -> str:
    """A difference with its interval and p."""
    gain = entry.gain
    if gain is None:
        return NOTHING
    if gain.p is None or gain.low is None:
        return digits(gain.mean, sign=True)
    sure = "*" if gain.p < 0.05 else ""
    shown = "p < 0.001" if gain.p < 0.001 else f"p {gain.p:.3f}"
    return (
        f"{digits(gain.mean, sign=True)} [{digits(gain.low, sign=True)}, {digits(gain.high, sign=True)}] {shown}{sure}"
    )


def sentences(table: Comparison, command: str) -> list[str]:
    """What must be known to read the table, and the command that fills what is empty."""
    signs = ", ".join(f"{SIGNS[departure]} {name}" for departure, name in DEPARTURES.items())
    test = FOLDS_TEST if table.suite.folds else SEEDS_TEST
    told = [
        f"Mean ± standard deviation over {cells_told(table)}.",
        f"Differs from the paper's: {signs}.",
        f"Gains are tested by {test}; intervals are of 95 %, p is corrected for all rows of a column that have results "
        "(Holm 1979), * marks p < 0.05.",
    ]
    if empty := sum(line.cells - line.done for line in table.lines):
        alone = "" if table.suite.folds else ", and where one seed is done, only luck of the rows is tested"
        told.append(f"Cells that are empty: {empty:,}{alone}; the same command fills them: {command}")
    told += [sentence for line in table.lines if (sentence := untested(table, line))]
    told += [f"{line.name}: only the paper's figures: {line.shown}." for line in table.lines if line.shown]
    return told + [f"Failed: {message}" for line in table.lines for message in line.failed]


def cells_told(table: Comparison) -> str:
    """What the cells are, and what chose the models that they are the scores of."""
    suite, seeds = table.suite, ", ".join(map(str, table.seeds))
    if suite.folds:
        return f"{suite.folds} folds × seeds {seeds}; scores of each fold's test part"
    tuned = [line.name for line in table.lines if line.done and suite.rows[line.name].grid]
    settings = f", and in {', '.join(tuned)} also the settings" if tuned else ""
    return f"seeds {seeds}; dev scores, and dev chose the epoch{settings}"


def untested(table: Comparison, line: Line) -> str:
    """Which gains of a row have no test, and why."""
    reasons = {entry.untested: "" for entry in line.entries.values() if entry.untested}
    for why in reasons:
        reasons[why] = ", ".join(table.columns[name] for name, entry in line.entries.items() if entry.untested == why)
    told = [f"{line.name} is not tested against {line.opponent} in {names}: {why}." for why, names in reasons.items()]
    return " ".join(told)


def as_markdown(table: Comparison, command: str) -> str:
    """The tables as a page has them."""
    parts = [f"### {table.suite.title}", f"`{command}`", table.suite.about.strip()]
    parts.append(markdown_table(*score_rows(table, "<br>")))
    names, rows = gain_rows(table)
    if rows:
        parts.append(markdown_table(names, rows))
    minutes = sum(line.seconds for line in table.lines) / 60
    parts.append("\n".join([*sentences(table, command), f"Training took {minutes:.0f} minutes in all."]))
    return "\n\n".join(filter(None, parts)) + "\n"


def markdown_table(names: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """A table of Markdown."""
    lines = [names, ["---"] * len(names), *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


FIELDS = (
    "row",
    "column",
    "mean",
    "deviation",
    "cells",
    "values",
    "paper",
    "from_paper",
    "differs",
    "against",
    "gain",
    "low",
    "high",
    "p",
)


def records(table: Comparison) -> list[dict[str, Any]]:
    """One record for each column of each row."""
    return [record(line, column, entry) for line in table.lines for column, entry in line.entries.items()]


def record(line: Line, column: str, entry: Entry) -> dict[str, Any]:
    """What machines get of one column of one row."""
    gain = entry.gain
    values = (
        line.name,
        column,
        entry.mean,
        entry.deviation,
        len(entry.values),
        list(entry.values),
        entry.paper,
        entry.from_paper,
        list(entry.departures),
        line.opponent if gain else None,
        gain.mean if gain else None,
        gain.low if gain else None,
        gain.high if gain else None,
        gain.p if gain else None,
    )
    return dict(zip(FIELDS, values, strict=True))


def as_json(table: Comparison) -> dict[str, Any]:
    """The table for machines."""
    suite = table.suite
    return {
        "title": suite.title,
        "seeds": list(table.seeds),
        "folds": suite.folds,
        "split": suite.split,
        "columns": dict(table.columns),
        "rows": [
            {
                "row": line.name,
                "done": line.done,
                "cells": line.cells,
                "failed": list(line.failed),
                "seconds": line.seconds,
            }
            for line in table.lines
        ],
        "entries": records(table),
    }


def as_csv(table: Comparison) -> str:
    """The same figures, one line for each column of each row."""
    text = StringIO()
    writer = csv.DictWriter(text, FIELDS, lineterminator="\n")
    writer.writeheader()
    for one in records(table):
        lists = {key: " ".join(map(str, value)) for key, value in one.items() if isinstance(value, list)}
        writer.writerow({**one, **lists})
    return text.getvalue()


def marks_for_figure(table: Comparison) -> list[Mark]:
    """What the figure shows: the mean with the 95 % interval over its cells."""
    return [
        Mark(line.name, table.columns[column], entry.paper, entry.mean, *(entry.interval or (None, None)))
        for line in table.lines
        for column, entry in line.entries.items()
    ]
