"""The parts of a table, and what a cell contributes to each column."""

import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from plait.evaluation.significance import Interval
from plait.experiments.records import CellResult
from plait.experiments.statistics import MeanDifference, corrected_interval
from plait.recipe.suite import Suite
from plait.recipe.suite_names import ONLY

__all__ = [
    "Departure",
    "Entry",
    "PooledGain",
    "SuiteTable",
    "TableRow",
    "contribution",
    "fold_ratio",
    "scored_tasks",
    "value_of",
]

_CORRELATIONS = ("pearson", "spearman")
Departure = Literal["encoder", "rows", "epochs"]


@dataclass(frozen=True)
class Entry:
    """One column of one row."""

    values: tuple[float, ...] = ()  # of the cells that are done
    paper: float | None = None
    departures: tuple[Departure, ...] = ()  # what differs from the paper
    test_to_train: float = 0.0  # with folds: test rows divided by training rows
    gain: MeanDifference | None = None  # over the opponent
    gain_seeds: tuple[int, ...] = ()  # the seeds that both have
    p: float | None = None  # of the gain, corrected for all tested rows of the column
    untested: str | None = None  # why the gain has no test, if one was possible
    train: tuple[float, ...] = ()  # scores on the training rows, of the cells that have them
    paper_train: float | None = None
    over_free: float | None = None  # the mean minus that of the best free row; of a mean column: the mean of these
    best_free: str | None = None  # that free row; None in the column of a mean
    below_zero_shot: bool = False  # whether the zero-shot cosine is at least as good

    @property
    def mean(self) -> float | None:
        return statistics.fmean(self.values) if self.values else None

    @property
    def deviation(self) -> float | None:
        """The standard deviation over the cells."""
        return statistics.stdev(self.values) if len(self.values) > 1 else None

    @property
    def train_mean(self) -> float | None:
        return statistics.fmean(self.train) if self.train else None

    @property
    def interval(self) -> Interval | None:
        """The 95 % interval of the mean, from the spread over the cells."""
        return corrected_interval(self.values, self.test_to_train)

    @property
    def from_paper(self) -> float | None:
        """The mean minus the paper's figure."""
        return None if self.mean is None or self.paper is None else self.mean - self.paper


@dataclass(frozen=True)
class TableRow:
    """One row of the table."""

    name: str
    entries: Mapping[str, Entry]  # by column
    opponent: str | None
    done: int  # cells
    cells: int
    failed: tuple[str, ...]  # messages
    seconds: float
    shown: str | None  # why it has only the paper's figures
    free: bool = False  # whether it costs no training of the encoder


@dataclass(frozen=True)
class PooledGain:
    """What a method gains in a group of data sets: the mean over them."""

    method: str
    against: str
    group: str
    rows: tuple[str, ...]  # of the table
    sets: int  # data sets where both were measured
    of: int  # data sets of the group
    gain: MeanDifference | None
    levels: tuple[float, float] | None  # the mean scores of both, where both were measured
    paper: tuple[float, float] | None  # the same in the paper, on these data sets; on all if none was measured

    @property
    def paper_gain(self) -> float | None:
        return self.paper[0] - self.paper[1] if self.paper else None


@dataclass(frozen=True)
class SuiteTable:
    """The rows of a suite with everything that is measured."""

    suite: Suite
    seeds: tuple[int, ...]  # that have results
    columns: Mapping[str, str]  # column → heading
    rows: tuple[TableRow, ...]
    pooled: tuple[PooledGain, ...] = ()
    chosen_apart: bool = False  # whether the dev rows that selected the epochs are not among the scored ones

    @property
    def has_free_rows(self) -> bool:
        return any(row.free for row in self.rows)

    def over_free(self, row: TableRow) -> float | None:
        """What a row gains over the best free row of each task, in the mean over the tasks that have one."""
        gains = [row.entries[task].over_free for task in self.suite.mean_of or self.suite.scores]
        known = [gain for gain in gains if gain is not None]
        return statistics.fmean(known) if known else None


def _task_of(column: str, tasks: Sequence[str]) -> str | None:
    """The task that a column shows, if the row has it."""
    if column == ONLY:
        return tasks[0] if len(tasks) == 1 else None
    return column if column in tasks else None


def scored_tasks(suite: Suite, column: str, result: CellResult) -> list[str]:
    """The tasks of a column that a cell has scores for."""
    tasks = (_task_of(name, list(result.scores)) for name in suite.tasks_of(column))
    return [task for task in tasks if task is not None]


def value_of(suite: Suite, column: str, result: CellResult) -> float | None:
    """A cell's value in a column; None if the row lacks the task, or a mean lacks one of its tasks."""
    tasks = scored_tasks(suite, column, result)
    if len(tasks) < len(suite.tasks_of(column)):
        return None
    how = suite.means.get(column, "plain")
    return statistics.fmean(contribution(result.metrics[task], result.scores[task], how) for task in tasks)


def contribution(metric: str, value: float, how: str) -> float:
    """What a score contributes to a mean."""
    return (value + 1) / 2 if how == "shifted" and metric in _CORRELATIONS else value


def fold_ratio(suite: Suite, column: str, result: CellResult) -> float:
    """With folds: the test rows of a fold divided by its training rows; the largest of several tasks.

    A share in `dev` is taken from the other folds and not trained on.
    """
    if not suite.folds:
        return 0.0
    shares = [result.dev_share(task) for task in scored_tasks(suite, column, result)]
    return 1 / ((suite.folds - 1) * (1 - max(shares, default=0.0)))
