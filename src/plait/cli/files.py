"""The options of the commands that work through files, and what they say at the end."""

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from plait.inference.stream import Job

__all__ = ["file_options", "work_through"]


def file_options(kinds: str) -> Callable[[click.decorators.FC], click.decorators.FC]:
    """--input and --output, and how to go on."""
    options = (
        click.option("--input", "source", metavar="FILE", help="A .csv, .tsv, .jsonl (or .gz) or .parquet file, or -."),
        click.option("--output", metavar="FILE", help=f"Where the rows go: {kinds}, or - as they come."),
        click.option(
            "--format",
            "stdin_kind",
            type=click.Choice(["csv", "tsv", "jsonl"]),
            help="What - reads.  [default: as it looks]",
        ),
        click.option(
            "--workers",
            type=click.IntRange(min=1),
            help="So many processes encode, instead of threads.  [default: threads]",
        ),
        click.option("--resume", is_flag=True, help="Go on with an output that was broken off."),
        click.option("--errors", type=click.Path(path_type=Path), help="Where bad rows go.  [default: by the output]"),
    )

    def add(function: click.decorators.FC) -> click.decorators.FC:
        for option in reversed(options):
            function = option(function)
        return function

    return add


def work_through(
    make: Callable[[], "Job"],
    source: str,
    output: str | None,
    kinds: tuple[str, ...],
    *,
    stdin_kind: str | None,
    resume: bool,
    errors: Path | None,
    as_json: bool,
    kind: str | None = None,
) -> None:
    """Run a job over a file or a pipe with progress; the job is made once the request is known to be sound.

    The kind of file that is written is the one that the output's name asks for, unless it is given.
    """
    from plait.cli.display import print_json, watcher_for
    from plait.errors import RequestError
    from plait.inference.parts import Parts
    from plait.inference.stream import output_kind, run_job

    output = output or ("-" if source == "-" else None)
    if output is None:
        raise click.UsageError("--input and --output go together")
    if source != "-" and not Path(source).is_file():
        what = "is no plain file; read a pipe with --input -" if Path(source).exists() else "no such file"
        raise RequestError(f"--input {source}: {what}")
    if stdin_kind and source != "-":
        raise click.UsageError("--format is for what - reads; a file says it by its name")
    if resume and "-" in (source, output):
        raise click.UsageError("a pipe cannot be gone on with; --resume needs two files")
    if as_json and output == "-":
        raise click.UsageError("with --output - the rows go where --json would write; drop one")
    if output != "-":
        kind = kind or output_kind(output, kinds)
    watcher = watcher_for(as_json)
    try:
        done = run_job(make(), source, output, kind, watcher, stdin_kind=stdin_kind, resume=resume, errors=errors)
    except KeyboardInterrupt:
        watcher.end()
        if "-" not in (source, output) and Parts(Path(output)).journal.is_file():
            watcher.note(f"stopped; the same command with --resume goes on with {output}")
        raise
    finally:
        watcher.end()
    if as_json:
        print_json({"kind": "result", "output": output, "rows": done.rows, "bad": done.bad, "errors": done.errors})
        return
    listed = f", {done.bad:,} of them bad and left empty" + (f": {done.errors}" if done.errors else "")
    click.echo(f"{done.rows:,} rows in {output}{listed if done.bad else ''}", err=output == "-")
