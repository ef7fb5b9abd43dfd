"""What each row of a table gains over the row that it is tested against."""

import statistics
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from typing import Any

import numpy as np

from plait.evaluation.significance import holm
from plait.experiments.cells import Cell, Experiment
from plait.experiments.entries import Entry, SuiteTable, TableRow, contribution, fold_ratio, scored_tasks, value_of
from plait.experiments.records import CellResult, LabelledPredictions, read_predictions
from plait.experiments.results_file import RecordedGain
from plait.experiments.statistics import MeanDifference, corrected_t_test, seeds_and_rows_test
from plait.metrics import METRICS, MetricFunction
from plait.recipe.suite import Suite

__all__ = ["gains_to_record", "with_gains"]

_NOT_HERE = "the predictions of some of their cells are not here"
_ROUNDING = 1e-9
_Read = Callable[[Cell], Mapping[str, LabelledPredictions]]


def with_gains(
    experiment: Experiment, rows: Sequence[TableRow], results: Mapping[str, Mapping[Cell, CellResult]]
) -> Iterator[TableRow]:
    """The rows with their gains over their opponents; p is corrected within each column."""
    suite = experiment.suite
    read: _Read = cache(lambda cell: read_predictions(experiment.predictions_file(cell)))
    columns: dict[str, list[Entry]] = {}
    for column in (*suite.scores, *suite.means):
        entries = []
        for row in rows:
            pairs = _pairs(suite, column, row, results)
            entries.append(_with_gain(experiment, column, row.entries[column], pairs, read))
        corrected = holm([entry.gain.p if entry.gain else None for entry in entries])
        columns[column] = [replace(entry, p=p) for entry, p in zip(entries, corrected, strict=True)]
    for number, row in enumerate(rows):
        yield replace(row, entries={column: entries[number] for column, entries in columns.items()})


def gains_to_record(table: SuiteTable) -> Iterator[RecordedGain]:
    """The gains of a table as a results file keeps them; not those that could not be tested here."""
    for row in table.rows:
        for column, entry in row.entries.items():
            gain, seeds = entry.gain, list(entry.gain_seeds)
            if gain and row.opponent and entry.untested != _NOT_HERE:
                numbers = (gain.mean, gain.low, gain.high, gain.p)
                errors = (gain.row_error, gain.seed_error, gain.degrees)
                yield RecordedGain(row.name, column, row.opponent, seeds, *numbers, entry.untested, *errors)


@dataclass(frozen=True)
class _Pair:
    """A cell of a row, and that of its opponent with the same seed and fold."""

    cells: tuple[Cell, Cell]
    results: tuple[CellResult, CellResult]
    difference: float


def _pairs(suite: Suite, column: str, row: TableRow, results: Mapping[str, Mapping[Cell, CellResult]]) -> list[_Pair]:
    """The pairs of cells that are both done and have a value in a column."""
    theirs = results.get(row.opponent or "", {})
    pairs = []
    for cell, result in results.get(row.name, {}).items():
        other = replace(cell, row=row.opponent or "")
        if other not in theirs:
            continue
        value, other_value = value_of(suite, column, result), value_of(suite, column, theirs[other])
        if value is not None and other_value is not None:
            pairs.append(_Pair((cell, other), (result, theirs[other]), value - other_value))
    return pairs


def _with_gain(experiment: Experiment, column: str, entry: Entry, pairs: Sequence[_Pair], read: _Read) -> Entry:
    """An entry with its gain over the opponent, tested if both were scored on the same rows."""
    if not pairs:
        return entry
    suite = experiment.suite
    entry = replace(entry, gain_seeds=tuple(sorted({pair.cells[0].seed for pair in pairs})))
    if reason := _why_untested(experiment, column, pairs, read):
        mean = statistics.fmean(pair.difference for pair in pairs)
        recorded = _recorded_gain(experiment, column, entry, pairs[0], mean) if reason == _NOT_HERE else None
        if recorded:
            return replace(entry, gain=recorded.difference, untested=recorded.untested)
        return replace(entry, gain=MeanDifference(mean, None, None, None), untested=reason)
    if suite.folds:
        ratio = max(fold_ratio(suite, column, result) for pair in pairs for result in pair.results)
        return replace(entry, gain=corrected_t_test([pair.difference for pair in pairs], ratio))
    how = suite.means.get(column, "plain")
    per_seed = [_task_comparisons(suite, column, pair, read) for pair in pairs]
    labels = [[task.ours.labels for task in tasks] for tasks in per_seed]
    same_rows = all(_same_labels(of_seed, labels[0]) for of_seed in labels)
    return replace(
        entry, gain=seeds_and_rows_test([_difference_on_rows(tasks, how) for tasks in per_seed], same_rows=same_rows)
    )


def _recorded_gain(experiment: Experiment, column: str, entry: Entry, pair: _Pair, mean: float) -> RecordedGain | None:
    """The gain in the results file, if it was measured on the same cells."""
    row, opponent = (cell.row for cell in pair.cells)
    found = experiment.results.find_gain(row, column) if experiment.results else None
    if found is None or found.against != opponent or tuple(found.seeds) != entry.gain_seeds:
        return None
    return found if abs(found.mean - mean) <= _ROUNDING else None


def _why_untested(experiment: Experiment, column: str, pairs: Sequence[_Pair], read: _Read) -> str | None:
    """What prevents a test of two rows, if anything does."""
    suite = experiment.suite
    if not suite.folds and not all(experiment.has_predictions(cell) for pair in pairs for cell in pair.cells):
        return _NOT_HERE
    if not all(_scored_alike(suite, column, pair, read) for pair in pairs):
        return "they were scored on other rows, another task or by another metric"
    return None


def _scored_alike(suite: Suite, column: str, pair: _Pair, read: _Read) -> bool:
    """Whether two cells were scored on the same rows of the same tasks, by the same metrics.

    Folds with the same seed are the same if they divide as many rows of the same files; otherwise the labels decide.
    """
    one, other = pair.results
    tasks = scored_tasks(suite, column, one)
    if tasks != scored_tasks(suite, column, other) or any(one.metrics[task] != other.metrics[task] for task in tasks):
        return False
    if suite.folds:
        return all(_divided_rows(one, task) == _divided_rows(other, task) for task in tasks)
    ours, theirs = map(read, pair.cells)
    return _same_labels([ours[task].labels for task in tasks], [theirs[task].labels for task in tasks])


def _divided_rows(result: CellResult, task: str) -> tuple[list[Any], int | None]:
    """The files that are divided into the folds of a task, and how many rows of them."""
    return result.training_sources(task), result.rows.get(task)


def _same_labels(one: Sequence[np.ndarray], other: Sequence[np.ndarray]) -> bool:
    return all(np.array_equal(mine_n, theirs_n) for mine_n, theirs_n in zip(one, other, strict=True))


@dataclass(frozen=True)
class _TaskComparison:
    """The predictions of two cells for one task, and the metric that compares them."""

    metric: MetricFunction
    metric_name: str
    ours: LabelledPredictions
    theirs: LabelledPredictions


def _task_comparisons(suite: Suite, column: str, pair: _Pair, read: _Read) -> list[_TaskComparison]:
    (ours, theirs), (result, _) = map(read, pair.cells), pair.results
    return [
        _TaskComparison(
            METRICS[result.metrics[task]].functions[result.kinds[task]], result.metrics[task], ours[task], theirs[task]
        )
        for task in scored_tasks(suite, column, result)
    ]


def _difference_on_rows(tasks: Sequence[_TaskComparison], how: str) -> tuple[Callable[[np.ndarray], float], int]:
    """A function from row numbers, counted through all tasks, to the difference of the means; and the row count."""
    starts = np.cumsum([0, *(len(task.ours.labels) for task in tasks)])

    def difference(rows_n: np.ndarray) -> float:
        gains = []
        for task, start, stop in zip(tasks, starts, starts[1:], strict=False):
            chosen_n = rows_n[(rows_n >= start) & (rows_n < stop)] - start
            ours, theirs = (
                contribution(task.metric_name, _metric_on(task.metric, side, chosen_n), how)
                for side in (task.ours, task.theirs)
            )
            gains.append(ours - theirs)
        return float(np.mean(gains))

    return difference, int(starts[-1])


def _metric_on(metric: MetricFunction, side: LabelledPredictions, rows_n: np.ndarray) -> float:
    chosen = side.predictions.rows(rows_n)
    return metric(side.labels[rows_n], chosen.values, chosen.probabilities)
