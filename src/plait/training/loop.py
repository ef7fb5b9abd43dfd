"""A run from its recipe to its best model, and on from where it stopped."""

import json
import shutil
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

import torch

from plait.errors import NotFiniteError, RecipeError, RunError
from plait.model.files import whole_file
from plait.model.load import load_weights
from plait.model.model import Model
from plait.model.save import write_json
from plait.model.watch import Silent, Watcher
from plait.recipe.read import read_recipe, recipe_from
from plait.recipe.schema import Recipe
from plait.recipe.tree import Tree, plain, set_keys, use_profile
from plait.training.alone import ALONE, alone_recipe
from plait.training.baselines import find_baselines
from plait.training.checkpoint import Position, load_checkpoint, newest_checkpoint, read_position
from plait.training.result import Result, finish, result_of, stage_facts
from plait.training.run import Run
from plait.training.settle import SettledRun, settle_run
from plait.training.stage import Loop, Stopped, Work
from plait.training.tables import TABLES
from plait.training.threads import choose_threads, threads_restored
from plait.training.trainer import Trainer, begin_model

__all__ = ["Stopped", "as_recipe", "resume", "train"]


@threads_restored()
def train(
    recipe: str | Path | Mapping[str, Any] | Recipe,
    out: str | Path | None = None,
    *,
    data: str | Path | None = None,
    profile: str | None = None,
    assignments: Sequence[str] = (),
    baselines: bool = True,
    single_task: bool = False,
    keep: int = 0,
    threads: int | Literal["auto"] | None = None,
    watcher: Watcher | None = None,
    stop: Callable[[], bool] = lambda: False,
) -> Result:
    """Train a recipe into a new run directory.

    The recipe is a YAML file, a bundled name such as "starter", the same keys in a mapping, or a Recipe. In a mapping,
    the train, dev and test of a task may be tables: pandas or polars data frames, or lists of dicts. Its run goes to
    `out`, or to runs/ under the recipe's name. `data` is a folder that its files are looked for in, `assignments` are
    changes such as "lr=1e-4". With `single_task`, each task is trained alone as well, under the same settings; `keep`
    is how many of the best models stay in the run's folder `kept`. The run uses as many `threads` as torch is set to,
    so many, or with "auto" the number that is fastest on this machine; when it is resumed, the same again.
    """
    if keep < 0:
        raise RunError(f"keep: expected how many models to keep, found {keep}")
    name = Path(recipe).stem if isinstance(recipe, str | Path) else "recipe"
    run = Run(Path(out or Path("runs") / name))
    run.check_free()
    settled = settle_run(as_recipe(run.keep_tables(recipe), data, profile, assignments), Path(data) if data else None)
    model = begin_model(settled)  # what can be refused is refused before there is a run
    watcher = watcher or Silent()
    if threads == "auto":
        choose_threads(model, watcher)
    elif threads is not None:
        torch.set_num_threads(threads)
    with run.locked():
        run.create(settled, baselines=baselines, single_task=single_task, keep=keep)
        return do_all(run, settled, model, watcher, stop)


@threads_restored()
def resume(
    folder: str | Path,
    *,
    recipe: str | Path | Recipe | None = None,
    data: str | Path | None = None,
    profile: str | None = None,
    assignments: Sequence[str] = (),
    watcher: Watcher | None = None,
    stop: Callable[[], bool] = lambda: False,
) -> Result:
    """Go on with a run; its end has the same bits as if it had never stopped."""
    run = Run(Path(folder))
    begun = run.begun()
    if run.result.is_file():
        shutil.rmtree(run.checkpoints, ignore_errors=True)
    if run.is_finished():
        raise RunError(f"{run.folder}: is finished; its model is {run.best}")
    given = run.given if run.given.is_dir() else None  # tables of the run go where it goes
    recipe_now = as_recipe(recipe or run.recipe, data or given, profile, assignments)
    settled = settle_run(recipe_now, Path(data) if data else None)
    run.check_same(settled)
    torch.set_num_threads(begun["threads"])  # another number of threads adds in another order
    watcher = watcher or Silent()
    if torch.__version__ != begun["torch"]:
        watcher.note(f"begun with torch {begun['torch']}, going on with {torch.__version__}: the last bits may differ")
    with run.locked():
        return do_all(run, settled, begin_model(settled), watcher, stop)


def as_recipe(
    source: str | Path | Mapping[str, Any] | Recipe,
    data: str | Path | None,
    profile: str | None,
    assignments: Sequence[str],
) -> Recipe:
    """The recipe that is meant."""
    folder = Path(data) if data else None
    assignments = [assignments] if isinstance(assignments, str) else assignments
    if isinstance(source, Recipe):
        source = source.model_dump(mode="json")
    if isinstance(source, Mapping):
        tree = set_keys(use_profile(Tree(plain(source)), profile), assignments)
        return recipe_from(tree, TABLES, data=folder)
    return read_recipe(source, TABLES, data=folder, profile=profile, assignments=assignments)


def do_all(run: Run, settled: SettledRun, model: Model, watcher: Watcher, stop: Callable[[], bool]) -> Result:
    """Everything that a run does, from wherever it is; the caller holds its lock."""
    if not run.result.is_file():
        train_stages(run, settled, model, watcher, stop)
    alone = train_alone(run, settled, watcher, stop) if run.begun().get("single_task") else {}
    return result_of(run, settled, alone)


def train_stages(run: Run, settled: SettledRun, model: Model, watcher: Watcher, stop: Callable[[], bool]) -> None:
    """The run itself, stage by stage; each begins with the best model of the one before."""
    tell_data(run, settled, watcher)
    baselines = find_baselines(run, settled.last, watcher)
    checkpoint = newest_checkpoint(run.checkpoints)
    position = read_position(checkpoint) if checkpoint else Position()
    run.cut_metrics(position.step)
    with run.metrics.open("a", encoding="utf-8", buffering=1) as metrics:
        work = Work(run, settled, metrics, baselines, watcher, stop)
        train_stage(work, model, position, checkpoint)
        while position.stage + 1 < len(settled.stages):
            which = "last" if position.best_score is None else "best"  # without a score the last counts as the best
            position = position.next_stage(stage_facts(run, settled.stages[position.stage], position))
            load_weights(model, run.best)
            watcher.note(f"{work.name_stage(position.stage)} begins with the {which} model of the stage before it")
            train_stage(work, model, position)
    finish(run, settled, model, position, baselines)


def train_stage(work: Work, model: Model, position: Position, checkpoint: Path | None = None) -> None:
    """One stage, from its beginning or from a checkpoint."""
    trainer = Trainer(work.settled.stages[position.stage], model)
    loop = Loop(work, trainer, position)
    name = work.name_stage(position.stage)
    if checkpoint:
        load_checkpoint(checkpoint, trainer.learning, trainer.optimizer)
        inside = f" in {name}" if name else ""
        work.watcher.note(f"going on after step {position.step_in_stage:,} of {trainer.steps:,}{inside}")
    elif position.stage:
        loop.save()  # a run that goes on from here needs nothing of the stages before
    tell_cuts(trainer, work.watcher)
    trainer.store_embeddings(work.watcher)
    try:
        loop.go()
    except NotFiniteError as error:
        if not name:
            raise
        raise NotFiniteError(f"in {name}:", *error.mistakes) from None


def tell_cuts(trainer: Trainer, watcher: Watcher) -> None:
    """How many training inputs are longer than the encoder reads."""
    for name, tables in trainer.tokens.items():
        if cut := sum(table.truncated for table in tables.values()):
            inputs = sum(len(table) for table in tables.values())
            limit = trainer.settled.tasks[name].spec.max_length
            watcher.note(f"{name}: {cut:,} of {inputs:,} training inputs are cut at {limit} tokens")


def train_alone(run: Run, settled: SettledRun, watcher: Watcher, stop: Callable[[], bool]) -> dict[str, float]:
    """The dev score of each task of the last stage when it is trained there by itself, in runs below this one."""
    scores: dict[str, float] = {}
    for name, task in settled.last.tasks.items():
        if not task.settings.learn:
            watcher.note(f"{name}: has learn: false, so it is not trained alone")
            continue
        if "dev" not in task.splits:
            watcher.note(f"{name}: has no dev data to be scored on, so it is not trained alone")
            continue
        part = run.folder / ALONE / name
        if not Run(part).result.is_file():
            watcher.note(f"{name}: training it alone")
            recipe = alone_recipe(settled.recipe, name)
            try:
                if Run(part).facts.is_file():
                    resume(part, recipe=recipe, watcher=watcher, stop=stop)  # its files lie where this run's lie now
                else:
                    train(recipe, part, baselines=False, watcher=watcher, stop=stop)
            except Stopped:
                where = f"stopped while {name} was trained alone"
                raise Stopped(f"{where}; plait train --resume {run.folder} goes on") from None
            except RecipeError as error:  # a head without weights on a frozen encoder
                if Run(part).facts.is_file():
                    raise
                watcher.note(f"{name}: cannot be trained alone: {error.mistakes[0]}")
                continue
        found = json.loads(Run(part).result.read_text(encoding="utf-8"))["scores"].get(name, {})
        if task.spec.metric in found:
            scores[name] = found[task.spec.metric]
    with whole_file(run.alone) as aside:
        write_json(aside, scores)
    return scores


def tell_data(run: Run, settled: SettledRun, watcher: Watcher) -> None:
    """What a user should know of the data before it is trained on."""
    data, start = settled.data, settled.last.start
    for name, rows in data.bad.items():
        watcher.note(f"{name}: {len(rows):,} bad rows were left out; they are listed in {run.bad_rows}")
    for sentence in data.sentences():
        watcher.note(sentence)
    for name, task in (start.kept if start else {}).items():
        if name not in data.tasks:
            scored = "" if task.dev else f", and is not scored: {task.why}"
            watcher.note(f"{name}: kept from {settled.recipe.encoder}{scored}")
