"""`plait check RECIPE`"""

from dataclasses import asdict
from pathlib import Path

import click

from plait.cli.train import recipe_options

__all__ = ["command"]


@click.command()
@click.argument("recipe")
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
    from plait.training.loop import as_recipe
    from plait.training.plan import task_facts, try_steps
    from plait.training.settle import settle_recipe
    from plait.training.trainer import Trainer

    settled = settle_recipe(as_recipe(recipe, data, profile, assignments))
    trainer = Trainer(settled)
    facts = task_facts(trainer)
    tried = try_steps(trainer) if trial else None
    from plait.cli.display import console, make_table, print_json

    if as_json:
        print_json(
            {"tasks": [asdict(task) for task in facts], "steps": trainer.steps, "trial": tried and asdict(tried)}
        )
        return

    out = console()
    data_rows = [
        [
            task.task,
            f"{task.kind}: {task.labels}",
            *(f"{task.rows.get(split, 0):,}" for split in ("train", "dev", "test")),
            "–" if task.commonest is None else f"{task.commonest:.0%}",
            f"{task.tokens_median:.0f}",
            f"{task.tokens_95:.0f}",
            f"{task.truncated:,} of {task.inputs:,}",
        ]
        for task in facts
    ]
    columns = ["task", "labels", "train", "dev", "test", "commonest class", "tokens, median", "95 %", "cut off"]
    out.print(make_table(f"{recipe}: no mistakes", columns, data_rows))
    plan_rows = [
        [
            task.task,
            f"{task.head}, {task.loss}",
            f"{task.steps_per_epoch:,.0f}",
            f"{task.samples_per_epoch:,.0f}",
            f"{task.seen:.1f} times",
        ]
        for task in facts
    ]
    columns = ["task", "head, loss", "steps an epoch", "samples an epoch", "each row is seen"]
    epochs = f"{len(trainer.plan.epochs)} epochs" if len(trainer.plan.epochs) > 1 else "1 epoch"
    title = f"{trainer.steps:,} steps in {epochs}, schedule {settled.recipe.schedule.name}"
    out.print(make_table(title, columns, plan_rows))
    if tried:
        out.print(
            f"Estimated from 3 real steps: peak memory {tried.peak_memory / 2**30:.1f} GiB, "
            f"{tried.seconds / 60:.1f} minutes with evaluation and baselines ({tried.seconds_per_step:.2f} s a step)."
        )
