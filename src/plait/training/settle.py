"""A recipe and its files → a complete recipe, the tasks of the model, and their examples; every mistake at once."""

import random
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
from torch import nn

from plait.data.examples import Examples, examples_from
from plait.data.labels import Kind, Labels, guess_kind, labels_from
from plait.data.read import Rows, read_rows, shown_names
from plait.encoder.config import read_config
from plait.encoder.find import checkpoint_files, find_checkpoint
from plait.errors import DataError, EncoderError, PlaitError, RecipeError, RequestError
from plait.evaluation.metrics import METRICS
from plait.heads import HEADS
from plait.losses import LOSSES
from plait.model.files import sha256_of
from plait.model.load import pick_device
from plait.model.tasks import TaskSpec
from plait.recipe.options import complete_options
from plait.recipe.schema import Choice, Label, LossChoice, Recipe, Task
from plait.training.checks import check_lengths, check_settled, unseen_labels

__all__ = ["SPLITS", "Settled", "TaskData", "settle", "settle_recipe"]

SPLITS = ("train", "dev", "test")
# What a task gets when it names no head and no loss: by kind of label, for one text and for two.
DEFAULT_HEADS = {
    "classes": ("linear", "joined"),
    "yes_no": ("linear", "difference_product"),
    "score": ("linear", "cosine"),
}
DEFAULT_LOSSES = {"classes": "cross_entropy", "yes_no": "binary_cross_entropy", "score": "mse"}


@dataclass(frozen=True)
class TaskData:
    """One task of a run: what the model knows of it, and its examples by split."""

    spec: TaskSpec
    settings: Task  # complete
    splits: dict[str, Examples]
    class_weights: np.ndarray | None

    @property
    def train(self) -> Examples:
        """The examples that it learns from."""
        return self.splits["train"]


@dataclass(frozen=True)
class Settled:
    """A complete recipe and everything it needs but the weights."""

    recipe: Recipe
    tasks: dict[str, TaskData]
    fingerprints: dict[str, dict[str, list[dict[str, str | int]]]]  # task → split → files
    encoder: dict[str, str]  # file of its checkpoint → sha256

    @property
    def specs(self) -> dict[str, TaskSpec]:
        """The tasks as the model knows them."""
        return {name: task.spec for name, task in self.tasks.items()}


def settle_recipe(recipe: Recipe) -> Settled:
    """Find the encoder, read the data of every task, and decide what the recipe left open; every mistake at once."""
    mistakes: list[str] = []
    try:
        checkpoint = find_checkpoint(recipe.encoder)
        config = read_config(checkpoint)
        mistakes += check_lengths(recipe, checkpoint, config)
    except EncoderError as error:
        mistakes += [recipe.where("encoder") + mistake for mistake in error.mistakes]
    try:
        pick_device(recipe.device)
    except RequestError as error:
        mistakes += [recipe.where("device") + mistake for mistake in error.mistakes]
    try:
        settled = settle(recipe, config.limit if not mistakes else 1)
    except DataError as error:
        mistakes += error.mistakes
    if mistakes:
        raise RecipeError(*mistakes)
    normalise = config.normalise if recipe.normalise is None else recipe.normalise
    return replace(
        settled,
        recipe=settled.recipe.model_copy(update={"normalise": normalise}),
        encoder={name: sha256_of(checkpoint / name) for name in checkpoint_files(checkpoint)},
    )


def settle(recipe: Recipe, limit: int) -> Settled:
    """Read the data of every task and decide what the recipe left open; `limit` is the encoder's, in tokens."""
    mistakes: list[str] = []
    tasks: dict[str, TaskData] = {}
    for name in recipe.tasks:
        try:
            tasks[name] = settle_task(recipe, name, limit)
        except PlaitError as error:
            mistakes += error.mistakes
    mistakes += [
        f"{recipe.where('tasks', name)}{name!r} cannot be the name of a task; choose another"
        for name in recipe.tasks
        if hasattr(nn.ModuleDict(), name)  # the model keeps its heads there, by name
    ]
    scored = [name for name, task in tasks.items() if "dev" in task.splits]
    if len(tasks) == len(recipe.tasks):
        if recipe.best_by != "mean" and recipe.best_by not in scored:
            mistakes.append(f"{recipe.where('best_by')}the task {recipe.best_by!r} has no dev data to judge by")
        if recipe.early_stopping and not scored:
            mistakes.append(f"{recipe.where('early_stopping')}needs dev data, and no task has any")
    if mistakes:
        raise DataError(*mistakes)
    complete = recipe.model_copy(
        update={
            "tasks": {name: data.settings for name, data in tasks.items()},
            "epochs": recipe.epochs if recipe.epochs or recipe.steps else 3,
            "head_lr": recipe.head_lr or recipe.lr,
        }
    )
    return Settled(complete, tasks, {name: fingerprints(recipe, name, data) for name, data in tasks.items()}, {})


def settle_task(recipe: Recipe, name: str, limit: int) -> TaskData:
    """One task, its data read."""
    task = recipe.tasks[name]
    columns = [*task.text, task.label.column]
    mistakes: list[str] = []
    rows: dict[str, Rows] = {}
    for split in SPLITS:
        try:
            rows[split] = read_rows(recipe.files(name, split), columns, quoting=task.quoting)
        except DataError as error:
            mistakes += error.mistakes
    if mistakes:
        raise DataError(*mistakes)
    if not len(rows["train"]):
        raise DataError(f"{recipe.where('tasks', name, 'train')}the training data has no rows")
    values = rows["train"].columns[task.label.column]
    kind = decide_kind(task, values)
    try:
        given = task.label
        labels = labels_from(values, kind, classes=given.classes, range=given.range, positive=given.positive)
    except DataError as error:
        raise DataError(recipe.where("tasks", name, "label") + str(error)) from None
    settled = complete_task(task, labels, recipe)
    mistakes += check_settled(recipe, name, settled, labels)
    splits: dict[str, Examples] = {}
    for split in SPLITS:
        if not len(rows[split]):
            if recipe.files(name, split):
                mistakes.append(f"{recipe.where('tasks', name, split)}the data has no rows")
            continue
        try:
            splits[split] = examples_from(rows[split], task.text, given.column, labels)
        except DataError as error:
            mistakes += error.mistakes
    mistakes += unseen_labels(recipe, name, labels, splits)
    if settled.metric == "roc_auc" and "dev" in splits and len(np.unique(splits["dev"].labels)) < 2:
        mistakes.append(f"{recipe.where('tasks', name, 'metric')}roc_auc needs two classes in dev, which has one")
    if mistakes:
        raise RecipeError(*mistakes)
    splits["train"] = fewer_rows(splits["train"], settled.rows, f"{recipe.seed}/{name}")
    assert settled.head is not None and settled.loss is not None and settled.metric is not None
    spec = TaskSpec(
        name=name,
        text=task.text,
        label=given.column,
        quoting=task.quoting,
        labels=labels,
        head=settled.head.name,
        head_options=settled.head.options,
        link=LOSSES[settled.loss[0].name].links[labels.kind],
        metric=settled.metric,
        threshold=0.5,
        max_length=task.max_length or limit,
    )
    return TaskData(spec, settled, splits, weigh_classes(settled, labels, splits["train"].labels))


def decide_kind(task: Task, values: list[str]) -> Kind:
    """What kind of label this is: as the recipe says, as its losses need, or as the values look."""
    label = task.label
    given = {"classes": label.classes, "score": label.range, "yes_no": label.positive}
    for kind, value in given.items():
        if label.kind == kind or value is not None:
            return kind  # type: ignore[return-value]  # the keys are the kinds
    looks = guess_kind(values, pair=len(task.text) == 2)
    if task.loss is None:
        return looks
    if any(loss.options.get("threshold") is not None for loss in task.loss):
        return "score"
    kinds = [kind for kind in LOSSES[task.loss[0].name].links if all(kind in LOSSES[x.name].links for x in task.loss)]
    return looks if looks in kinds or not kinds else kinds[0]  # type: ignore[return-value]


def complete_task(task: Task, labels: Labels, recipe: Recipe) -> Task:
    """The task with nothing left out."""
    default = DEFAULT_HEADS[labels.kind][len(task.text) - 1]
    if recipe.shared_layer and not HEADS[default].after_shared_layer:
        default = "difference_product"
    head = task.head or Choice(name=default)
    losses = task.loss or (LossChoice(name=DEFAULT_LOSSES[labels.kind]),)
    words = dict(zip(labels.classes, labels.names, strict=True))
    return task.model_copy(
        update={
            "head": head.model_copy(update={"options": complete_options(HEADS[head.name], head.options)[0]}),
            "loss": tuple(
                loss.model_copy(update={"options": complete_options(LOSSES[loss.name].function, loss.options)[0]})
                for loss in losses
            ),
            "metric": task.metric or next(iter(METRICS[labels.kind])),
            "batch_size": task.batch_size or recipe.batch_size,
            "rows": task.rows or recipe.rows,
            "label": Label(
                column=task.label.column,
                kind=labels.kind,
                classes=words if labels.kind == "classes" else None,
                range=(labels.low, labels.high) if labels.kind == "score" else None,
                positive=task.label.positive,
            ),
        }
    )


def weigh_classes(task: Task, labels: Labels, encoded: np.ndarray) -> np.ndarray | None:
    """A weight for each class: as given, or so that every class counts alike."""
    if task.class_weights is None:
        return None
    if isinstance(task.class_weights, dict):
        return np.array([task.class_weights[word] for word in labels.classes], dtype=np.float32)
    counts = np.bincount(encoded, minlength=len(labels.classes))
    return (len(encoded) / (len(counts) * np.maximum(counts, 1))).astype(np.float32)


def fewer_rows(examples: Examples, rows: int | None, seed: str) -> Examples:
    """At most so many rows, drawn by the seed, in their old order."""
    if rows is None or rows >= len(examples):
        return examples
    return examples.chosen(sorted(random.Random(f"{seed}/rows").sample(range(len(examples)), rows)))


def fingerprints(recipe: Recipe, name: str, data: TaskData) -> dict[str, list[dict[str, str | int]]]:
    """The files of each split, with their sha256 and the rows in use."""
    return {
        split: [
            fingerprint(path, sum(origin.rpartition(":")[0] == shown for origin in data.splits[split].origins))
            for path, shown in shown_names(recipe.files(name, split)).items()
        ]
        for split in SPLITS
        if split in data.splits
    }


def fingerprint(path: Path, rows: int) -> dict[str, str | int]:
    """One file."""
    return {"name": path.name, "sha256": sha256_of(path), "rows": rows}
