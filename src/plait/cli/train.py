"""`plait train RECIPE`"""

import sys
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

import click

from plait.cli.complete import complete_key, complete_profile, complete_recipe

if TYPE_CHECKING:
    from plait.runs.result import Result

__all__ = ["add_report", "command", "recipe_options", "run_recipe"]


def recipe_options(function: click.decorators.FC) -> click.decorators.FC:
    """The options that change a recipe, for every command that takes one."""
    for option in (
        click.option(
            "--profile",
            metavar="NAME",
            help="Apply this profile of the recipe; every recipe has quick.",
            shell_complete=complete_profile,
        ),
        click.option(
            "--set",
            "overrides",
            multiple=True,
            metavar="KEY=VALUE",
            help="Override a key: lr=1e-4.",
            shell_complete=complete_key,
        ),
        click.option(
            "--data",
            type=click.Path(path_type=Path, exists=True, file_okay=False),
            help="A folder to look for data files in.",
        ),
    ):
        function = option(function)
    return function


@click.command()
@click.argument("recipe", required=False, shell_complete=complete_recipe)
@click.option("--out", type=click.Path(path_type=Path), help="The run's directory.  [default: runs/RECIPE]")
@recipe_options
@click.option("--resume", type=click.Path(path_type=Path), metavar="RUN", help="Resume a run.")
@click.option(
    "--baselines/--no-baselines",
    default=True,
    help="Measure baselines first.",
)
@click.option("--single-task", is_flag=True, help="Also train each task alone, under the same settings.")
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
    help="Number of threads.  [default: OMP_NUM_THREADS, or the fastest]",
)
@click.option(
    "--tracker",
    "trackers",
    multiple=True,
    type=click.Choice(["tensorboard", "mlflow", "wandb", "trackio"]),
    help="Write losses and scores there too; may be repeated.",
)
@click.option(
    "--report/--no-report",
    "with_report",
    default=True,
    help='Write RUN/report.html in the end, if the extra "plait[report]" is installed.',
)
@click.option("--json", "as_json", is_flag=True, help="Events and the result as JSON lines.")
def command(
    recipe: str | None,
    out: Path | None,
    data: Path | None,
    overrides: tuple[str, ...],
    profile: str | None,
    resume: Path | None,
    baselines: bool,
    single_task: bool,
    keep: int | None,
    threads: int | None,
    trackers: tuple[str, ...],
    with_report: bool,
    as_json: bool,
) -> None:
    """Train a recipe, or resume a run.

    RECIPE is a YAML file, a bundled name such as starter, or a row of a suite such as best-of-bert#cosine. The run
    directory must be new.
    """
    if recipe is None and resume is None:
        raise click.UsageError("give a RECIPE, or --resume RUN")
    if resume and out:
        raise click.UsageError("--resume continues in the run's own directory; drop --out")
    if resume and single_task:
        raise click.UsageError("a resumed run keeps its settings; drop --single-task")
    if resume and keep:
        raise click.UsageError("a resumed run keeps its settings; drop --keep")
    if resume and threads:
        raise click.UsageError("a resumed run keeps its number of threads; drop --threads")
    if resume and trackers:
        raise click.UsageError("a resumed run keeps its trackers; drop --tracker")
    if trackers:
        overrides = (*overrides, f"tracker=[{', '.join(trackers)}]")
    result = run_recipe(
        recipe,
        out=out,
        data=data,
        overrides=overrides,
        profile=profile,
        resume=resume,
        baselines=baselines,
        single_task=single_task,
        keep=keep or 0,
        threads=threads,
        as_json=as_json,
    )
    if as_json:
        from dataclasses import asdict

        from plait.cli.display import print_json

        page = add_report(result.run, as_json) if with_report else None
        print_json({"kind": "result", **asdict(result), "report": page})
        return
    _show_result(result)
    if with_report and (page := add_report(result.run, as_json)):
        click.echo(f"the report: {page}")


def add_report(run: Path, as_json: bool = False) -> Path | None:
    """Write the report of a finished run; None if it cannot be drawn here."""
    from plait.cli.display import progress_for
    from plait.reporting.report import write_run_report

    return write_run_report(run, progress_for(as_json))


def run_recipe(
    recipe: str | None,
    *,
    out: Path | None = None,
    data: Path | None = None,
    overrides: tuple[str, ...] = (),
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

    from plait.cli.display import progress_for
    from plait.cli.stopping import stop_on_signals
    from plait.training.train import Stopped, train
    from plait.training.train import resume as resume_run

    if resume:
        begin = partial(resume_run, resume, recipe=recipe)
    else:
        assert recipe is not None, "a run is new or resumed"
        begin = partial(
            train,
            recipe,
            out,
            baselines=baselines,
            single_task=single_task,
            keep=keep,
            threads=threads or "auto",
        )
    progress = progress_for(as_json)
    try:
        with stop_on_signals() as stop:
            try:
                return begin(data=data, profile=profile, overrides=overrides, progress=progress, stop=stop)
            except Stopped as stopped:
                progress.end()
                progress.note(str(stopped))
                sys.exit(stop.exit_code)
            finally:
                progress.end()
    except SystemExit:
        if stop.is_at_once:
            progress.note("stopped at once; if the run has begun, plait train --resume resumes it")
        raise


def _show_result(result: "Result") -> None:
    """The scores beside their baselines, and where the model is."""
    from plait.cli.display import console, print_conflicts, print_gains, print_scores
    from plait.model.directory.record import open_directory

    record = open_directory(result.model).record
    metrics = record.metrics
    values = {task: scores[metrics[task]] for task, scores in result.scores.items() if metrics[task] in scores}
    kept = {task: value for task, value in values.items() if task in result.kept}
    trained = {task: value for task, value in values.items() if task not in kept}
    out = console()
    compared = {**result.baselines.get("dev", {}), "after its own stage": _own_stage_scores(result, metrics)}
    after = f"dev scores after step {result.best_step:,}"
    for title, part in ((after, trained), (f"{after}, tasks that the model had before", kept)):
        baselines = {name: scores for name, scores in compared.items() if scores.keys() & part.keys()}
        if part:
            alone = {"single task": result.single_task} if result.single_task.keys() & part.keys() else {}
            print_scores(out, title, metrics, part, {**baselines, **alone})
    if result.gains:
        print_gains(out, result.gains)
    if result.single_task:
        gains = ", ".join(f"{task} {values[task] - score:+.3f}" for task, score in result.single_task.items())
        out.print(f"gain of multi-task over single-task training: {gains}", soft_wrap=True)
    for number, stage in enumerate(result.stages[:-1], start=1):
        if stage.conflicts:
            print_conflicts(out, stage.conflicts, f"in stage {number}, ")
    if result.conflicts:
        print_conflicts(out, result.conflicts, f"in stage {len(result.stages)}, " if result.stages else "")
    steps = f"{result.steps:,} steps"
    if result.stages:
        steps += f" ({' + '.join(format(stage.steps, ',') for stage in result.stages)} in stages)"
    out.print(f"{steps} in {result.seconds:,.0f} s; the best model: {result.model}", soft_wrap=True)
    if record.provenance.refit:
        out.print("it was trained once more on all rows (refit); the scores are from before", soft_wrap=True)
    if result.kept_models:
        names = ", ".join(folder.name for folder in result.kept_models)
        out.print(f"kept, best first: {names} in {result.kept_models[0].parent}", soft_wrap=True)


def _own_stage_scores(result: "Result", metrics: Mapping[str, str]) -> dict[str, float]:
    """What tasks of earlier stages scored at the end of their own stage."""
    return {
        task: stage.scores[task][metrics[task]]
        for stage in result.stages[:-1]
        for task in stage.tasks
        if task in result.kept and task in stage.scores
    }
