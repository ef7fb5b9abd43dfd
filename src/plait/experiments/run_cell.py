"""One cell done: trained, or gone on with, and scored."""

import json
import shutil
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext, suppress
from pathlib import Path
from typing import Any

from plait.data.examples import Examples
from plait.errors import NotFiniteError, PlaitError, RunError
from plait.evaluation.evaluate import decode_examples, score
from plait.evaluation.find import find_split
from plait.experiments.cells import Answers, Cell, Experiment, Found, facts_of, write_answers, write_found
from plait.experiments.tune import Trial, choose_settings, locked, run_trial
from plait.model.about import read_about
from plait.model.ensemble import AnyModel, Ensemble
from plait.model.load import load_model
from plait.model.model import Model
from plait.model.watch import Watcher
from plait.training.keep import Standing, best_first
from plait.training.loop import resume, train
from plait.training.run import Run
from plait.training.settle import settle_run

__all__ = ["cell_mistakes", "run_cell"]

FURTHER = 100_000  # from the seed of one run of an ensemble to that of the next
Stop = Callable[[], bool]


class BusyError(Exception):
    """Another process is at a cell."""


def cell_mistakes(experiment: Experiment, cell: Cell) -> Iterator[str]:
    """What is wrong with a cell's recipe, and with any value of its grid."""
    grid = experiment.suite.rows[cell.row].grid
    for settings in [[], *(Trial(0, {key: value}).assignments for key, values in grid.items() for value in values)]:
        try:
            recipe = experiment.recipe(cell, settings)
        except PlaitError as error:
            yield from error.mistakes
            continue
        if grid and not any(task.dev for task in recipe.tasks.values()):
            yield f"{recipe.where('tasks')}the best of a grid is chosen on dev, and no task has any"


def run_cell(experiment: Experiment, cell: Cell, watcher: Watcher, stop: Stop) -> bool:
    """Do a cell, or go on with it; false where another process is at it."""
    searched = experiment.suite.rows[cell.row].search is not None
    if searched and not experiment.is_done(cell):  # trials of a search are shared, each with a lock of its own
        with suppress(NotFiniteError):
            run_grid(experiment, cell, watcher, stop)
    try:
        with alone_at(experiment, cell, wait=searched):
            if not experiment.is_done(cell):
                write_found(experiment, cell, do_cell(experiment, cell, watcher, stop))
                if not experiment.models:
                    drop_models(experiment, cell)
    except BusyError:
        return False
    return True


def do_cell(experiment: Experiment, cell: Cell, watcher: Watcher, stop: Stop) -> Found:
    """Train what a cell is of, and score it; where training breaks down there are no scores."""
    row, settings, model = experiment.suite.rows[cell.row], list[str](), None
    runs = [experiment.folder(cell) / "run"]
    try:
        if row.ensemble:
            runs, model = run_ensemble(experiment, cell, watcher, stop)
        elif row.grid:
            runs[0], settings = run_grid(experiment, cell, watcher, stop)
        else:
            run_once(experiment, cell, runs[0], (), watcher, stop)
    except NotFiniteError as error:
        watcher.note(f"{cell.name} failed: {error}")
        facts = facts_of(experiment, cell)
        return Found({}, {}, {}, rows={}, seconds=seconds_of(experiment, cell), failed=str(error), **facts)
    return score_cell(experiment, cell, runs, model or load_model(runs[0]), settings)


def run_once(
    experiment: Experiment, cell: Cell, folder: Path, settings: Sequence[str], watcher: Watcher, stop: Stop
) -> None:
    """Train a cell's recipe into a folder, or go on there; nothing to do where that is finished."""
    suite, run = experiment.suite, Run(folder)
    recipe = suite.recipe_of(cell.row)
    assignments = [*experiment.changes(cell), *settings]
    how: dict[str, Any] = {"data": experiment.data, "profile": experiment.profile, "assignments": assignments}
    if run.facts.is_file():
        if run.is_finished():
            run.check_same(settle_run(experiment.recipe(cell, settings), experiment.data))
        else:
            resume(folder, recipe=recipe, watcher=watcher, stop=stop, **how)
        return
    kept = max((row.models for row in suite.rows.values() if cell.row == row.ensemble), default=0)
    train(recipe, folder, baselines=False, keep=kept, threads="auto", watcher=watcher, stop=stop, **how)


def run_grid(experiment: Experiment, cell: Cell, watcher: Watcher, stop: Stop) -> tuple[Path, list[str]]:
    """The run with the best settings on dev, and those; of the others only their scores stay."""
    row, folder, recipe = experiment.suite.rows[cell.row], experiment.folder(cell), experiment.recipe(cell)

    def place(number: int) -> Path:
        return folder / "trials" / f"{number:03}"

    def measure(trial: Trial) -> float:
        run = Run(place(trial.number))

        def start(told: Watcher, stopping: Stop) -> float:
            run_once(experiment, cell, run.folder, trial.assignments, told, stopping)
            return best_score(run)

        last_stage = max(len(recipe.stages) - 1, 0)
        try:
            found = run_trial(trial, start, watcher=watcher, stop=stop, best_by=recipe.best_by, last_stage=last_stage)
        except NotFiniteError:
            drop(run)
            raise
        if found is None:
            drop(run)
            return float("nan")
        for loser in sorted(map(Run, sorted((folder / "trials").iterdir())), key=best_score, reverse=True)[1:]:
            if loser.is_finished():
                drop(loser)
        return found

    choice = choose_settings(
        row.grid, row.search, folder, measure, watcher.note, of=facts_of(experiment, cell)["recipe"]
    )
    return place(choice.number), choice.assignments


def best_score(run: Run) -> float:
    """The score by which a finished run chose its best model."""
    if not run.result.is_file():
        return float("-inf")
    return float(json.loads(run.result.read_text(encoding="utf-8"))["best_score"])


def drop(run: Run) -> None:
    """Remove the models of a run."""
    for folder in (run.best, run.kept, run.checkpoints):
        shutil.rmtree(folder, ignore_errors=True)


def run_ensemble(experiment: Experiment, cell: Cell, watcher: Watcher, stop: Stop) -> tuple[list[Path], Ensemble]:
    """The runs of an ensemble and its best models; the first run is the cell of the row that it is made of."""
    row = experiment.suite.rows[cell.row]
    assert row.ensemble is not None
    runs: list[Path] = []
    for number in range(row.runs):
        member = Cell(row.ensemble, cell.seed + number * FURTHER, cell.fold)
        folder = experiment.folder(member) / "run" if number == 0 else experiment.folder(cell) / f"run-{number + 1}"
        with alone_at(experiment, member) if number == 0 else nullcontext():
            run_once(experiment, member, folder, (), watcher, stop)
        if not kept_models(folder):
            raise RunError(f"{folder}: was trained before it was part of an ensemble, and kept no models; remove it")
        runs.append(folder)
    standings = [(run, standing) for run in runs for standing in kept_models(run)]
    places = {id(standing): run for run, standing in standings}
    chosen = best_first([standing for _, standing in standings])[: row.models]
    models = [load_model(places[id(standing)] / "kept" / standing.name) for standing in chosen]
    return runs, Ensemble(tuple(model for model in models if isinstance(model, Model)))


def kept_models(run: Path) -> list[Standing]:
    """The models that a run has kept."""
    told = json.loads(Run(run).result.read_text(encoding="utf-8"))
    return [Standing(**standing) for standing in told["kept"]]


def score_cell(
    experiment: Experiment, cell: Cell, runs: Sequence[Path], model: AnyModel, settings: Sequence[str]
) -> Found:
    """The scores of a model on the suite's split; its predictions are kept beside them."""
    about = read_about(runs[0])

    def examples_of(split: str) -> dict[str, Examples]:
        return find_split(model, runs[0], about, split, experiment.data)

    examples = examples_of(experiment.suite.split)
    decoded = {task: decode_examples(model, task, part) for task, part in examples.items()}
    write_answers(experiment, cell, {task: Answers(part.labels, decoded[task]) for task, part in examples.items()})
    scores = {task: score(model.tasks[task], part.labels, decoded[task]) for task, part in examples.items()}
    counted = [examples_of(split) for split in paper_splits(experiment, cell)]
    return Found(
        scores={task: found.value for task, found in scores.items()},
        metrics={task: found.metric for task, found in scores.items()},
        kinds={task: model.tasks[task].labels.kind for task in scores},
        rows={task: sum(len(part[task]) for part in counted if task in part) for task in counted[0]},
        seconds=seconds_of(experiment, cell),
        **facts_of(experiment, cell, settings),
    )


def paper_splits(experiment: Experiment, cell: Cell) -> list[str]:
    """The splits whose rows are those of the paper's training data: with folds it is parted into several."""
    if cell.fold is None:
        return ["train"]
    shared = any(task.share("dev") for task in experiment.recipe(cell).tasks.values())
    return ["train", "test", *(["dev"] if shared else [])]


def seconds_of(experiment: Experiment, cell: Cell) -> float:
    """How long the runs of a cell took that came to their end; an ensemble's first is that of another cell."""
    results = sorted(experiment.folder(cell).rglob("result.json"))
    return sum(float(json.loads(result.read_text(encoding="utf-8"))["seconds"]) for result in results)


def drop_models(experiment: Experiment, cell: Cell) -> None:
    """Remove the models of a cell, and of the one that it is made of, once nothing more is made of them."""
    rows = experiment.suite.rows
    for row in filter(None, (cell.row, rows[cell.row].ensemble)):
        users = [row, *(name for name, other in rows.items() if other.ensemble == row)]
        if all(experiment.is_done(Cell(user, cell.seed, cell.fold)) for user in users):
            for result in experiment.folder(Cell(row, cell.seed, cell.fold)).rglob("result.json"):
                drop(Run(result.parent))


@contextmanager
def alone_at(experiment: Experiment, cell: Cell, *, wait: bool = False) -> Iterator[None]:
    """No other process is at a cell meanwhile."""
    folder = experiment.folder(cell)
    folder.mkdir(parents=True, exist_ok=True)
    with locked(folder / ".cell.lock", wait=wait) as free:
        if not free:
            raise BusyError
        yield
