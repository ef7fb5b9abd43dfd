"""`plait compare A B`"""

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import click

from plait.cli.complete import complete_task_file
from plait.cli.files import encoding_option, engine_option, log

if TYPE_CHECKING:
    from plait.model.directory.load import EngineName

__all__ = ["command"]


@click.command()
@click.argument("models", nargs=-1, required=True, type=click.Path(), metavar="A [B]")
@click.option("--split", type=click.Choice(["train", "dev", "test"]), default="dev", show_default=True)
@click.option(
    "--on",
    "files",
    multiple=True,
    metavar="TASK=FILE",
    help="Other labelled data for a task.",
    shell_complete=complete_task_file,
)
@click.option("--text", "text_columns", multiple=True, metavar="COLUMN", help="The text columns of --on.")
@click.option("--label", "label_columns", multiple=True, metavar="COLUMN", help="The label column of --on.")
@encoding_option("the files of --on")
@click.option("--data", type=click.Path(path_type=Path, exists=True, file_okay=False), help="Folder of the data files.")
@click.option(
    "--single-task",
    is_flag=True,
    help="Compare the run A with its single-task models: does training together help?",
)
@click.option(
    "--transfer",
    is_flag=True,
    help="Which task helps which in the run A. Trains each task alone and each pair of tasks, unless done before.",
)
@engine_option
@click.option("--json", "as_json", is_flag=True, help="The result as JSON.")
def command(
    models: tuple[str, ...],
    split: Literal["train", "dev", "test"],
    files: tuple[str, ...],
    text_columns: tuple[str, ...],
    label_columns: tuple[str, ...],
    encoding: str,
    data: Path | None,
    single_task: bool,
    transfer: bool,
    engine: "EngineName",
    as_json: bool,
) -> None:
    """Test whether model B is better than model A, task by task.

    A and B are model directories or runs. They are scored on the rows of the split that both have, or on --on. Accuracy
    is tested by McNemar's exact test, other metrics by a paired bootstrap. p is corrected for the number of tasks
    (Holm); below 0.05, B is better or worse, else no difference is shown. Intervals are not corrected.

    With --single-task or --transfer, give one run. plait train --single-task makes the models of the first; --transfer
    trains what is missing, K·(K + 1)/2 models for K tasks, inside the run's folder.
    """
    if single_task and transfer:
        raise click.UsageError("choose --single-task or --transfer")
    inside = "--single-task" if single_task else "--transfer" if transfer else ""
    if inside and (len(models) > 1 or files):
        raise click.UsageError(f"{inside} is for one run and its own data; drop {'--on' if files else models[1]}")
    if not inside and len(models) != 2:
        raise click.UsageError(f"give two models to compare, not {len(models)}; or one run with --single-task")
    if transfer and split == "train":
        raise click.UsageError("--transfer is measured on dev or test, not on the rows that were trained on")
    from plait.cli.comparison_tables import print_comparison
    from plait.cli.display import console, print_json, progress_for
    from plait.evaluation.compare import compare, compare_single_task
    from plait.model.directory.record import open_directory
    from plait.runs.origins import named_files

    if transfer:
        assert split != "train"
        _show_transfer(models[0], split, data, as_json)
        return
    progress = progress_for(as_json)
    if single_task:
        found = compare_single_task(models[0], split=split, data=data, engine=engine, progress=progress)
    else:
        first, second = models
        found = compare(
            first,
            second,
            named_files(open_directory(first).record.tasks, files) if files else None,
            split=split,
            data=data,
            text_columns=text_columns,
            label_columns=label_columns,
            encoding=encoding,
            engine=engine,
            progress=progress,
            log=log,
        )
    if as_json:
        print_json({"kind": "result", **found.to_json()})
    else:
        print_comparison(console(), found)


def _show_transfer(run: str, split: Literal["dev", "test"], data: Path | None, as_json: bool) -> None:
    """Measure with progress; a signal ends the program after a checkpoint."""
    from plait.cli.comparison_tables import print_transfer
    from plait.cli.display import console, print_json, progress_for
    from plait.cli.stopping import stop_on_signals
    from plait.training.train import Stopped
    from plait.training.transfer import transfer

    progress = progress_for(as_json)
    with stop_on_signals() as stop:
        try:
            matrix = transfer(run, split=split, data=data, progress=progress, stop=stop)
        except Stopped as stopped:
            progress.end()
            progress.note(str(stopped))
            sys.exit(stop.exit_code)
        finally:
            progress.end()
    if as_json:
        print_json({"kind": "result", **matrix.to_json()})
    else:
        print_transfer(console(), matrix)
