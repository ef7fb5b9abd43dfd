"""`plait embed MODEL`"""

from pathlib import Path
from typing import TYPE_CHECKING

import click

from plait.cli.files import engine_option, file_options, log, process_file

if TYPE_CHECKING:
    from plait.inference.jobs import Job
    from plait.model.directory.load import EngineName

__all__ = ["command"]


@click.command()
@click.argument("model", type=click.Path())
@file_options(".npy, .parquet, .jsonl or .csv")
@click.option("--text", "column", metavar="COLUMN", help="The text column of the file.  [default: as in training]")
@engine_option
@click.option("--json", "as_json", is_flag=True, help="Progress and result as JSON lines.")
def command(
    model: str,
    source: str | None,
    output: str | None,
    stdin_kind: str | None,
    workers: int | None,
    encoding: str,
    prefix: str,
    safe_csv: bool,
    resume: bool,
    errors: Path | None,
    column: str | None,
    engine: "EngineName",
    as_json: bool,
) -> None:
    """Embed every row of a file.

    Other columns are passed through, except to .npy, which holds only the vectors. A bad row gets no vector (NaN in
    .npy) and a line in the errors file. MODEL may also be a plain Hugging Face or sentence-transformers encoder.
    """
    if source is None:
        raise click.UsageError("give --input FILE, or - for a pipe")

    def make() -> "Job":
        from plait.inference.jobs import embed_job
        from plait.inference.predictor import load

        predictor = load(model, engine=engine, workers=workers or 0, log=log)
        default = next((spec.text[0] for spec in predictor.tasks.values()), "text")
        return embed_job(predictor, column or default)

    process_file(
        make,
        source,
        output,
        ("npy", "parquet", "jsonl", "csv"),
        stdin_kind=stdin_kind,
        resume=resume,
        errors=errors,
        encoding=encoding,
        prefix=prefix,
        safe_csv=safe_csv,
        as_json=as_json,
    )
