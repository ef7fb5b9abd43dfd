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
    from plait.experiments.entries import Comparison
    from plait.model.watch import Watcher

__all__ = ["command"]


@click.command()
@click.argument("suite", type=click.Path(path_type=Path))
@click.option(
    "--out", type=click.Path(path_type=Path), help="Where its runs go.  [default: runs/SUITE, with the profile]"
)
@recipe_options
@click.option("--seeds", metavar="N,N…", help="Seeds in place of the suite's.")
@click.option("--folds", type=click.IntRange(min=2), metavar="N", help="Folds in place of the suite's.")
@click.option("--rows", metavar="ROW,ROW…", help="Only these rows.")
@click.option("--cells", metavar="N/OF", help="Only a part of the cells, such as 3/8, for one machine of several.")
@click.option("--models/--no-models", default=True, help="Whether models stay once they are scored.")
@click.option("--dry-run", is_flag=True, help="Only tell the cells, and how long each may take.")
@click.option("--table", "only_table", is_flag=True, help="Only the table of what is done.")
@click.option("--json", "as_json", is_flag=True, help="Events and the table as JSON lines.")
def command(
    suite: Path,
    out: Path | None,
    data: Path | None,
    assignments: tuple[str, ...],
    profile: str | None,
    seeds: str | None,
    folds: int | None,
    rows: str | None,
    cells: str | None,
    models: bool,
    dry_run: bool,
    only_table: bool,
    as_json: bool,
) -> None:
    """Run every row of a table and print the paper's figures beside the measured ones.

    SUITE is a folder of recipes with a suite.yaml. Every row is trained with every seed, and on every fold where the
    suite has folds. What is done is not done again: the same command goes on where it was stopped, and several
    processes may share one --out. The table goes to table.md, table.csv, table.json and figure.svg there.
    """
    from plait.cli.display import watcher_for
    from plait.errors import RequestError, WorkError, did_you_mean
    from plait.experiments.cells import Experiment, cells_of, share_of
    from plait.experiments.suite import read_suite

    read = read_suite(suite, folds)
    chosen = [name.strip() for name in rows.split(",")] if rows else read.trained
    if unknown := [name for name in chosen if name not in read.trained]:
        raise RequestError(*(f"--rows: no row {name!r}; {did_you_mean(name, read.trained)}" for name in unknown))
    numbers = seed_numbers(seeds) if seeds else list(read.seeds)
    place = out or Path("runs") / (f"{suite.resolve().name}-{profile}" if profile else suite.resolve().name)
    experiment = Experiment(read, place, data, profile, assignments, models)
    own = cells_of(read, numbers, chosen)
    own = share_of(own, cells) if cells else own
    check_recipes(experiment, own)
    watcher = watcher_for(as_json)
    if dry_run:
        tell_cells(experiment, own, watcher, as_json)
        return
    failed = [] if only_table else run_cells(experiment, own, watcher)
    options = {"data": data and "DIR", "profile": profile, "out": out, "seeds": seeds, "folds": folds, "rows": rows}
    show(experiment, numbers, chosen, command_line(suite, options, assignments), as_json)
    if failed:
        raise WorkError(*failed, "the other cells are done; mend these, and the same command does them")


def command_line(suite: Path, options: Mapping[str, object], assignments: Sequence[str]) -> str:
    """The command that makes a table, as it stands below it; where the data lies is not told."""
    words = [word for name, given in options.items() if given for word in (f"--{name}", str(given))]
    words += [word for assignment in assignments for word in ("--set", assignment)]
    return shlex.join(["plait", "experiment", str(suite), *words])


def seed_numbers(given: str) -> list[int]:
    """The seeds that the command line names."""
    from plait.errors import RequestError

    parts = [part.strip() for part in given.split(",")]
    whole = all(part.removeprefix("-").isdecimal() for part in parts)
    if not whole or len(set(map(int, parts))) < len(parts):
        raise RequestError(f"--seeds {given}: expected different whole numbers, such as 1,2,3")
    return [int(part) for part in parts]


def check_recipes(experiment: "Experiment", cells: "Sequence[Cell]") -> None:
    """Read the recipe of every row before the first is trained; every mistake at once."""
    from plait.errors import RecipeError
    from plait.experiments.run_cell import cell_mistakes

    rows = {cell.row: cell for cell in cells}.values()
    if mistakes := [mistake for cell in rows for mistake in cell_mistakes(experiment, cell)]:
        raise RecipeError(*dict.fromkeys(mistakes))


def run_cells(experiment: "Experiment", cells: "Sequence[Cell]", watcher: "Watcher") -> list[str]:
    """One cell after the other; what went wrong. A signal ends the program after a checkpoint."""
    from plait.cli.stopping import stop_on_signals
    from plait.errors import PlaitError
    from plait.experiments.run_cell import run_cell
    from plait.training.loop import Stopped

    mistakes: list[str] = []
    left = [cell for cell in cells if not experiment.is_done(cell)]
    if len(left) < len(cells):
        watcher.note(f"{len(cells) - len(left):,} of {len(cells):,} cells are done already")
    with stop_on_signals() as stop:
        for number, cell in enumerate(left, start=1):
            watcher.note(f"cell {number:,} of {len(left):,}: {cell.name}")
            try:
                if not run_cell(experiment, cell, watcher, stop):
                    watcher.note(f"{cell.name}: another process is at it")
            except Stopped:
                watcher.end()
                watcher.note(f"stopped in {cell.name}; the same command goes on")
                sys.exit(stop.exit_code)
            except PlaitError as error:
                watcher.note(f"{cell.name}: {error}")
                mistakes += [f"{cell.name}: {mistake}" for mistake in error.mistakes]
            finally:
                watcher.end()
    return mistakes


def tell_cells(experiment: "Experiment", cells: "Sequence[Cell]", watcher: "Watcher", as_json: bool) -> None:
    """Every cell, whether it is done, and how long it may take."""
    from plait.cli.display import console, duration, print_json, print_table
    from plait.experiments.estimate import estimate_rows

    seconds = estimate_rows(experiment, cells, watcher)
    done = {cell: experiment.is_done(cell) for cell in cells}
    left = sum(seconds[cell.row] or 0.0 for cell in cells if not done[cell])
    if as_json:
        told = [{"cell": cell.name, "done": done[cell], "seconds": seconds[cell.row]} for cell in cells]
        print_json({"kind": "result", "cells": told, "seconds": left})
        return

    def state(cell: "Cell") -> str:
        guess = seconds[cell.row]
        return "done" if done[cell] else "?" if guess is None else duration(guess)

    out = console()
    print_table(out, ("cell", "time"), [(cell.name, state(cell)) for cell in cells])
    waiting = [cell for cell in cells if not done[cell]]
    about = "at least" if any(seconds[cell.row] is None for cell in waiting) else "about"
    out.print(f"{len(cells):,} cells, {len(waiting):,} to run: {about} {duration(left)}", soft_wrap=True)


def show(experiment: "Experiment", seeds: Sequence[int], rows: Sequence[str], line: str, as_json: bool) -> None:
    """The table on the screen and in its files."""
    from plait.cli.display import console, print_json, print_table
    from plait.experiments.compare import compare
    from plait.experiments.tables import as_json as table_as_json
    from plait.experiments.tables import gain_rows, score_rows, sentences

    table = compare(experiment, seeds, rows)
    write_files(experiment, table, line)
    if as_json:
        print_json({"kind": "result", "out": experiment.out, **table_as_json(table)})
        return
    out = console()
    out.print(table.suite.title, soft_wrap=True)
    print_table(out, *score_rows(table))
    names, gains = gain_rows(table)
    if gains:
        print_table(out, names, gains)
    for sentence in sentences(table, line):
        out.print(sentence, soft_wrap=True)
    out.print(f"table.md, table.csv, table.json and figure.svg are in {experiment.out}", soft_wrap=True)


def write_files(experiment: "Experiment", table: "Comparison", line: str) -> None:
    """The table in every form, beside the runs."""
    import json

    from plait.experiments.figure import draw_figure
    from plait.experiments.tables import as_csv, as_json, as_markdown, marks_for_figure
    from plait.model.files import whole_file

    experiment.out.mkdir(parents=True, exist_ok=True)
    for name, text in (
        ("table.md", as_markdown(table, line)),
        ("table.csv", as_csv(table)),
        ("table.json", json.dumps(as_json(table), indent=1, ensure_ascii=False) + "\n"),
        ("figure.svg", draw_figure(table.suite.title, marks_for_figure(table))),
    ):
        with whole_file(experiment.out / name) as aside:
            aside.write_text(text, encoding="utf-8")
