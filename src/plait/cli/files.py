"""Options of the commands that process files, and what they print at the end."""

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from plait.inference.jobs import Job
    from plait.inference.stream import Done

__all__ = [
    "encoding_option",
    "engine_option",
    "file_options",
    "log",
    "print_done",
    "process_file",
    "safe_csv_option",
]

engine_option = click.option(
    "--engine",
    type=click.Choice(["auto", "torch", "onnx"]),
    default="auto",
    show_default=True,
    help="What embeds; onnx needs a model that plait export wrote.",
)
safe_csv_option = click.option(
    "--safe-csv",
    is_flag=True,
    help="In .csv, put ' before cells that a spreadsheet would run as formulas: those with = + - @ in front.",
)
log = partial(click.echo, err=True)


def encoding_option(of: str) -> Callable[[click.decorators.FC], click.decorators.FC]:
    """--encoding."""
    return click.option(
        "--encoding",
        default="utf-8",
        show_default=True,
        callback=_known_encoding,
        help=f"The encoding of {of}: latin-1, cp1252, ...",
    )


def _known_encoding(context: click.Context, parameter: click.Parameter, value: str) -> str:
    from plait.recipe.normalize import known_encoding

    return known_encoding(value)


def file_options(kinds: str) -> Callable[[click.decorators.FC], click.decorators.FC]:
    """--input, --output and what goes with them."""
    options = (
        click.option(
            "--input",
            "source",
            metavar="FILE",
            help="A .csv, .tsv, .jsonl, .json (or .gz), .parquet or .xlsx file, a folder, or - for standard input.",
        ),
        click.option("--output", metavar="FILE", help=f"The output file: {kinds}, or - for standard output."),
        click.option(
            "--format",
            "stdin_kind",
            type=click.Choice(["csv", "tsv", "jsonl"]),
            help="The format of standard input.  [default: detected]",
        ),
        click.option(
            "--workers",
            type=click.IntRange(min=1),
            help="Encode with this many processes instead of threads; with --engine ray, this many actors.",
        ),
        encoding_option("the input"),
        click.option("--prefix", default="", metavar="TEXT", help="Put before the names of the new columns."),
        safe_csv_option,
        click.option("--resume", is_flag=True, help="Resume an interrupted output; shards resume without it."),
        click.option(
            "--errors", type=click.Path(path_type=Path), help="Where to list bad rows.  [default: beside the output]"
        ),
    )

    def add(function: click.decorators.FC) -> click.decorators.FC:
        for option in reversed(options):
            function = option(function)
        return function

    return add


def process_file(
    make: Callable[[], "Job"],
    source: str,
    output: str | None,
    kinds: tuple[str, ...],
    *,
    stdin_kind: str | None,
    resume: bool,
    errors: Path | None,
    encoding: str,
    prefix: str,
    safe_csv: bool,
    as_json: bool,
    kind: str | None = None,
) -> None:
    """Run a job over a file or a pipe with progress; the job is made once the request is validated.

    The output format follows from the output's name, unless `kind` is given.
    """
    from plait.cli.display import progress_for
    from plait.errors import RequestError
    from plait.inference.resumable import ResumableOutput
    from plait.inference.stream import output_kind, run_job

    output = output or ("-" if source == "-" else None)
    if output is None:
        raise click.UsageError("--input and --output go together")
    if source != "-" and not Path(source).is_file() and not Path(source).is_dir():
        what = "not a regular file; read a pipe with --input -" if Path(source).exists() else "no such file"
        raise RequestError(f"--input {source}: {what}")
    if stdin_kind and source != "-":
        raise click.UsageError("--format is for standard input; the format of a file follows from its name")
    if resume and "-" in (source, output):
        raise click.UsageError("--resume needs two files; a pipe cannot be resumed")
    if as_json and output == "-":
        raise click.UsageError("--output - and --json both write to standard output; drop one of them")
    if output != "-":
        kind = kind or output_kind(output, kinds)
    progress = progress_for(as_json)
    try:
        job = replace(make(), encoding=encoding, prefix=prefix, safe_csv=safe_csv)
        done = run_job(job, source, output, kind, progress, stdin_kind=stdin_kind, resume=resume, errors=errors)
    except KeyboardInterrupt:
        progress.end()
        if "-" not in (source, output) and ResumableOutput(Path(output)).journal.is_file():
            progress.note(f"stopped; the same command with --resume continues {output}")
        raise
    finally:
        progress.end()
    print_done(done, output, as_json)


def print_done(done: "Done", output: str, as_json: bool) -> None:
    """What was written, and where."""
    from plait.cli.display import print_json

    if as_json:
        print_json({"kind": "result", "output": output, "rows": done.rows, "bad": done.bad, "errors": done.errors})
        return
    listed = f", {done.bad:,} of them bad and left empty" + (f": {done.errors}" if done.errors else "")
    where = "standard output" if output == "-" else output
    click.echo(f"{done.rows:,} rows in {where}{listed if done.bad else ''}", err=output == "-")
