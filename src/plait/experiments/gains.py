"""What each row of a table gains over the one that it is tested against."""

import statistics
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache, partial
from typing import Any

import numpy as np

from plait.evaluation.metrics import METRICS
from plait.experiments.cells import Answers, Cell, Experiment, Found, read_answers
from plait.experiments.entries import Entry, Line, entering, fold_ratio, tasks_scored, value_of
from plait.experiments.statistics import Difference, corrected_t_test, holm, seeds_and_rows_test
from plait.experiments.suite import Suite
from plait.model.about import recipe_tasks
from plait.model.decode import Decoded

__all__ = ["with_gains"]

ReadAnswers = Callable[[Cell], Mapping[str, Answers]]


def with_gains(
    experiment: Experiment, lines: Sequence[Line], found: Mapping[str, Mapping[Cell, Found]]
) -> Iterator[Line]:
    """The lines with what each gains over its opponent; p is corrected within a column."""
    suite = experiment.suite
    read: ReadAnswers = cache(partial(read_answers, experiment))
    columns: dict[str, list[Entry]] = {}
    for column in (*suite.scores, *suite.means):
        entries = []
        for line in lines:
            pairs = pairs_of(suite, column, line, found)
            entries.append(with_gain(experiment, column, line.entries[column], pairs, read))
        corrected = holm([entry.gain.p if entry.gain else None for entry in entries])
        columns[column] = [
            replace(entry, gain=entry.gain and replace(entry.gain, p=p))
            for entry, p in zip(entries, corrected, strict=True)
        ]
    for number, line in enumerate(lines):
        yield replace(line, entries={column: entries[number] for column, entries in columns.items()})


@dataclass(frozen=True)
class Pair:
    """A cell of a row and that of its opponent with the same seed and fold."""

    cells: tuple[Cell, Cell]
    results: tuple[Found, Found]
    difference: float


def pairs_of(suite: Suite, column: str, line: Line, found: Mapping[str, Mapping[Cell, Found]]) -> list[Pair]:
    """The cells that a row and its opponent have both done and that have a figure for a column."""
    theirs = found.get(line.opponent or "", {})
    pairs = []
    for cell, result in found.get(line.name, {}).items():
        other = replace(cell, row=line.opponent or "")
        if other not in theirs:
            continue
        ours, others = value_of(suite, column, result), value_of(suite, column, theirs[other])
        if ours is not None and others is not None:
            pairs.append(Pair((cell, other), (result, theirs[other]), ours - others))
    return pairs


def with_gain(experiment: Experiment, column: str, entry: Entry, pairs: Sequence[Pair], read: ReadAnswers) -> Entry:
    """An entry with its gain over the opponent, tested where both were scored on the same rows."""
    if not pairs:
        return entry
    suite = experiment.suite
    if why := why_untested(experiment, column, pairs, read):
        mean = statistics.fmean(pair.difference for pair in pairs)
        return replace(entry, gain=Difference(mean, None, None, None), untested=why)
    if suite.folds:
        ratio = max(fold_ratio(suite, column, found) for pair in pairs for found in pair.results)
        return replace(entry, gain=corrected_t_test([pair.difference for pair in pairs], ratio))
    how = suite.means.get(column, "plain")
    sides = [sides_of(suite, column, pair, read) for pair in pairs]
    labels = [[mine.labels for _, _, mine, _ in of_seed] for of_seed in sides]
    same = all(same_labels(of_seed, labels[0]) for of_seed in labels)
    return replace(entry, gain=seeds_and_rows_test([row_difference(one, how) for one in sides], same_rows=same))


def why_untested(experiment: Experiment, column: str, pairs: Sequence[Pair], read: ReadAnswers) -> str | None:
    """What stands against a test of two rows, if anything does."""
    suite = experiment.suite
    cells = [cell for pair in pairs for cell in pair.cells]
    if not suite.folds and not all(experiment.answers_file(cell).is_file() for cell in cells):
        return "the predictions of some of their cells are not here"
    if not all(scored_alike(suite, column, pair, read) for pair in pairs):
        return "they were scored on other rows, another task or by another metric"
    return None


def scored_alike(suite: Suite, column: str, pair: Pair, read: ReadAnswers) -> bool:
    """Whether two cells were scored on the same rows of the same tasks, by the same metrics.

    Folds with one seed are the same where they part as many rows of the same files; otherwise the labels tell.
    """
    one, other = pair.results
    tasks = tasks_scored(suite, column, one)
    if tasks != tasks_scored(suite, column, other) or any(one.metrics[task] != other.metrics[task] for task in tasks):
        return False
    if suite.folds:
        return all(parted_rows(one, task) == parted_rows(other, task) for task in tasks)
    mine, theirs = map(read, pair.cells)
    return same_labels([mine[task].labels for task in tasks], [theirs[task].labels for task in tasks])


def parted_rows(found: Found, task: str) -> tuple[Any, int | None]:
    """The files that the folds of a task are made of, and how many of their rows."""
    return recipe_tasks(found.recipe)[task]["train"], found.rows.get(task)


def same_labels(one: Sequence[np.ndarray], other: Sequence[np.ndarray]) -> bool:
    """Whether the labels of some tasks are those of others, row by row."""
    return all(np.array_equal(mine_n, theirs_n) for mine_n, theirs_n in zip(one, other, strict=True))


Side = tuple[Callable[[np.ndarray, Decoded], float], str, Answers, Answers]


def sides_of(suite: Suite, column: str, pair: Pair, read: ReadAnswers) -> list[Side]:
    """For each task of a column its metric, the metric's name, and the answers of both cells."""
    (mine, theirs), (result, _) = map(read, pair.cells), pair.results
    return [
        (METRICS[result.kinds[task]][result.metrics[task]], result.metrics[task], mine[task], theirs[task])
        for task in tasks_scored(suite, column, result)
    ]


def row_difference(sides: Sequence[Side], how: str) -> tuple[Callable[[np.ndarray], float], int]:
    """A function from some rows, counted through all tasks, to the difference of the means there; and their number."""
    starts = np.cumsum([0, *(len(mine.labels) for _, _, mine, _ in sides)])

    def difference(rows_n: np.ndarray) -> float:
        gains = []
        for (metric, name, mine, theirs), start, stop in zip(sides, starts, starts[1:], strict=False):
            chosen_n = rows_n[(rows_n >= start) & (rows_n < stop)] - start
            ours, others = (
                entering(name, metric(side.labels[chosen_n], taken(side.decoded, chosen_n)), how)
                for side in (mine, theirs)
            )
            gains.append(ours - others)
        return float(np.mean(gains))

    return difference, int(starts[-1])


def taken(decoded: Decoded, rows_n: np.ndarray) -> Decoded:
    """Some rows of the predictions."""
    return Decoded(decoded.values[rows_n], None if decoded.probabilities is None else decoded.probabilities[rows_n])
