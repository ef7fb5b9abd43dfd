"""What a result must beat: no model at all, the encoder as it came, and heads on a frozen encoder.

n examples, D width.
"""

import json
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np
import torch
from torch import Tensor

from plait.data.batch import views_of
from plait.errors import NotFiniteError, RecipeError
from plait.evaluation.evaluate import score_task
from plait.evaluation.metrics import METRICS
from plait.model.apply import embed_views
from plait.model.decode import Decoded, decode
from plait.model.files import whole_file
from plait.model.model import Model
from plait.model.save import write_json
from plait.model.watch import Watcher
from plait.training.alone import with_tasks
from plait.training.grow import score_kept
from plait.training.run import Run
from plait.training.settle import Settled
from plait.training.task_data import TaskData
from plait.training.trainer import Trainer, model_for

__all__ = [
    "BEFORE",
    "FROZEN",
    "FROZEN_LR",
    "FROZEN_TIMES",
    "MAJORITY",
    "ZERO_SHOT",
    "find_baselines",
    "frozen_model",
    "measure_baselines",
    "measure_before",
]

MAJORITY, ZERO_SHOT, FROZEN = "majority or mean", "zero-shot cosine", "frozen encoder"
BEFORE = "before"  # of a model that grows
FROZEN_LR = 1e-3  # the papers' rate for a frozen encoder
FROZEN_TIMES = 10  # as many epochs as the recipe: on stored embeddings an epoch costs next to nothing
THRESHOLD_ROWS = 2000  # training rows that place the zero-shot threshold

Table = dict[str, dict[str, float]]  # baseline → task → the task's metric
Views = Mapping[str, Tensor]  # view → embeddings (n, D)


def find_baselines(run: Run, settled: Settled, watcher: Watcher) -> dict[str, Any]:
    """The baselines of a run's last stage, measured once; a model that grows is always compared with itself before."""
    wanted = run.begun()["baselines"]
    if not wanted and not settled.start:
        return {}
    if not run.baselines.is_file():
        try:
            measured = measure_baselines(settled, watcher) if wanted else {}
        except NotFiniteError as error:
            raise NotFiniteError("while training heads on the frozen encoder:", *error.mistakes) from None
        if before := measure_before(settled):
            measured["dev"] = {**measured.get("dev", {}), BEFORE: before}
        with whole_file(run.baselines) as aside:
            write_json(aside, measured)
    found: dict[str, Any] = json.loads(run.baselines.read_text(encoding="utf-8"))
    return found


def measure_baselines(settled: Settled, watcher: Watcher) -> dict[str, Table]:
    """Every baseline on dev and test, by the metric of each task."""
    model, views = frozen_model(settled, watcher)
    return {split: split_table(model, settled, split, views[split]) for split in views}


def measure_before(settled: Settled) -> dict[str, float]:
    """What a model that is to grow scores on dev before it does, on its own tasks."""
    if settled.start is None:
        return {}
    model = model_for(settled)
    own = {
        name: score_task(model, name, task.splits["dev"])
        for name, task in settled.tasks.items()
        if name in settled.start.tasks and "dev" in task.splits
    }
    kept = {name: task for name, task in settled.kept.items() if name in settled.start.tasks}
    return {name: scores.value for name, scores in {**score_kept(model, kept), **own}.items()}


def frozen_model(settled: Settled, watcher: Watcher) -> tuple[Model, dict[str, dict[str, Views]]]:
    """The same recipe on a frozen encoder, and the embeddings of dev and test by split and task."""
    recipe = settled.recipe
    changes = {
        "train_encoder": False,
        "lr": FROZEN_LR,
        "head_lr": FROZEN_LR,
        "epochs": recipe.epochs and FROZEN_TIMES * recipe.epochs,
        "steps": recipe.steps and FROZEN_TIMES * recipe.steps,
        "watch_conflict": None,
    }
    predicting = {name: task for name, task in settled.tasks.items() if task.spec.head}
    frozen = replace(settled, recipe=with_tasks(recipe.model_copy(update=changes), predicting), tasks=predicting)
    try:
        trainer = Trainer(frozen) if frozen.learning else None
    except RecipeError:  # no head has weights, so there is nothing to train
        trainer = None
    model = trainer.model if trainer else model_for(frozen)
    views = {
        split: embed_split(model, settled, split, watcher)
        for split in ("dev", "test")
        if any(split in task.splits for task in settled.tasks.values())
    }
    if trainer:
        trainer.store_embeddings(watcher)
        train_heads(trainer, views.get("dev", {}), watcher)
    return model, views


def embed_split(model: Model, settled: Settled, split: str, watcher: Watcher) -> dict[str, Views]:
    """Every view that a head or the zero-shot cosine reads, encoded once."""
    tasks = {name: task for name, task in settled.tasks.items() if split in task.splits}
    watcher.begin(f"encoding {split} for the baselines", sum(len(task.splits[split]) for task in tasks.values()))
    embedded: dict[str, Views] = {}
    for name, task in tasks.items():
        examples = task.splits[split]
        embedded[name] = embed_views(model, examples.texts, all_views(task), task.spec.max_length)
        watcher.advance(len(examples))
    watcher.end()
    return embedded


def all_views(task: TaskData) -> tuple[str, ...]:
    """The views of the head, and both texts apart for the zero-shot cosine."""
    return views_of([task.spec.reads, "apart"] if has_cosine(task) else [task.spec.reads])


def has_cosine(task: TaskData) -> bool:
    """Whether the cosine of the texts, without any training, says something about the label."""
    return len(task.spec.text) > 1 and task.spec.labels.kind != "several"


def train_heads(trainer: Trainer, dev: Mapping[str, Views], watcher: Watcher) -> None:
    """Train the heads and leave them as they were at the epoch with the best dev score."""
    best: tuple[float, dict[str, Tensor]] | None = None
    step = 0
    watcher.begin("training heads on the frozen encoder", trainer.steps)
    for epoch in range(len(trainer.plan.epochs)):
        for planned in trainer.plan.epoch_plan(epoch):
            if step == trainer.steps:
                break
            trainer.step(step, planned)
            step += 1
            watcher.advance()
        scores = {name: head_score(trainer.model, trainer.settled.tasks[name], "dev", dev[name]) for name in dev}
        best_by = trainer.recipe.best_by
        score = scores.get(best_by, float(np.mean(list(scores.values()))) if scores else 0.0)
        if best is None or score > best[0]:
            best = score, {name: tensor.clone() for name, tensor in trainer.model.state_dict().items()}
    watcher.end()
    if best and dev:
        trainer.model.load_state_dict(best[1])


def split_table(model: Model, settled: Settled, split: str, views: Mapping[str, Views]) -> Table:
    """The baselines on one split."""
    table: Table = {MAJORITY: {}, ZERO_SHOT: {}, FROZEN: {}}
    for name, embedded in views.items():
        task = settled.tasks[name]
        table[MAJORITY][name] = constant_score(task, split)
        if has_cosine(task):
            table[ZERO_SHOT][name] = cosine_score(model, task, split, embedded)
        table[FROZEN][name] = head_score(model, task, split, embedded)
    return {baseline: scores for baseline, scores in table.items() if scores}


def head_score(model: Model, task: TaskData, split: str, views: Views) -> float:
    """The score of a head on stored embeddings."""
    model.eval()
    with torch.inference_mode():
        outputs = model.outputs(task.spec.name, [views[view].to(model.device) for view in task.spec.views])
    return measure(task, split, decode(outputs.float().cpu().numpy(), task.spec))


def constant_score(task: TaskData, split: str) -> float:
    """The commonest class of the training data, or the mean of its scores, for every example."""
    labels, train, rows = task.spec.labels, task.train.labels, len(task.splits[split])
    if labels.kind == "score":
        return measure(task, split, Decoded(np.full(rows, train.mean()), None))
    if labels.kind == "triplets":
        return 0.5  # without a look at the texts, either is as likely
    if labels.kind == "several":
        shares = train.mean(axis=0)
        return measure(task, split, Decoded(np.tile(shares >= 0.5, (rows, 1)).astype(int), np.tile(shares, (rows, 1))))
    shares = np.bincount(train, minlength=len(labels.names)) / len(train)
    return measure(task, split, Decoded(np.full(rows, shares.argmax()), np.tile(shares, (rows, 1))))


def cosine_score(model: Model, task: TaskData, split: str, views: Views) -> float:
    """The cosine of the two texts under the encoder as it came, without any training but a threshold from train."""
    if task.spec.labels.kind == "triplets":  # its head has no weights and is just this
        return head_score(model, task, split, views)
    cosines_n = pair_cosines(views)
    if task.spec.labels.kind == "score":
        return measure(task, split, Decoded(cosines_n, None))
    every = max(1, len(task.train) // THRESHOLD_ROWS)
    train = task.train.chosen(range(0, len(task.train), every))
    known_n = pair_cosines(embed_views(model, train.texts, ("first", "second"), task.spec.max_length))
    if task.spec.labels.kind == "yes_no":
        yes_n = (1 + cosines_n) / 2
        said_n = (cosines_n >= best_threshold(known_n, train.labels)).astype(np.int64)
        return measure(task, split, Decoded(said_n, np.stack([1 - yes_n, yes_n], axis=1)))
    classes = range(len(task.spec.labels.names))
    means_C = np.array([known_n[train.labels == c].mean() if (train.labels == c).any() else np.inf for c in classes])
    nearness_nC = np.exp(-np.abs(cosines_n[:, None] - means_C[None, :]))
    return measure(task, split, Decoded(nearness_nC.argmax(axis=1), nearness_nC))


def pair_cosines(views: Views) -> np.ndarray:
    """The cosine (n,) of each pair's embeddings."""
    return torch.nn.functional.cosine_similarity(views["first"], views["second"], dim=-1).double().numpy()


def best_threshold(cosines_n: np.ndarray, labels_n: np.ndarray) -> float:
    """The cosine from which saying yes is right most often."""
    distinct, places = np.unique(-cosines_n, return_inverse=True)  # equal cosines get equal answers
    gains = np.bincount(places, weights=np.where(labels_n == 1, 1, -1))
    total = np.concatenate([[0], np.cumsum(gains)])
    best = int(total.argmax())
    return -float(distinct[best - 1]) if best else float("inf")


def measure(task: TaskData, split: str, decoded: Decoded) -> float:
    """The task's own metric."""
    return METRICS[task.spec.labels.kind][task.spec.metric](task.splits[split].labels, decoded)
