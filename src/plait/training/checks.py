"""What a recipe cannot mean, now that its encoder and its data are known."""

from collections.abc import Iterator
from pathlib import Path

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

__all__ = ["check_combine", "check_known", "check_lengths", "check_settled", "unseen_labels"]


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
    if labels.kind in ("score", "triplets") or "train" not in splits:
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


def check_positives(where: str, loss: LossChoice, labels: Labels) -> Iterator[str]:
    """Which pairs belong together must be known to a loss that asks for them, and is no matter to any other."""
    above, label = loss.positive_above, loss.positive_label
    if LOSSES[loss.name].takes not in ("positives", "same"):
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
    assert task.head is not None and task.loss is not None and task.metric is not None
    kind = labels.kind

    def where(key: str) -> str:
        return recipe.where("tasks", name, key)

    if kind not in HEADS[task.head.name].kinds:
        fitting = [
            head for head, variant in HEADS.items() if kind in variant.kinds and READS[variant.reads] == len(task.text)
        ]
        yield f"{where('head')}{task.head.name} cannot predict {kind} labels; fitting: {', '.join(fitting)}"
    if recipe.shared_layer and not HEADS[task.head.name].after_shared_layer:
        yield f"{where('head')}{task.head.name} compares embeddings and cannot stand behind a shared_layer; drop one"
    for loss in task.loss:
        if kind not in LOSSES[loss.name].links:
            fitting = [
                other
                for other, entry in LOSSES.items()
                if kind in entry.links and (entry.reads is None or kind == "triplets")
            ]
            yield f"{where('loss')}{loss.name} cannot learn from {kind} labels; fitting: {', '.join(fitting)}"
        else:
            yield from check_positives(where("loss"), loss, labels)
        reads = LOSSES[loss.name].reads
        if reads and READS[reads] != len(task.text):
            needed = ("one text", "two texts", "three texts")[READS[reads] - 1]
            yield f"{where('loss')}{loss.name} reads {needed}, the task has {len(task.text)}"
        threshold = loss.options.get("threshold")
        if loss.name == "binary_cross_entropy" and (kind == "score") != (threshold is not None):
            need = "scores need" if kind == "score" else f"{kind} labels take no"
            yield f"{where('loss')}{need} threshold, the score from which an example counts as yes"
        elif threshold is not None and not labels.low < threshold <= labels.high:
            alike = f"with a threshold of {threshold:g} all scores from {labels.describe()} count alike"
            yield f"{where('loss')}{alike}"
    if HEADS[task.head.name].output_layer and all(LOSSES[loss.name].reads for loss in task.loss):
        yield f"{where('loss')}none of these losses trains the head {task.head.name}; add one of predictions"
    if task.head.name == "cosine" and task.head.options.get("scale") is None and labels.high <= 0:
        yield f"{where('head')}cosine needs a range that reaches above 0, found {labels.describe()}; give its scale"
    if task.metric not in METRICS[kind]:
        yield f"{where('metric')}{task.metric} is not for {kind} labels; {did_you_mean(task.metric, METRICS[kind])}"
    if kind in ("score", "triplets") and (task.class_weights or task.label_smoothing):
        key = "class_weights" if task.class_weights else "label_smoothing"
        what = "scores" if kind == "score" else kind
        yield f"{where(key)}class_weights and label_smoothing are for classes and yes/no, not for {what}"
    elif kind == "several" and task.class_weights:
        yield f"{where('class_weights')}are for classes and yes/no, not for several labels at once"
    elif isinstance(task.class_weights, dict) and set(task.class_weights) != set(labels.classes):
        yield f"{where('class_weights')}expected a weight for each of {', '.join(labels.classes)}"
