"""A suite's table for people (terminal, Markdown) and for machines (CSV, JSON)."""

import csv
from collections.abc import Mapping, Sequence
from io import StringIO
from typing import Any

from plait.experiments.entries import Departure, Entry, PooledGain, SuiteTable, TableRow
from plait.experiments.figure import Mark
from plait.training.baselines import FREE, ZERO_SHOT

__all__ = ["as_csv", "as_json", "as_markdown", "figure_marks", "footnotes", "gain_cells", "group_cells", "score_cells"]

_SIGNS: Mapping[Departure, str] = {"encoder": "ᵉ", "rows": "ʳ", "epochs": "ⁿ"}
_DEPARTURES: Mapping[Departure, str] = {"encoder": "encoder", "rows": "training rows", "epochs": "epochs"}
_FOLDS_TEST = "with a t-test over folds and seeds, corrected for overlapping training rows (Nadeau and Bengio 2003)"
_SEEDS_TEST = "against dev-sample variance (paired bootstrap) and seed variance (Student's t), combined in quadrature"
_BELOW = "ᶻ"
_NOTHING = "–"


def _digits(value: float | None, *, sign: bool = False) -> str:
    """Three decimals, with a real minus sign."""
    if value is None:
        return _NOTHING
    return f"{value:{'+' if sign else ''}.3f}".replace("-", "−")


def _measured(entry: Entry) -> str:
    """Mean ± deviation, and the signs of what differs from the paper or is below zero-shot."""
    if entry.mean is None:
        return _NOTHING
    spread = f" ± {_digits(entry.deviation)}" if entry.deviation is not None else ""
    signs = [*(_SIGNS[departure] for departure in entry.departures), *([_BELOW] if entry.below_zero_shot else [])]
    return f"{_digits(entry.mean)}{spread}{''.join(signs)}"


def _paper(entry: Entry) -> str:
    """The paper's figure, and how far the mean is from it."""
    if entry.paper is None:
        return ""
    distance = f" ({_digits(entry.from_paper, sign=True)})" if entry.from_paper is not None else ""
    return f"paper {_digits(entry.paper)}{distance}"


def score_cells(table: SuiteTable, join: str = "\n") -> tuple[list[str], list[list[str]]]:
    """The headings and cells of the scores, each measured value above the paper's.

    A score on the training rows is to the left of that on dev or test.
    """
    both = [column for column in table.columns if table.suite.train_scores and column in table.suite.scores]
    headings = [
        name
        for column, heading in table.columns.items()
        for name in ([f"{heading}, train", f"{heading}, {table.suite.split}"] if column in both else [heading])
    ]
    names = ["row", *headings, *(["over free rows"] if table.has_free_rows else []), "cells"]
    rows = []
    for row in table.rows:
        entries = [
            cell
            for column, entry in row.entries.items()
            for cell in ([_train(entry, join)] if column in both else [])
            + [join.join(filter(None, (_measured(entry), _paper(entry))))]
        ]
        over = [_over_free(table, row, join)] if table.has_free_rows else []
        rows.append([row.name, *entries, *over, _cells(row)])
    return names, rows


def _cells(row: TableRow) -> str:
    """How many cells are done, and how long one takes."""
    if not row.cells or row.free:
        return _NOTHING
    minutes = row.seconds / 60 / row.done if row.done else 0.0
    each = f", {minutes:.0f} min each" if minutes >= 10 else f", {minutes:.1f} min each" if minutes >= 0.1 else ""
    return f"{row.done} of {row.cells}{each}"


def _train(entry: Entry, join: str) -> str:
    """The mean score on the training rows, and the paper's."""
    paper = [f"paper {_digits(entry.paper_train)}"] if entry.paper_train is not None else []
    return join.join([_digits(entry.train_mean), *paper])


def _over_free(table: SuiteTable, row: TableRow, join: str) -> str:
    """The gain over the best free row of each task: the mean, then task by task."""
    tasks = {name: row.entries[task].over_free for task, name in table.suite.scores.items()}
    known = [f"{name} {_digits(gain, sign=True)}" for name, gain in tasks.items() if gain is not None]
    return join.join([_digits(table.over_free(row), sign=True), *(known if len(tasks) > 1 else [])])


def gain_cells(table: SuiteTable) -> tuple[list[str], list[list[str]]]:
    """The headings and cells of the gains of each row over the one that it is tested against."""
    names = ["row", "against", *table.columns.values()]
    rows = [
        [row.name, row.opponent or "", *(_gain(entry) for entry in row.entries.values())]
        for row in table.rows
        if any(entry.gain for entry in row.entries.values())
    ]
    return names, rows


def _gain(entry: Entry) -> str:
    """A difference with its interval and p."""
    gain = entry.gain
    if gain is None:
        return _NOTHING
    if entry.p is None or gain.low is None:
        return _digits(gain.mean, sign=True)
    star = "*" if entry.p < 0.05 else ""
    p = "p < 0.001" if entry.p < 0.001 else f"p {entry.p:.3f}"
    return (
        f"{_digits(gain.mean, sign=True)} [{_digits(gain.low, sign=True)}, {_digits(gain.high, sign=True)}] {p}{star}"
    )


def group_cells(table: SuiteTable, join: str = "\n") -> tuple[list[str], list[list[str]]]:
    """The headings and cells of the gains in each group of data sets."""
    groups = table.suite.groups
    cells: dict[tuple[str, str], dict[str, str]] = {}
    for pooled in table.pooled:
        cells.setdefault((pooled.method, pooled.against), {})[pooled.group] = join.join(_pooled_lines(pooled))
    rows = [[*names, *(of_group.get(group, _NOTHING) for group in groups)] for names, of_group in cells.items()]
    return ["method", "against", *groups.values()], rows


def _pooled_lines(pooled: PooledGain) -> list[str]:
    """A pooled gain with its interval, how many data sets it covers, and the paper's."""
    gain = pooled.gain
    lines = [_digits(gain.mean if gain else None, sign=True)]
    if gain and gain.low is not None:
        lines[0] += f" [{_digits(gain.low, sign=True)}, {_digits(gain.high, sign=True)}]"
    lines.append(f"{pooled.sets} of {pooled.of} sets")
    return [*lines, *([f"paper {_digits(pooled.paper_gain, sign=True)}"] if pooled.paper else [])]


def footnotes(table: SuiteTable, command: str) -> list[str]:
    """How to read the table, and the command that fills its empty cells."""
    signs = ", ".join(f"{_SIGNS[departure]} {name}" for departure, name in _DEPARTURES.items())
    test = _FOLDS_TEST if table.suite.folds else _SEEDS_TEST
    notes = [
        f"Mean ± standard deviation over {_cells_note(table)}.",
        *([f"Differs from the paper: {signs}."] if table.suite.has_paper else []),
        f"Gains are tested {test}. Intervals are 95 %; p is corrected for all rows of a column that have results "
        "(Holm 1979); * marks p < 0.05.",
    ]
    if table.pooled:
        notes.append(
            "Gains by group are the mean of the gains on its data sets, each tested as above; their variances give the "
            "interval, which covers these data sets and no others, and is not corrected for several tests."
        )
    notes += _free_notes(table)
    if table.suite.train_scores and any(len(entry.train) < len(entry.values) for entry in _scored(table)):
        notes.append("Cells that were scored without --train-scores have no train scores.")
    if empty := sum(row.cells - row.done for row in table.rows):
        dev_only = "; where only one seed is done, the test covers dev-sample variance only"
        one_seed = "" if table.suite.folds else dev_only
        notes.append(f"Empty cells: {empty:,}{one_seed}. The same command fills them: {command}")
    notes += [note for row in table.rows if (note := _untested_note(table, row))]
    notes += [f"{row.name}: only the paper's figures: {row.shown}." for row in table.rows if row.shown]
    return notes + [f"Failed: {message}" for row in table.rows for message in row.failed]


def _scored(table: SuiteTable) -> list[Entry]:
    """What the trained rows have in the columns of the scores."""
    return [row.entries[column] for row in table.rows if not row.free for column in table.suite.scores]


def _free_notes(table: SuiteTable) -> list[str]:
    """What the free rows are, and which rows are no better than one of them."""
    if not table.has_free_rows:
        return []
    notes = [
        f"{', '.join(FREE)}: rows that need no training of the encoder; where rows differ in heads or pooling, the "
        "best of theirs. Over free rows: the gain over the best of them, task by task and in the mean."
    ]
    if any(entry.below_zero_shot for row in table.rows for entry in row.entries.values()):
        notes.append(f"{_BELOW} not above the {ZERO_SHOT}: a comparison of heads says little here.")
    return notes


def _cells_note(table: SuiteTable) -> str:
    """What the cells are, and which data selected their models."""
    suite, seeds = table.suite, ", ".join(map(str, table.seeds))
    if suite.draws > 1:
        seeds += f" × {suite.draws} draws of the training rows"
    if suite.folds:
        return f"{suite.folds} folds × seeds {seeds}; scores on the test part of each fold"
    tuned = [row.name for row in table.rows if row.done and not row.free and suite.rows[row.name].grid]
    settings = f", and in {', '.join(tuned)} also the settings" if tuned else ""
    selected = "other dev rows" if table.chosen_apart else "dev"
    return f"seeds {seeds}; dev scores, and {selected} selected the epoch{settings}"


def _untested_note(table: SuiteTable, row: TableRow) -> str:
    """Which gains of a row have no test, and why."""
    reasons: dict[str, list[str]] = {}
    for column, entry in row.entries.items():
        if entry.untested:
            reasons.setdefault(entry.untested, []).append(table.columns[column])
    return " ".join(
        f"{row.name} is not tested against {row.opponent} in {', '.join(names)}: {why}."
        for why, names in reasons.items()
    )


def as_markdown(table: SuiteTable, command: str) -> str:
    """The table for a Markdown page."""
    parts = [f"### {table.suite.title}", f"`{command}`", table.suite.about.strip()]
    parts.append(_markdown_table(*score_cells(table, "<br>")))
    names, rows = gain_cells(table)
    if rows:
        parts.append(_markdown_table(names, rows))
    names, rows = group_cells(table, "<br>")
    if rows:
        parts.append(_markdown_table(names, rows))
    minutes = sum(row.seconds for row in table.rows) / 60
    parts.append("\n".join([*footnotes(table, command), f"Training took {minutes:.0f} minutes in total."]))
    return "\n\n".join(filter(None, parts)) + "\n"


def _markdown_table(names: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    lines = [names, ["---"] * len(names), *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


_FIELDS = (
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
    "train",
    "paper_train",
    "over_free",
    "best_free",
    "below_zero_shot",
)


def _records(table: SuiteTable) -> list[dict[str, Any]]:
    """One record per column of each row."""
    return [_record(row, column, entry) for row in table.rows for column, entry in row.entries.items()]


def _record(row: TableRow, column: str, entry: Entry) -> dict[str, Any]:
    gain = entry.gain
    values = (
        row.name,
        column,
        entry.mean,
        entry.deviation,
        len(entry.values),
        list(entry.values),
        entry.paper,
        entry.from_paper,
        list(entry.departures),
        row.opponent if gain else None,
        gain.mean if gain else None,
        gain.low if gain else None,
        gain.high if gain else None,
        entry.p,
        entry.train_mean,
        entry.paper_train,
        entry.over_free,
        entry.best_free,
        entry.below_zero_shot,
    )
    return dict(zip(_FIELDS, values, strict=True))


def _pooled_record(pooled: PooledGain) -> dict[str, Any]:
    gain = pooled.gain
    return {
        "method": pooled.method,
        "against": pooled.against,
        "group": pooled.group,
        "rows": list(pooled.rows),
        "sets": pooled.sets,
        "of": pooled.of,
        "gain": gain.mean if gain else None,
        "low": gain.low if gain else None,
        "high": gain.high if gain else None,
        "paper": pooled.paper_gain,
    }


def as_json(table: SuiteTable) -> dict[str, Any]:
    """The table for machines."""
    suite = table.suite
    return {
        "title": suite.title,
        "seeds": list(table.seeds),
        "folds": suite.folds,
        "draws": suite.draws if suite.draws > 1 else None,
        "split": suite.split,
        "columns": dict(table.columns),
        "rows": [
            {
                "row": row.name,
                "done": row.done,
                "cells": row.cells,
                "failed": list(row.failed),
                "seconds": row.seconds,
                "free": row.free,
                "over_free": table.over_free(row),
                "below_zero_shot": [column for column, entry in row.entries.items() if entry.below_zero_shot],
            }
            for row in table.rows
        ],
        "entries": _records(table),
        "pooled": [_pooled_record(pooled) for pooled in table.pooled],
    }


def as_csv(table: SuiteTable) -> str:
    """The same values, one line per column of each row."""
    text = StringIO()
    writer = csv.DictWriter(text, _FIELDS, lineterminator="\n")
    writer.writeheader()
    for record in _records(table):
        lists = {key: " ".join(map(str, value)) for key, value in record.items() if isinstance(value, list)}
        writer.writerow({**record, **lists})
    return text.getvalue()


def figure_marks(table: SuiteTable) -> list[Mark]:
    """What the figure shows: the paper's figure, and the mean with its 95 % interval over the cells."""
    return [
        Mark(row.name, table.columns[column], entry.paper, entry.mean, *(entry.interval or (None, None)))
        for row in table.rows
        for column, entry in row.entries.items()
    ]
