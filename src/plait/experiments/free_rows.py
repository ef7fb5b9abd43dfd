"""The free rows of a table: a constant answer, the encoder as downloaded, and heads on the frozen encoder.

Rows of a suite may have their own heads and pooling, and so their own free scores. In each column, a free row shows
those of the suite's row where they are highest: the strongest opponent that costs nothing.
"""

import statistics
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from plait.experiments.cells import Cell
from plait.experiments.entries import Entry, TableRow, contribution, scored_tasks, value_of
from plait.experiments.records import CellResult
from plait.recipe.suite import Suite
from plait.recipe.suite_names import ONLY
from plait.training.baselines import FREE, ZERO_SHOT

__all__ = ["with_free_rows"]

_Results = Mapping[str, Mapping[Cell, CellResult]]  # row → its cells
_Place = tuple[int, int | None, int | None]  # see `Cell.place`
_Group = tuple[str, int | None]  # the data of rows: its task and size, where rows differ in them


@dataclass(frozen=True)
class _FreeScores:
    """The free scores of rows with the same data."""

    metrics: Mapping[str, str]  # column → metric
    values: Mapping[str, Mapping[str, Mapping[_Place, float]]]  # baseline → column → place → score

    def value(self, suite: Suite, baseline: str, column: str, place: _Place) -> float | None:
        """The score in a column; in that of a mean, if the baseline has a score for each of its tasks."""
        tasks = suite.tasks_of(column)
        scores = {task: self.values[baseline].get(task, {}).get(place) for task in tasks}
        known = {task: score for task, score in scores.items() if score is not None}
        if len(known) < len(tasks):
            return None
        how = suite.means.get(column, "plain")
        return statistics.fmean(contribution(self.metrics[task], score, how) for task, score in known.items())

    def best(self, task: str, places: Iterable[_Place]) -> str | None:
        """The baseline with the highest mean score of a task, among those that have one in each place."""
        wanted = list(places)
        means = {
            baseline: statistics.fmean(columns[task][place] for place in wanted)
            for baseline, columns in self.values.items()
            if wanted and all(place in columns.get(task, {}) for place in wanted)
        }
        return max(means, key=means.__getitem__, default=None)


def with_free_rows(suite: Suite, rows: Sequence[TableRow], results: _Results) -> Iterator[TableRow]:
    """The rows with what they gain over the free rows of their data, which come before the first of them.

    Free rows depend on all results, whichever rows are shown.
    """
    group_of = {name: _group_of(suite, name, cells.values()) for name, cells in results.items()}
    groups = list(dict.fromkeys(group for group in group_of.values() if group))
    free = {
        group: _free_scores(suite, [cells for name, cells in results.items() if group_of[name] == group])
        for group in groups
    }
    shown: set[_Group] = set()
    for row in rows:
        group = group_of.get(row.name)
        scores = free[group] if group else None
        if group and scores and group not in shown:
            shown.add(group)
            yield from _as_rows(suite, scores, _label(group, groups))
        yield _with_free_gains(suite, row, results[row.name], scores) if scores else row


def _group_of(suite: Suite, row: str, results: Iterable[CellResult]) -> _Group | None:
    """The data of a row; None if none of its cells has a score."""
    scored = [result for result in results if result.scores]
    if not scored:
        return None
    size = suite.train_rows_of(row)
    if ONLY not in suite.scores:
        return "", size
    task = next(iter(scored[0].scores))
    return task, size or max(result.rows.get(task, 0) for result in scored)


def _label(group: _Group, others: Sequence[_Group]) -> str:
    """What distinguishes the free rows of a group from those of the other groups."""
    task, size = group
    parts = [task] if len({other[0] for other in others}) > 1 else []
    if sum(other[0] == task for other in others) > 1:
        parts.append(f"{size:,} rows" if size else "all rows")
    return ", ".join(parts)


def _free_scores(suite: Suite, rows: Sequence[Mapping[Cell, CellResult]]) -> _FreeScores | None:
    """The highest free scores of some rows; None if no cell has any."""
    metrics: dict[str, str] = {}
    values: dict[str, dict[str, dict[_Place, float]]] = {baseline: {} for baseline in FREE}
    for column in suite.scores:
        for baseline in FREE:
            of_rows = []
            for cells in rows:
                found = {}
                for cell, result in cells.items():
                    tasks = scored_tasks(suite, column, result)
                    if tasks and (value := result.free.get(baseline, {}).get(tasks[0])) is not None:
                        found[cell.place] = value
                        metrics[column] = result.metrics[tasks[0]]
                if found:
                    of_rows.append(found)
            if of_rows:  # the row with the most cells, then the highest mean
                values[baseline][column] = max(of_rows, key=lambda row: (len(row), statistics.fmean(row.values())))
    return _FreeScores(metrics, values) if metrics else None


def _as_rows(suite: Suite, free: _FreeScores, label: str) -> Iterator[TableRow]:
    for baseline, columns in free.values.items():
        places = sorted({place for values in columns.values() for place in values}, key=str)
        entries = {}
        for column in (*suite.scores, *suite.means):
            values = (free.value(suite, baseline, column, place) for place in places)
            entries[column] = Entry(tuple(value for value in values if value is not None))
        name = f"{baseline} ({label})" if label else baseline
        yield TableRow(name, entries, None, len(places), len(places), (), 0.0, None, free=True)


def _with_free_gains(suite: Suite, row: TableRow, cells: Mapping[Cell, CellResult], free: _FreeScores) -> TableRow:
    """The row with its gain over the best free row in each column, and with the columns where zero-shot is as good."""
    entries = {}
    for column, entry in row.entries.items():
        gains = [_free_gain(suite, column, task, cells, free) for task in suite.tasks_of(column)]
        known = [gain for gain in gains if gain is not None]
        whole = len(known) == len(gains)
        own = _in_column(suite, column, cells)
        zero = {place: free.value(suite, ZERO_SHOT, column, place) for place in own}
        pairs = [(own[place], score) for place, score in zero.items() if score is not None]
        entries[column] = replace(
            entry,
            best_free=known[0][0] if whole and len(known) == 1 else None,
            over_free=statistics.fmean(gain for _, gain in known) if whole else None,
            below_zero_shot=bool(pairs) and statistics.fmean(mine - theirs for mine, theirs in pairs) <= 0,
        )
    return replace(row, entries=entries)


def _free_gain(
    suite: Suite, column: str, task: str, cells: Mapping[Cell, CellResult], free: _FreeScores
) -> tuple[str, float] | None:
    """The best free row of a task, and the mean gain over it in a column, where both have scores."""
    own = _in_column(suite, task, cells)
    known = {place for columns in free.values.values() for place in columns.get(task, {})}
    common = {place: score for place, score in own.items() if place in known}
    best = free.best(task, common)
    if best is None:
        return None
    how, metric = suite.means.get(column, "plain"), free.metrics[task]
    gains = [
        contribution(metric, score, how) - contribution(metric, free.values[best][task][place], how)
        for place, score in common.items()
    ]
    return best, statistics.fmean(gains)


def _in_column(suite: Suite, column: str, cells: Mapping[Cell, CellResult]) -> dict[_Place, float]:
    """The values of a row in a column by place."""
    values = {cell.place: value_of(suite, column, result) for cell, result in cells.items()}
    return {place: value for place, value in values.items() if value is not None}
