"""What makes a recipe invalid once its encoder and data are known."""

from collections.abc import Iterator

import numpy as np

from plait.data.batch import READS
from plait.data.examples import Examples
from plait.data.kinds import KINDS
from plait.data.labels import Labels, class_of
from plait.errors import did_you_mean
from plait.gradients.combine import ByGram, find_combiner
from plait.heads import HEADS
from plait.losses import LOSSES
from plait.metrics import metrics_of
from plait.model.tasks import TaskSpec, head_size
from plait.recipe.choices import LossChoice
from plait.recipe.schema import Recipe
from plait.recipe.task import Task
from plait.resolve.positives import positive_rows, reading_of

__all__ = [
    "has_prediction_loss",
    "validate_combine",
    "validate_headless",
    "validate_known_head",
    "validate_known_task",
    "validate_labels",
    "validate_lengths",
    "validate_metric_classes",
    "validate_positives",
    "validate_shared_head",
    "validate_task",
]

_TEXTS = {1: "one text", 2: "two texts", 3: "three texts"}


def validate_lengths(recipe: Recipe, special_tokens: dict[bool, int], positions: int) -> Iterator[str]:
    """Lengths that leave no room for text, or that exceed the encoder's positions."""
    for name, task in recipe.tasks.items():
        special = special_tokens[len(task.text) == 2]  # a triplet is never joined
        if task.max_length is not None and not special < task.max_length <= positions:
            where = recipe.where("tasks", name, "max_length")
            yield f"{where}expected {special + 1} to {positions} tokens for this encoder, found {task.max_length}"


def validate_combine(recipe: Recipe, *, warm_start: bool) -> Iterator[str]:
    """A method that looks at the gradients of shared weights, when none of them is trained."""
    combine = recipe.schedule.options.get("combine")
    heads = [(task.head and task.head.same_as) or name for name, task in recipe.tasks.items() if task.learn]
    shared = (
        recipe.train_encoder
        or (recipe.shared_layer and not warm_start)  # a start model's shared layer is frozen
        or len(set(heads)) < len(heads)
    )
    if combine is not None and not shared and isinstance(find_combiner(combine), ByGram):
        why = "changes the gradients of shared weights, and with train_encoder: false none of them is trained"
        yield f"{recipe.where('schedule', 'combine')}{combine} {why}; use sum, or train the encoder"


def validate_labels(recipe: Recipe, name: str, labels: Labels, splits: dict[str, Examples]) -> Iterator[str]:
    """Classes that occur in dev or test but not in train, and training data with a single answer."""
    if not labels.about.has_classes or "train" not in splits:
        return
    if labels.about.multilabel:
        for number, count in enumerate(splits["train"].labels.sum(axis=0)):
            if not 0 < count < len(splits["train"]):
                rows = "no" if count == 0 else "every"
                where = recipe.where("tasks", name, "train")
                yield f"{where}{rows} training row has the label {labels.names[number]!r}; there is nothing to learn"
        return
    known = set(splits["train"].labels.tolist())
    if len(known) < 2:
        only = labels.names[known.pop()]
        yield f"{recipe.where('tasks', name, 'train')}every training row is {only!r}; there is nothing to learn"
        return
    for split, examples in splits.items():
        for number in sorted(set(examples.labels.tolist()) - known):
            row = examples.labels.tolist().index(number)
            yield f"{examples.origins[row]}: the class {labels.classes[number]!r} occurs in {split} but not in train"


def validate_metric_classes(
    recipe: Recipe, name: str, task: Task, labels: Labels, splits: dict[str, Examples]
) -> Iterator[str]:
    """A metric that compares two classes, when dev has only one; or two scores, when it has another number."""
    scores = len(np.unique(splits["dev"].labels)) if "dev" in splits and labels.about.is_score else 2
    if task.metric == "accuracy" and scores != 2:
        where = recipe.where("tasks", name, "metric")
        yield f"{where}accuracy is for scores that take two values in dev, which has {scores}; use pearson"
    if task.metric == "roc_auc" and "dev" in splits and len(np.unique(splits["dev"].labels)) < 2:
        yield f"{recipe.where('tasks', name, 'metric')}roc_auc needs two classes in dev, which has one"


def validate_positives(recipe: Recipe, name: str, task: Task, labels: Labels, train: Examples) -> Iterator[str]:
    """Losses that would learn nothing: without positives, or with one if it is compared with other positives only."""
    for loss in task.loss or ():
        needed = {"positives": 2, "anchors": 1}.get(LOSSES[loss.name].takes, 0)
        count = int(positive_rows(loss, labels, train.labels).sum())
        if count < needed:
            pairs = "at least two positive pairs" if needed == 2 else "positive pairs"
            found = f"{count or 'none'} of {len(train):,} training rows is one"
            where = recipe.where("tasks", name, "loss")
            yield (f"{where}{loss.name} needs {pairs}, and {found}; check positive_above, positive_label and the data")


def has_prediction_loss(task: Task) -> bool:
    """Whether one of a task's losses trains its head."""
    return any(LOSSES[loss.name].of_predictions for loss in task.loss or ())


def validate_headless(recipe: Recipe, name: str) -> Iterator[str]:
    """Data to score a task without a head on, or a task with nothing to do at all."""
    if not recipe.tasks[name].learn:
        where = recipe.where("tasks", name, "learn")
        yield f"{where}the task has no head, so there is nothing to score either; remove it, or give it a head"
    for split in ("dev", "test"):
        if recipe.tasks[name].sources(split):
            where = recipe.where("tasks", name, split)
            yield f"{where}the task has no head, so there is nothing to score; remove {split}, or give it a head"


def validate_known_head(recipe: Recipe, name: str, task: Task, labels: Labels, known: TaskSpec) -> str | None:
    """Why a task that names no head cannot use the one that the model has for a task of the same name."""
    other = f"{recipe.where('tasks', name)}the model has a task of this name with the head {known.head_name}"
    if labels.about.metric is None:
        return f"{other}, which needs a label; give one, or choose another name"
    if known.head_class.output_layer and not has_prediction_loss(task):
        return f"{other}, which none of these losses trains; add a loss on predictions, or choose another name"
    return None


def validate_known_task(recipe: Recipe, name: str, spec: TaskSpec, known: TaskSpec) -> str | None:
    """Why a task cannot continue with the head that the model has for a task of the same name."""
    pairs = {
        "number of text columns": (len(spec.text), len(known.text)),
        "kind of label": (spec.labels.kind, known.labels.kind),
        "classes": (spec.labels.classes, known.labels.classes),
        "range": ((spec.labels.low, spec.labels.high), (known.labels.low, known.labels.high)),
        "head": ((spec.head, spec.head_options), (known.head, known.head_options)),
        "task whose head it uses": (spec.head_task, known.head_task),
        "link from outputs to predictions": (spec.link, known.link),
    }
    for what, (here, there) in pairs.items():
        if here != there:
            other = f"the model has a task of this name with a different {what}"
            return (
                f"{recipe.where('tasks', name)}{other}: {there}, here {here}; make them equal, or choose another name"
            )
    return None


_PROBABILITY = ("sigmoid", "scaled_sigmoid")  # links that read one output as a probability, whatever it is scaled to


def validate_shared_head(recipe: Recipe, name: str, spec: TaskSpec, owner: TaskSpec) -> str | None:
    """Why a task cannot use the head of another: the outputs would not mean the same."""
    pairs = {
        "number of text columns": (f"{len(spec.text)}", f"{len(owner.text)}", "give this task a head of its own"),
        "kind of label": (spec.kind, owner.kind, "give the label a map, or a kind"),
        "classes": (", ".join(spec.labels.names), ", ".join(owner.labels.names), "give the label a map, or classes"),
        "range": _ranges(spec, owner),
        "link from outputs to predictions": (spec.link, owner.link, "use the same loss on predictions"),
    }
    if spec.link in _PROBABILITY and owner.link in _PROBABILITY:
        pairs = {what: pair for what, pair in pairs.items() if what == "number of text columns"}
    for what, (here, there, hint) in pairs.items():
        if here != there:
            where = recipe.where("tasks", name, "head", "same_as")
            return f"{where}the task {owner.name!r} has a different {what}: {there}, here {here}; {hint}"
    return None


def _ranges(spec: TaskSpec, owner: TaskSpec) -> tuple[str, str, str]:
    low, high = owner.labels.low, owner.labels.high
    return spec.labels.describe(), owner.labels.describe(), f"give the label range: [{low:g}, {high:g}]"


def validate_task(recipe: Recipe, name: str, task: Task, labels: Labels, width: int) -> Iterator[str]:
    """What is invalid about a complete task, now that its kind of label is known."""

    def where(key: str) -> str:
        return recipe.where("tasks", name, key)

    yield from _validate_head(recipe, name, task, labels, width)
    for loss in task.loss or ():
        entry, kind = LOSSES[loss.name], labels.kind
        if kind not in entry.links:
            fitting = [
                other
                for other, candidate in LOSSES.items()
                if kind in candidate.links
                and (candidate.takes == "predictions" or not labels.about.labelled)
                and (not candidate.reads or reading_of(candidate, len(task.text)))
            ]
            yield f"{where('loss')}{loss.name} cannot learn from {_labels(kind)}; suitable: {', '.join(fitting)}"
        else:
            yield from _validate_loss_positives(where("loss"), loss, labels)
        yield from _validate_loss_reading(where("loss"), loss, task, recipe)
        score_range = (labels.low, labels.high) if labels.about.is_score else None
        if problem := entry.problem(kind, loss.options, score_range):
            yield f"{where('loss')}{problem}"
    if task.metric and not task.head:
        yield f"{where('metric')}the task has no head, so there is nothing to measure; remove it"
    elif task.metric and task.metric not in metrics_of(labels.kind):
        hint = did_you_mean(task.metric, metrics_of(labels.kind))
        yield f"{where('metric')}{task.metric} is not for {_labels(labels.kind)}; {hint}"
    if task.both_orders:
        yield from _validate_both_orders(where("both_orders"), task, labels)
    yield from _validate_class_weights(recipe, name, task, labels)


def _validate_head(recipe: Recipe, name: str, task: Task, labels: Labels, width: int) -> Iterator[str]:
    if task.head is None:
        return
    where, head = recipe.where("tasks", name, "head"), HEADS[task.head.name]
    if labels.about.metric is None:
        yield f"{where}without a label there is nothing to predict; remove the head, or give a label"
    elif labels.kind not in head.kinds:
        fitting = [
            other
            for other, candidate in HEADS.items()
            if labels.kind in candidate.kinds and READS[candidate.reads] == len(task.text)
        ]
        yield f"{where}{task.head.name} cannot predict {_labels(labels.kind)}; suitable: {', '.join(fitting)}"
    elif problem := head.problem(head_size(labels, width, recipe.dropout), task.head.options):
        yield f"{where}{problem}"
    if recipe.shared_layer and not head.after_shared_layer:
        yield f"{where}{task.head.name} compares embeddings and cannot follow a shared_layer; remove one of them"
    if head.output_layer and not has_prediction_loss(task):
        loss = recipe.where("tasks", name, "loss")
        yield f"{loss}none of these losses trains the head {task.head.name}; add a loss on predictions"


def _validate_loss_positives(where: str, loss: LossChoice, labels: Labels) -> Iterator[str]:
    """Keys that define which pairs are positives: required by some losses, meaningless for others."""
    above, label = loss.positive_above, loss.positive_label
    about = labels.about
    if not LOSSES[loss.name].needs_positives or not about.labelled:
        if above is not None or label is not None:
            yield f"{where}{loss.name} does not distinguish positives; remove positive_above and positive_label"
    elif about.is_score:
        if above is None or label is not None:
            yield f"{where}{loss.name} needs positive_above, the score from which a pair is a positive"
        elif not labels.low < above <= labels.high:
            yield f"{where}with positive_above {above:g} all scores from {labels.describe()} fall on one side"
    elif above is not None:
        yield f"{where}positive_above is for scores; give positive_label"
    elif not about.is_yes_no and (label is None or class_of(label) not in labels.classes):
        yield f"{where}{loss.name} needs positive_label, one of: {', '.join(labels.classes)}"
    elif about.is_yes_no and label is not None and class_of(label) not in labels.classes:
        yield f"{where}positive_label: expected one of {', '.join(labels.classes)}"


def _validate_loss_reading(where: str, loss: LossChoice, task: Task, recipe: Recipe) -> Iterator[str]:
    """Texts that a loss on embeddings or tokens cannot read, and keys that do not apply to it."""
    entry = LOSSES[loss.name]
    if entry.of_predictions:
        for key in ("on", "cached", "chunk", "mine"):
            if getattr(loss, key) is not None:
                yield f"{where}{key} is for losses on embeddings, and {loss.name} is on predictions; remove it"
        return
    head = HEADS[task.head.name] if task.head else None
    if reading_of(entry, len(task.text)) is None:
        needed = " or ".join(_TEXTS[READS[way]] for way in entry.reads)
        yield f"{where}{loss.name} reads {needed}, the task has {len(task.text)}"
    elif entry.of_head_input and task.head and head and head.reads not in entry.reads:
        fitting = ", ".join(
            name for name, other in HEADS.items() if other.reads in entry.reads and READS[other.reads] == len(task.text)
        )
        yield f"{where}{loss.name} needs both texts in one input, unlike {task.head.name}; suitable: {fitting}"
    if not recipe.train_encoder:
        yield f"{where}{loss.name} trains the encoder, but train_encoder is false; remove one of them"
    if loss.on == "head" and not (head and head.projection):
        fitting = ", ".join(name for name, other in HEADS.items() if other.projection)
        yield f"{where}on: head needs a head that projects embeddings: {fitting}"
    elif loss.on == "head" and entry.of_head_input:
        yield f"{where}on: head is for losses that compare texts, which {loss.name} does not"
    if loss.chunk is not None and not loss.cached:
        yield f"{where}chunk belongs to cached: true"
    if loss.mine and ("triple" not in entry.reads or len(task.text) != 2):
        fitting = ", ".join(name for name, other in LOSSES.items() if {"apart", "triple"} <= set(other.reads))
        yield f"{where}mine: true finds third texts for tasks with two; suitable losses: {fitting}"
    of_tokens = [other.name for other in task.loss or () if LOSSES[other.name].takes == "tokens"]
    if loss.cached and of_tokens:
        yield f"{where}cached: true does not keep the tokens that {of_tokens[0]} needs; remove one of them"


def _validate_both_orders(where: str, task: Task, labels: Labels) -> Iterator[str]:
    if len(task.text) != 2:
        yield f"{where}is for tasks with two texts, this one has {len(task.text)}"
    elif not labels.about.symmetric and labels.about.labelled:
        yield f"{where}is for labels that do not depend on the order of two texts: yes/no and scores"
    elif task.head and HEADS[task.head.name].symmetric:
        yield f"{where}the order of the texts does not matter to {task.head.name}; remove it"


def _validate_class_weights(recipe: Recipe, name: str, task: Task, labels: Labels) -> Iterator[str]:
    if not task.class_weights and not task.label_smoothing:
        return
    key = "class_weights" if task.class_weights else "label_smoothing"
    where = recipe.where("tasks", name, key)
    if not labels.about.has_classes:
        rows = labels.about.rows
        yield f"{where}class_weights and label_smoothing are for classes and yes/no, not for {rows}"
    elif labels.about.multilabel and task.class_weights:
        yield f"{where}class weights are for classes and yes/no, not for multilabel tasks"
    elif not has_prediction_loss(task):
        yield f"{where}is for losses on predictions, and the task has none; remove it"
    elif isinstance(task.class_weights, dict) and set(task.class_weights) != set(labels.classes):
        yield f"{where}expected a weight for each of {', '.join(labels.classes)}"


def _labels(kind: str) -> str:
    return KINDS[kind].rows
