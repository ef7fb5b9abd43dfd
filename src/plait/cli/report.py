"""`plait report RUN…`"""

from pathlib import Path

import click

from plait.cli.complete import complete_suite

__all__ = ["command"]


@click.command()
@click.argument("sources", nargs=-1, required=True, type=click.Path(path_type=Path), metavar="RUN…")
@click.option(
    "--out",
    type=click.Path(path_type=Path),
    metavar="FILE.html",
    help="The page.  [default: report.html in the run; in the current folder for several]",
)
@click.option("--text", "as_text", is_flag=True, help="Print the same in short, and write nothing.")
@click.option(
    "--data",
    type=click.Path(path_type=Path, exists=True, file_okay=False),
    help="A folder to look for data files in, if they have moved.",
)
@click.option(
    "--rows",
    type=click.IntRange(min=1),
    default=1000,
    show_default=True,
    help="Rows of each task and split that are predicted at most; larger splits are sampled.",
)
@click.option(
    "--suite",
    shell_complete=complete_suite,
    help="The suite of a results file.  [default: the one that it is named after]",
)
@click.option("--profile", help="The profile that its cells were trained with.")
@click.option("--json", "as_json", is_flag=True, help="The path of the page as JSON.")
def command(
    sources: tuple[Path, ...],
    out: Path | None,
    as_text: bool,
    data: Path | None,
    rows: int,
    suite: str | None,
    profile: str | None,
    as_json: bool,
) -> None:
    """Write a page about a run, about several runs side by side, or about a suite.

    RUN is the folder of a run. Several are compared with the first, on the rows that they share. For a suite, give the
    results file or the folder that plait experiment wrote. The page is one HTML file that needs no network.
    """
    if as_text and (out or as_json):
        raise click.UsageError("--text prints and writes nothing; drop --out and --json")

    from plait.cli.display import print_json, progress_for
    from plait.reporting.report import report, report_text

    progress = progress_for(as_json)
    try:
        if as_text:
            text = report_text(*sources, data=data, rows=rows, suite=suite, profile=profile, progress=progress)
            click.echo(text, nl=False)
            return
        path = report(*sources, out=out, data=data, rows=rows, suite=suite, profile=profile, progress=progress)
    finally:
        progress.end()
    if as_json:
        print_json({"kind": "result", "report": path})
    else:
        click.echo(f"the report: {path}")
