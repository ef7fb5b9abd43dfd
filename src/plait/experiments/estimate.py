"""How long the cells of a suite may take: as long as those that are done, or as a few real steps let expect."""

import statistics
from collections.abc import Sequence

from plait.errors import PlaitError
from plait.experiments.cells import Cell, Experiment, read_found
from plait.experiments.tune import points_of
from plait.model.watch import Watcher
from plait.training.plan import run_facts, whole_trial
from plait.training.settle import settle_run

__all__ = ["estimate_rows"]


def estimate_rows(experiment: Experiment, cells: Sequence[Cell], watcher: Watcher) -> dict[str, float | None]:
    """The seconds of one cell of each row; none where its encoder or data is not at hand."""
    found: dict[str, float | None] = {}
    for cell in {cell.row: cell for cell in cells}.values():
        results = [read_found(experiment, other) for other in cells if other.row == cell.row]
        if done := [result.seconds for result in results if result and not result.failed]:
            found[cell.row] = statistics.median(done)
            continue
        watcher.note(f"trying a few steps of {cell.row}")
        try:
            found[cell.row] = try_cell(experiment, cell)
        except PlaitError as error:
            watcher.note(f"{cell.row}: cannot be tried: {error}")
            found[cell.row] = None
    return found


def try_cell(experiment: Experiment, cell: Cell) -> float:
    """What a trial of the first steps says of a cell, times its runs."""
    trial = whole_trial(run_facts(settle_run(experiment.recipe(cell), experiment.data), trial=True, baselines=False))
    assert trial is not None
    row = experiment.suite.rows[cell.row]
    points = len(points_of(row.grid))
    trials = points if row.search is None or row.search.trials is None else min(points, row.search.trials)
    return trial.seconds * max(1, trials) * (row.runs - 1 if row.ensemble else 1)
