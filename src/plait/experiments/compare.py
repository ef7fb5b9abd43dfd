"""What the cells of a suite come to: the mean and deviation of each row, beside the paper's and the baseline's."""

import statistics
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache, partial
from typing import Any, Literal

import numpy as np

from plait.evaluation.metrics import METRICS
from plait.evaluation.significance import Interval
from plait.experiments.cells import Answers, Cell, Experiment, Found, cells_of, read_answers, read_found
from plait.experiments.statistics import Difference, corrected_interval, corrected_t_test, holm, seeds_and_rows_test
from plait.experiments.suite import ONLY, Suite
from plait.model.about import recipe_tasks
from plait.model.decode import Decoded
from plait.recipe.schema import Recipe

__all__ = ["Comparison", "Departure", "Entry", "Line", "compare"]

CORRELATIONS = ("pearson", "spearman")
Departure = Literal["encoder", "rows", "epochs"]
ReadAnswers = Callable[[Cell], Mapping[str, Answers]]


@dataclass(frozen=True)
class Entry:
    """One column of one row."""

    values: tuple[float, ...] = ()  # of the cells that are done
    paper: float | None = None
    departures: tuple[Departure, ...] = ()  # what differs from the paper's
    test_to_train: float = 0.0  # with folds, the test rows of one by its training rows
    gain: Difference | None = None  # over the opponent, its p corrected for many rows
    alike: bool = True  # whether the opponent was scored on the same rows; if not, the gain is not tested

    @property
    def mean(self) -> float | None:
        """The mean over the cells."""
        return statistics.fmean(self.values) if self.values else None

    @property
    def deviation(self) -> float | None:
        """The standard deviation of the cells."""
        return statistics.stdev(self.values) if len(self.values) > 1 else None

    @property
    def interval(self) -> Interval | None:
        """95 % about the mean, by the differences between cells."""
        return corrected_interval(self.values, self.test_to_train)

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
    """The table of what is done so far; p is corrected for all rows with results, shown or not."""
    suite = experiment.suite
    cells = {row: cells_of(suite, seeds, [row]) for row in suite.trained}
    found = {row: read_cells(experiment, cells[row]) for row in cells}
    lines = [line_of(experiment, row, len(cells.get(row, ())), found.get(row, {})) for row in suite.rows]
    headings = {**suite.scores, **{mean: mean_heading(mean, how) for mean, how in suite.means.items()}}
    shown = tuple(line for line in with_gains(experiment, lines, found) if line.name in rows or line.shown is not None)
    return Comparison(suite, tuple(seeds), headings, shown)


def read_cells(experiment: Experiment, cells: Sequence[Cell]) -> dict[Cell, Found]:
    """What came of the cells that are done; refuses any that was run by another recipe."""
    found = {cell: read_found(experiment, cell) for cell in cells if experiment.is_done(cell)}
    return {cell: result for cell, result in found.items() if result is not None}


def line_of(experiment: Experiment, row: str, cells: int, done: Mapping[Cell, Found]) -> Line:
    """One row, before it is tested."""
    suite, about = experiment.suite, experiment.suite.rows[row]
    good = [result for result in done.values() if result.failed is None]
    departures = departures_of(experiment, row, good)
    entries = {}
    for column in (*suite.scores, *suite.means):
        values = [value for result in good if (value := value_of(suite, column, result)) is not None]
        ratio = max((fold_ratio(suite, column, result) for result in good), default=0.0)
        entries[column] = Entry(tuple(values), about.paper.get(column), departures, ratio)
    failed = tuple(f"{cell.name}: {result.failed}" for cell, result in done.items() if result.failed)
    seconds = sum(result.seconds for result in done.values())
    return Line(row, entries, suite.opponent_of(row), len(done), cells, failed, seconds, about.shown)


def mean_heading(name: str, how: str) -> str:
    """The name of a mean, and what it is of."""
    return f"{name} (r as (r+1)/2)" if how == "shifted" else f"{name} (plain)"


def task_of(column: str, tasks: Sequence[str]) -> str | None:
    """The task of a column, if the row has it."""
    if column == ONLY:
        return tasks[0] if len(tasks) == 1 else None
    return column if column in tasks else None


def tasks_scored(suite: Suite, column: str, found: Found) -> list[str]:
    """The tasks of a column that a cell has scores of."""
    tasks = (task_of(name, list(found.scores)) for name in suite.tasks_of(column))
    return [task for task in tasks if task is not None]


def value_of(suite: Suite, column: str, found: Found) -> float | None:
    """A cell's figure for a column; none where the row has no such task, or for a mean not all of them."""
    there = tasks_scored(suite, column, found)
    if len(there) < len(suite.tasks_of(column)):
        return None
    how = suite.means.get(column, "plain")
    return statistics.fmean(entering(found.metrics[task], found.scores[task], how) for task in there)


def entering(metric: str, value: float, how: str) -> float:
    """What a score counts for in a mean."""
    return (value + 1) / 2 if how == "shifted" and metric in CORRELATIONS else value


def fold_ratio(suite: Suite, column: str, found: Found) -> float:
    """With folds, the rows that a fold is scored on by those that it is trained on; of several tasks the largest.

    A share in `dev` is split off the other folds and is not trained on.
    """
    if not suite.folds:
        return 0.0
    devs = [recipe_tasks(found.recipe)[task]["dev"] for task in tasks_scored(suite, column, found)]
    shares = [dev for dev in devs if isinstance(dev, float)]
    return 1 / ((suite.folds - 1) * (1 - max(shares, default=0.0)))


def departures_of(experiment: Experiment, row: str, found: Sequence[Found]) -> tuple[Departure, ...]:
    """What differs between a row's cells and the paper's; fewer rows of one task change the scores of all."""
    if not found:
        return ()
    paper = paper_recipe(experiment, row)
    learning = {task for stage in paper.stage_recipes() for task in stage.learning}
    sizes = paper_sizes(experiment.suite, row, learning)
    differs: dict[Departure, bool] = {
        "encoder": any(result.encoder != paper.encoder for result in found),
        "rows": any(result.rows.get(task, size) != size for result in found for task, size in sizes.items()),
        "epochs": any(result.epochs != [stage.epochs for stage in paper.stage_recipes()] for result in found),
    }
    return tuple(departure for departure, true in differs.items() if true)


def paper_sizes(suite: Suite, row: str, tasks: Iterable[str]) -> dict[str, int]:
    """The paper's training rows of those tasks of which they are known."""
    own = suite.rows[row].paper_rows
    sizes = suite.paper_rows if own is None else own
    known = {task: sizes.get(task, sizes.get(ONLY)) for task in tasks}
    return {task: size for task, size in known.items() if size is not None}


def paper_recipe(experiment: Experiment, row: str) -> Recipe:
    """The recipe of a row with nothing changed: the paper's own settings."""
    plain = replace(experiment, profile=None, assignments=())
    return plain.recipe(Cell(row, 0, None))


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
            entries.append(with_gain(suite, column, line.entries[column], pairs, read))
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


def with_gain(suite: Suite, column: str, entry: Entry, pairs: Sequence[Pair], read: ReadAnswers) -> Entry:
    """An entry with its gain over the opponent, tested where both were scored on the same rows."""
    if not pairs:
        return entry
    if not all(scored_alike(suite, column, pair, read) for pair in pairs):
        mean = statistics.fmean(pair.difference for pair in pairs)
        return replace(entry, gain=Difference(mean, None, None, None), alike=False)
    if suite.folds:
        ratio = max(fold_ratio(suite, column, found) for pair in pairs for found in pair.results)
        return replace(entry, gain=corrected_t_test([pair.difference for pair in pairs], ratio))
    how = suite.means.get(column, "plain")
    sides = [sides_of(suite, column, pair, read) for pair in pairs]
    labels = [[mine.labels for _, _, mine, _ in of_seed] for of_seed in sides]
    same = all(same_labels(of_seed, labels[0]) for of_seed in labels)
    return replace(entry, gain=seeds_and_rows_test([row_difference(one, how) for one in sides], same_rows=same))


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
