"""The parts of a table, and what a cell counts for in each."""

import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from plait.evaluation.significance import Interval
from plait.experiments.cells import Found
from plait.experiments.statistics import Difference, corrected_interval
from plait.experiments.suite import ONLY, Suite
from plait.model.about import recipe_tasks

__all__ = ["Comparison", "Departure", "Entry", "Line", "entering", "fold_ratio", "tasks_scored", "value_of"]

CORRELATIONS = ("pearson", "spearman")
Departure = Literal["encoder", "rows", "epochs"]


@dataclass(frozen=True)
class Entry:
    """One column of one row."""

    values: tuple[float, ...] = ()  # of the cells that are done
    paper: float | None = None
    departures: tuple[Departure, ...] = ()  # what differs from the paper's
    test_to_train: float = 0.0  # with folds, the test rows of one by its training rows
    gain: Difference | None = None  # over the opponent, its p corrected for many rows
    untested: str | None = None  # why the gain has no test, where there could be one

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
