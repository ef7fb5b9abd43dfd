"""`plait clean RECIPE [TASK…]`"""

from dataclasses import asdict
from pathlib import Path

import click

from plait.cli.complete import complete_recipe
from plait.cli.files import safe_csv_option
from plait.cli.train import recipe_options

__all__ = ["command"]

_SHOWN = 10  # rows of each task in a terminal
_WEAK = 0.75  # agreement of labels and predictions below which the list says little


@click.command()
@click.argument("source", metavar="RECIPE|RUN", shell_complete=complete_recipe)
@click.argument("tasks", nargs=-1, metavar="[TASK…]")
@recipe_options
@click.option(
    "--folds", type=click.IntRange(min=2), default=5, show_default=True, help="Parts that are held out in turn."
)
@click.option("--train", is_flag=True, help="Train the whole recipe for each fold, instead of heads only.")
@click.option(
    "--out",
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="The rows, as .csv or .jsonl.  [default: label-errors.csv, in the folder of a run]",
)
@safe_csv_option
@click.option("--json", "as_json", is_flag=True, help="The rows as JSON.")
def command(
    source: str,
    tasks: tuple[str, ...],
    data: Path | None,
    overrides: tuple[str, ...],
    profile: str | None,
    folds: int,
    train: bool,
    out: Path | None,
    safe_csv: bool,
    as_json: bool,
) -> None:
    """Find training rows whose label is probably wrong.

    Every training row is predicted by a model that has not seen it. Rows where it is sure of another label are listed,
    the worst first; read them before you change anything. All tasks with labels are checked, or those that are named.
    The report of a run shows what was found for it.
    """
    from plait.cli.display import console, print_json, print_table, progress_for
    from plait.training.clean import clean

    is_run = Path(source, "run.json").is_file()
    place = out or (Path(source, "label-errors.csv") if is_run else Path("label-errors.csv"))
    progress = progress_for(as_json)
    try:
        found = clean(
            source,
            tasks,
            data=data,
            profile=profile,
            overrides=overrides,
            folds=folds,
            train=train,
            out=place,
            safe_csv=safe_csv,
            progress=progress,
        )
    finally:
        progress.end()
    if as_json:
        print_json({"kind": "result", "out": place, "tasks": [asdict(task) for task in found.values()]})
        return
    screen = console()
    for task in found.values():
        share = f" ({len(task.errors) / task.rows:.1%})" if task.errors else ""
        screen.print(f"{task.task}: {len(task.errors):,} of {task.rows:,} labels are doubtful{share}", soft_wrap=True)
        if task.agreement is not None and task.agreement < _WEAK:
            screen.print(
                f"{task.task}: predictions confirm only {task.agreement:.0%} of the labels, so most doubts are the "
                "model's own mistakes; look at the first rows only, or try --train",
                soft_wrap=True,
            )
        rows = [
            (Path(error.where).name, _words(error.label), _words(error.predicted), " | ".join(error.texts))
            for error in task.errors[:_SHOWN]
        ]
        if rows:
            print_table(screen, ("where", "label", "predicted", "text"), rows)
    screen.print(f"the rows: {place}", soft_wrap=True)


def _words(label: object) -> str:
    if isinstance(label, float):
        return f"{label:.2f}"
    return label if isinstance(label, str) else ", ".join(label) or "none"  # type: ignore[arg-type]
