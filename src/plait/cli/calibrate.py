"""`plait calibrate MODEL`"""

from pathlib import Path
from typing import TYPE_CHECKING, Literal

import click

from plait.cli.complete import complete_task, complete_task_file
from plait.cli.files import encoding_option

if TYPE_CHECKING:
    from plait.evaluation.calibration import TaskCalibration

__all__ = ["command"]


@click.command()
@click.argument("model", type=click.Path(), metavar="MODEL")
@click.option("--task", "tasks", multiple=True, shell_complete=complete_task, help="Only these tasks.  [default: all]")
@click.option(
    "--threshold",
    type=click.Choice(["accuracy", "f1"]),
    help="Also choose the threshold of yes/no and multilabel tasks that maximizes this.",
)
@click.option(
    "--abstain-for",
    type=click.FloatRange(0, 1, min_open=True),
    metavar="ACCURACY",
    help="Also withhold uncertain labels, so that the others reach this accuracy.",
)
@click.option(
    "--on",
    "files",
    multiple=True,
    metavar="TASK=FILE",
    help="Other labelled data, which the model was not trained with.",
    shell_complete=complete_task_file,
)
@click.option("--text", "text_columns", multiple=True, metavar="COLUMN", help="The text columns of --on.")
@click.option("--label", "label_columns", multiple=True, metavar="COLUMN", help="The label column of --on.")
@encoding_option("the files of --on")
@click.option("--data", type=click.Path(path_type=Path, exists=True, file_okay=False), help="Folder of the data files.")
@click.option("--out", type=click.Path(path_type=Path), metavar="DIR", help="Write a copy.  [default: change MODEL]")
@click.option("--json", "as_json", is_flag=True, help="The result as JSON.")
def command(
    model: str,
    tasks: tuple[str, ...],
    threshold: Literal["accuracy", "f1"] | None,
    abstain_for: float | None,
    files: tuple[str, ...],
    text_columns: tuple[str, ...],
    label_columns: tuple[str, ...],
    encoding: str,
    data: Path | None,
    out: Path | None,
    as_json: bool,
) -> None:
    """Fit a model's probabilities, so that 0.8 means right in 8 of 10 cases.

    A temperature for each task is fitted on the dev rows, or on --on, and stored in the model; predictions, the server
    and exports use it. It changes no label. --threshold and --abstain-for do, and are stored as well. Every effect is
    measured by cross-fitting, on rows that were not fitted on; what does not help there is left as it was.
    """
    from plait.cli.display import console, print_json, print_table, progress_for
    from plait.cli.option_names import as_options
    from plait.evaluation.calibrate_model import calibrate
    from plait.model.directory.record import open_directory
    from plait.runs.origins import named_files

    on = named_files(open_directory(model).record.tasks, files) if files else None
    found = calibrate(
        model,
        on,
        tasks=tasks,
        threshold=threshold,
        abstain_for=abstain_for,
        out=out,
        data=data,
        text_columns=text_columns,
        label_columns=label_columns,
        encoding=encoding,
        progress=progress_for(as_json),
    )
    if as_json:
        print_json({"kind": "result", **found.to_json()})
        return
    shown = console()
    if found.tasks:
        shown.print(f"{found.model}, calibrated; effects on rows that were not fitted on", soft_wrap=True)
        print_table(shown, *found.table())
        for task, one in found.tasks.items():
            if one.coverage:
                shown.print(f"{task}: {_describe(one)}", soft_wrap=True)
    for note in found.notes:
        shown.print(as_options(note), soft_wrap=True)


def _describe(one: "TaskCalibration") -> str:
    """Coverage against accuracy, and what the abstention found."""
    points = "  ".join(
        f"{point.share:.0%} {point.accuracy:.3f} (from {point.probability:.2f})" for point in one.coverage
    )
    line = f"accuracy of the most certain rows: {points}"
    if one.given:
        share, right = one.given
        line += f"; below {one.abstain_below:.3g} withheld: {share:.0%} of the rows get a label, {right:.3f} are right"
    return line
