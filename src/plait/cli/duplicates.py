"""`plait duplicates FILE`"""

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

import click

from plait.cli.complete import complete_task_of_option
from plait.cli.files import encoding_option, engine_option, log

if TYPE_CHECKING:
    from plait.model.directory.load import EngineName

__all__ = ["command"]

_SHOWN = 10  # groups in a terminal
_SHOWN_TEXTS = 5  # of a group


@click.command()
@click.argument("source", metavar="FILE", type=click.Path())
@click.option("--model", required=True, type=click.Path(), help="The model that compares the texts.")
@click.option("--text", "column", metavar="COLUMN", help="The text column of the file.  [default: as in training]")
@click.option(
    "--by",
    metavar="TASK",
    shell_complete=complete_task_of_option,
    help="The task that decides about a pair, or cosine.  [default: the task of yes/no pairs, or cosine]",
)
@click.option(
    "--at-least",
    type=float,
    help="The probability, score or cosine of duplicates.  [default: the threshold of the task; 0.9 for cosines]",
)
@click.option(
    "--out", type=click.Path(path_type=Path), metavar="FILE", help="All rows with their groups: .csv, .jsonl, .parquet."
)
@engine_option
@click.option("--workers", type=click.IntRange(min=1), help="Encode with this many processes instead of threads.")
@encoding_option("the file")
@click.option("--json", "as_json", is_flag=True, help="Progress and groups as JSON lines.")
def command(
    source: str,
    model: str,
    column: str | None,
    by: str | None,
    at_least: float | None,
    out: Path | None,
    engine: "EngineName",
    workers: int | None,
    encoding: str,
    as_json: bool,
) -> None:
    """Find texts that mean the same.

    The nearest texts of each text are candidates. If the model has a task of yes/no pairs, its head decides about them;
    otherwise the cosine does. --out writes every row with the number of its group, and the number of the row that it
    is a duplicate of; rows count from 0. Rows without duplicate_of are those to keep.
    """
    from plait.cli.display import console, print_json, print_table, progress_for
    from plait.inference.predictor import load
    from plait.search.duplicates import duplicates
    from plait.search.embedded import check_files

    check_files(source, out)
    predictor = load(model, engine=engine, workers=workers or 0, log=log)
    progress = progress_for(as_json)
    try:
        found = duplicates(
            predictor, source, text=column, by=by, at_least=at_least, out=out, encoding=encoding, progress=progress
        )
    finally:
        progress.end()
    if as_json:
        print_json({"kind": "result", "out": out, **asdict(found)})
        return
    screen = console()
    rows = [
        (f"{group.scores[place]:.3f}" if place else "", str(group.rows[place]), group.texts[place])
        for group in found.groups[:_SHOWN]
        for place in range(min(len(group.rows), _SHOWN_TEXTS))
    ]
    if rows:
        print_table(screen, (found.by, "row", "text"), rows)
    if (more := len(found.groups) - _SHOWN) > 0:
        screen.print(f"… and {more:,} more groups")
    screen.print(
        f"texts: {found.texts:,}, duplicates: {found.texts - found.kept:,}, groups: {len(found.groups):,}, "
        f"by {found.by} of at least {found.at_least:g}" + (f": {out}" if out else "; --out FILE writes them"),
        soft_wrap=True,
    )
