"""`plait embed MODEL`"""

from pathlib import Path
from typing import TYPE_CHECKING

import click

from plait.cli.corpus import CorpusEngine, corpus_options, inner_engine, is_sharded, process_merge, process_shards
from plait.cli.files import file_options, log, process_file

if TYPE_CHECKING:
    from plait.inference.batch_mapper import BatchMapper

__all__ = ["command"]

_KINDS = ("npy", "parquet", "jsonl", "csv")


@click.command()
@click.argument("model", type=click.Path(), required=False)
@file_options(".npy, .parquet, .jsonl or .csv")
@click.option("--text", "column", metavar="COLUMN", help="The text column of the file.  [default: as in training]")
@corpus_options
@click.option("--json", "as_json", is_flag=True, help="Progress and result as JSON lines.")
def command(
    model: str | None,
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
    shards: int | None,
    shard: int | None,
    merge: Path | None,
    engine: CorpusEngine,
    as_json: bool,
) -> None:
    """Embed every row of a file or folder.

    Other columns are passed through, except to .npy, which holds only the vectors. A bad row gets no vector (NaN in
    .npy) and a line in the errors file. MODEL may also be a plain Hugging Face or sentence-transformers encoder.
    --shards N --shard I embeds a part of the rows, on any machine; --engine ray embeds all of them on Ray.
    """
    if merge is not None:
        process_merge(merge, output, _KINDS, as_json, safe_csv=safe_csv)
        return
    if model is None or source is None:
        raise click.UsageError("give MODEL, and --input FILE, or - for a pipe")

    def make() -> "BatchMapper":
        from plait.inference.batch_mapper import BatchMapper
        from plait.inference.predictor import load

        processes = workers if workers and engine != "ray" else 0
        predictor = load(model, engine=inner_engine(engine), workers=processes, log=log)
        return BatchMapper(predictor, text=column, prefix=prefix)

    if is_sharded(source, output, shards, shard, engine):
        process_shards(
            make,
            source,
            output,
            shards=shards,
            shard=shard,
            engine=engine,
            workers=workers,
            stdin_kind=stdin_kind,
            errors=errors,
            encoding=encoding,
            safe_csv=safe_csv,
            as_json=as_json,
        )
        return
    process_file(
        lambda: make().job,
        source,
        output,
        _KINDS,
        stdin_kind=stdin_kind,
        resume=resume,
        errors=errors,
        encoding=encoding,
        prefix=prefix,
        safe_csv=safe_csv,
        as_json=as_json,
    )
