"""How long the cells of a suite take: measured on finished cells, or estimated from a few real steps."""

import statistics
from collections.abc import Sequence

from plait.errors import PlaitError
from plait.experiments.cells import Cell, Experiment
from plait.experiments.tune import grid_points
from plait.progress import Progress
from plait.resolve.run import resolve_run
from plait.training.estimate import preview_run, total_cost

__all__ = ["estimate_rows"]


def estimate_rows(experiment: Experiment, cells: Sequence[Cell], progress: Progress) -> dict[str, float | None]:
    """The seconds of one cell of each row; None if the row's encoder or data is missing."""
    seconds: dict[str, float | None] = {}
    for cell in {cell.row: cell for cell in cells}.values():
        results = [experiment.result(other) for other in cells if other.row == cell.row]
        if done := [result.seconds for result in results if result and not result.failed]:
            seconds[cell.row] = statistics.median(done)
            continue
        progress.note(f"trying a few steps of {cell.row}")
        try:
            seconds[cell.row] = _estimate_cell(experiment, cell)
        except PlaitError as error:
            progress.note(f"{cell.row}: cannot be tried: {error}")
            seconds[cell.row] = None
    return seconds


def _estimate_cell(experiment: Experiment, cell: Cell) -> float:
    """The estimate for one run, times the runs of the cell."""
    resolved = resolve_run(experiment.recipe(cell), experiment.data)
    cost = total_cost(preview_run(resolved, trial=True, baselines=experiment.suite.free_rows))
    assert cost is not None
    row = experiment.suite.rows[cell.row]
    points = len(grid_points(row.grid))
    trials = points if row.search is None or row.search.trials is None else min(points, row.search.trials)
    return cost.seconds * max(1, trials) * (row.runs - 1 if row.ensemble else 1)
