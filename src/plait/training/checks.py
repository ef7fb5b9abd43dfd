"""What a recipe cannot mean, now that its encoder and its data are known."""

from collections.abc import Iterator
from pathlib import Path

import numpy as np

from plait.data.batch import READS
from plait.data.examples import Examples
from plait.data.labels import Labels, class_of
from plait.data.tokenize import load_tokenizer
from plait.encoder.config import EncoderConfig
from plait.errors import did_you_mean
from plait.evaluation.metrics import METRICS
from plait.gradients.combine import ByGram, find_combiner
from plait.heads import HEADS
from plait.losses import LOSSES
from plait.model.tasks import TaskSpec
from plait.recipe.schema import LossChoice, Recipe, Task
from plait.training.objective import positive_rows, way_of

__all__ = [
    "any_of_predictions",
    "check_combine",
    "check_headless",
    "check_known",
    "check_known_head",
    "check_lengths",
    "check_settled",
    "check_two_classes",
    "few_positives",
    "unseen_labels",
]


def check_lengths(recipe: Recipe, checkpoint: Path, config: EncoderConfig) -> Iterator[str]:
    """Lengths that leave no room for text, or that the encoder has no positions for."""
    tokenizer = load_tokenizer(checkpoint)
    most = config.positions - config.first_position
    for name, task in recipe.tasks.items():
        special = tokenizer.num_special_tokens_to_add(len(task.text) == 2)  # a triplet is never joined
        if task.max_length is not None and not special < task.max_length <= most:
            where = recipe.where("tasks", name, "max_length")
            yield f"{where}expected {special + 1} to {most} tokens for this encoder, found {task.max_length}"


def check_combine(recipe: Recipe, grown: bool) -> Iterator[str]:
    """A method that looks at the gradients of shared weights where none of them learns."""
    combine = recipe.schedule.options.get("combine")
    shared = recipe.train_encoder or (recipe.shared_layer and not grown)  # a model that grows keeps its shared layer
    if combine is not None and not shared and isinstance(find_combiner(combine), ByGram):
        why = "changes the gradients of weights that tasks share, and with train_encoder: false no such weight learns"
        yield f"{recipe.where('schedule', 'combine')}{combine} {why}; take sum, or train the encoder"


def unseen_labels(recipe: Recipe, name: str, labels: Labels, splits: dict[str, Examples]) -> Iterator[str]:
    """Classes that dev or test has and train lacks, and training data of one answer only."""
    if labels.kind in ("score", "triplets", "unlabelled") or "train" not in splits:
        return
    if labels.kind == "several":
        for number, count in enumerate(splits["train"].labels.sum(axis=0)):
            if not 0 < count < len(splits["train"]):
                rows = "no" if count == 0 else "every"
                where = recipe.where("tasks", name, "train")
                yield f"{where}{rows} training row has the label {labels.names[number]!r}; there is nothing to learn"
        return
    known = set(splits["train"].labels.tolist())
    if len(known) < 2:
        only = labels.names[known.pop()]
        yield f"{recipe.where('tasks', name, 'train')}every training row is {only!r}; there is nothing to tell apart"
        return
    for split, examples in splits.items():
        for number in sorted(set(examples.labels.tolist()) - known):
            row = examples.labels.tolist().index(number)
            yield f"{examples.origins[row]}: the class {labels.classes[number]!r} is in {split} and not in train"


def check_two_classes(recipe: Recipe, name: str, task: Task, splits: dict[str, Examples]) -> Iterator[str]:
    """A metric that compares two classes where dev has one."""
    if task.metric == "roc_auc" and "dev" in splits and len(np.unique(splits["dev"].labels)) < 2:
        yield f"{recipe.where('tasks', name, 'metric')}roc_auc needs two classes in dev, which has one"


def check_positives(where: str, loss: LossChoice, labels: Labels) -> Iterator[str]:
    """Which pairs belong together must be known to a loss that asks for them, and is no matter to any other."""
    above, label = loss.positive_above, loss.positive_label
    if LOSSES[loss.name].takes not in ("positives", "same") or labels.kind in ("triplets", "unlabelled"):
        if above is not None or label is not None:
            yield f"{where}{loss.name} does not ask which pairs are positives; drop positive_above and positive_label"
    elif labels.kind == "score":
        if above is None or label is not None:
            yield f"{where}{loss.name} needs positive_above, the score from which a pair is a positive"
        elif not labels.low < above <= labels.high:
            yield f"{where}with positive_above {above:g} all scores from {labels.describe()} count alike"
    elif above is not None:
        yield f"{where}positive_above is for scores; give positive_label"
    elif labels.kind == "classes" and (label is None or class_of(label) not in labels.classes):
        yield f"{where}{loss.name} needs positive_label, one of: {', '.join(labels.classes)}"
    elif labels.kind == "yes_no" and label is not None and class_of(label) not in labels.classes:
        yield f"{where}positive_label: expected one of {', '.join(labels.classes)}"


def few_positives(recipe: Recipe, name: str, task: Task, labels: Labels, train: Examples) -> Iterator[str]:
    """Losses that would learn nothing: each positive pair is told from the other positives of its batch."""
    for loss in task.loss or ():
        if LOSSES[loss.name].takes != "positives":
            continue
        count = int(positive_rows(loss, labels, train.labels).sum())
        if count < 2:
            found = f"of {len(train):,} training rows {count or 'none'} is one"
            need = f"{loss.name} needs at least two positive pairs, and {found}"
            where = recipe.where("tasks", name, "loss")
            yield f"{where}{need}; look at positive_above, positive_label and the data"


def check_reading(where: str, loss: LossChoice, task: Task, recipe: Recipe) -> Iterator[str]:
    """What a loss of embeddings or tokens cannot read, and keys that are not for it."""
    entry = LOSSES[loss.name]
    if entry.takes == "predictions":
        for key in ("on", "cached", "chunk"):
            if getattr(loss, key) is not None:
                yield f"{where}{key} is for losses of embeddings, and {loss.name} is of predictions; take it away"
        return
    if way_of(entry, len(task.text)) is None:
        words = {1: "one text", 2: "two texts", 3: "three texts"}
        needed = " or ".join(words[READS[way]] for way in entry.reads)
        yield f"{where}{loss.name} reads {needed}, the task has {len(task.text)}"
    elif entry.of_head_input and task.head and HEADS[task.head.name].reads not in entry.reads:
        fitting = ", ".join(
            name for name, head in HEADS.items() if head.reads in entry.reads and READS[head.reads] == len(task.text)
        )
        yield f"{where}{loss.name} looks at one input of both texts, {task.head.name} reads others; fitting: {fitting}"
    if not recipe.train_encoder:
        yield f"{where}{loss.name} teaches the encoder, and train_encoder: false keeps it as it is; drop one"
    if loss.on == "head" and not (task.head and HEADS[task.head.name].projection):
        fitting = ", ".join(name for name, head in HEADS.items() if head.projection)
        yield f"{where}on: head needs a head that projects embeddings: {fitting}"
    elif loss.on == "head" and entry.of_head_input:
        yield f"{where}on: head is for losses that compare texts, which {loss.name} does not"
    if loss.chunk is not None and not loss.cached:
        yield f"{where}chunk belongs to cached: true"
    of_tokens = [other.name for other in task.loss or () if LOSSES[other.name].takes == "tokens"]
    if loss.cached and of_tokens:
        yield f"{where}cached: true keeps no tokens, which {of_tokens[0]} looks at; drop one"


def any_of_predictions(task: Task) -> bool:
    """Whether one of a task's losses looks at what its head predicts."""
    return any(LOSSES[loss.name].takes == "predictions" for loss in task.loss or ())


def check_headless(recipe: Recipe, name: str) -> Iterator[str]:
    """Data to be scored on where nothing is predicted, or nothing to do at all."""
    if not recipe.tasks[name].learn:
        where = recipe.where("tasks", name, "learn")
        yield f"{where}the task has no head, so there is nothing to score either; take it away, or give it a head"
    for split in ("dev", "test"):
        if recipe.tasks[name].sources(split):
            where = recipe.where("tasks", name, split)
            yield f"{where}the task has no head, so there is nothing to score; take {split} away, or give it a head"


def check_known_head(recipe: Recipe, name: str, task: Task, labels: Labels, known: TaskSpec) -> str | None:
    """Why a task that names no head cannot take the one that a model has for a task of the same name."""
    other = f"{recipe.where('tasks', name)}the model has a task of this name with the head {known.head}"
    if labels.kind == "unlabelled":
        return f"{other}, which needs a label; give it, or choose another name"
    if HEADS[known.head].output_layer and not any_of_predictions(task):
        return f"{other}, which none of these losses trains; add one of predictions, or choose another name"
    return None


def check_known(recipe: Recipe, name: str, spec: TaskSpec, known: TaskSpec) -> str | None:
    """Why a task cannot go on with the head that a model has for a task of the same name."""
    pairs = {
        "text columns": (len(spec.text), len(known.text)),
        "kind of label": (spec.labels.kind, known.labels.kind),
        "classes": (spec.labels.classes, known.labels.classes),
        "range": ((spec.labels.low, spec.labels.high), (known.labels.low, known.labels.high)),
        "head": ((spec.head, spec.head_options), (known.head, known.head_options)),
        "way to its predictions": (spec.link, known.link),
    }
    for what, (wanted, had) in pairs.items():
        if wanted != had:
            other = f"the model has a task of this name with another {what}"
            return (
                f"{recipe.where('tasks', name)}{other}: {had}, here {wanted}; make them alike, or choose another name"
            )
    return None


def check_settled(recipe: Recipe, name: str, task: Task, labels: Labels) -> Iterator[str]:
    """What cannot be meant, now that the kind of label is known."""
    assert task.loss is not None
    kind = labels.kind
    head = HEADS[task.head.name] if task.head else None

    def where(key: str) -> str:
        return recipe.where("tasks", name, key)

    if task.head and head:
        if kind == "unlabelled":
            yield f"{where('head')}without a label there is nothing to predict; take the head away, or give the label"
        elif kind not in head.kinds:
            fitting = [
                name for name, other in HEADS.items() if kind in other.kinds and READS[other.reads] == len(task.text)
            ]
            yield f"{where('head')}{task.head.name} cannot predict {kind} labels; fitting: {', '.join(fitting)}"
        if recipe.shared_layer and not head.after_shared_layer:
            told = f"{task.head.name} compares embeddings and cannot stand behind a shared_layer; drop one"
            yield f"{where('head')}{told}"
    for loss in task.loss:
        if kind not in LOSSES[loss.name].links:
            fitting = [
                other
                for other, entry in LOSSES.items()
                if kind in entry.links
                and (entry.takes == "predictions" or kind in ("triplets", "unlabelled"))
                and (not entry.reads or way_of(entry, len(task.text)))
            ]
            what = "rows without a label" if kind == "unlabelled" else f"{kind} labels"
            yield f"{where('loss')}{loss.name} cannot learn from {what}; fitting: {', '.join(fitting)}"
        else:
            yield from check_positives(where("loss"), loss, labels)
        yield from check_reading(where("loss"), loss, task, recipe)
        threshold = loss.options.get("threshold")
        if loss.name == "binary_cross_entropy" and (kind == "score") != (threshold is not None):
            need = "scores need" if kind == "score" else f"{kind} labels take no"
            yield f"{where('loss')}{need} threshold, the score from which an example counts as yes"
        elif threshold is not None and not labels.low < threshold <= labels.high:
            alike = f"with a threshold of {threshold:g} all scores from {labels.describe()} count alike"
            yield f"{where('loss')}{alike}"
    if task.head and head and head.output_layer and not any_of_predictions(task):
        yield f"{where('loss')}none of these losses trains the head {task.head.name}; add one of predictions"
    if task.head and task.head.name == "cosine" and task.head.options.get("scale") is None and labels.high <= 0:
        yield f"{where('head')}cosine needs a range that reaches above 0, found {labels.describe()}; give its scale"
    if task.metric and not head:
        yield f"{where('metric')}the task has no head, so there is nothing to measure; take it away"
    elif task.metric and task.metric not in METRICS.get(kind, ()):
        hint = did_you_mean(task.metric, METRICS.get(kind, ()))
        yield f"{where('metric')}{task.metric} is not for {kind} labels; {hint}"
    if kind in ("score", "triplets", "unlabelled") and (task.class_weights or task.label_smoothing):
        key = "class_weights" if task.class_weights else "label_smoothing"
        what = {"score": "scores", "triplets": "triplets", "unlabelled": "rows without a label"}[kind]
        yield f"{where(key)}class_weights and label_smoothing are for classes and yes/no, not for {what}"
    elif kind == "several" and task.class_weights:
        yield f"{where('class_weights')}are for classes and yes/no, not for several labels at once"
    elif (task.class_weights or task.label_smoothing) and not any_of_predictions(task):
        key = "class_weights" if task.class_weights else "label_smoothing"
        yield f"{where(key)}is for losses of predictions, and the task has none; take it away"
    elif isinstance(task.class_weights, dict) and set(task.class_weights) != set(labels.classes):
        yield f"{where('class_weights')}expected a weight for each of {', '.join(labels.classes)}"
