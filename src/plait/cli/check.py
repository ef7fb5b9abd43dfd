"""`plait check RECIPE`"""

from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

import click

from plait.cli.complete import complete_recipe
from plait.cli.option_names import as_options
from plait.cli.train import recipe_options

if TYPE_CHECKING:
    from plait.training.estimate import TaskPreview

__all__ = ["command"]


@click.command()
@click.argument("recipe", shell_complete=complete_recipe)
@recipe_options
@click.option("--trial/--no-trial", default=True, help="Train 3 steps to estimate memory and time.")
@click.option("--json", "as_json", is_flag=True, help="The same facts as JSON.")
def command(
    recipe: str, data: Path | None, overrides: tuple[str, ...], profile: str | None, trial: bool, as_json: bool
) -> None:
    """Show what a recipe would train.

    Lists every mistake in RECIPE and its data and exits with 2, or prints rows, labels, steps, repeats, and the memory
    and time that the run would need.
    """
    from functools import partial

    from plait.cli.display import console, duration, print_json
    from plait.data.read import SHOWN
    from plait.errors import PlaitError
    from plait.training.check import check
    from plait.training.estimate import TRIED

    try:
        found = check(recipe, data=data, profile=profile, overrides=overrides, trial=trial)
    except PlaitError as error:
        if as_json:
            print_json({"mistakes": [as_options(mistake) for mistake in error.mistakes]})
        raise
    stages, steps, cost, bad = found.stages, found.steps, found.cost, found.bad_rows
    several = len(stages) > 1
    if as_json:
        print_json(
            {
                **(
                    {"stages": [asdict(stage) for stage in stages]}
                    if several
                    else {"tasks": asdict(stages[0])["tasks"]}
                ),
                "steps": steps,
                "overlaps": asdict(found.overlaps),
                "bad_rows": [asdict(row) for row in bad],
                "cost": cost and asdict(cost),
            }
        )
        return
    say = partial(console().print, soft_wrap=True)
    say(f"{recipe}: no mistakes\n")
    for number, stage in enumerate(stages, start=1):
        if several:
            time = f", about {duration(stage.cost.seconds)}" if stage.cost else ""
            epochs = f"epochs: {stage.epochs}, schedule: {stage.schedule}{time}"
            say(f"stage {number} of {len(stages)}: {stage.steps:,} steps, {epochs}\n")
        for task in stage.tasks:
            _show_task(say, task)
    for sentence in found.notes:
        say(sentence)
    for row in bad[:SHOWN]:
        say(f"skipped: {row.where}: {row.problem}")
    if len(bad) > SHOWN:
        say(f"skipped: ... and {len(bad) - SHOWN:,} more bad rows")
    *_, last = stages
    say(f"steps: {steps:,} in all" + ("" if several else f", epochs: {last.epochs}, schedule: {last.schedule}"))
    if cost:
        steps_tried = f"{TRIED} real steps{' of each stage' if several else ''}"
        memory = f"peak memory {cost.peak_memory / 2**30:.1f} GiB"
        say(f"estimated from {steps_tried}: {duration(cost.seconds)} with evaluation and baselines, {memory}")


def _show_task(say: Callable[..., None], task: "TaskPreview") -> None:
    rows = ", ".join(f"{count:,} {split}" for split, count in task.rows.items())
    majority = "" if task.majority is None else f"; the most common class has {task.majority:.0%}"
    say(f"{task.task}: {task.kind} ({task.labels})")
    say(f"  rows       {rows}{majority}")
    say(f"  tokens     median {task.tokens_median:.0f}, 95 % up to {task.tokens_95:.0f}; ", end="")
    say(f"{task.truncated:,} of {task.inputs:,} inputs are truncated to {task.limit}")
    if not task.learns:
        say(f"  not trained, only scored: {task.head}, learn: false\n")
        return
    say(f"  trained by {task.head}, {task.loss}")
    say(f"  per epoch  {task.steps_per_epoch:,.0f} steps, {task.samples_per_epoch:,.0f} samples; ", end="")
    say(f"each row is seen {task.seen:.1f} times in total\n")
