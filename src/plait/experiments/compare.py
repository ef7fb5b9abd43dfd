"""What the cells of a suite come to: the mean and deviation of each row, beside the paper's and the baseline's."""

import statistics
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np

from plait.evaluation.metrics import METRICS
from plait.experiments.cells import Answers, Cell, Experiment, Found, cells_of, read_answers, read_found
from plait.experiments.statistics import Difference, bootstrap_test, corrected_t_test, holm
from plait.experiments.suite import ONLY, Suite
from plait.model.decode import Decoded
from plait.recipe.schema import Recipe

__all__ = ["Comparison", "Entry", "Line", "compare"]

CORRELATIONS = ("pearson", "spearman")
Mark = Literal["encoder", "rows", "epochs"]


@dataclass(frozen=True)
class Entry:
    """One column of one row."""

    values: tuple[float, ...] = ()  # of the cells that are done
    paper: float | None = None
    marks: tuple[Mark, ...] = ()  # what differs from the paper's
    gain: Difference | None = None  # over the opponent, its p corrected for many rows

    @property
    def mean(self) -> float | None:
        """The mean over the cells."""
        return statistics.fmean(self.values) if self.values else None

    @property
    def deviation(self) -> float | None:
        """The standard deviation of the cells."""
        return statistics.stdev(self.values) if len(self.values) > 1 else None

    @property
    def from_paper(self) -> float | None:
        """How far the mean is from the paper's figure."""
        return None if self.mean is None or self.paper is None else self.mean - self.paper


@dataclass(frozen=True)
class Line:
    """One row."""

    name: str
    entries: Mapping[str, Entry]  # by column
    opponent: str | None
    done: int  # cells
    cells: int
    failed: tuple[str, ...]  # messages
    seconds: float
    shown: str | None


@dataclass(frozen=True)
class Comparison:
    """The whole table."""

    suite: Suite
    seeds: tuple[int, ...]
    columns: Mapping[str, str]  # column → heading
    lines: tuple[Line, ...]


def compare(experiment: Experiment, seeds: Sequence[int], rows: Sequence[str]) -> Comparison:
    """The table of what is done so far."""
    suite = experiment.suite
    cells = {row: cells_of(suite, seeds, [row]) for row in suite.trained}
    found = {row: {cell: result for cell in cells[row] if (result := read_found(experiment, cell))} for row in cells}
    lines = []
    for row, about in suite.rows.items():
        if row not in rows and about.shown is None:
            continue
        done = found.get(row, {})
        good = {cell: result for cell, result in done.items() if result.failed is None}
        marks = marks_of(experiment, row, list(good.values()))
        entries = {
            column: Entry(
                tuple(value for result in good.values() if (value := value_of(suite, column, result)) is not None),
                about.paper.get(column),
                marks.get(column, ()),
            )
            for column in (*suite.scores, *suite.means)
        }
        failed = tuple(f"{cell.name}: {result.failed}" for cell, result in done.items() if result.failed)
        seconds = sum(result.seconds for result in done.values())
        counts = (len(done), len(cells.get(row, ())))
        lines.append(Line(row, entries, suite.opponent_of(row), *counts, failed, seconds, about.shown))
    headings = {**suite.scores, **{mean: mean_heading(mean, how) for mean, how in suite.means.items()}}
    return Comparison(suite, tuple(seeds), headings, tuple(with_gains(experiment, lines, found)))


def mean_heading(name: str, how: str) -> str:
    """The name of a mean, and what it is of."""
    return f"{name} (r as (r+1)/2)" if how == "shifted" else f"{name} (plain)"


def task_of(column: str, tasks: Sequence[str]) -> str | None:
    """The task of a column, if the row has it."""
    if column == ONLY:
        return tasks[0] if len(tasks) == 1 else None
    return column if column in tasks else None


def value_of(suite: Suite, column: str, found: Found) -> float | None:
    """A cell's figure for a column; none where the row has no such task, or for a mean not all of them."""
    tasks = [task_of(name, list(found.scores)) for name in suite.tasks_of(column)]
    there = [task for task in tasks if task is not None]
    if len(there) < len(tasks):
        return None
    how = suite.means.get(column, "plain")
    return statistics.fmean(entering(found.metrics[task], found.scores[task], how) for task in there)


def entering(metric: str, value: float, how: str) -> float:
    """What a score counts for in a mean."""
    return (value + 1) / 2 if how == "shifted" and metric in CORRELATIONS else value


def marks_of(experiment: Experiment, row: str, found: Sequence[Found]) -> dict[str, tuple[Mark, ...]]:
    """What differs between a row's cells and the paper's, by column."""
    suite = experiment.suite
    if not found:
        return {}
    paper = paper_recipe(experiment, row)
    encoder = any(result.encoder != paper.encoder for result in found)
    epochs = any(result.epochs != [stage.epochs for stage in paper.stage_recipes()] for result in found)
    own = suite.rows[row].paper_rows
    sizes = suite.paper_rows if own is None else own
    marks: dict[str, tuple[Mark, ...]] = {}
    for column in (*suite.scores, *suite.means):
        names = suite.tasks_of(column)
        tasks = {task for result in found for name in names if (task := task_of(name, list(result.rows)))}
        rows = any(result.rows[task] != sizes.get(task, sizes.get(ONLY)) for result in found for task in tasks)
        differs: dict[Mark, bool] = {"encoder": encoder, "rows": rows, "epochs": epochs}
        marks[column] = tuple(mark for mark, true in differs.items() if true)
    return marks


def paper_recipe(experiment: Experiment, row: str) -> Recipe:
    """The recipe of a row with nothing changed: the paper's own settings."""
    plain = replace(experiment, profile=None, assignments=())
    return plain.recipe(Cell(row, 0, None))


def with_gains(
    experiment: Experiment, lines: Sequence[Line], found: Mapping[str, Mapping[Cell, Found]]
) -> Iterator[Line]:
    """The lines with what each gains over its opponent; p is corrected within a column."""
    suite = experiment.suite
    answers = {
        cell: read_answers(experiment, cell)
        for results in found.values()
        for cell, result in results.items()
        if result.failed is None
    }
    gains: dict[str, list[Difference | None]] = {}
    for column in (*suite.scores, *suite.means):
        tested = [
            gain_of(suite, column, found.get(line.name, {}), found.get(line.opponent or "", {}), answers)
            for line in lines
        ]
        corrected = holm([gain.p if gain else None for gain in tested])
        gains[column] = [gain and replace(gain, p=p) for gain, p in zip(tested, corrected, strict=True)]
    for number, line in enumerate(lines):
        entries = {column: replace(entry, gain=gains[column][number]) for column, entry in line.entries.items()}
        yield replace(line, entries=entries)


def gain_of(
    suite: Suite,
    column: str,
    mine: Mapping[Cell, Found],
    theirs: Mapping[Cell, Found],
    answers: Mapping[Cell, Mapping[str, Answers]],
) -> Difference | None:
    """How much better a row is than another in a column, over the cells that both have done."""
    others = {(cell.seed, cell.fold): (cell, result) for cell, result in theirs.items()}
    pairs = [
        ((cell, result), others[cell.seed, cell.fold])
        for cell, result in mine.items()
        if (cell.seed, cell.fold) in others
    ]
    values = [(value_of(suite, column, one[1]), value_of(suite, column, two[1])) for one, two in pairs]
    whole = [(pair, a - b) for pair, (a, b) in zip(pairs, values, strict=True) if a is not None and b is not None]
    if not whole:
        return None
    if suite.folds:
        return corrected_t_test([difference for _, difference in whole], 1 / (suite.folds - 1))
    how = suite.means.get(column, "plain")
    tests = []
    labels = []
    for ((cell, result), (other, _)), _ in whole:
        tasks = [task for name in suite.tasks_of(column) if (task := task_of(name, list(result.scores)))]
        sides = [
            (
                METRICS[result.kinds[task]][result.metrics[task]],
                result.metrics[task],
                answers[cell][task],
                answers[other][task],
            )
            for task in tasks
        ]
        labels.append([side[2].labels for side in sides])
        tests.append(row_difference(sides, how))
    same = all(
        len(a) == len(b) and bool(np.array_equal(a, b)) for one in labels for a, b in zip(one, labels[0], strict=True)
    )
    return bootstrap_test(tests, same_rows=same)


Side = tuple[Callable[[np.ndarray, Decoded], float], str, Answers, Answers]


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
