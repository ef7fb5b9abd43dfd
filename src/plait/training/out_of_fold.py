"""What models predict for training rows that they were not trained on: every row is held out once.

n rows, F inputs of a layer.
"""

import shutil
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

import numpy as np
import torch

from plait.data.examples import Examples
from plait.data.partition import k_folds
from plait.data.prediction_arrays import PredictionArrays
from plait.errors import RequestError
from plait.model.directory.load import load_model
from plait.model.encode_texts import embed_views, predict_columns, predict_embedded
from plait.model.tasks import TaskSpec
from plait.progress import Progress
from plait.recipe.schema import Recipe
from plait.resolve.run import ResolvedRun, resolve_run
from plait.resolve.single_task import restrict_to_tasks
from plait.resolve.task import ResolvedTask
from plait.runs.directory import RunDirectory
from plait.training.given_recipe import check_unchanged
from plait.training.objective import make_objective
from plait.training.train import resume, train
from plait.training.trainer import build_stage_model
from plait.training.warm_heads import MOST_ROWS, as_double, inputs_of, loss_of, output_layer, solve_layer

__all__ = ["HeldOutPredictions", "predict_frozen", "predict_trained"]

HeldOutPredictions = tuple[TaskSpec, Examples, PredictionArrays]  # of a task


def predict_frozen(recipe: Recipe, name: str, folds: int, progress: Progress) -> HeldOutPredictions:
    """Predictions for all training rows of a task by heads on the frozen encoder, each solved without one fold."""
    stage = next(part for part in reversed(recipe.stage_recipes()) if name in part.tasks)
    own = restrict_to_tasks(stage, [name])
    whole = {"train_rows": None, "choose_rows": None}
    tasks = {name: own.tasks[name].model_copy(update=whole)}
    resolved = resolve_run(own.model_copy(update={**whole, "fold": f"1/{folds}", "tasks": tasks}))
    task = resolved.stages[-1].tasks[name]
    if not task.spec.head:
        raise RequestError(f"the task {name!r} has no head, so it predicts no labels")
    every = _training_rows(task)
    strata = task.spec.labels.about.strata(every.labels)
    parts = [part for part in k_folds(every.texts, strata, folds, f"{recipe.seed}/{name}/folds").parts if part]
    return task.spec, every, _solve_and_predict(resolved, task, every, parts, progress)


def _training_rows(task: ResolvedTask) -> Examples:
    """The training rows with those that were held out or split off."""
    splits = ["train", "test", *(["dev"] if task.settings.share("dev") is not None else [])]
    return _joined([task.splits[split] for split in splits if split in task.splits])


def _joined(parts: Sequence[Examples]) -> Examples:
    columns = zip(*(part.texts for part in parts), strict=True)
    texts = tuple([text for column in sides for text in column] for sides in columns)
    return Examples(texts, np.concatenate([part.labels for part in parts]), [o for part in parts for o in part.origins])


def _solve_and_predict(
    resolved: ResolvedRun, task: ResolvedTask, every: Examples, parts: Sequence[Sequence[int]], progress: Progress
) -> PredictionArrays:
    """The predictions for each part by a head that was solved on the others; texts are encoded once."""
    model, name = build_stage_model(resolved.stages[-1], resolved.checkpoint), task.spec.name
    model.eval()
    progress.begin(f"{name}: encoding {len(every):,} rows", 0)
    views = embed_views(model, every.texts, task.spec.views, task.spec.max_length, advance=progress.advance)
    progress.end()
    width, seed = model.encoder.config.width, str(resolved.recipe.seed)
    objective = make_objective(task, width=width, device=torch.device("cpu"), seed=seed, predictions_only=True)
    layer = output_layer(model, name) if objective.predicts else None
    if layer is None:  # no weights to solve: every prediction is out of fold
        return predict_embedded(model, name, views)
    inputs_nF, labels_n, loss = inputs_of(layer, model, name, views), as_double(every.labels), loss_of(objective)
    fold_n = np.empty(len(every), dtype=int)
    for number, part in enumerate(parts):
        fold_n[list(part)] = number
    predicted = []
    progress.begin(f"{name}: solving heads", len(parts))
    for number, part in enumerate(parts):
        rest = np.flatnonzero(fold_n != number)
        rest = rest[np.linspace(0, len(rest) - 1, min(MOST_ROWS, len(rest))).astype(int)]
        inner = [np.flatnonzero(fold_n[rest] == other).tolist() for other in range(len(parts)) if other != number]
        if len(inner) == 1:  # of two folds, the other one is divided to choose the penalty
            inner = [list(range(0, len(rest), 2)), list(range(1, len(rest), 2))]
        solved = solve_layer(
            layer.out_features,
            inputs_nF[rest],
            labels_n[rest],
            loss,
            [rows for rows in inner if rows],
            free=task.spec.head_class.unpenalised,
        )
        with torch.no_grad():
            layer.weight.copy_(solved[0])
            layer.bias.copy_(solved[1])
        predicted.append(predict_embedded(model, name, {view: vectors[list(part)] for view, vectors in views.items()}))
        progress.advance()
    progress.end()
    order = np.argsort(np.concatenate([np.asarray(part, dtype=int) for part in parts]), kind="stable")
    return PredictionArrays.joined(predicted).rows(order)


def predict_trained(
    recipe: Recipe, names: Iterable[str], folds: int, folder: Path, progress: Progress
) -> Mapping[str, HeldOutPredictions]:
    """The same by the whole recipe, trained once for each fold in `folder`; finished trainings are not repeated."""
    found: dict[str, list[HeldOutPredictions]] = {name: [] for name in names}
    for number in range(1, folds + 1):
        progress.note(f"training without fold {number} of {folds}")
        parts = [part.model_copy(update={"fold": f"{number}/{folds}"}) for part in recipe.stage_recipes()]
        own, run = Recipe.of_stages(parts), RunDirectory(folder / str(number))
        resolved = resolve_run(own)
        if run.has_begun and run.is_finished():
            check_unchanged(run, resolved)
        elif run.has_begun:
            resume(run.folder, recipe=own, progress=progress)
        else:
            train(own, run.folder, baselines=False, progress=progress)
        model = load_model(run.best).model
        for name in found:
            held = resolved.data.tasks[name].splits["test"]
            predictions = predict_columns(model, name, held.texts).predictions
            found[name].append((model.tasks[name], held, predictions))
    shutil.rmtree(folder)
    return {
        name: (parts[0][0], _joined([part[1] for part in parts]), PredictionArrays.joined([part[2] for part in parts]))
        for name, parts in found.items()
    }
