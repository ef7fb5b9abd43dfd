"""`plait experiment SUITE`"""

import shlex
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

from plait.cli.train import recipe_options

if TYPE_CHECKING:
    from plait.experiments.cells import Cell, Experiment
    from plait.experiments.entries import SuiteTable
    from plait.progress import Progress

__all__ = ["command", "table_command"]


@click.command()
@click.argument("suite", type=click.Path(path_type=Path))
@click.option(
    "--out", type=click.Path(path_type=Path), help="Folder for the runs.  [default: runs/SUITE or runs/SUITE-PROFILE]"
)
@recipe_options
@click.option("--seeds", metavar="N,N…", help="Seeds instead of the suite's.")
@click.option("--folds", type=click.IntRange(min=2), metavar="N", help="Folds instead of the suite's.")
@click.option("--rows", metavar="ROW,ROW…", help="Only these rows.")
@click.option("--cells", metavar="N/OF", help="Only a share of the cells, such as 3/8 on the third of 8 machines.")
@click.option("--train-scores", is_flag=True, help="Also score models on all rows that they were trained on.")
@click.option("--models/--no-models", default=True, help="Whether to keep models after scoring.")
@click.option(
    "--results",
    type=click.Path(path_type=Path, dir_okay=False),
    metavar="FILE.jsonl",
    help="Count the cells in this file as done, and add finished cells to it.",
)
@click.option("--show", metavar="ROW", help="Only print the row as a recipe for plait train.")
@click.option("--dry-run", is_flag=True, help="Only list the cells and how long each may take.")
@click.option("--table", "only_table", is_flag=True, help="Only print the table of what is done.")
@click.option("--json", "as_json", is_flag=True, help="Events and the table as JSON lines.")
def command(
    suite: Path,
    out: Path | None,
    data: Path | None,
    overrides: tuple[str, ...],
    profile: str | None,
    seeds: str | None,
    folds: int | None,
    rows: str | None,
    cells: str | None,
    train_scores: bool,
    models: bool,
    results: Path | None,
    show: str | None,
    dry_run: bool,
    only_table: bool,
    as_json: bool,
) -> None:
    """Train every row of a table and print its scores beside the paper's figures.

    SUITE is a folder with a suite.yaml, or a bundled name such as best-of-bert. Every row is trained with every seed,
    and on every fold if the suite has folds. Finished cells are not repeated: the same command resumes after a stop,
    and several processes can share one --out. The table is also written to table.md, table.csv, table.json and
    figure.svg there.
    """
    if show is not None:
        _show_row(suite, show, data, profile, overrides)
        return

    from plait.cli.display import progress_for
    from plait.errors import ExecutionError, RequestError, did_you_mean
    from plait.experiments.cells import Experiment, cells_of, take_share
    from plait.experiments.results_file import ResultsFile
    from plait.recipe.suite import read_suite

    read = read_suite(suite, folds)
    if train_scores:
        read = read.model_copy(update={"train_scores": True})
    chosen = [name.strip() for name in rows.split(",")] if rows else read.trained
    if unknown := [name for name in chosen if name not in read.trained]:
        raise RequestError(*(f"--rows: no row {name!r}; {did_you_mean(name, read.trained)}" for name in unknown))
    numbers = _seed_numbers(seeds) if seeds else list(read.seeds)
    folder = out or Path("runs") / (f"{suite.resolve().name}-{profile}" if profile else suite.resolve().name)
    experiment = Experiment(read, folder, data, profile, overrides, models, ResultsFile(results) if results else None)
    own = cells_of(read, numbers, chosen)
    own = take_share(own, cells) if cells else own
    _check_recipes(experiment, own, need_data=not only_table)
    progress = progress_for(as_json)
    if dry_run:
        _list_cells(experiment, own, progress, as_json)
        return
    failed = [] if only_table else _run_cells(experiment, own, progress)
    options = {"out": out, "results": results, "seeds": seeds, "folds": folds, "rows": rows}
    options["train-scores"] = train_scores
    line = table_command(str(suite), profile, options, overrides, data=data is not None)
    _show_table(experiment, numbers, chosen, line, as_json)
    if failed:
        raise ExecutionError(*failed, "the other cells are done; fix these, and run the same command again")


def table_command(
    suite: str, profile: str | None, options: Mapping[str, object], overrides: Sequence[str] = (), *, data: bool = True
) -> str:
    """The command that fills a table, for its footnotes; the folder of the data is left out."""
    given = {"data": "DIR" if data else None, "profile": profile, **options}
    words = [
        word
        for name, value in given.items()
        if value
        for word in (f"--{name}", *([] if value is True else [str(value)]))
    ]
    words += [word for override in overrides for word in ("--set", override)]
    return shlex.join(["plait", "experiment", suite, *words])


def _show_row(suite: Path, row: str, data: Path | None, profile: str | None, overrides: Sequence[str]) -> None:
    """Print a row as a recipe that is complete in itself; without torch, so that it is quick."""
    from plait.recipe.read import standalone_text
    from plait.recipe.suite import read_row, read_suite
    from plait.recipe.tree import set_keys

    tree = set_keys(read_row(f"{suite}#{row}", profile), overrides)
    options = [*(["--profile", profile] if profile else []), *(f"--set={override}" for override in overrides)]
    click.echo(f"# {shlex.join(['plait', 'experiment', str(suite), '--show', row, *options])}")
    if title := read_suite(suite).rows[row].title:
        click.echo(f"# {title}")
    click.echo(standalone_text(tree, data), nl=False)


def _seed_numbers(given: str) -> list[int]:
    from plait.errors import RequestError

    parts = [part.strip() for part in given.split(",")]
    whole = all(part.removeprefix("-").isdecimal() for part in parts)
    if not whole or len(set(map(int, parts))) < len(parts):
        raise RequestError(f"--seeds {given}: expected different whole numbers, such as 1,2,3")
    return [int(part) for part in parts]


def _check_recipes(experiment: "Experiment", cells: "Sequence[Cell]", *, need_data: bool) -> None:
    """Read the recipe of every row before the first is trained; every mistake at once."""
    from plait.errors import RecipeError
    from plait.experiments.run_cell import cell_mistakes

    rows = {cell.row: cell for cell in cells}.values()
    if mistakes := [mistake for cell in rows for mistake in cell_mistakes(experiment, cell, need_data=need_data)]:
        raise RecipeError(*dict.fromkeys(mistakes))


def _run_cells(experiment: "Experiment", cells: "Sequence[Cell]", progress: "Progress") -> list[str]:
    """Run one cell after the other, and return what went wrong. A signal ends the program after a checkpoint."""
    from plait.cli.stopping import stop_on_signals
    from plait.errors import PlaitError
    from plait.experiments.run_cell import run_cell
    from plait.training.train import Stopped

    mistakes: list[str] = []
    left = [cell for cell in cells if not experiment.is_done(cell)]
    if len(left) < len(cells):
        progress.note(f"{len(cells) - len(left):,} of {len(cells):,} cells are already done")
    with stop_on_signals() as stop:
        for number, cell in enumerate(left, start=1):
            progress.note(f"cell {number:,} of {len(left):,}: {cell.name}")
            try:
                if not run_cell(experiment, cell, progress, stop):
                    progress.note(f"{cell.name}: another process is working on it")
            except Stopped:
                progress.end()
                progress.note(f"stopped in {cell.name}; the same command resumes it")
                sys.exit(stop.exit_code)
            except PlaitError as error:
                progress.note(f"{cell.name}: {error}")
                mistakes += [f"{cell.name}: {mistake}" for mistake in error.mistakes]
            finally:
                progress.end()
    return mistakes


def _list_cells(experiment: "Experiment", cells: "Sequence[Cell]", progress: "Progress", as_json: bool) -> None:
    """Print every cell, whether it is done, and how long it may take."""
    from plait.cli.display import console, duration, print_json, print_table
    from plait.experiments.estimate import estimate_rows

    seconds = estimate_rows(experiment, cells, progress)
    done = {cell: experiment.is_done(cell) for cell in cells}
    left = sum(seconds[cell.row] or 0.0 for cell in cells if not done[cell])
    if as_json:
        listed = [{"cell": cell.name, "done": done[cell], "seconds": seconds[cell.row]} for cell in cells]
        print_json({"kind": "result", "cells": listed, "seconds": left})
        return

    def state(cell: "Cell") -> str:
        estimate = seconds[cell.row]
        return "done" if done[cell] else "?" if estimate is None else duration(estimate)

    out = console()
    print_table(out, ("cell", "time"), [(cell.name, state(cell)) for cell in cells])
    waiting = [cell for cell in cells if not done[cell]]
    about = "at least" if any(seconds[cell.row] is None for cell in waiting) else "about"
    out.print(f"{len(cells):,} cells, {len(waiting):,} to run: {about} {duration(left)}", soft_wrap=True)


def _show_table(experiment: "Experiment", seeds: Sequence[int], rows: Sequence[str], line: str, as_json: bool) -> None:
    """Print the table and write its files; with a results file, bring that up to date."""
    from plait.cli.display import console, print_json, print_table
    from plait.experiments.cells import cells_of
    from plait.experiments.compare import suite_table
    from plait.experiments.gains import gains_to_record
    from plait.experiments.tables import as_json as table_as_json
    from plait.experiments.tables import footnotes, gain_cells, group_cells, score_cells

    experiment.list_in_results(cells_of(experiment.suite, seeds, rows))
    table = suite_table(experiment, seeds, rows)
    if experiment.results:
        experiment.results.add_gains(gains_to_record(table))
    files = _write_files(experiment, table, line)
    if as_json:
        print_json({"kind": "result", "out": experiment.out, **table_as_json(table)})
        return
    out = console()
    out.print(table.suite.title, soft_wrap=True)
    print_table(out, *score_cells(table))
    names, gains = gain_cells(table)
    if gains:
        print_table(out, names, gains)
    if table.pooled:
        print_table(out, *group_cells(table))
    for note in footnotes(table, line):
        out.print(note, soft_wrap=True)
    out.print(f"{', '.join(files[:-1])} and {files[-1]} are in {experiment.out}", soft_wrap=True)


def _write_files(experiment: "Experiment", table: "SuiteTable", line: str) -> list[str]:
    """Write the table in every format, beside the runs; the names of the files."""
    import json

    from plait.experiments.figures import draw_figures
    from plait.experiments.tables import as_csv, as_json, as_markdown
    from plait.files import atomic_file

    experiment.out.mkdir(parents=True, exist_ok=True)
    texts = {
        "table.md": as_markdown(table, line),
        "table.csv": as_csv(table),
        "table.json": json.dumps(as_json(table), indent=1, ensure_ascii=False) + "\n",
        **{f"{name}.svg": figure for name, figure in draw_figures(table).items()},
    }
    for name, text in texts.items():
        with atomic_file(experiment.out / name) as temporary:
            temporary.write_text(text, encoding="utf-8")
    return list(texts)
