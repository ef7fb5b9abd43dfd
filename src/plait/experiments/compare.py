"""What the cells of a suite come to: the mean and deviation of each row, beside the paper's and the baseline's."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

from plait.experiments.cells import Cell, Experiment, Found, cells_of, read_found
from plait.experiments.entries import Comparison, Departure, Entry, Line, fold_ratio, value_of
from plait.experiments.gains import with_gains
from plait.experiments.suite import ONLY, Suite
from plait.recipe.schema import Recipe

__all__ = ["compare"]


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
    if how == "shifted":
        return f"{name} (r as (r+1)/2)"
    return name if "plain" in name else f"{name} (plain)"


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
