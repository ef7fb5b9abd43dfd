"""The stages of a run, from the first step to the best model and its result."""

import hashlib
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch

from plait.encoder.adapters import count_weights
from plait.errors import EncoderError, ModelError, NotFiniteError, RunError
from plait.gradients.conflict import summarize
from plait.model.directory.load import load_weights
from plait.model.directory.record import open_directory
from plait.model.model import Model
from plait.progress import Progress
from plait.resolve.run import ResolvedRun, ResolvedStage
from plait.runs.checkpoint import Position, load_checkpoint
from plait.runs.directory import RunDirectory
from plait.runs.metrics_file import open_metrics
from plait.runs.records import ConflictLine, MetricsMark, ResultRecord, StageResult
from plait.runs.resume_point import find_resume_point
from plait.training.baselines import find_baselines, measure_gains
from plait.training.calibrate_best import calibrate_best
from plait.training.stage import RunContext, StageRun
from plait.training.trackers import open_trackers
from plait.training.trainer import Trainer
from plait.training.warm_heads import SolvedHeads
from plait.world import World

__all__ = ["train_stages"]


def train_stages(
    run: RunDirectory, resolved: ResolvedRun, model: Model, progress: Progress, stop: Callable[[], bool], world: World
) -> None:
    """The run itself, stage by stage; each stage starts with the best model of the one before."""
    _report_data(run, resolved, progress)
    solved: SolvedHeads = {}  # for the baselines, and for the start of the stage that they are about
    baselines = world.from_main(find_baselines(run, resolved, solved, progress) if world.is_main else {})
    point = world.from_main(find_resume_point(run, progress.note) if world.is_main else None)
    position = point.position if point else Position()
    if world.is_main:
        run.cut_metrics(point.metrics if point else None)
    recipe = resolved.recipe.model_dump(mode="json")
    with (
        open_metrics(run.metrics if world.is_main else Path(os.devnull), run.check_present) as metrics,
        open_trackers(run, resolved.recipe.tracker if world.is_main else [], recipe, position.step, progress) as found,
    ):
        context = RunContext(run, resolved, metrics, baselines, progress, stop, world, found)
        start = solved if len(resolved.stages) == 1 else {}
        _train_stage(context, model, position, point.place if point else None, start)
        while position.stage + 1 < len(resolved.stages):
            which = "last" if position.best_score is None else "best"  # without a score the last model counts as best
            stage = resolved.stages[position.stage]
            position = position.next_stage(_stage_result(run, stage, position, metrics.mark))
            _load_best(run, model)
            progress.note(f"{context.stage_name(position.stage)} starts from the {which} model of the previous stage")
            _train_stage(context, model, position)
        if world.is_main:
            _finish(run, resolved, model, position, baselines, metrics.mark, progress)
        world.wait()


def _train_stage(
    context: RunContext,
    model: Model,
    position: Position,
    checkpoint: Path | None = None,
    solved: SolvedHeads | None = None,
) -> None:
    """One stage, from its beginning, with heads that are solved already, or from a checkpoint."""
    trainer = Trainer(context.resolved.stages[position.stage], model, context.world)
    stage = StageRun(context, trainer, position)
    if trainer.recipe.adapt:
        new, own = count_weights(model.encoder)
        context.progress.note(f"{trainer.recipe.adapt.name} trains {new:,} weights in place of the encoder's {own:,}")
    name = context.stage_name(position.stage)
    starts_heads = trainer.recipe.head_start == "frozen"
    if checkpoint:
        load_checkpoint(checkpoint, trainer.checkpoint_modules, trainer.optimizer)
        where = f" in {name}" if name else ""
        context.progress.note(f"resuming after step {position.step_in_stage:,} of {trainer.steps:,}{where}")
    else:
        trainer.ask_teacher(context.progress)
    if starts_heads and not checkpoint:
        earlier = context.resolved.stages[: position.stage]
        learned = {name for before in earlier for name in before.learning}
        if context.world.is_main:
            trainer.start_heads(learned, solved or {}, context.progress)
        context.world.copy_main([model])
    if position.stage and not checkpoint:
        stage.save()  # resuming from here needs nothing from earlier stages, so their best model may be replaced
    if starts_heads and position.step_in_stage == 0 and not stage.has_evaluated:
        stage.evaluate("start")
    for task, tables in trainer.tokens.items():
        if truncated := sum(int(table.is_truncated.sum()) for table in tables.values()):
            counts = f"{truncated:,} of {sum(map(len, tables.values())):,} training inputs"
            limit = trainer.resolved.tasks[task].spec.max_length
            context.progress.note(f"{task}: {counts} are truncated to {limit} tokens")
    trainer.store_embeddings(context.progress)
    try:
        stage.run_steps()
    except NotFiniteError as error:
        if not name:
            raise
        raise NotFiniteError(f"in {name}:", *error.mistakes) from None


def _load_best(run: RunDirectory, model: Model) -> None:
    """Load the best weights so far, once their files are verified."""
    try:
        load_weights(model, run.best)
    except (ModelError, EncoderError) as error:
        raise RunError(
            *error.mistakes, f"to train it again, delete {run.checkpoints} and resume {run.folder}"
        ) from None


def _stage_result(run: RunDirectory, stage: ResolvedStage, position: Position, metrics: MetricsMark) -> StageResult:
    """What a stage achieved, at its end."""
    lines = (line for line in run.metrics_lines(metrics) if isinstance(line, ConflictLine))
    return StageResult(
        tasks=list(stage.tasks),
        steps=position.step_in_stage,
        best_step=position.best_step,
        best_score=position.best_score,
        scores=open_directory(run.best).record.provenance.scores,
        conflicts=summarize(line.cosines for line in lines if (line.stage or 0) == stage.stage),
    )


def _finish(
    run: RunDirectory,
    resolved: ResolvedRun,
    model: Model,
    position: Position,
    baselines: dict[str, Any],
    metrics: MetricsMark,
    progress: Progress,
) -> None:
    last = _stage_result(run, resolved.stages[-1], position, metrics)
    digest = _weights_digest(model)
    _load_best(run, model)
    gains = measure_gains(run, resolved, model)
    if resolved.recipe.calibrate:
        calibrate_best(run, resolved, model, progress)
    run.write_result(
        ResultRecord(
            best_step=position.best_step,
            best_score=position.best_score,
            steps=position.step,
            seconds=position.seconds,
            threads=torch.get_num_threads(),
            scores=last.scores,
            baselines=baselines,
            conflicts=last.conflicts,
            last_weights_sha256=digest,
            kept=position.kept,
            stages=[*position.finished, last] if position.stage else [],
            gains=gains,
            metrics=metrics,
        )
    )


def _weights_digest(model: Model) -> str:
    """The sha256 of all weights: two runs with equal digests ended with the same bits."""
    digest = hashlib.sha256()
    for name, tensor in sorted(model.state_dict().items()):
        digest.update(name.encode())
        digest.update(tensor.detach().cpu().contiguous().numpy().tobytes())
    return digest.hexdigest()


def _report_data(run: RunDirectory, resolved: ResolvedRun, progress: Progress) -> None:
    """What a user should know about the data before training."""
    data, start = resolved.data, resolved.stages[-1].start
    for name, resolved_task in data.tasks.items():
        if bad := len(resolved_task.bad):
            progress.note(f"{name}: {bad:,} bad rows were skipped; they are listed in {run.bad_rows}")
    for sentence in data.data_notes():
        progress.note(sentence)
    for name, task in (start.kept if start else {}).items():
        if name not in data.tasks:
            scored = "" if task.dev or task.scores else f", and not scored: {task.why}"
            progress.note(f"{name}: kept from {resolved.recipe.encoder}{scored}")
