"""`plait check RECIPE`"""

from dataclasses import asdict
from pathlib import Path

import click

from plait.cli.train import complete_recipe, recipe_options

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

    from plait.cli.display import console, print_json
    from plait.data.read import SHOWN
    from plait.errors import PlaitError
    from plait.training.loop import as_recipe
    from plait.training.plan import task_facts, try_steps
    from plait.training.settle import settle_recipe
    from plait.training.trainer import Trainer

    try:
        trainer = Trainer(settle_recipe(as_recipe(recipe, data, profile, assignments), data))
    except PlaitError as error:
        if as_json:
            print_json({"mistakes": error.mistakes})
        raise
    facts = task_facts(trainer)
    overlaps = trainer.settled.overlaps()
    bad = [asdict(row) for rows in trainer.settled.bad.values() for row in rows]
    tried = try_steps(trainer) if trial else None
    if as_json:
        print_json(
            {
                "tasks": [asdict(task) for task in facts],
                "steps": trainer.steps,
                "overlaps": asdict(overlaps),
                "bad_rows": bad,
                "trial": tried and asdict(tried),
            }
        )
        return
    say = partial(console().print, soft_wrap=True)
    say(f"{recipe}: no mistakes\n")
    for task in facts:
        rows = ", ".join(f"{count:,} {split}" for split, count in task.rows.items())
        commonest = "" if task.commonest is None else f"; the commonest class has {task.commonest:.0%}"
        say(f"{task.task}: {task.kind} ({task.labels})")
        say(f"  rows       {rows}{commonest}")
        say(f"  tokens     median {task.tokens_median:.0f}, 95 % up to {task.tokens_95:.0f}; ", end="")
        say(f"{task.truncated:,} of {task.inputs:,} inputs are cut at {task.limit}")
        say(f"  learns by  {task.head}, {task.loss}")
        say(f"  an epoch   {task.steps_per_epoch:,.0f} steps, {task.samples_per_epoch:,.0f} samples; ", end="")
        say(f"in all, each row is seen {task.seen:.1f} times\n")
    for sentence in trainer.settled.sentences():
        say(sentence)
    for row in bad[:SHOWN]:
        say(f"left out: {row['where']}: {row['problem']}")
    if len(bad) > SHOWN:
        say(f"left out: ... and {len(bad) - SHOWN:,} more bad rows")
    epochs, schedule = len(trainer.plan.epochs), trainer.recipe.schedule.name
    say(f"steps: {trainer.steps:,} in all, epochs: {epochs}, schedule: {schedule}")
    if tried:
        time = f"{tried.seconds:.0f} s" if tried.seconds < 60 else f"{tried.seconds / 60:.0f} min"
        say(f"estimated from 3 real steps: {time} with evaluation and baselines, ", end="")
        say(f"peak memory {tried.peak_memory / 2**30:.1f} GiB")
