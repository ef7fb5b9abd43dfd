"""A suite's table for people (terminal, Markdown) and for machines (CSV, JSON)."""

import csv
from collections.abc import Sequence
from io import StringIO
from typing import Any

from plait.experiments.compare import Comparison, Entry, Line
from plait.experiments.figure import Mark
from plait.experiments.statistics import student_quantile

__all__ = ["LEGEND", "as_csv", "as_json", "as_markdown", "gain_rows", "marks_for_figure", "score_rows", "sentences"]

SIGNS = {"encoder": "ᵉ", "rows": "ʳ", "epochs": "ⁿ"}
LEGEND = "differs from the paper's: ᵉ encoder, ʳ training rows, ⁿ epochs"
NOTHING = "–"


def figure(value: float | None, *, sign: bool = False) -> str:
    """Three digits, with a real minus."""
    if value is None:
        return NOTHING
    return f"{value:{'+' if sign else ''}.3f}".replace("-", "−")


def measured(entry: Entry) -> str:
    """Mean ± deviation and the marks."""
    if entry.mean is None:
        return NOTHING
    spread = f" ± {figure(entry.deviation)}" if entry.deviation is not None else ""
    return f"{figure(entry.mean)}{spread}{''.join(SIGNS[mark] for mark in entry.marks)}"


def beside_paper(entry: Entry) -> str:
    """The paper's figure, and how far the measured one is from it."""
    if entry.paper is None:
        return ""
    apart = f" ({figure(entry.from_paper, sign=True)})" if entry.from_paper is not None else ""
    return f"paper {figure(entry.paper)}{apart}"


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
        return figure(gain.mean, sign=True)
    sure = "*" if gain.p < 0.05 else ""
    shown = "p < 0.001" if gain.p < 0.001 else f"p {gain.p:.3f}"
    return (
        f"{figure(gain.mean, sign=True)} [{figure(gain.low, sign=True)}, {figure(gain.high, sign=True)}] {shown}{sure}"
    )


def sentences(table: Comparison) -> list[str]:
    """What must be known to read the table."""
    suite = table.suite
    seeds = ", ".join(map(str, table.seeds))
    of = (
        f"{suite.folds} folds × seeds {seeds}; scores of each fold's test part"
        if suite.folds
        else f"seeds {seeds}; dev scores, and dev chose the epoch"
    )
    test = (
        "a t-test over folds and seeds that allows for their common training rows (Nadeau and Bengio 2003)"
        if suite.folds
        else "a paired bootstrap over seeds and rows"
    )
    told = [
        f"Mean ± standard deviation over {of}.",
        f"{LEGEND[0].upper()}{LEGEND[1:]}.",
        f"Gains are tested by {test}; intervals are of 95 %, p is corrected for the rows of a column (Holm 1979), "
        "* marks p < 0.05.",
    ]
    told += [f"{line.name}: only the paper's figures: {line.shown}." for line in table.lines if line.shown]
    return told + [f"Failed: {message}" for line in table.lines for message in line.failed]


def as_markdown(table: Comparison, command: str) -> str:
    """The tables as a page has them."""
    parts = [f"### {table.suite.title}", f"`{command}`", table.suite.about.strip()]
    parts.append(markdown_table(*score_rows(table, "<br>")))
    names, rows = gain_rows(table)
    if rows:
        parts.append(markdown_table(names, rows))
    minutes = sum(line.seconds for line in table.lines) / 60
    parts.append("\n".join([*sentences(table), f"Training took {minutes:.0f} minutes in all."]))
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
        list(entry.marks),
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
    """What the figure shows: the mean with the 95 % interval of its cells."""
    marks = []
    for line in table.lines:
        for column, entry in line.entries.items():
            half = 0.0
            if entry.deviation is not None:
                count = len(entry.values)
                half = student_quantile(0.975, count - 1) * entry.deviation / count**0.5
            mean = entry.mean
            low, high = (mean - half, mean + half) if mean is not None and half else (None, None)
            marks.append(Mark(line.name, table.columns[column], entry.paper, mean, low, high))
    return marks
