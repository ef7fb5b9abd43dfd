"""One task of a run: its files read, its labels understood, everything decided that the recipe left open."""

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from plait.data.examples import Examples, examples_from, in_order
from plait.data.held_out import hold_out
from plait.data.labels import Kind, Labels, guess_kind, labels_from
from plait.data.make import as_made
from plait.data.read import BadRow, Rows, row_mistakes
from plait.data.splits import divide, fewer_rows, read_splits
from plait.errors import DataError, RecipeError
from plait.evaluation.metrics import METRICS
from plait.heads import HEADS
from plait.losses import LOSSES, Loss
from plait.model.tasks import TaskSpec
from plait.recipe.options import complete_options
from plait.recipe.schema import Choice, Label, LossChoice, Recipe, Task
from plait.training.checks import (
    any_of_predictions,
    check_headless,
    check_known,
    check_known_head,
    check_settled,
    check_two_classes,
    few_positives,
    unseen_labels,
)
from plait.training.objective import positive_rows

__all__ = ["DEFAULT_HEADS", "DEFAULT_LOSSES", "TaskData", "settle_task"]

# What a task gets when it names no head and no loss: by kind of label, for one text and for two.
DEFAULT_HEADS = {
    "classes": ("linear", "joined"),
    "several": ("linear", "joined"),
    "yes_no": ("linear", "difference_product"),
    "score": ("linear", "cosine"),
    "triplets": ("", "", "nearer"),
    "unlabelled": ("", ""),
}
DEFAULT_LOSSES = {
    "classes": "cross_entropy",
    "several": "binary_cross_entropy",
    "yes_no": "binary_cross_entropy",
    "score": "mse",
    "triplets": "simcse_supervised",
}


@dataclass(frozen=True)
class TaskData:
    """One task of a run: what the model knows of it, and its examples by split."""

    spec: TaskSpec
    settings: Task  # complete
    splits: dict[str, Examples]
    class_weights: np.ndarray | None
    bad: list[BadRow]  # left out
    lonely: dict[str, int] = field(default_factory=dict)  # by split: rows without a partner to make a triplet with
    notes: list[str] = field(default_factory=list)  # what to tell of its fold

    @property
    def train(self) -> Examples:
        """The examples that it learns from."""
        return self.splits["train"]


def settle_task(recipe: Recipe, name: str, limit: int, known: TaskSpec | None = None) -> TaskData:
    """One task, its data read; `known` is the task of that name in a model that the run starts from."""
    given, fold, seed = recipe.tasks[name], recipe.fold, f"{recipe.seed}/{name}"
    task = as_made(given)
    rows = read_splits(given, fold=fold)
    bad = in_order([row for part in rows.values() for row in part.bad])
    if not len(rows["train"]):
        raise DataError(*row_mistakes(bad) or [f"{recipe.where('tasks', name, 'train')}the training data has no rows"])
    try:
        labels = decide_labels(task, rows["train"], known)  # of all of it, before dev gets its share
    except DataError as error:
        raise DataError(*row_mistakes(bad), recipe.where("tasks", name, "label") + str(error)) from None
    settled = complete_task(task, labels, recipe, known)
    if known and not task.head and (conflict := check_known_head(recipe, name, settled, labels, known)):
        raise RecipeError(conflict)
    if not settled.head and (mistakes := list(check_headless(recipe, name))):
        raise RecipeError(*mistakes)
    try:
        rows = divide(rows, given, labels.kind, seed, fold)
    except DataError as error:
        raise DataError(*row_mistakes(bad), f"{recipe.where('tasks', name)}{error}") from None
    mistakes = list(check_settled(recipe, name, settled, labels))
    splits, bad = all_examples(task, rows, labels)
    if recipe.bad_rows == "stop":
        mistakes += row_mistakes(bad)
    sound = not bad or recipe.bad_rows == "skip"
    for split, part in splits.items():
        if task.sources(split) and not len(part) and sound:
            mistakes.append(f"{recipe.where('tasks', name, split)}the data has no rows that can be used")
    splits = {split: part for split, part in splits.items() if len(part)}
    mistakes += unseen_labels(recipe, name, labels, splits) if sound and settled.head else []
    mistakes += check_two_classes(recipe, name, settled, splits)
    if mistakes:
        raise RecipeError(*mistakes)
    if task.learn and (few := list(few_positives(recipe, name, settled, labels, splits["train"]))):
        raise RecipeError(*few)
    notes: list[str] = []
    if fold and settled.head:
        try:
            held = hold_out(splits, settled, labels.kind, fold, seed)
        except DataError as error:
            raise DataError(f"{recipe.where('tasks', name)}{error}") from None
        splits, notes = held.splits, held.notes(labels)
        if mistakes := list(check_two_classes(recipe, name, settled, splits)):
            raise RecipeError(*mistakes)
    if not settled.head:
        splits["train"] = positives_of(settled, labels, splits["train"])
    splits = {split: fewer_rows(part, settled, split, seed) for split, part in splits.items()}
    spec = spec_of(name, settled, labels, limit)
    if known and (conflict := check_known(recipe, name, spec, known)):
        raise RecipeError(conflict)
    settings = (
        settled.model_copy(update={"text": given.text, "label": given.label, "make": given.make})
        if given.make
        else settled
    )
    lonely = {split: part.lonely for split, part in rows.items() if part.lonely}
    return TaskData(spec, settings, splits, weigh_classes(settled, labels, splits["train"].labels), bad, lonely, notes)


def spec_of(name: str, task: Task, labels: Labels, limit: int) -> TaskSpec:
    """What a model knows of a complete task."""
    assert task.loss is not None
    return TaskSpec(
        name=name,
        text=task.text,
        label=task.label_columns,
        quoting=task.quoting,
        labels=labels,
        head=task.head.name if task.head else "",
        head_options=task.head.options if task.head else {},
        link=first_of_predictions(task.loss).links[labels.kind] if task.head else "",
        metric=task.metric or "",
        threshold=0.5,
        max_length=task.max_length or limit,
    )


def first_of_predictions(losses: Sequence[LossChoice]) -> Loss:
    """The loss that says what the outputs of the head mean: the first of predictions, if there is one."""
    entries = [LOSSES[loss.name] for loss in losses]
    return next((loss for loss in entries if loss.takes == "predictions"), entries[0])


def positives_of(task: Task, labels: Labels, examples: Examples) -> Examples:
    """The examples that a task without a head learns from: the positives, where its losses take nothing else."""
    losses = task.loss or ()
    if any(LOSSES[loss.name].takes != "positives" for loss in losses):
        return examples
    chosen = [positive_rows(loss, labels, examples.labels) for loss in losses]
    return examples.chosen(np.flatnonzero(np.any(chosen, axis=0)).tolist())


def all_examples(task: Task, rows: dict[str, Rows], labels: Labels) -> tuple[dict[str, Examples], list[BadRow]]:
    """The examples of every split, and every row that is none."""
    splits: dict[str, Examples] = {}
    bad: list[BadRow] = []
    for split, part in rows.items():
        splits[split], found = examples_from(part, task.text, task.label_columns, labels)
        bad += found
    return splits, in_order(bad)


def decide_labels(task: Task, train: Rows, known: TaskSpec | None) -> Labels:
    """What the labels mean: as the recipe says, as the model knows them, or as the training data has them."""
    given = task.label
    columns = {column: train.columns[column] for column in task.label_columns}
    silent = given is None or given == Label(column=given.column)
    if known and silent and len(known.label) == len(columns):
        return known.labels
    kind = decide_kind(task, train)
    if given is None:
        return labels_from(columns, kind)
    return labels_from(
        columns,
        kind,
        classes=given.classes,
        range=given.range,
        positive=given.positive,
        separator=given.separator,
    )


def decide_kind(task: Task, train: Rows) -> Kind:
    """What kind of label this is: as the recipe says, as its losses need, or as the values look."""
    label = task.label
    if label is None:
        return "triplets" if len(task.text) == 3 else "unlabelled"
    if label.kind is not None:
        return label.kind
    if len(label.column) > 1 or label.separator is not None:
        return "several"
    given = {"classes": label.classes, "score": label.range, "yes_no": label.positive}
    for kind, value in given.items():
        if value is not None:
            return kind  # type: ignore[return-value]  # the keys are the kinds
    looks = guess_kind(train.columns[label.column[0]], pair=len(task.text) == 2)
    if task.loss is None:
        return looks
    if any(loss.options.get("threshold") is not None for loss in task.loss):
        return "score"
    kinds = [kind for kind in LOSSES[task.loss[0].name].links if all(kind in LOSSES[x.name].links for x in task.loss)]
    kinds = [kind for kind in kinds if kind not in ("triplets", "unlabelled")]
    return looks if looks in kinds or not kinds else kinds[0]  # type: ignore[return-value]


def complete_task(task: Task, labels: Labels, recipe: Recipe, known: TaskSpec | None = None) -> Task:
    """The task with nothing left out."""
    losses = task.loss or (LossChoice(name=DEFAULT_LOSSES[labels.kind]),)
    head = task.head or default_head(task, labels, recipe, known)
    words = dict(zip(labels.classes, labels.names, strict=True))
    return task.model_copy(
        update={
            "head": head and head.model_copy(update={"options": complete_options(HEADS[head.name], head.options)[0]}),
            "loss": tuple(
                loss.model_copy(update={"options": complete_options(LOSSES[loss.name].function, loss.options)[0]})
                for loss in losses
            ),
            "metric": task.metric or (next(iter(METRICS.get(labels.kind, ())), None) if head else None),
            "batch_size": task.batch_size or recipe.batch_size,
            "rows": task.rows or recipe.rows,
            "dev_rows": task.dev_rows or recipe.dev_rows,
            "label": task.label
            and Label(
                column=task.label.column,
                kind=labels.kind,  # type: ignore[arg-type]  # triplets have no label
                classes=words if labels.kind in ("classes", "several") else None,
                range=(labels.low, labels.high) if labels.kind == "score" else None,
                positive=task.label.positive,
                separator=labels.separator,
            ),
        }
    )


def default_head(task: Task, labels: Labels, recipe: Recipe, known: TaskSpec | None) -> Choice | None:
    """The head of a task that names none; no head with weights where no loss would train them."""
    if known:
        return Choice(name=known.head, options=known.head_options)
    name = DEFAULT_HEADS[labels.kind][len(task.text) - 1]
    if name and recipe.shared_layer and not HEADS[name].after_shared_layer:
        name = "difference_product" if len(task.text) == 2 else ""
    if not name:
        return None
    trained = task.loss is None or any_of_predictions(task)
    return Choice(name=name) if trained or not HEADS[name].output_layer else None


def weigh_classes(task: Task, labels: Labels, encoded: np.ndarray) -> np.ndarray | None:
    """A weight for each class: as given, or so that every class counts alike."""
    if task.class_weights is None:
        return None
    if isinstance(task.class_weights, dict):
        return np.array([task.class_weights[word] for word in labels.classes], dtype=np.float32)
    counts = np.bincount(encoded, minlength=len(labels.classes))
    return (len(encoded) / (len(counts) * np.maximum(counts, 1))).astype(np.float32)
