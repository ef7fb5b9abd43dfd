"""One task of a run: its files read, its labels understood, everything decided that the recipe left open."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from plait.data.derive import as_derived
from plait.data.examples import Examples, examples_from, in_order
from plait.data.folds import hold_out_fold
from plait.data.kinds import KINDS, Kind
from plait.data.labels import (
    Labels,
    class_of,
    guess_kind,
    is_label,
    labels_from,
    map_labels,
    mostly_different,
    unused_in_map,
)
from plait.data.read import BadRow, Rows, row_mistakes
from plait.data.similar import similar_note
from plait.data.splits import cut_train, divide, divide_dev, draw_seed, limit_rows, read_splits
from plait.errors import DataError, RecipeError
from plait.heads import HEADS
from plait.losses import LOSSES, Loss
from plait.model.tasks import THRESHOLD, TaskSpec
from plait.recipe.choices import HeadChoice, LossChoice
from plait.recipe.options import complete_options
from plait.recipe.schema import Recipe
from plait.recipe.task import Label, Task
from plait.resolve.positives import positive_rows
from plait.resolve.teacher import TEACHER_LOSS, validate_teacher
from plait.resolve.validate import (
    has_prediction_loss,
    validate_headless,
    validate_known_head,
    validate_known_task,
    validate_labels,
    validate_metric_classes,
    validate_positives,
    validate_shared_head,
    validate_task,
)

__all__ = ["ResolvedTask", "default_head", "resolve_task"]


@dataclass(frozen=True)
class ResolvedTask:
    """One task of a run: what the model knows about it, and its examples by split."""

    spec: TaskSpec
    settings: Task  # with every default filled in
    splits: dict[str, Examples]
    class_weights: np.ndarray | None
    bad: list[BadRow]  # skipped
    unpaired: dict[str, int] = field(default_factory=dict)  # by split: rows without a partner to form a triplet with
    notes: list[str] = field(default_factory=list)  # about its fold and its dev rows
    choosing: Examples | None = None  # dev rows that choose the best model and are not scored; None: dev does both
    losses: tuple[LossChoice, ...] = field(init=False)  # of the settings, as is the batch size
    batch_size: int = field(init=False)

    @property
    def judges(self) -> Examples | None:
        """The dev rows that choose the best model."""
        return self.choosing or self.splits.get("dev")

    def as_trained(self) -> "ResolvedTask":
        """The task with the rows that steps see: with `both_orders`, every training pair twice."""
        if not self.settings.both_orders:
            return self
        return replace(self, splits={**self.splits, "train": self.splits["train"].in_both_orders()})

    def __post_init__(self) -> None:
        assert self.settings.loss and self.settings.batch_size, "filled in when the task is resolved"
        object.__setattr__(self, "losses", self.settings.loss)
        object.__setattr__(self, "batch_size", self.settings.batch_size)


def resolve_task(
    recipe: Recipe,
    name: str,
    limit: int,
    width: int,
    known: TaskSpec | None = None,
    owner: TaskSpec | None = None,
    teacher: Mapping[str, TaskSpec] | None = None,
) -> ResolvedTask:
    """Read the data of a task and decide what the recipe left open.

    `limit` and `width` are the encoder's; `known` is the task of that name in a model that the run starts from, `owner`
    the task whose head it uses, `teacher` the tasks of the teacher, if they are known.
    """
    given, fold, seed = recipe.tasks[name], recipe.fold, f"{recipe.seed}/{name}"
    task = as_derived(given)
    rows = read_splits(given, fold=fold)
    bad = in_order([row for part in rows.values() for row in part.bad])
    if not rows["train"].origins:
        raise DataError(*row_mistakes(bad) or [f"{recipe.where('tasks', name, 'train')}the training data has no rows"])
    try:
        values = {column: rows["train"].columns[column] for column in task.label_columns}
        labels = _resolve_labels(task, values, known)  # from all training rows, before dev is split off
    except DataError as error:
        raise DataError(*row_mistakes(bad), recipe.where("tasks", name, "label") + str(error)) from None
    complete = _complete_task(recipe, name, task, labels, known, owner, taught=name in (teacher or {}))
    read = rows
    try:
        rows = divide(rows, given, labels.kind, seed, fold)
    except DataError as error:
        raise DataError(*row_mistakes(bad), f"{recipe.where('tasks', name)}{error}") from None
    mistakes = [recipe.where("tasks", name, "label") + unused for unused in _unused_in_map(task, labels, read)]
    mistakes += validate_task(recipe, name, complete, labels, width)
    mistakes += validate_teacher(recipe, name, complete, labels, teacher)
    found = {split: examples_from(part, task.text, task.label_columns, labels) for split, part in rows.items()}
    splits = {split: examples for split, (examples, _) in found.items()}
    bad = in_order([row for _, unusable in found.values() for row in unusable])
    if recipe.bad_rows == "stop":
        mistakes += row_mistakes(bad)
    sound = not bad or recipe.bad_rows == "skip"
    for split, part in splits.items():
        if task.sources(split) and not len(part) and sound:
            mistakes.append(f"{recipe.where('tasks', name, split)}the data has no usable rows")
    splits = {split: part for split, part in splits.items() if len(part)}
    mistakes += validate_labels(recipe, name, labels, splits) if sound and complete.head else []
    mistakes += validate_metric_classes(recipe, name, complete, labels, splits)
    if mistakes:
        raise RecipeError(*mistakes)
    if task.learn and (few := list(validate_positives(recipe, name, complete, labels, splits["train"]))):
        raise RecipeError(*few)
    notes = _typos(labels, splits["train"])
    if fold and complete.head:
        try:
            held = hold_out_fold(splits, complete, labels.kind, fold, seed)
        except DataError as error:
            raise DataError(f"{recipe.where('tasks', name)}{error}") from None
        splits, notes = held.splits, [*notes, *held.notes(labels)]
        if mistakes := list(validate_metric_classes(recipe, name, complete, labels, splits)):
            raise RecipeError(*mistakes)
    if not complete.head:
        splits["train"] = _positives_only(complete, labels, splits["train"])
    splits = {split: limit_rows(part, complete, labels.kind, split, seed) for split, part in splits.items()}
    splits["train"] = cut_train(splits["train"], complete, labels.kind, draw_seed(name, recipe.seed, recipe.draw))
    choosing = None
    if "dev" in splits:
        whole = len(splits["dev"])
        try:
            choosing, splits["dev"] = divide_dev(splits["dev"], complete, labels.kind)
        except DataError as error:
            raise DataError(f"{recipe.where('tasks', name, 'choose_rows')}{error}") from None
        if choosing:
            notes.append(f"{len(choosing):,} of {whole:,} dev rows choose the best model, the others are scored")
            if mistakes := list(_validate_parts(recipe, name, complete, labels, choosing, splits["dev"])):
                raise RecipeError(*mistakes)
    elif task.choose_rows:
        where = recipe.where("tasks", name, "choose_rows")
        raise RecipeError(f"{where}the task has no dev data to choose from; give dev, or drop choose_rows")
    spec = _spec_of(name, complete, labels, limit)
    if owner and (conflict := validate_shared_head(recipe, name, spec, owner)):
        raise RecipeError(conflict)
    if known and (conflict := validate_known_task(recipe, name, spec, known)):
        raise RecipeError(conflict)
    settings = complete
    if given.derive:
        settings = complete.model_copy(update={"text": given.text, "label": given.label, "derive": given.derive})
    unpaired = {split: part.unpaired for split, part in rows.items() if part.unpaired}
    weights = _class_weights(complete, labels, splits["train"].labels)
    return ResolvedTask(spec, settings, splits, weights, bad, unpaired, notes, choosing)


def _typos(labels: Labels, train: Examples) -> list[str]:
    """A note on classes that are probably typos of others."""
    about = labels.about
    if not about.has_classes or about.is_yes_no:
        return []
    counts = train.labels.sum(axis=0) if about.multilabel else np.bincount(train.labels, minlength=len(labels.classes))
    note = similar_note(dict(zip(labels.classes, counts.tolist(), strict=True)))
    return [note] if note else []


def _validate_parts(recipe: Recipe, name: str, task: Task, labels: Labels, *parts: Examples) -> Iterator[str]:
    for part in parts:
        yield from validate_metric_classes(recipe, name, task, labels, {"dev": part})


def default_head(kind: Kind, texts: int, head_start: str = "frozen") -> str:
    """The head of a task that names none; "" if it has none."""
    about = KINDS[kind]
    heads = about.random_heads if head_start == "random" else None
    return (heads or about.heads)[texts - 1]


def _spec_of(name: str, task: Task, labels: Labels, limit: int) -> TaskSpec:
    assert task.loss is not None, "filled in before"
    return TaskSpec(
        name=name,
        text=task.text,
        label=task.label_columns,
        quoting=task.quoting,
        labels=labels,
        head=HEADS.versioned(task.head.name) if task.head else "",
        head_options=task.head.options if task.head else {},
        link=_deciding_loss(task.loss).links[labels.kind] if task.head else "",
        metric=task.metric or "",
        threshold=THRESHOLD,
        max_length=task.max_length or limit,
        same_as=task.head.same_as if task.head else None,
    )


def _deciding_loss(losses: Sequence[LossChoice]) -> Loss:
    """The loss that determines what the head's outputs mean: the first on predictions, if there is one."""
    entries = [LOSSES[loss.name] for loss in losses]
    return next((loss for loss in entries if loss.of_predictions), entries[0])


def _positives_only(task: Task, labels: Labels, examples: Examples) -> Examples:
    """The examples that a task without a head learns from: the positives, unless a loss uses other rows too."""
    losses = task.loss or ()
    if any(LOSSES[loss.name].takes != "positives" for loss in losses):
        return examples
    chosen = [positive_rows(loss, labels, examples.labels) for loss in losses]
    return examples.chosen(np.flatnonzero(np.any(chosen, axis=0)).tolist())


def _resolve_labels(task: Task, columns: dict[str, list[str]], known: TaskSpec | None) -> Labels:
    """What the labels mean: as the recipe says, as the model knows them, or as the training data has them."""
    given = task.label
    silent = given is None or given == Label(column=given.column)
    if known and silent and len(known.label) == len(columns):
        return known.labels if known.label == tuple(columns) else replace(known.labels, map={})
    if given is None:
        return labels_from(columns, _resolve_kind(task, columns))
    mapping = {class_of(word): new for word, new in (given.map or {}).items()}
    kind = _resolve_kind(task, {column: map_labels(values, mapping) for column, values in columns.items()})
    about = KINDS[kind]
    labels = labels_from(
        {
            column: map_labels(values, mapping, separator=given.separator, multilabel=about.multilabel)
            for column, values in columns.items()
        },
        kind,
        classes=given.classes,
        range=given.range,
        positive=given.positive,
        separator=given.separator,
    )
    (first, *_) = columns.values()
    count = sum(map(is_label, first))
    if silent and kind == "classes" and mostly_different(len(labels.classes), count):
        raise DataError(
            f"{given.column[0]!r} has {len(labels.classes):,} different values in {count:,} rows: an id, a date, "
            "a score? name another column, or write kind: score, or kind: classes if each is a class"
        )
    return replace(labels, map=mapping)


def _unused_in_map(task: Task, labels: Labels, rows: Mapping[str, Rows]) -> list[str]:
    """Labels of the map that no row of any split has."""
    if not labels.map or not task.label:
        return []
    values = [value for part in rows.values() for value in part.columns[task.label.column[0]]]
    return unused_in_map(values, labels.map, separator=labels.separator, multilabel=labels.about.multilabel)


def _resolve_kind(task: Task, columns: Mapping[str, Sequence[str]]) -> Kind:
    """The kind of label: as the recipe says, as the losses require, or as the values look."""
    label = task.label
    if label is None:
        return "triplets" if len(task.text) == 3 else "unlabelled"
    if label.kind is not None:
        return label.kind
    if len(label.column) > 1 or label.separator is not None:
        return "multilabel"
    given: dict[Kind, object] = {"classes": label.classes, "score": label.range, "yes_no": label.positive}
    for kind, value in given.items():
        if value is not None:
            return kind
    looks = guess_kind(columns[label.column[0]], pair=len(task.text) == 2)
    losses = task.loss or ()
    for loss in losses:
        if implied := LOSSES[loss.name].implied_kind(loss.options):
            return implied  # type: ignore[return-value]  # a name in KINDS
    if not losses:
        return looks
    links = [LOSSES[loss.name].links for loss in losses]
    kinds = [kind for kind in links[0] if KINDS[kind].labelled and all(kind in others for others in links)]
    return looks if looks in kinds or not kinds else kinds[0]  # type: ignore[return-value]


def _complete_task(
    recipe: Recipe,
    name: str,
    task: Task,
    labels: Labels,
    known: TaskSpec | None,
    owner: TaskSpec | None,
    *,
    taught: bool,
) -> Task:
    """The task with every default filled in; refuses a head that does not suit it, and a task with nothing to do."""
    losses = task.loss or (LossChoice(name=labels.about.loss or ""), *([TEACHER_LOSS] if taught else []))
    head = _head_of(owner, shared=True) if owner else task.head or _head_for(task, labels, recipe, known)
    names = dict(zip(labels.classes, labels.names, strict=True))
    has_class_keys = labels.about.has_classes and not labels.about.is_yes_no
    complete = task.model_copy(
        update={
            "head": head and head.model_copy(update={"options": complete_options(HEADS[head.name], head.options)[0]}),
            "loss": tuple(
                loss.model_copy(update={"options": complete_options(LOSSES[loss.name].function, loss.options)[0]})
                for loss in losses
            ),
            "metric": task.metric or (labels.about.metric if head else None),
            "batch_size": task.batch_size or recipe.batch_size,
            "rows": task.rows or recipe.rows,
            "train_rows": task.train_rows or recipe.train_rows,
            "dev_rows": task.dev_rows or recipe.dev_rows,
            "choose_rows": task.choose_rows or recipe.choose_rows,
            "label": task.label
            and Label(
                column=task.label.column,
                kind=labels.kind,  # type: ignore[arg-type]  # triplets have no label
                classes=names if has_class_keys else None,
                range=(labels.low, labels.high) if labels.about.is_score else None,
                positive=task.label.positive,
                separator=labels.separator,
                map=labels.map or None,
            ),
        }
    )
    if known and not task.head and (conflict := validate_known_head(recipe, name, complete, labels, known)):
        raise RecipeError(conflict)
    if not head and (mistakes := list(validate_headless(recipe, name))):
        raise RecipeError(*mistakes)
    return complete


def _head_of(spec: TaskSpec, *, shared: bool) -> HeadChoice:
    """The head that a model has for a task; `shared` if another task uses it."""
    newest = HEADS.versioned(spec.head_name) == spec.head
    return HeadChoice.model_construct(
        name=spec.head_name if newest else spec.head,
        options=spec.head_options,
        same_as=spec.name if shared else spec.same_as,
    )


def _head_for(task: Task, labels: Labels, recipe: Recipe, known: TaskSpec | None) -> HeadChoice | None:
    """The head of a task that names none; no head with weights if no loss would train them."""
    if known:
        return _head_of(known, shared=False)
    name = default_head(labels.kind, len(task.text), recipe.head_start)
    if name and recipe.shared_layer and not HEADS[name].after_shared_layer:
        name = "difference_product" if len(task.text) == 2 else ""
    if not name:
        return None
    trained = task.loss is None or has_prediction_loss(task)
    return HeadChoice(name=name) if trained or not HEADS[name].output_layer else None


def _class_weights(task: Task, labels: Labels, encoded: np.ndarray) -> np.ndarray | None:
    """A weight per class: as given, or such that every class counts equally."""
    if task.class_weights is None:
        return None
    if isinstance(task.class_weights, dict):
        return np.array([task.class_weights[word] for word in labels.classes], dtype=np.float32)
    counts = np.bincount(encoded, minlength=len(labels.classes))
    return (len(encoded) / (len(counts) * np.maximum(counts, 1))).astype(np.float32)
