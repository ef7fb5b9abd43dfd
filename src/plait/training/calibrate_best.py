"""The calibration of a run's best model, as its recipe asks."""

from plait.evaluation.calibrate_model import fit_tasks, save_calibration
from plait.evaluation.calibration import Fitted
from plait.model.directory.record import open_directory
from plait.model.model import Model
from plait.progress import Progress
from plait.resolve.run import ResolvedRun
from plait.runs.directory import RunDirectory

__all__ = ["calibrate_best"]


def calibrate_best(run: RunDirectory, resolved: ResolvedRun, model: Model, progress: Progress) -> None:
    """Fit every task of the last stage with dev rows, and store it in the best model, whose weights `model` has."""
    choice = resolved.recipe.calibrate
    assert choice is not None, "the recipe asks for it"
    tasks = {name: task for name, task in resolved.stages[-1].tasks.items() if name in model.tasks and task.judges}
    examples = {name: task.judges for name, task in tasks.items() if task.judges}
    data = {name: "choose" if task.choosing else "dev" for name, task in tasks.items()}
    notes: list[str] = []
    wanted = Fitted(temperature=True, threshold=None if choice == "probabilities" else choice)
    found = fit_tasks(model.eval(), examples, data, wanted, notes, progress)
    for note in notes:
        progress.note(note)
    for task, one in found.items():
        before, after = one.ece
        progress.note(f"{task}: calibrated, temperature {one.temperature:.3f}, ece {before:.3f} → {after:.3f}")
    if found:
        save_calibration(open_directory(run.best), run.best, found)
