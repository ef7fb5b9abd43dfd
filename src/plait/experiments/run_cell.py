"""One cell: trained or resumed, and scored."""

import shutil
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext, suppress
from dataclasses import replace
from pathlib import Path

import numpy as np
import torch

import plait
from plait.data.examples import Examples
from plait.errors import NotFiniteError, PlaitError, RequestError, RunError
from plait.evaluation.evaluate import TaskScores, score_predictions
from plait.experiments.cells import Cell, Experiment, data_fingerprints
from plait.experiments.records import CellResult, LabelledPredictions, write_predictions
from plait.experiments.tune import BestTrial, Trial, choose_settings, run_trial
from plait.files import lock
from plait.model.directory.load import load_model
from plait.model.directory.record import open_directory
from plait.model.encode_texts import AnyModel, predict_columns
from plait.model.ensemble import Ensemble
from plait.model.model import Model
from plait.progress import Progress
from plait.resolve.run import resolve_run
from plait.resolve.saved import as_saved
from plait.resolve.variants import variant_versions
from plait.runs.best_models import RankedModel, rank_models
from plait.runs.directory import RunDirectory
from plait.runs.origins import find_split
from plait.training.baselines import find_free_scores
from plait.training.given_recipe import check_unchanged
from plait.training.train import resume, train

__all__ = ["cell_mistakes", "run_cell"]

_SEED_STEP = 100_000  # from the seed of one run of an ensemble to the next
_Stop = Callable[[], bool]


class _CellBusyError(Exception):
    """Another process is working on a cell."""


def cell_mistakes(experiment: Experiment, cell: Cell, *, need_data: bool = True) -> Iterator[str]:
    """What is wrong with a cell's recipe and with the values of its grid; without `need_data`, files may be missing."""
    grid = experiment.suite.rows[cell.row].grid
    for settings in [[], *(Trial(0, {key: value}).overrides for key, values in grid.items() for value in values)]:
        try:
            recipe = experiment.recipe(cell, settings, missing_files="refuse" if need_data else "keep")
        except PlaitError as error:
            yield from error.mistakes
            continue
        if grid and not any(task.dev for task in recipe.tasks.values()):
            yield f"{recipe.where('tasks')}a grid needs dev data to choose the best settings, and no task has any"


def run_cell(experiment: Experiment, cell: Cell, progress: Progress, stop: _Stop) -> bool:
    """Run or resume a cell; False if another process is working on it."""
    searched = experiment.suite.rows[cell.row].search is not None
    if searched and not experiment.is_done(cell):  # processes share the trials of a search, each with its own lock
        with suppress(NotFiniteError):
            _run_grid(experiment, cell, progress, stop)
    try:
        with _claim(experiment, cell, wait=searched):
            if not experiment.is_done(cell):
                _train_and_score(experiment, cell, progress, stop).write(experiment.record_file(cell))
                if not experiment.models:
                    _delete_unused_models(experiment, cell)
    except _CellBusyError:
        return False
    experiment.list_in_results([cell])
    return True


def _train_and_score(experiment: Experiment, cell: Cell, progress: Progress, stop: _Stop) -> CellResult:
    """The result of a cell; if training fails because a number is not finite, it has no scores."""
    row = experiment.suite.rows[cell.row]
    run, best, model = experiment.folder(cell) / "run", None, None
    try:
        if row.ensemble:
            run, model = _run_ensemble(experiment, cell, progress, stop)
        elif row.grid:
            run, best = _run_grid(experiment, cell, progress, stop)
        else:
            _run_once(experiment, cell, run, (), progress, stop)
    except NotFiniteError as error:
        progress.note(f"{cell.name} failed: {error}")
        return replace(_unscored(experiment, cell), failed=str(error))
    free = _free_scores(experiment, cell, run, best.overrides if best else [], progress)
    return replace(_score_cell(experiment, cell, run, model or load_model(run).model, best), free=free)


def _run_once(
    experiment: Experiment, cell: Cell, folder: Path, settings: Sequence[str], progress: Progress, stop: _Stop
) -> None:
    """Train a cell's recipe into a folder, or resume it there; a finished run is left alone."""
    suite, run = experiment.suite, RunDirectory(folder)
    recipe = experiment.recipe(cell, settings)
    if recipe.refit:
        raise RequestError(f"{cell.row}: a suite scores its models on dev, and a refit trains on dev; drop refit")
    if recipe.calibrate:
        raise RequestError(f"{cell.row}: a suite scores its models on dev, which calibrate fits; drop calibrate")
    source, overrides = suite.source(cell.row), [*experiment.overrides_of(cell), *settings]
    if run.has_begun:
        if run.is_finished():
            check_unchanged(run, resolve_run(recipe, experiment.data))
            return
        resume(
            folder,
            recipe=source,
            data=experiment.data,
            profile=experiment.profile,
            overrides=overrides,
            progress=progress,
            stop=stop,
        )
        return
    train(
        source,
        folder,
        data=experiment.data,
        profile=experiment.profile,
        overrides=overrides,
        baselines=False,
        keep=max((row.models for row in suite.rows.values() if cell.row == row.ensemble), default=0),
        threads=experiment.threads.get(recipe.encoder, "auto"),
        progress=progress,
        stop=stop,
    )
    experiment.threads[recipe.encoder] = run.record.threads


def _run_grid(experiment: Experiment, cell: Cell, progress: Progress, stop: _Stop) -> tuple[Path, BestTrial]:
    """The run with the best settings on dev, and the trials; the other runs keep their scores, not their models."""
    row, folder, recipe = experiment.suite.rows[cell.row], experiment.folder(cell), experiment.recipe(cell)

    def folder_of(number: int) -> Path:
        return folder / "trials" / f"{number:03}"

    def measure(trial: Trial) -> float:
        run = RunDirectory(folder_of(trial.number))

        def start(progress: Progress, stop: _Stop) -> float:
            _run_once(experiment, cell, run.folder, trial.overrides, progress, stop)
            return _best_score(run)

        last_stage = max(len(recipe.stages) - 1, 0)
        try:
            score = run_trial(trial, start, progress=progress, stop=stop, best_by=recipe.best_by, last_stage=last_stage)
        except NotFiniteError:
            _delete_models(run)
            raise
        if score is None:
            _delete_models(run)
            return float("nan")
        runs = map(RunDirectory, sorted((folder / "trials").iterdir()))
        for loser in sorted(runs, key=_best_score, reverse=True)[1:]:
            if loser.is_finished():
                _delete_models(loser)
        return score

    best = choose_settings(row.grid, row.search, folder, measure, progress.note, recipe=as_saved(recipe))
    return folder_of(best.number), best


def _best_score(run: RunDirectory) -> float:
    """The score that selected the best model of a finished run."""
    if not run.is_trained:
        return float("-inf")
    score = run.read_result().best_score
    return float("-inf") if score is None else score


def _delete_models(run: RunDirectory) -> None:
    for folder in (run.best, run.kept, run.checkpoints):
        shutil.rmtree(folder, ignore_errors=True)


def _run_ensemble(experiment: Experiment, cell: Cell, progress: Progress, stop: _Stop) -> tuple[Path, Ensemble]:
    """The first run of an ensemble, which is the cell of the row that it averages, and the ensemble."""
    row = experiment.suite.rows[cell.row]
    assert row.ensemble is not None
    runs: list[Path] = []
    for number in range(row.runs):
        member = replace(cell, row=row.ensemble, seed=cell.seed + number * _SEED_STEP)
        folder = experiment.folder(member) / "run" if number == 0 else experiment.folder(cell) / f"run-{number + 1}"
        with _claim(experiment, member) if number == 0 else nullcontext():
            _run_once(experiment, member, folder, (), progress, stop)
        if not _kept_models(folder):
            raise RunError(f"{folder}: was trained before it was part of an ensemble and kept no models; remove it")
        runs.append(folder)
    ranked = [(run, model) for run in runs for model in _kept_models(run)]
    run_of = {id(model): run for run, model in ranked}
    chosen = rank_models([model for _, model in ranked])[: row.models]
    models = [load_model(run_of[id(model)] / "kept" / model.name).model for model in chosen]
    return runs[0], Ensemble(tuple(model for model in models if isinstance(model, Model)))


def _kept_models(run: Path) -> list[RankedModel]:
    return RunDirectory(run).read_result().kept


def _score_cell(
    experiment: Experiment, cell: Cell, run: Path, model: AnyModel, best: BestTrial | None = None
) -> CellResult:
    """The scores of a model on the suite's split; the predictions are written to the cell's folder."""
    directory = open_directory(run)

    def examples_of(split: str) -> Mapping[str, Examples]:
        return find_split(directory.record, directory.folder, split, experiment.data)

    def predict(split: str) -> dict[str, LabelledPredictions]:
        return {
            task: LabelledPredictions(examples.labels, predict_columns(model, task, examples.texts).predictions)
            for task, examples in examples_of(split).items()
        }

    def score(predictions: Mapping[str, LabelledPredictions]) -> dict[str, TaskScores]:
        return {
            task: score_predictions(model.tasks[task], of_task.labels, of_task.predictions)
            for task, of_task in predictions.items()
        }

    predictions = predict(experiment.suite.split)
    write_predictions(experiment.predictions_file(cell), predictions)
    scores = score(predictions)
    train = score(predict("train")) if experiment.suite.train_scores else {}
    counted = [examples_of(split) for split in _training_splits(experiment, cell)]
    return replace(
        _unscored(experiment, cell, best),
        scores={task: found.value for task, found in scores.items()},
        metrics={task: found.metric for task, found in scores.items()},
        kinds={task: model.tasks[task].labels.kind for task in scores},
        train={task: found.value for task, found in train.items() if task in scores and np.isfinite(found.value)},
        rows={task: sum(len(part[task]) for part in counted if task in part) for task in counted[0]},
    )


def _free_scores(
    experiment: Experiment, cell: Cell, run: Path, settings: Sequence[str], progress: Progress
) -> dict[str, dict[str, float]]:
    """What the free rows score on the data of a cell; empty if the suite does without them."""
    suite = experiment.suite
    if not suite.free_rows:
        return {}
    resolved = resolve_run(experiment.recipe(cell, settings), experiment.data)
    try:
        return find_free_scores(RunDirectory(run), resolved, suite.split, progress)
    except NotFiniteError as error:
        progress.note(f"{cell.name}: free rows are not measured: {error}")
        return {}


def _unscored(experiment: Experiment, cell: Cell, best: BestTrial | None = None) -> CellResult:
    """The record of a cell without scores."""
    settings = best.overrides if best else []
    recipe = experiment.recipe(cell, settings)
    return CellResult(
        scores={},
        metrics={},
        kinds={},
        encoder=as_saved(recipe)["encoder"],
        rows={},
        epochs=[stage.epochs for stage in recipe.stage_recipes()],
        seconds=_training_seconds(experiment, cell),
        recipe=as_saved(experiment.recipe(cell)),
        row=experiment.suite.rows[cell.row].run_keys(),
        data=data_fingerprints(recipe),
        settings=settings,
        trials=list(best.trials) if best else [],
        versions={"plait": plait.__version__, "torch": torch.__version__},
        variants=variant_versions(recipe),
    )


def _training_splits(experiment: Experiment, cell: Cell) -> list[str]:
    """The splits that make up what the paper calls its training data; folds divide it into several."""
    if cell.fold is None:
        return ["train"]
    shared = any(task.share("dev") for task in experiment.recipe(cell).tasks.values())
    return ["train", "test", *(["dev"] if shared else [])]


def _training_seconds(experiment: Experiment, cell: Cell) -> float:
    """The time of all finished runs of a cell; the first run of an ensemble belongs to another cell."""
    runs = [RunDirectory(path.parent) for path in sorted(experiment.folder(cell).rglob("result.json"))]
    return sum(run.read_result().seconds for run in runs)


def _delete_unused_models(experiment: Experiment, cell: Cell) -> None:
    """Delete the models of a cell, and of the one that it averages, once no other cell needs them."""
    rows = experiment.suite.rows
    for row in filter(None, (cell.row, rows[cell.row].ensemble)):
        users = [row, *(name for name, other in rows.items() if other.ensemble == row)]
        if all(experiment.is_done(replace(cell, row=user)) for user in users):
            for result in experiment.folder(replace(cell, row=row)).rglob("result.json"):
                _delete_models(RunDirectory(result.parent))


@contextmanager
def _claim(experiment: Experiment, cell: Cell, *, wait: bool = False) -> Iterator[None]:
    """Hold the lock of a cell; raises _CellBusyError if another process has it and `wait` is off."""
    folder = experiment.folder(cell)
    folder.mkdir(parents=True, exist_ok=True)
    with lock(folder / ".cell.lock", wait=wait) as held:
        if not held:
            raise _CellBusyError
        yield
