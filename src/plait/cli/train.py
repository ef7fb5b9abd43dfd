"""`plait train RECIPE`"""

import sys
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

import click
from click.shell_completion import CompletionItem

if TYPE_CHECKING:
    from plait.training.result import Result

__all__ = ["command", "complete_recipe", "recipe_options", "run_recipe"]


def recipe_options(function: click.decorators.FC) -> click.decorators.FC:
    """The options that change a recipe, the same for every command that takes one."""
    for option in (
        click.option("--profile", metavar="NAME", help="Lay the recipe's profile of that name over it."),
        click.option("--set", "assignments", multiple=True, metavar="KEY=VALUE", help="Change a key: lr=1e-4."),
        click.option(
            "--data", type=click.Path(path_type=Path, exists=True, file_okay=False), help="Where data files lie."
        ),
    ):
        function = option(function)
    return function


def complete_recipe(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """The bundled recipes, and files."""
    names = sorted(path.stem for path in (Path(__file__).parent.parent / "recipes").glob("*.yaml"))
    bundled = [CompletionItem(name) for name in names if name.startswith(incomplete)]
    return [*bundled, CompletionItem(incomplete, type="file")]


@click.command()
@click.argument("recipe", required=False, shell_complete=complete_recipe)
@click.option("--out", type=click.Path(path_type=Path), help="The run's directory.  [default: runs/RECIPE]")
@recipe_options
@click.option("--resume", type=click.Path(path_type=Path), metavar="RUN", help="Go on with a run.")
@click.option(
    "--baselines/--no-baselines",
    default=True,
    help="Measure first what a result must beat.",
)
@click.option("--single-task", is_flag=True, help="Train each task alone as well, under the same settings.")
@click.option(
    "--keep",
    type=click.IntRange(min=1),
    metavar="N",
    help="Keep the N best models in RUN/kept, for plait ensemble.",
)
@click.option(
    "--threads",
    type=click.IntRange(min=1),
    metavar="N",
    help="Threads of the run.  [default: OMP_NUM_THREADS, else the fastest number]",
)
@click.option("--json", "as_json", is_flag=True, help="Events and the result as JSON lines.")
def command(
    recipe: str | None,
    out: Path | None,
    data: Path | None,
    assignments: tuple[str, ...],
    profile: str | None,
    resume: Path | None,
    baselines: bool,
    single_task: bool,
    keep: int | None,
    threads: int | None,
    as_json: bool,
) -> None:
    """Train a recipe, or go on with a run.

    RECIPE is a YAML file or a bundled name such as starter; its run directory must be new.
    """
    if recipe is None and resume is None:
        raise click.UsageError("give a RECIPE, or --resume RUN")
    if resume and out:
        raise click.UsageError("--resume goes on in the run's own directory; drop --out")
    if resume and single_task:
        raise click.UsageError("a run goes on as it began; drop --single-task")
    if resume and keep:
        raise click.UsageError("a run keeps as many models as it was begun with; drop --keep")
    if resume and threads:
        raise click.UsageError("a run goes on with the threads that it was begun with; drop --threads")
    result = run_recipe(
        recipe,
        out=out,
        data=data,
        assignments=assignments,
        profile=profile,
        resume=resume,
        baselines=baselines,
        single_task=single_task,
        keep=keep or 0,
        threads=threads,
        as_json=as_json,
    )
    show(result, as_json)


def run_recipe(
    recipe: str | None,
    *,
    out: Path | None = None,
    data: Path | None = None,
    assignments: tuple[str, ...] = (),
    profile: str | None = None,
    resume: Path | None = None,
    baselines: bool = True,
    single_task: bool = False,
    keep: int = 0,
    threads: int | None = None,
    as_json: bool = False,
) -> "Result":
    """Train or resume with progress; a signal ends the program after a checkpoint."""
    from functools import partial

    from plait.cli.display import watcher_for
    from plait.cli.stopping import stop_on_signals
    from plait.training import loop

    if resume:
        begin = partial(loop.resume, resume, recipe=recipe)
    else:
        assert recipe is not None, "a run is new or goes on"
        begin = partial(
            loop.train,
            recipe,
            out,
            baselines=baselines,
            single_task=single_task,
            keep=keep,
            threads=threads or "auto",
        )
    watcher = watcher_for(as_json)
    with stop_on_signals() as stop:
        try:
            return begin(data=data, profile=profile, assignments=assignments, watcher=watcher, stop=stop)
        except loop.Stopped as stopped:
            watcher.end()
            watcher.note(str(stopped))
            sys.exit(stop.exit_code)
        except SystemExit:  # a signal before the first step, or a second one
            watcher.end()
            watcher.note("stopped at once; if the run has begun, plait train --resume goes on with it")
            raise
        finally:
            watcher.end()


def show(result: "Result", as_json: bool) -> None:
    """The scores beside their baselines, and where the model is."""
    from dataclasses import asdict

    from plait.cli.display import console, print_conflicts, print_json, print_scores
    from plait.model.about import read_about

    if as_json:
        print_json({"kind": "result", **asdict(result)})
        return
    metrics = {task["name"]: task["metric"] for task in read_about(result.model)["tasks"]}
    values = {task: scores[metrics[task]] for task, scores in result.scores.items() if metrics[task] in scores}
    kept = {task: value for task, value in values.items() if task in result.kept}
    trained = {task: value for task, value in values.items() if task not in kept}
    out = console()
    compared = {**result.baselines.get("dev", {}), "after its own stage": own_stage_scores(result, metrics)}
    for title, part in (("dev scores", trained), ("tasks that the model had before, dev scores", kept)):
        baselines = {name: scores for name, scores in compared.items() if scores.keys() & part.keys()}
        if part:
            alone = {"alone": result.alone} if result.alone.keys() & part.keys() else {}
            print_scores(out, f"{title} after step {result.best_step:,}", metrics, part, {**baselines, **alone})
    if result.alone:
        gains = ", ".join(f"{task} {values[task] - score:+.3f}" for task, score in result.alone.items())
        out.print(f"what training together gains over training alone: {gains}", soft_wrap=True)
    for number, stage in enumerate(result.stages[:-1], start=1):
        if stage["conflicts"]:
            print_conflicts(out, stage["conflicts"], f"in stage {number}, ")
    if result.conflicts:
        print_conflicts(out, result.conflicts, f"in stage {len(result.stages)}, " if result.stages else "")
    steps = f"{result.steps:,} steps"
    if result.stages:
        steps += f" ({' + '.join(format(stage['steps'], ',') for stage in result.stages)} in stages)"
    out.print(f"{steps} in {result.seconds:,.0f} s; the best model: {result.model}", soft_wrap=True)
    if result.kept_models:
        names = ", ".join(folder.name for folder in result.kept_models)
        out.print(f"kept, best first: {names} in {result.kept_models[0].parent}", soft_wrap=True)


def own_stage_scores(result: "Result", metrics: Mapping[str, str]) -> dict[str, float]:
    """What tasks of stages before the last scored when their own stage had ended."""
    return {
        task: stage["scores"][task][metrics[task]]
        for stage in result.stages[:-1]
        for task in stage["tasks"]
        if task in result.kept and task in stage["scores"]
    }
