"""A run from its recipe to its best model, and its continuation after an interruption."""

import shutil
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal

import torch

import plait
from plait.errors import ExecutionError, RecipeError, RunError
from plait.model.directory.load import load_weights
from plait.model.directory.record import open_directory
from plait.model.directory.save import save_model
from plait.model.model import Model
from plait.progress import Progress, SilentProgress
from plait.recipe.schema import Recipe
from plait.resolve.refit import refit_recipe
from plait.resolve.run import ResolvedRun, resolve_run
from plait.resolve.single_task import recipe_of_tasks
from plait.resolve.task import ResolvedTask
from plait.resolve.variants import variant_versions
from plait.runs.directory import RunDirectory
from plait.runs.records import RunRecord, ScoresLine
from plait.runs.result import Result
from plait.training.given_recipe import as_recipe, resolve_again
from plait.training.stage import Stopped
from plait.training.stages import train_stages
from plait.training.threads import choose_threads, restore_threads
from plait.training.trackers import check_trackers
from plait.training.trainer import Trainer, build_start_model
from plait.world import World, find_world

__all__ = ["Stopped", "resume", "train", "train_part"]

_Stop = Callable[[], bool]
_USUAL_GAIN = 0.03  # of fine-tuning over heads on the frozen encoder (docs/benchmarks.md, small data)


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
            record = _record_of(resolved, model, world, baselines=baselines, single_task=single_task, keep=keep)
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
    _resume_precision(model, record, progress)
    if world.size != record.processes:
        counts = f"{_processes(record.processes)}, resuming with {_processes(world.size)}"
        progress.note(f"begun with {counts}: the same batches, dropout and the last bits may differ")
    with _locked(run, world):
        return _run_to_end(run, resolved, model, progress, stop, world)


def _processes(count: int) -> str:
    return "1 process" if count == 1 else f"{count} processes"


def _resume_precision(model: Model, record: RunRecord, progress: Progress) -> None:
    """Train on in the precision of the first part, where this device has it."""
    if record.precision == "float32":
        model.precision = "float32"
    elif record.precision and record.precision != model.precision:
        progress.note(f"begun in {record.precision}, which this {model.device.type} lacks: resuming in float32")


def _record_of(
    resolved: ResolvedRun, model: Model, world: World, *, baselines: bool, single_task: bool, keep: int
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
        processes=world.size,
        precision=model.precision,
    )


def _run_to_end(
    run: RunDirectory, resolved: ResolvedRun, model: Model, progress: Progress, stop: _Stop, world: World
) -> Result:
    """Everything that is left to do in a run; the first process holds its lock."""
    if not run.is_trained:
        train_stages(run, resolved, model, progress, stop, world)
    if resolved.recipe.refit and not run.is_refitted:
        _refit(run, resolved, progress, stop, world)
    single_task = _train_single_tasks(run, resolved, progress, stop, world) if run.record.single_task else {}
    return Result.of(run, tuple(resolved.stages[-1].kept), single_task)


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
    """Whether to believe dev if it scored the start of the heads higher than the last epoch.

    Fine-tuning usually gains something, about `_USUAL_GAIN` on small data and as much more or less. The fewer rows dev
    has, the larger a loss must be to count as more than chance.
    """
    lines = [line for line in run.metrics_lines() if isinstance(line, ScoresLine)]
    first, last = lines[0], lines[-1]
    if first.step or first.mean is None or last.mean is None:
        return False
    judged = {name: task for name, task in resolved.stages[-1].tasks.items() if task.judges}
    variances = [
        _sampling_variance(task, first.choose.get(name, first.dev[name])[task.spec.metric])
        for name, task in judged.items()
    ]
    return first.mean - last.mean > sum(variances) / len(judged) ** 2 / _USUAL_GAIN


def _sampling_variance(task: ResolvedTask, score: float) -> float:
    """How far the difference of two scores of one task is off by chance, squared; roughly, for correlated scores."""
    rows = len(task.judges or ())
    if task.spec.labels.about.is_score:
        return (1 - score**2) ** 2 / rows
    share = (score * rows + 1) / (rows + 2)  # of a few rows, all may be right by chance
    return share * (1 - share) / rows


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
