"""`plait check RECIPE`"""

from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

import click

from plait.cli.train import complete_recipe, recipe_options

if TYPE_CHECKING:
    from plait.training.plan import TaskFacts

__all__ = ["command"]


@click.command()
@click.argument("recipe", shell_complete=complete_recipe)
@recipe_options
@click.option("--trial/--no-trial", default=True, help="Train 3 steps to estimate memory and time.")
@click.option("--json", "as_json", is_flag=True, help="The same facts as JSON.")
def command(
    recipe: str, data: Path | None, assignments: tuple[str, ...], profile: str | None, trial: bool, as_json: bool
) -> None:
    """Tell what a recipe would train.

    Names every mistake of RECIPE and its data, and exits with 2; or prints rows, labels, steps, repeats, and the
    memory and time that the run would need.
    """
    from functools import partial

    from plait.cli.display import console, duration, print_json
    from plait.data.read import SHOWN
    from plait.errors import PlaitError
    from plait.training.loop import as_recipe
    from plait.training.plan import TRIED, run_facts, whole_trial
    from plait.training.settle import settle_run

    try:
        settled = settle_run(as_recipe(recipe, data, profile, assignments), data)
        stages = run_facts(settled, trial=trial)
    except PlaitError as error:
        if as_json:
            print_json({"mistakes": error.mistakes})
        raise
    found = settled.data
    bad = [asdict(row) for rows in found.bad.values() for row in rows]
    tried, steps = whole_trial(stages), sum(stage.steps for stage in stages)
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
                "overlaps": asdict(found.overlaps()),
                "bad_rows": bad,
                "trial": tried and asdict(tried),
            }
        )
        return
    say = partial(console().print, soft_wrap=True)
    say(f"{recipe}: no mistakes\n")
    for number, stage in enumerate(stages, start=1):
        if several:
            time = f", about {duration(stage.trial.seconds)}" if stage.trial else ""
            epochs = f"epochs: {stage.epochs}, schedule: {stage.schedule}{time}"
            say(f"stage {number} of {len(stages)}: {stage.steps:,} steps, {epochs}\n")
        for task in stage.tasks:
            show_task(say, task)
    for sentence in found.sentences():
        say(sentence)
    for row in bad[:SHOWN]:
        say(f"left out: {row['where']}: {row['problem']}")
    if len(bad) > SHOWN:
        say(f"left out: ... and {len(bad) - SHOWN:,} more bad rows")
    *_, last = stages
    say(f"steps: {steps:,} in all" + ("" if several else f", epochs: {last.epochs}, schedule: {last.schedule}"))
    if tried:
        say(
            f"estimated from {TRIED} real steps{' of each stage' if several else ''}: {duration(tried.seconds)} ",
            end="",
        )
        say(f"with evaluation and baselines, peak memory {tried.peak_memory / 2**30:.1f} GiB")


def show_task(say: Callable[..., None], task: "TaskFacts") -> None:
    """What would be trained of one task."""
    rows = ", ".join(f"{count:,} {split}" for split, count in task.rows.items())
    commonest = "" if task.commonest is None else f"; the commonest class has {task.commonest:.0%}"
    say(f"{task.task}: {task.kind} ({task.labels})")
    say(f"  rows       {rows}{commonest}")
    say(f"  tokens     median {task.tokens_median:.0f}, 95 % up to {task.tokens_95:.0f}; ", end="")
    say(f"{task.truncated:,} of {task.inputs:,} inputs are cut at {task.limit}")
    if not task.learns:
        say(f"  learns by  nothing, it is only scored: {task.head}, learn: false\n")
        return
    say(f"  learns by  {task.head}, {task.loss}")
    say(f"  an epoch   {task.steps_per_epoch:,.0f} steps, {task.samples_per_epoch:,.0f} samples; ", end="")
    say(f"in all, each row is seen {task.seen:.1f} times\n")
