"""A run from its recipe to its best model, and its continuation after an interruption."""

import hashlib
import os
import shutil
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal

import torch

import plait
from plait.encoder.adapters import count_weights
from plait.errors import EncoderError, ExecutionError, ModelError, NotFiniteError, RecipeError, RunError
from plait.gradients.conflict import summarize
from plait.model.directory.load import load_weights
from plait.model.directory.record import open_directory
from plait.model.directory.save import save_model
from plait.model.model import Model
from plait.progress import Progress, SilentProgress
from plait.recipe.schema import Recipe
from plait.resolve.refit import refit_recipe
from plait.resolve.run import ResolvedRun, ResolvedStage, resolve_run
from plait.resolve.single_task import recipe_of_tasks
from plait.resolve.variants import variant_versions
from plait.runs.checkpoint import Position, load_checkpoint
from plait.runs.directory import RunDirectory
from plait.runs.metrics_file import open_metrics
from plait.runs.records import ConflictLine, MetricsMark, ResultRecord, RunRecord, ScoresLine, StageResult
from plait.runs.result import Result
from plait.runs.resume_point import find_resume_point
from plait.training.baselines import find_baselines, measure_gains
from plait.training.calibrate_best import calibrate_best
from plait.training.given_recipe import as_recipe, resolve_again
from plait.training.stage import RunContext, StageRun, Stopped
from plait.training.threads import choose_threads, restore_threads
from plait.training.trackers import check_trackers, open_trackers
from plait.training.trainer import Trainer, build_start_model
from plait.training.warm_heads import SolvedHeads
from plait.world import World, find_world

__all__ = ["Stopped", "resume", "train", "train_part"]

_Stop = Callable[[], bool]


@restore_threads()
def train(
    recipe: str | Path | Mapping[str, Any] | Recipe,
    out: str | Path | None = None,
    *,
    data: str | Path | None = None,
    profile: str | None = None,
    overrides: Sequence[str] = (),
    baselines: bool = True,
    single_task: bool = False,
    keep: int = 0,
    threads: int | Literal["auto"] | None = None,
    progress: Progress | None = None,
    stop: _Stop = lambda: False,
) -> Result:
    """Train a recipe into a new run directory.

    `recipe` is a YAML file, a bundled name such as "starter", a row of a suite such as "best-of-bert#cosine", a mapping
    with the same keys, or a Recipe. In a mapping, the train, dev and test of a task may be tables: pandas or polars
    data frames, or lists of dicts. The run goes to `out`, by default runs/ with the name of the recipe. `data` is a
    folder to look for data files in, `overrides` are changes such as "lr=1e-4". With `single_task`, each task is also
    trained alone under the same settings. `keep` is how many of the best models stay in the run's folder `kept`.
    `threads` is a number, "auto" for the fastest on this machine, or None for torch's current setting; a resumed run
    uses the same number.
    """
    _check_arguments(recipe, keep, threads)
    name = Path(recipe).absolute().stem.replace("#", "-") if isinstance(recipe, str | Path) else "recipe"
    run = RunDirectory(Path(out or Path("runs") / name))
    world = find_world()
    progress = (progress if world.is_main else None) or SilentProgress()

    def prepare() -> tuple[ResolvedRun, Model]:
        """Whatever can be refused is refused before there is a run."""
        run.check_free()
        with run.errors_in_rows():
            given = as_recipe(run.store_tables(recipe), data, profile, overrides)
            resolved = resolve_run(given, Path(data) if data else None)
        if world.size > 1 and run.has_tables:
            raise RecipeError("tables in memory cannot be shared by several processes; write them to files")
        check_trackers(resolved.recipe)
        return resolved, build_start_model(resolved)

    with run.no_leftovers(Stopped):
        resolved, model = world.all_or_none(prepare)
        if threads == "auto" and world.size == 1:
            choose_threads(model, progress)
        elif isinstance(threads, int):
            torch.set_num_threads(threads)
        torch.set_num_threads(world.from_main(torch.get_num_threads()))

        def create() -> None:
            record = _record_of(resolved, world, baselines=baselines, single_task=single_task, keep=keep)
            bad = {name: task.bad for name, task in resolved.data.tasks.items() if task.bad}
            run.create(record, resolved.recipe, bad)

        with _locked(run, world, create):
            return _run_to_end(run, resolved, model, progress, stop, world)


@contextmanager
def _locked(run: RunDirectory, world: World, begin: Callable[[], None] = lambda: None) -> Iterator[None]:
    """Hold the lock of a run, and begin it, in the first process; the others see its files."""
    with ExitStack() as stack:

        def enter() -> None:
            if world.is_main:
                stack.enter_context(run.locked())
                begin()

        def look() -> None:
            if not run.has_begun:
                raise RunError(f"{run.folder}: another process sees no run there; all processes need the same folder")

        world.all_or_none(enter)
        world.all_or_none(look)
        yield


def _check_arguments(recipe: object, keep: int, threads: object) -> None:
    """Refuse what a caller from Python may get wrong, and the command line cannot."""
    if not isinstance(recipe, str | Path | Mapping | Recipe):
        found = type(recipe).__name__
        raise RecipeError(f"the argument `recipe`: expected a file, a name, a mapping or a Recipe, found {found}")
    if keep < 0:
        raise RunError(f"the argument `keep`: expected a number of models, found {keep}")
    if isinstance(threads, int) and threads < 1:
        raise RunError(f"the argument `threads`: expected a number of threads, found {threads}")


@restore_threads()
def resume(
    folder: str | Path,
    *,
    recipe: str | Path | Recipe | None = None,
    data: str | Path | None = None,
    profile: str | None = None,
    overrides: Sequence[str] = (),
    progress: Progress | None = None,
    stop: _Stop = lambda: False,
) -> Result:
    """Resume a run; it ends with the same bits as if it had never stopped."""
    run = RunDirectory(Path(folder))
    world = find_world()
    progress = (progress if world.is_main else None) or SilentProgress()

    def prepare() -> tuple[ResolvedRun, Model]:
        _ = run.record  # refuse what is not a run
        if run.is_trained and world.is_main:
            run.drop_checkpoints()
        if run.is_finished():
            raise RunError(f"{run.folder}: already finished; its model is {run.best}")
        resolved = resolve_again(run, recipe=recipe, data=data, profile=profile, overrides=overrides)
        check_trackers(resolved.recipe)
        return resolved, build_start_model(resolved)

    resolved, model = world.all_or_none(prepare)
    record = run.record
    torch.set_num_threads(record.threads)  # another number of threads would sum in another order
    if torch.__version__ != record.torch:
        progress.note(f"begun with torch {record.torch}, resuming with {torch.__version__}: the last bits may differ")
    if world.size != record.processes:
        counts = f"{_processes(record.processes)}, resuming with {_processes(world.size)}"
        progress.note(f"begun with {counts}: the same batches, dropout and the last bits may differ")
    with _locked(run, world):
        return _run_to_end(run, resolved, model, progress, stop, world)


def _processes(count: int) -> str:
    return "1 process" if count == 1 else f"{count} processes"


def _record_of(
    resolved: ResolvedRun, world: World | None = None, *, baselines: bool, single_task: bool, keep: int
) -> RunRecord:
    return RunRecord(
        plait=plait.__version__,
        torch=torch.__version__,
        threads=torch.get_num_threads(),
        baselines=baselines,
        single_task=single_task,
        keep=keep,
        recipe=resolved.recipe.model_dump(mode="json"),
        encoder=resolved.checkpoint.digests(),
        data=resolved.stage_fingerprints,
        kept=resolved.kept_origins(folders=True),
        variants=variant_versions(resolved.recipe),
        digests=True,
        processes=(world or World()).size,
    )


def _run_to_end(
    run: RunDirectory, resolved: ResolvedRun, model: Model, progress: Progress, stop: _Stop, world: World
) -> Result:
    """Everything that is left to do in a run; the first process holds its lock."""
    if not run.is_trained:
        _train_stages(run, resolved, model, progress, stop, world)
    if resolved.recipe.refit and not run.is_refitted:
        _refit(run, resolved, progress, stop, world)
    single_task = _train_single_tasks(run, resolved, progress, stop, world) if run.record.single_task else {}
    return Result.of(run, tuple(resolved.stages[-1].kept), single_task)


def _train_stages(
    run: RunDirectory, resolved: ResolvedRun, model: Model, progress: Progress, stop: _Stop, world: World
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
    elif starts_heads:
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


def _refit(run: RunDirectory, resolved: ResolvedRun, progress: Progress, stop: _Stop, world: World) -> None:
    """Replace the best model by one that is trained on all rows, in a run inside this one."""
    recipe = refit_recipe(resolved.recipe)
    part = RunDirectory(run.refit)
    again = resolve_run(recipe)
    model = build_start_model(again)
    if _start_was_better(run, resolved):
        progress.note("refit: dev prefers the frozen encoder, so only the heads are solved again, on all rows")
        if world.is_main:
            Trainer(again.stages[-1], model).start_heads((), {}, progress)
    else:
        if not part.is_trained:
            progress.note("refit: training once more, on all rows")
            _train_inside(run, part, recipe, "during the refit", progress, stop)
        load_weights(model, part.best)
    if world.is_main:
        before = open_directory(run.best).record
        model.tasks = {name: spec.calibrated_like(before.tasks[name]) for name, spec in model.tasks.items()}
        run.check_present()
        save_model(model, run.best, replace(before.provenance, refit=True))
        shutil.rmtree(part.folder, ignore_errors=True)
    world.wait()


def _start_was_better(run: RunDirectory, resolved: ResolvedRun) -> bool:
    """Whether dev scored the start of the heads higher than the last epoch, by more than about a standard error."""
    lines = [line for line in run.metrics_lines() if isinstance(line, ScoresLine)]
    first, last = lines[0].mean, lines[-1].mean
    rows = sum(len(task.judges) for task in resolved.stages[-1].tasks.values() if task.judges)
    return lines[0].step == 0 and first is not None and last is not None and first - last > 0.5 / rows**0.5


def _train_single_tasks(
    run: RunDirectory, resolved: ResolvedRun, progress: Progress, stop: _Stop, world: World
) -> dict[str, float]:
    """The dev score of each task of the last stage when it is trained alone, in runs inside this one."""
    scores: dict[str, float] = {}
    for name, task in resolved.stages[-1].tasks.items():
        if not task.settings.learn:
            progress.note(f"{name}: not trained alone, it has learn: false")
            continue
        if "dev" not in task.splits:
            progress.note(f"{name}: not trained alone, it has no dev data to score")
            continue
        part = train_part(run, run.single_tasks / name, resolved, [name], progress, stop)
        if part is None:
            continue
        found = part.read_result().scores.get(name, {})
        if task.spec.metric in found:
            scores[name] = found[task.spec.metric]
    if world.is_main:
        run.write_single_task_scores(scores)
    world.wait()
    return scores


def train_part(
    run: RunDirectory,
    place: Path,
    resolved: ResolvedRun,
    tasks: Sequence[str],
    progress: Progress,
    stop: _Stop,
    *,
    again: str = "",
) -> RunDirectory | None:
    """Some tasks of a run trained without the others, in a run inside it; None, and a note, if that is impossible.

    `again` is the command that continues after an interruption, by default that which resumes the run.
    """
    part = RunDirectory(place)
    if part.is_trained:
        return part
    named = " and ".join(tasks)
    alone = "alone" if len(tasks) == 1 else "without the others"
    progress.note(f"{named}: training {'it' if len(tasks) == 1 else 'them'} {alone}")
    try:
        recipe = recipe_of_tasks(resolved.recipe, tasks)
        _train_inside(run, part, recipe, f"while training {named} {alone}", progress, stop, again)
    except RecipeError as error:  # a head without weights on a frozen encoder
        if part.has_begun:
            raise
        progress.note(f"{named}: cannot be trained {alone}: {error.mistakes[0]}")
        return None
    return part


def _train_inside(
    run: RunDirectory, part: RunDirectory, recipe: Recipe, when: str, progress: Progress, stop: _Stop, again: str = ""
) -> None:
    """Train a run inside another one, or resume it with the other one's file locations."""
    run.check_present()
    again = again or f"plait train --resume {run.folder}"
    try:
        if part.has_begun:
            resume(part.folder, recipe=recipe, progress=progress, stop=stop)
        else:
            train(recipe, part.folder, baselines=False, progress=progress, stop=stop)
    except Stopped:
        raise Stopped(f"stopped {when}; resume with {again}") from None
    except ExecutionError as error:
        own = f"plait train --resume {part.folder}"
        raise ExecutionError(*(mistake.replace(own, again) for mistake in error.mistakes)) from None


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
