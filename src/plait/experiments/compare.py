"""The table of a suite: mean and deviation of each row, beside the paper's figures and the baseline."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

from plait.experiments.cells import Cell, Experiment, cells_of
from plait.experiments.entries import Departure, Entry, SuiteTable, TableRow, fold_ratio, scored_tasks, value_of
from plait.experiments.free_rows import with_free_rows
from plait.experiments.gains import with_gains
from plait.experiments.groups import pool_gains
from plait.experiments.records import CellResult
from plait.recipe.schema import Recipe
from plait.recipe.suite import Suite
from plait.recipe.suite_names import ONLY
from plait.resolve.saved import as_saved

__all__ = ["suite_table"]


def suite_table(experiment: Experiment, seeds: Sequence[int], rows: Sequence[str]) -> SuiteTable:
    """The table of what is done so far; p is corrected for all rows with results, shown or not."""
    suite = experiment.suite
    cells = {row: cells_of(suite, seeds, [row]) for row in suite.trained}
    results = {row: _results_of(experiment, cells[row]) for row in cells}
    table = [_table_row(experiment, row, len(cells.get(row, ())), results.get(row, {})) for row in suite.rows]
    headings = {**suite.scores, **{mean: _mean_heading(mean, how) for mean, how in suite.means.items()}}
    tested = list(with_gains(experiment, table, results))
    shown = [row for row in tested if row.name in rows or row.shown is not None]
    complete = with_free_rows(suite, shown, results) if suite.free_rows else shown
    scored = [result for cells in results.values() for result in cells.values() if result.scores]
    apart = bool(scored) and all(result.chosen_apart for result in scored)
    pooled = pool_gains(suite, tested, rows)
    begun = {cell.seed for cells in results.values() for cell in cells} or set(seeds)
    return SuiteTable(
        suite, tuple(seed for seed in seeds if seed in begun), headings, tuple(complete), tuple(pooled), apart
    )


def _results_of(experiment: Experiment, cells: Sequence[Cell]) -> dict[Cell, CellResult]:
    """The results of the cells that are done."""
    results = {cell: experiment.result(cell) for cell in cells}
    return {cell: result for cell, result in results.items() if result is not None}


def _table_row(experiment: Experiment, name: str, cells: int, done: Mapping[Cell, CellResult]) -> TableRow:
    """One row, before it is tested."""
    suite, row = experiment.suite, experiment.suite.rows[name]
    scored = [result for result in done.values() if result.failed is None]
    departures = _departures(experiment, name, scored)
    entries = {}
    for column in (*suite.scores, *suite.means):
        values = [value for result in scored if (value := value_of(suite, column, result)) is not None]
        ratio = max((fold_ratio(suite, column, result) for result in scored), default=0.0)
        trained = [result.train[task] for result in scored for task in _trained_tasks(suite, column, result)]
        entries[column] = Entry(
            tuple(values),
            row.paper.get(column),
            departures,
            ratio,
            train=tuple(trained),
            paper_train=row.paper_train.get(column),
        )
    failed = tuple(f"{cell.name}: {result.failed}" for cell, result in done.items() if result.failed)
    seconds = sum(result.seconds for result in done.values())
    return TableRow(name, entries, suite.opponent(name), len(done), cells, failed, seconds, row.shown)


def _trained_tasks(suite: Suite, column: str, result: CellResult) -> list[str]:
    """The task of a column, if the cell has its score on the training rows; means have none."""
    if column in suite.means or not suite.train_scores:
        return []
    return [task for task in scored_tasks(suite, column, result) if task in result.train]


def _mean_heading(name: str, how: str) -> str:
    if how == "shifted":
        return f"{name} (r as (r+1)/2)"
    return name if "plain" in name else f"{name} (plain)"


def _departures(experiment: Experiment, row: str, results: Sequence[CellResult]) -> tuple[Departure, ...]:
    """What differs between a row's cells and the paper; fewer rows of one task affect the scores of all."""
    if not results or not experiment.suite.has_paper:
        return ()
    paper = _paper_recipe(experiment, row)
    learning = {task for stage in paper.stage_recipes() for task in stage.learning}
    sizes = _paper_sizes(experiment.suite, row, learning)
    encoder, epochs = as_saved(paper)["encoder"], [stage.epochs for stage in paper.stage_recipes()]
    differs: dict[Departure, bool] = {
        "encoder": any(result.encoder != encoder for result in results),
        "rows": any(result.rows.get(task, size) != size for result in results for task, size in sizes.items()),
        "epochs": any(result.epochs != epochs for result in results),
    }
    return tuple(departure for departure, true in differs.items() if true)


def _paper_sizes(suite: Suite, row: str, tasks: Iterable[str]) -> dict[str, int]:
    """The paper's training rows of these tasks, where they are known."""
    own = suite.rows[row].paper_rows
    sizes = suite.paper_rows if own is None else own
    known = {task: sizes.get(task, sizes.get(ONLY)) for task in tasks}
    return {task: size for task, size in known.items() if size is not None}


def _paper_recipe(experiment: Experiment, row: str) -> Recipe:
    """The recipe of a row without profile and overrides: the paper's settings."""
    return replace(experiment, profile=None, overrides=()).recipe(Cell(row, 0, None), missing_files="keep")
