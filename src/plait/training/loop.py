"""A run from its recipe to its best model, and on from where it stopped."""

import hashlib
import json
import os
import shutil
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from itertools import islice
from pathlib import Path
from typing import Any, TextIO

import numpy as np
import torch

from plait.errors import NotFiniteError, RecipeError, RunError
from plait.evaluation.evaluate import Scores, mean_score, score_task
from plait.gradients.conflict import sum_up
from plait.model.about import About, portable, read_about
from plait.model.files import whole_file
from plait.model.model import Model
from plait.model.save import save_model, write_json
from plait.model.watch import Silent, Watcher
from plait.recipe.read import read_recipe, recipe_from
from plait.recipe.schema import Recipe
from plait.recipe.tree import Tree, plain, set_keys, use_profile
from plait.training.alone import ALONE, with_tasks
from plait.training.baselines import BEFORE, measure_baselines, measure_before
from plait.training.checkpoint import Position, load_checkpoint, newest_checkpoint, save_checkpoint
from plait.training.grow import score_kept
from plait.training.keep import Standing, keep_best
from plait.training.run import Run
from plait.training.settle import Settled, settle_recipe
from plait.training.tables import TABLES
from plait.training.trainer import Trainer

__all__ = ["Result", "Stopped", "resume", "train"]

TRAIN_SAMPLE = 500  # training rows a task that an evaluation looks at, at most as many as dev has


@dataclass(frozen=True)
class Result:
    """A finished run."""

    run: Path
    model: Path  # the best model's directory
    scores: dict[str, Any]  # task → metric → value, of the best model on dev
    baselines: dict[str, Any]  # split → baseline → task → value
    best_step: int
    steps: int
    seconds: float  # of training and evaluation, pauses left out
    kept: tuple[str, ...] = ()  # tasks of the model that it grew from, scored and not trained
    alone: dict[str, float] = field(default_factory=dict)  # task → its metric on dev when it is trained alone
    kept_models: tuple[Path, ...] = ()  # the best models' directories, best first, where so many were asked for
    conflicts: dict[str, dict[str, float]] = field(default_factory=dict)  # by pair of tasks, where they were watched


class Stopped(Exception):
    """The run was asked to stop, and did so after a checkpoint."""


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
    watcher: Watcher | None = None,
    stop: Callable[[], bool] = lambda: False,
) -> Result:
    """Train a recipe into a new run directory.

    The recipe is a YAML file, a bundled name such as "starter", the same keys in a mapping, or a Recipe. In a mapping,
    the train, dev and test of a task may be tables: pandas or polars data frames, or lists of dicts. Its run goes to
    `out`, or to runs/ under the recipe's name. `data` is a folder that its files are looked for in, `assignments` are
    changes such as "lr=1e-4". With `single_task`, each task is trained alone as well, under the same settings; `keep`
    is how many of the best models stay in the run's folder `kept`.
    """
    if keep < 0:
        raise RunError(f"keep: expected how many models to keep, found {keep}")
    name = Path(recipe).stem if isinstance(recipe, str | Path) else "recipe"
    run = Run(Path(out or Path("runs") / name))
    run.check_free()
    settled = settle_recipe(
        as_recipe(run.keep_tables(recipe), data, profile, assignments), Path(data) if data else None
    )
    trainer = Trainer(settled)  # what can be refused is refused before there is a run
    with run.locked():
        run.create(settled, baselines=baselines, single_task=single_task, keep=keep)
        return work(run, trainer, watcher or Silent(), stop)


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
    settled = settle_recipe(recipe_now, Path(data) if data else None)
    run.check_same(settled)
    torch.set_num_threads(begun["threads"])  # another number of threads adds in another order
    watcher = watcher or Silent()
    if torch.__version__ != begun["torch"]:
        watcher.note(f"begun with torch {begun['torch']}, going on with {torch.__version__}: the last bits may differ")
    with run.locked():
        return work(run, Trainer(settled), watcher, stop)


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


def work(run: Run, trainer: Trainer, watcher: Watcher, stop: Callable[[], bool]) -> Result:
    """Everything that a run does, from wherever it is; the caller holds its lock."""
    if not run.result.is_file():
        train_together(run, trainer, watcher, stop)
    alone = train_alone(run, trainer.settled, watcher, stop) if run.begun().get("single_task") else {}
    return result_of(run, trainer.settled, alone)


def train_together(run: Run, trainer: Trainer, watcher: Watcher, stop: Callable[[], bool]) -> None:
    """The run itself, all of its tasks."""
    tell_data(run, trainer.settled, watcher)
    for name, tables in trainer.tokens.items():
        if cut := sum(table.truncated for table in tables.values()):
            inputs = sum(len(table) for table in tables.values())
            limit = trainer.settled.tasks[name].spec.max_length
            watcher.note(f"{name}: {cut:,} of {inputs:,} training inputs are cut at {limit} tokens")
    baselines = find_baselines(run, trainer.settled, watcher)
    position = Position()
    if (checkpoint := newest_checkpoint(run.checkpoints)) is not None:
        position = load_checkpoint(checkpoint, trainer.learning, trainer.optimizer)
        watcher.note(f"going on after step {position.step:,} of {trainer.steps:,}")
    run.cut_metrics(position.step)
    trainer.store_embeddings(watcher)
    with run.metrics.open("a", encoding="utf-8", buffering=1) as metrics:
        Loop(run, trainer, position, metrics, baselines, watcher, stop).go()
    finish(run, trainer, position, baselines)


def train_alone(run: Run, settled: Settled, watcher: Watcher, stop: Callable[[], bool]) -> dict[str, float]:
    """The dev score of each task when it is trained by itself, in runs of their own below this one."""
    scores: dict[str, float] = {}
    for name, task in settled.tasks.items():
        if not task.spec.head:  # there is nothing to score
            continue
        part = run.folder / ALONE / name
        if not Run(part).result.is_file():
            watcher.note(f"{name}: training it alone")
            recipe = with_tasks(settled.recipe, [name])
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


def tell_data(run: Run, settled: Settled, watcher: Watcher) -> None:
    """What a user should know of the data before it is trained on."""
    for name, rows in settled.bad.items():
        watcher.note(f"{name}: {len(rows):,} bad rows were left out; they are listed in {run.bad_rows}")
    for sentence in settled.sentences():
        watcher.note(sentence)
    for name, task in (settled.start.kept if settled.start else {}).items():
        scored = "" if task.dev else f", and is not scored: {task.why}"
        watcher.note(f"{name}: kept from {settled.recipe.encoder}{scored}")


def find_baselines(run: Run, settled: Settled, watcher: Watcher) -> dict[str, Any]:
    """The baselines, measured once a run; a model that grows is always compared with itself before."""
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


class Loop:
    """The steps of a run, its evaluations and checkpoints."""

    def __init__(
        self,
        run: Run,
        trainer: Trainer,
        position: Position,
        metrics: TextIO,
        baselines: dict[str, Any],
        watcher: Watcher,
        stop: Callable[[], bool],
    ) -> None:
        self.run = run
        self.trainer = trainer
        self.position = position
        self.metrics = metrics
        self.baselines = baselines
        self.watcher = watcher
        self.stop = stop
        self.keep: int = run.begun().get("keep", 0)
        self.started = time.monotonic() - position.seconds

    def go(self) -> None:
        """Train until the plan, the steps or the patience is at its end."""
        position, trainer = self.position, self.trainer
        self.watcher.begin("training", trainer.steps, position.step)
        while position.step < trainer.steps and not position.stopped_early:
            epoch = trainer.plan.epochs[position.epoch]
            for planned in islice(trainer.plan.epoch_plan(position.epoch), position.step_in_epoch, None):
                losses = trainer.step(position.step, planned)
                position.step += 1
                position.step_in_epoch += 1
                ends = position.step_in_epoch == len(epoch) or position.step == trainer.steps
                self.record("train", epoch=position.epoch, loss=losses)
                if trainer.cosines:
                    self.record("conflict", cosines=trainer.cosines)
                examples = sum(len(rows) for _, rows in planned)
                self.watcher.advance(examples=examples, loss=losses, epoch=position.epoch)
                self.after_step(ends)
                if ends or position.stopped_early:
                    break
        position.seconds = time.monotonic() - self.started
        self.watcher.end()

    def after_step(self, epoch_ends: bool) -> None:
        """Evaluate and save where it is due."""
        position, recipe = self.position, self.trainer.recipe
        if epoch_ends or (recipe.evaluate_every != "epoch" and position.step % recipe.evaluate_every == 0):
            self.evaluate(f"epoch{position.epoch + 1}" if epoch_ends else f"step{position.step}")
        if epoch_ends:
            position.epoch += 1
            position.step_in_epoch = 0
        due = epoch_ends if recipe.checkpoint_every == "epoch" else position.step % recipe.checkpoint_every == 0
        stopping = self.stop()
        if due or stopping:
            self.metrics.flush()
            os.fsync(self.metrics.fileno())
            position.seconds = time.monotonic() - self.started
            save_checkpoint(self.run.checkpoints, self.trainer.learning, self.trainer.optimizer, position)
        if stopping:
            raise Stopped(f"stopped after step {position.step:,}; plait train --resume {self.run.folder} goes on")

    def evaluate(self, name: str) -> None:
        """Score train and dev, keep the model if it is the best so far, or one of the best, under this name."""
        position, recipe = self.position, self.trainer.recipe
        scores = self.score("dev")
        start = self.trainer.settled.start
        kept = score_kept(self.trainer.model, start) if start else {}
        mean = mean_score(scores) if scores else None
        record = self.record(
            "scores",
            epoch=position.epoch,
            dev={name: task.values for name, task in scores.items()},
            kept={name: task.values for name, task in kept.items()},
            per_class={name: task.per_class for name, task in scores.items() if task.per_class},
            train={name: task.values for name, task in self.score("train").items()},
            mean=mean,
        )
        judged = scores[recipe.best_by].value if recipe.best_by in scores else mean
        better = judged is None or position.best_score is None or judged > position.best_score
        if better:
            position.best_step, position.best_score, position.patience = position.step, judged, 0
            save_model(self.trainer.model, self.run.best, self.about({**scores, **kept}))
        if self.keep:
            position.kept = keep_best(
                self.run.kept,
                position.kept,
                Standing(name, position.step, judged),
                self.keep,
                lambda folder: save_model(self.trainer.model, folder, self.about({**scores, **kept})),
            )
        if not better:
            position.patience += 1
            position.stopped_early = recipe.early_stopping is not None and position.patience >= recipe.early_stopping
        self.watcher.scores(
            {**record, "best": better, "metrics": {n: s.metric for n, s in self.trainer.settled.specs.items()}}
        )
        if position.stopped_early:
            self.watcher.note(f"no better score in {position.patience} evaluations: stopping early")

    def score(self, split: str) -> dict[str, Scores]:
        """The scores of the tasks that have dev data, on dev or on a sample of train."""
        scores = {}
        for name, task in self.trainer.settled.tasks.items():
            if "dev" not in task.splits:
                continue
            examples = task.splits[split]
            if split == "train":
                count = min(TRAIN_SAMPLE, len(examples), len(task.splits["dev"]))
                examples = examples.chosen(np.linspace(0, len(examples) - 1, count).astype(int).tolist())
            scores[name] = score_task(self.trainer.model, name, examples)
        return scores

    def about(self, scores: Mapping[str, Scores]) -> About:
        """What the model directory tells of its making."""
        return About(
            recipe=portable(self.trainer.recipe.model_dump(mode="json")),
            data=self.trainer.settled.fingerprints,
            scores={name: task.values for name, task in scores.items()},
            baselines=self.baselines,
            step=self.position.step,
            kept=self.trainer.settled.kept(folders=False),
        )

    def record(self, kind: str, **facts: Any) -> dict[str, Any]:
        """A line of metrics.jsonl."""
        line = {"kind": kind, "step": self.position.step, **facts}
        self.metrics.write(json.dumps(line) + "\n")
        return line


def finish(run: Run, trainer: Trainer, position: Position, baselines: dict[str, Any]) -> None:
    """Write the result, and drop the checkpoint that nobody needs any more."""
    about = read_about(run.best)
    conflicts = sum_up(record["cosines"] for record in run.recorded("conflict"))
    result = {
        "best_step": position.best_step,
        "steps": position.step,
        "seconds": position.seconds,
        "threads": torch.get_num_threads(),
        "scores": about["scores"],
        "baselines": baselines,
        "conflicts": conflicts,
        "last_weights_sha256": weights_digest(trainer.model),
        "kept": [asdict(standing) for standing in position.kept],
    }
    with whole_file(run.result) as aside:
        write_json(aside, result)
    shutil.rmtree(run.checkpoints, ignore_errors=True)


def result_of(run: Run, settled: Settled, alone: dict[str, float]) -> Result:
    """What a finished run has to tell."""
    told = json.loads(run.result.read_text(encoding="utf-8"))
    return Result(
        run=run.folder,
        model=run.best,
        scores=told["scores"],
        baselines=told["baselines"],
        best_step=told["best_step"] or 0,
        steps=told["steps"],
        seconds=told["seconds"],
        kept=tuple(settled.start.kept) if settled.start else (),
        alone=alone,
        kept_models=tuple(run.kept / standing["name"] for standing in told.get("kept", ())),
        conflicts=told.get("conflicts", {}),
    )


def weights_digest(model: Model) -> str:
    """The sha256 of all weights: two runs with equal digests end with the same bits."""
    digest = hashlib.sha256()
    for name, tensor in sorted(model.state_dict().items()):
        digest.update(name.encode())
        digest.update(tensor.detach().cpu().contiguous().numpy().tobytes())
    return digest.hexdigest()
