"""The cells of a suite: one row of the table with one seed, and one fold where there are folds. Each is a run.

A cell's folder holds its run (or the trials of its grid, or the runs of its ensemble), `cell.json` with its scores, and
`answers.npz` with its predictions. `cell.json` comes last and says that the cell is done.
"""

import fcntl
import json
import shutil
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from plait.errors import NotFiniteError, RequestError, RunError
from plait.evaluation.evaluate import decode_examples, score
from plait.evaluation.find import find_split
from plait.experiments.suite import Suite
from plait.experiments.tune import Trial, choose_settings, run_trial
from plait.model.about import portable, read_about
from plait.model.decode import Decoded
from plait.model.ensemble import AnyModel, Ensemble
from plait.model.files import whole_file
from plait.model.load import load_model
from plait.model.model import Model
from plait.model.save import write_json
from plait.model.watch import Watcher
from plait.recipe.schema import Recipe
from plait.training.keep import Standing, best_first
from plait.training.loop import as_recipe, resume, train
from plait.training.run import Run, differences

__all__ = ["Answers", "Cell", "Experiment", "Found", "cells_of", "read_answers", "read_found", "run_cell", "share_of"]

FURTHER = 100_000  # from the seed of one run of an ensemble to that of the next


@dataclass(frozen=True)
class Cell:
    """One run of a row."""

    row: str
    seed: int
    fold: int | None  # from 1

    @property
    def name(self) -> str:
        """Its folder below that of the experiment, and how messages call it."""
        fold = f"/fold-{self.fold}" if self.fold else ""
        return f"{self.row}/seed-{self.seed}{fold}"


@dataclass(frozen=True)
class Found:
    """What came of a cell."""

    scores: dict[str, float]  # task → its metric on the suite's split
    metrics: dict[str, str]
    kinds: dict[str, str]  # of label
    encoder: str
    rows: dict[str, int]  # task → training rows; with folds, those of all folds
    epochs: list[int | None]  # of each stage
    seconds: float
    recipe: dict[str, Any]  # as it was given, without folders
    settings: list[str] = field(default_factory=list)  # what the grid chose
    failed: str | None = None


@dataclass(frozen=True)
class Answers:
    """The labels of one task on the suite's split, and the predictions of a cell."""

    labels: np.ndarray
    decoded: Decoded


@dataclass(frozen=True)
class Experiment:
    """A suite as it is to be run."""

    suite: Suite
    out: Path
    data: Path | None = None
    profile: str | None = None
    assignments: tuple[str, ...] = ()
    models: bool = True  # whether models stay once they are scored

    def folder(self, cell: Cell) -> Path:
        """The folder of a cell."""
        return self.out / cell.name

    def changes(self, cell: Cell) -> list[str]:
        """What the command line and the cell itself change of the row's recipe."""
        fold = [f"fold={cell.fold}/{self.suite.folds}"] if cell.fold else []
        return [*self.assignments, f"seed={cell.seed}", *fold]

    def recipe(self, cell: Cell) -> Recipe:
        """The recipe of a cell, before its data is read."""
        return as_recipe(self.suite.recipe_of(cell.row), self.data, self.profile, self.changes(cell))

    def is_done(self, cell: Cell) -> bool:
        """Whether a cell has been run; refuses one that was run by another recipe."""
        found = read_found(self, cell)
        if found is None:
            return False
        changed = list(differences(found.recipe, recorded(self.recipe(cell))))
        if changed:
            lines = [f"{self.folder(cell)}: was run by another recipe: {line}" for line in changed]
            raise RunError(*lines, f"remove {self.folder(cell)}, or choose another --out")
        return True


def cells_of(suite: Suite, seeds: Sequence[int], rows: Sequence[str]) -> list[Cell]:
    """Every cell, seed by seed, so that each row has its first as early as possible."""
    folds: list[int | None] = [*range(1, suite.folds + 1)] if suite.folds else [None]
    return [Cell(row, seed, fold) for seed in seeds for fold in folds for row in rows]


def share_of(cells: Sequence[Cell], share: str) -> list[Cell]:
    """The cells of one machine of several: 3/8 is the third of eight."""
    number, slash, of = share.partition("/")
    if not (slash and number.isdecimal() and of.isdecimal() and 1 <= int(number) <= int(of)):
        raise RequestError(f"--cells {share}: expected a part of all, such as 3/8")
    return list(cells[int(number) - 1 :: int(of)])


def read_found(experiment: Experiment, cell: Cell) -> Found | None:
    """What came of a cell; None where it is not done."""
    file = experiment.folder(cell) / "cell.json"
    if not file.is_file():
        return None
    try:
        return Found(**json.loads(file.read_text(encoding="utf-8")))
    except (ValueError, TypeError):
        raise RunError(f"{file}: is damaged; remove it, and the cell is scored again") from None


def read_answers(experiment: Experiment, cell: Cell) -> dict[str, Answers]:
    """The predictions of a cell by task."""
    with np.load(experiment.folder(cell) / "answers.npz", allow_pickle=False) as file:
        tasks = [name.removesuffix("/labels") for name in file.files if name.endswith("/labels")]
        return {
            task: Answers(
                file[f"{task}/labels"],
                Decoded(
                    file[f"{task}/values"],
                    file[f"{task}/probabilities"] if f"{task}/probabilities" in file.files else None,
                ),
            )
            for task in tasks
        }


def run_cell(experiment: Experiment, cell: Cell, watcher: Watcher, stop: Callable[[], bool]) -> bool:
    """Do a cell, or go on with it; false where another process is at it."""
    folder = experiment.folder(cell)
    with locked(folder) as free:
        if not free:
            return False
        if experiment.is_done(cell):
            return True
        row = experiment.suite.rows[cell.row]
        settings: list[str] = []
        model: AnyModel
        try:
            if row.ensemble:
                runs, model = run_ensemble(experiment, cell, watcher, stop)
            else:
                chosen = folder / "run"
                if row.grid:
                    chosen, settings = run_grid(experiment, cell, watcher, stop)
                else:
                    run_once(experiment, cell, chosen, (), watcher, stop)
                runs, model = [chosen], load_model(chosen)
        except NotFiniteError as error:
            keep(experiment, cell, failed_cell(experiment, cell, str(error)))
            watcher.note(f"{cell.name} failed: {error}")
            return True
        keep(experiment, cell, score_cell(experiment, cell, runs, model, settings))
        averaged = any(other.ensemble == cell.row for other in experiment.suite.rows.values())
        if not experiment.models and not averaged:
            for run in runs:
                shutil.rmtree(Run(run).best, ignore_errors=True)
                shutil.rmtree(Run(run).kept, ignore_errors=True)
    return True


def run_once(
    experiment: Experiment,
    cell: Cell,
    folder: Path,
    settings: Sequence[str],
    watcher: Watcher,
    stop: Callable[[], bool],
) -> None:
    """Train a cell's recipe into a folder, or go on there; nothing to do where that is finished."""
    suite, run = experiment.suite, Run(folder)
    recipe = suite.recipe_of(cell.row)
    assignments = [*experiment.changes(cell), *settings]
    how: dict[str, Any] = {"data": experiment.data, "profile": experiment.profile, "assignments": assignments}
    if run.facts.is_file():
        if not run.is_finished():
            resume(folder, recipe=recipe, watcher=watcher, stop=stop, **how)
        return
    kept = max((row.models for row in suite.rows.values() if cell.row == row.ensemble), default=0)
    train(recipe, folder, baselines=False, keep=kept, threads="auto", watcher=watcher, stop=stop, **how)


def run_grid(experiment: Experiment, cell: Cell, watcher: Watcher, stop: Callable[[], bool]) -> tuple[Path, list[str]]:
    """The run with the best settings on dev, and those; of the others only their scores stay."""
    row, folder, recipe = experiment.suite.rows[cell.row], experiment.folder(cell), experiment.recipe(cell)

    def place(number: int) -> Path:
        return folder / "trials" / f"{number:03}"

    def measure(trial: Trial) -> float:
        def start(told: Watcher, stopping: Callable[[], bool]) -> float:
            run_once(experiment, cell, place(trial.number), trial.assignments, told, stopping)
            return best_score(place(trial.number))

        try:
            found = run_trial(
                trial,
                start,
                watcher=watcher,
                stop=stop,
                best_by=recipe.best_by,
                last_stage=max(len(recipe.stages) - 1, 0),
            )
        finally:
            drop_losers()
        return float("nan") if found is None else found

    def drop_losers() -> None:
        """Of the runs that are finished, only the best so far keeps its model."""
        finished = [run for run in sorted((folder / "trials").iterdir()) if Run(run).result.is_file()]
        for run in sorted(finished, key=best_score, reverse=True)[1:]:
            shutil.rmtree(Run(run).best, ignore_errors=True)

    choice = choose_settings(row.grid, row.search, folder, measure, watcher.note)
    return place(choice.number), choice.assignments


def best_score(folder: Path) -> float:
    """The score by which a finished run chose its best model."""
    told = json.loads(Run(folder).result.read_text(encoding="utf-8"))
    return float("-inf") if told["best_score"] is None else float(told["best_score"])


def run_ensemble(
    experiment: Experiment, cell: Cell, watcher: Watcher, stop: Callable[[], bool]
) -> tuple[list[Path], Ensemble]:
    """The runs of an ensemble and its best models; the first run is the cell of the row that it is made of."""
    row = experiment.suite.rows[cell.row]
    assert row.ensemble is not None
    runs: list[Path] = []
    for number in range(row.runs):
        member = Cell(row.ensemble, cell.seed + number * FURTHER, cell.fold)
        folder = experiment.folder(member if number == 0 else cell) / ("run" if number == 0 else f"run-{number + 1}")
        run_once(experiment, member, folder, (), watcher, stop)
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
    suite = experiment.suite
    examples = find_split(model, runs[0], about, suite.split, experiment.data)
    counted = [find_split(model, runs[0], about, split, experiment.data) for split in suite.counted]
    decoded = {task: decode_examples(model, task, part) for task, part in examples.items()}
    arrays: dict[str, np.ndarray] = {}
    for task, part in examples.items():
        arrays[f"{task}/labels"], arrays[f"{task}/values"] = part.labels, decoded[task].values
        if (probabilities := decoded[task].probabilities) is not None:
            arrays[f"{task}/probabilities"] = probabilities
    with whole_file(experiment.folder(cell) / "answers.npz") as aside, aside.open("wb") as file:
        np.savez_compressed(file, **arrays)  # type: ignore[arg-type]
    scores = {task: score(model.tasks[task], part.labels, decoded[task]) for task, part in examples.items()}
    return Found(
        scores={task: found.value for task, found in scores.items()},
        metrics={task: found.metric for task, found in scores.items()},
        kinds={task: model.tasks[task].labels.kind for task in scores},
        rows={task: sum(len(part[task]) for part in counted if task in part) for task in counted[0]},
        seconds=sum(json.loads(Run(run).result.read_text(encoding="utf-8"))["seconds"] for run in runs),
        settings=list(settings),
        **facts_of(experiment.recipe(cell)),
    )


def failed_cell(experiment: Experiment, cell: Cell, why: str) -> Found:
    """A cell whose training broke down: it has no scores, and is not tried again."""
    return Found({}, {}, {}, rows={}, seconds=0.0, failed=why, **facts_of(experiment.recipe(cell)))


def facts_of(recipe: Recipe) -> dict[str, Any]:
    """What tells a cell from the paper's, and from one of another recipe."""
    epochs = [stage.epochs for stage in recipe.stage_recipes()]
    return {"encoder": recipe.encoder, "epochs": epochs, "recipe": recorded(recipe)}


def recorded(recipe: Recipe) -> dict[str, Any]:
    """A recipe as cell.json holds it."""
    found: dict[str, Any] = json.loads(json.dumps(portable(recipe.model_dump(mode="json"))))
    return found


def keep(experiment: Experiment, cell: Cell, found: Found) -> None:
    """Say that a cell is done."""
    with whole_file(experiment.folder(cell) / "cell.json") as aside:
        write_json(aside, asdict(found))


@contextmanager
def locked(folder: Path) -> Iterator[bool]:
    """Whether this process is the only one at a cell."""
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / ".cell.lock").open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            yield False
        else:
            yield True
