"""What a result must beat: a constant answer, the encoder as downloaded, and heads on a frozen encoder.

n examples, D width, C classes.
"""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np
import torch
from torch import Tensor

from plait.data.batch import views_of
from plait.data.examples import Examples
from plait.data.prediction_arrays import PredictionArrays
from plait.errors import NotFiniteError, RecipeError
from plait.evaluation.evaluate import metric_on, score_task
from plait.evaluation.gain import measure_gain
from plait.losses import LOSSES
from plait.model.encode_texts import embed_views, predict_columns, predict_embedded
from plait.model.model import Model
from plait.progress import Progress
from plait.resolve.run import ResolvedRun, ResolvedStage
from plait.resolve.single_task import restrict_to_tasks
from plait.resolve.task import ResolvedTask
from plait.runs.directory import RunDirectory
from plait.runs.records import Gain
from plait.training.trainer import Trainer, build_stage_model
from plait.training.warm_heads import SolvedHeads

__all__ = [
    "BEFORE",
    "FREE",
    "FROZEN",
    "FROZEN_LR",
    "FROZEN_TIMES",
    "MAJORITY",
    "ZERO_SHOT",
    "find_baselines",
    "find_free_scores",
    "frozen_model",
    "measure_gains",
    "predict_baselines",
    "score_baselines",
]

MAJORITY, ZERO_SHOT, FROZEN = "majority or mean", "zero-shot cosine", "frozen encoder"
FREE = (MAJORITY, ZERO_SHOT, FROZEN)  # what costs no training of the encoder
BEFORE = "before"  # the scores of a start model
FROZEN_LR = 1e-3  # the papers' rate for a frozen encoder
FROZEN_TIMES = 10  # times the recipe's epochs: on stored embeddings an epoch costs next to nothing
_THRESHOLD_ROWS = 2000  # training rows that set the zero-shot threshold

_Answers = dict[str, dict[str, PredictionArrays]]  # baseline → task → what it predicts
_Table = dict[str, dict[str, float]]  # baseline → task → the task's metric
_Views = Mapping[str, Tensor]  # view → embeddings (n, D)


def find_baselines(run: RunDirectory, resolved: ResolvedRun, solved: SolvedHeads, progress: Progress) -> dict[str, Any]:
    """The baselines of a run's last stage, measured once; a start model is always compared with itself before.

    Heads that are solved for them are added to `solved`.
    """
    last, wanted = resolved.stages[-1], run.record.baselines
    if not wanted and not last.start:
        return {}
    stored = run.read_baselines()
    if stored is None:
        stored = dict(_measure_baselines(run, resolved, solved, progress)) if wanted else {}
        if before := _scores_before(resolved):
            stored["dev"] = {**stored.get("dev", {}), BEFORE: before}
        run.write_baselines(stored)
    return stored


def find_free_scores(run: RunDirectory, resolved: ResolvedRun, split: str, progress: Progress) -> dict[str, Any]:
    """Baseline → task → score of a finished run on one split; measured now if the run did without them.

    Scores that are undefined, such as the correlation with a constant, are left out.
    """
    stored = run.read_baselines() or {}
    if not any(name in baselines for baselines in stored.values() for name in FREE):
        measured = _measure_baselines(run, resolved, {}, progress)
        before = {of: {BEFORE: found[BEFORE]} for of, found in stored.items() if BEFORE in found}
        stored = {of: {**measured.get(of, {}), **before.get(of, {})} for of in {**measured, **before}}
        run.write_baselines(stored)
    found = {name: stored.get(split, {}).get(name, {}) for name in FREE}
    finite = {name: {task: value for task, value in own.items() if np.isfinite(value)} for name, own in found.items()}
    return {name: own for name, own in finite.items() if own}


def _measure_baselines(
    run: RunDirectory, resolved: ResolvedRun, solved: SolvedHeads, progress: Progress
) -> dict[str, _Table]:
    """Measure the baselines, and store what they predict in the run."""
    try:
        answers = predict_baselines(resolved, solved, progress)
    except NotFiniteError as error:
        raise NotFiniteError("while training heads on the frozen encoder:", *error.mistakes) from None
    run.write_baseline_predictions(answers)
    return score_baselines(resolved, answers)


def predict_baselines(resolved: ResolvedRun, solved: SolvedHeads, progress: Progress) -> dict[str, _Answers]:
    """What every baseline predicts for dev and test."""
    model, views = frozen_model(resolved, solved, progress)
    return {split: _split_answers(model, resolved.stages[-1], split, views[split]) for split in views}


def score_baselines(resolved: ResolvedRun, answers: Mapping[str, _Answers]) -> dict[str, _Table]:
    """Every baseline on dev and test, by the metric of each task."""
    tasks = resolved.stages[-1].tasks
    tables: dict[str, _Table] = {}
    for split, baselines in answers.items():
        tables[split] = {
            baseline: {
                name: _measure(tasks[name], tasks[name].splits[split], predicted) for name, predicted in own.items()
            }
            for baseline, own in baselines.items()
        }
        chance = {
            name: task.spec.labels.about.chance
            for name, task in tasks.items()
            if split in task.splits and task.spec.labels.about.constant is None
        }
        if chance:
            tables[split] = {MAJORITY: {**chance, **tables[split].pop(MAJORITY, {})}, **tables[split]}
    return tables


def measure_gains(run: RunDirectory, resolved: ResolvedRun, model: Model) -> dict[str, Gain]:
    """What a trained model gained over the best baseline of each task, on test, or on dev if there is no test."""
    answers = run.read_baseline_predictions()
    gains: dict[str, Gain] = {}
    model.eval()
    for name, task in resolved.stages[-1].tasks.items():
        split = "test" if "test" in task.splits else "dev"
        known = {baseline: own[name] for baseline, own in answers.get(split, {}).items() if name in own}
        if not known:
            continue
        examples = task.splits[split]
        predicted = predict_columns(model, name, examples.texts).predictions
        if gain := measure_gain(task.spec, split, examples.labels, predicted, known):
            gains[name] = gain
    return gains


def _scores_before(resolved: ResolvedRun) -> dict[str, float]:
    """The dev scores of the start model on its own tasks, before it is trained further."""
    last = resolved.stages[-1]
    if last.start is None:
        return {}
    kept = {name: task for name, task in last.kept.items() if name in last.start.tasks}
    known = {name: task.scores[task.spec.metric] for name, task in kept.items() if task.spec.metric in task.scores}
    dev = {name: task.dev for name, task in kept.items() if task.dev}
    own = {name: task.splits["dev"] for name, task in last.tasks.items() if "dev" in task.splits}
    dev |= {name: examples for name, examples in own.items() if name in last.start.tasks}
    if not dev:
        return known
    model = build_stage_model(last, resolved.checkpoint).eval()
    return {**known, **{name: score_task(model, name, examples).value for name, examples in dev.items()}}


def frozen_model(
    resolved: ResolvedRun, solved: SolvedHeads, progress: Progress
) -> tuple[Model, dict[str, dict[str, _Views]]]:
    """The same recipe on a frozen encoder, and the embeddings of dev and test by split and task.

    Heads are solved if the recipe starts them so, and added to `solved`; otherwise they are trained.
    """
    last = resolved.stages[-1]
    recipe = last.recipe
    changes = {
        "train_encoder": False,
        "lr": FROZEN_LR,
        "head_lr": FROZEN_LR,
        "epochs": recipe.epochs and FROZEN_TIMES * recipe.epochs,
        "steps": recipe.steps and FROZEN_TIMES * recipe.steps,
        "conflict_every": None,
    }
    predicting = {name: _without_teacher(task) for name, task in last.tasks.items() if task.spec.head}
    frozen = replace(last, recipe=restrict_to_tasks(recipe.model_copy(update=changes), predicting), tasks=predicting)
    model = build_stage_model(frozen, resolved.checkpoint)
    try:
        trainer = Trainer(frozen, model) if frozen.learning else None
    except RecipeError:  # no head has weights, so there is nothing to train
        trainer = None
    model.eval()
    views = {
        split: _embed_split(
            model, last, split, {name: task.splits.get(split) for name, task in last.tasks.items()}, progress
        )
        for split in ("dev", "test")
        if any(split in task.splits for task in last.tasks.values())
    }
    if trainer and recipe.head_start == "frozen":
        trainer.start_heads((), solved, progress)
    elif trainer:
        trainer.store_embeddings(progress)
        judges = dict(views.get("dev", {}))
        if choosing := {name: task.choosing for name, task in last.tasks.items() if task.choosing}:
            judges |= _embed_split(model, last, "dev", choosing, progress)
        _train_heads(trainer, judges, progress)
    return model.eval(), views


def _without_teacher(task: ResolvedTask) -> ResolvedTask:
    """A task that learns from its labels alone."""
    losses = tuple(loss for loss in task.losses if LOSSES[loss.name].takes != "teacher")
    return replace(task, settings=task.settings.model_copy(update={"loss": losses}))


def _embed_split(
    model: Model, resolved: ResolvedStage, split: str, examples_of: Mapping[str, Examples | None], progress: Progress
) -> dict[str, _Views]:
    """Every view that a head or the zero-shot cosine reads, encoded once, for the tasks that have examples."""
    known = {name: examples for name, examples in examples_of.items() if examples}
    progress.begin(f"encoding {split} for the baselines", sum(map(len, known.values())))
    embedded: dict[str, _Views] = {}
    for name, examples in known.items():
        task = resolved.tasks[name]
        embedded[name] = embed_views(model, examples.texts, _needed_views(task), task.spec.max_length)
        progress.advance(len(examples))
    progress.end()
    return embedded


def _needed_views(task: ResolvedTask) -> tuple[str, ...]:
    """The views of the head, and both texts apart for the zero-shot cosine."""
    reads = task.spec.head_class.reads
    return views_of([reads, "apart"] if _has_cosine(task) else [reads])


def _has_cosine(task: ResolvedTask) -> bool:
    """Whether the cosine of the texts, without any training, says something about the label."""
    return len(task.spec.text) > 1 and not task.spec.labels.about.multilabel


def _train_heads(trainer: Trainer, judges: Mapping[str, _Views], progress: Progress) -> None:
    """Train the heads and restore them to the epoch with the best score on the dev rows that choose."""
    best: tuple[float, dict[str, Tensor]] | None = None
    step = 0
    progress.begin("training heads on the frozen encoder", trainer.steps)
    for epoch in range(len(trainer.plan.epochs)):
        for planned in trainer.plan.epoch_plan(epoch):
            if step == trainer.steps:
                break
            trainer.step(step, planned)
            step += 1
            progress.advance()
        tasks = trainer.resolved.tasks
        scores = {
            name: _measure(tasks[name], tasks[name].judges, predict_embedded(trainer.model.eval(), name, judges[name]))
            for name in judges
        }
        best_by = trainer.recipe.best_by
        score = scores.get(best_by, float(np.mean(list(scores.values()))) if scores else 0.0)
        if best is None or score > best[0]:
            best = score, {name: tensor.clone() for name, tensor in trainer.model.state_dict().items()}
    progress.end()
    if best and judges:
        trainer.model.load_state_dict(best[1])


def _split_answers(model: Model, resolved: ResolvedStage, split: str, views: Mapping[str, _Views]) -> _Answers:
    """The baselines on one split."""
    answers: _Answers = {MAJORITY: {}, ZERO_SHOT: {}, FROZEN: {}}
    for name, embedded in views.items():
        task = resolved.tasks[name]
        labels, about = task.spec.labels, task.spec.labels.about
        if about.constant is not None:
            known, rows = task.splits["train"].labels, len(task.splits[split])
            answers[MAJORITY][name] = about.constant(labels, known, rows)
        if _has_cosine(task):
            answers[ZERO_SHOT][name] = _predict_by_cosine(model, task, embedded)
        answers[FROZEN][name] = predict_embedded(model, name, embedded)
    return {baseline: own for baseline, own in answers.items() if own}


def _predict_by_cosine(model: Model, task: ResolvedTask, views: _Views) -> PredictionArrays:
    """The cosine of the two texts under the encoder as downloaded; only a threshold is set on train."""
    about = task.spec.labels.about
    if not about.labelled:  # the head of triplets has no weights and computes just this
        return predict_embedded(model, task.spec.name, views)
    cosines_n = _pair_cosines(views)
    distinct = np.unique(task.splits["train"].labels)
    if about.is_score and len(distinct) != 2:
        return PredictionArrays(cosines_n, None)
    every = max(1, len(task.splits["train"]) // _THRESHOLD_ROWS)
    train = task.splits["train"].chosen(range(0, len(task.splits["train"]), every))
    known_n = _pair_cosines(embed_views(model, train.texts, ("first", "second"), task.spec.max_length))
    if about.is_score:  # two scores: the accuracy asks which of them is nearer, and correlations ignore a shift
        threshold = min(_best_threshold(known_n, train.labels == distinct[1]), 2.0)  # 2 is above every cosine
        return PredictionArrays(cosines_n - threshold + distinct.mean(), None)
    if about.is_yes_no:
        yes_n = (1 + cosines_n) / 2
        said_n = (cosines_n >= _best_threshold(known_n, train.labels)).astype(np.int64)
        return PredictionArrays(said_n, np.stack([1 - yes_n, yes_n], axis=1))
    classes = range(len(task.spec.labels.names))
    means_C = np.array([known_n[train.labels == c].mean() if (train.labels == c).any() else np.inf for c in classes])
    closeness_nC = np.exp(-np.abs(cosines_n[:, None] - means_C[None, :]))
    return PredictionArrays(closeness_nC.argmax(axis=1), closeness_nC)


def _pair_cosines(views: _Views) -> np.ndarray:
    """The cosine (n,) of each pair."""
    return torch.nn.functional.cosine_similarity(views["first"], views["second"], dim=-1).double().numpy()


def _best_threshold(cosines_n: np.ndarray, labels_n: np.ndarray) -> float:
    """The cosine from which saying yes is correct most often."""
    distinct, places = np.unique(-cosines_n, return_inverse=True)  # equal cosines get equal answers
    gains = np.bincount(places, weights=np.where(labels_n == 1, 1, -1))
    total = np.concatenate([[0], np.cumsum(gains)])
    best = int(total.argmax())
    return -float(distinct[best - 1]) if best else float("inf")


def _measure(task: ResolvedTask, examples: Examples | None, predictions: PredictionArrays) -> float:
    """The task's own metric."""
    assert examples is not None, "predictions have examples"
    return metric_on(task.spec, examples.labels, predictions)
