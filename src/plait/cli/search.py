"""`plait search INDEX QUERY`"""

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

import click

from plait.cli.files import engine_option, file_options, log, process_file

if TYPE_CHECKING:
    from plait.inference.jobs import Job
    from plait.model.directory.load import EngineName

__all__ = ["command"]


@click.command()
@click.argument("folder", metavar="INDEX", type=click.Path())
@click.argument("query", required=False)
@click.option("--top-k", type=click.IntRange(1, 10_000), default=10, show_default=True, help="Rows for each query.")
@click.option("--model", help="The model, if it is no longer where it was when the index was built.")
@file_options(".parquet, .jsonl or .csv")
@click.option("--text", "column", metavar="COLUMN", help="The text column of the file.  [default: as in the index]")
@engine_option
@click.option("--json", "as_json", is_flag=True, help="The result as JSON.")
def command(
    folder: str,
    query: str | None,
    top_k: int,
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
    engine: "EngineName",
    as_json: bool,
) -> None:
    """Find the texts of an index that are nearest to a query.

    With --input, every row of a file is a query; the columns id_1, score_1, text_1, id_2, … are added to it. The score
    is the cosine of the embeddings.
    """
    if (query is None) == (source is None):
        raise click.UsageError("give a query, or --input FILE")
    from plait.cli.display import console, print_json, print_table
    from plait.inference.predictor import load
    from plait.search.index import Index

    found = Index(folder)
    if query is not None:
        predictor = load(model or found.record.model, engine="torch")  # measuring is not worth it for one text
        hits = Index(folder, model=predictor).search(query, top_k=top_k)
        if as_json:
            print_json({"kind": "result", "query": query, "hits": [asdict(hit) for hit in hits]})
            return
        print_table(console(), ("score", "id", "text"), [(f"{hit.score:.3f}", hit.id, hit.text) for hit in hits])
        return
    assert source is not None, "checked above"

    def make() -> "Job":
        from plait.search.jobs import search_job

        predictor = load(model or found.record.model, engine=engine, workers=workers or 0, log=log)
        return search_job(Index(folder, model=predictor), column or found.record.text, top_k)

    process_file(
        make,
        source,
        output,
        ("parquet", "jsonl", "csv"),
        stdin_kind=stdin_kind,
        resume=resume,
        errors=errors,
        encoding=encoding,
        prefix=prefix,
        safe_csv=safe_csv,
        as_json=as_json,
    )
