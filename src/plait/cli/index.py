"""`plait index MODEL|INDEX`"""

from pathlib import Path
from typing import TYPE_CHECKING

import click

from plait.cli.files import encoding_option, engine_option, log

if TYPE_CHECKING:
    from plait.model.directory.load import EngineName

__all__ = ["command"]


@click.command()
@click.argument("source", metavar="MODEL|INDEX", type=click.Path())
@click.option("--corpus", metavar="FILE", help="A .csv, .tsv, .jsonl, .json (or .gz), .parquet or .xlsx file.")
@click.option("--out", type=click.Path(path_type=Path), help="A new directory for the index.")
@click.option("--text", "column", metavar="COLUMN", help="The text column of the corpus.  [default: as in training]")
@click.option(
    "--id", "id_column", metavar="COLUMN", help="The column that names a row.  [default: rows are numbered from 0]"
)
@click.option(
    "--kind",
    type=click.Choice(["auto", "exact", "faiss"]),
    default="auto",
    show_default=True,
    help="How it is searched; auto means faiss from 200,000 rows on, if it is installed.",
)
@click.option("--delete", "deleted", multiple=True, metavar="ID", help="Delete a row of the index; repeatable.")
@click.option("--check", is_flag=True, help="Verify its files, and measure recall@10 against exact search.")
@engine_option
@click.option("--workers", type=click.IntRange(min=1), help="Encode with this many processes instead of threads.")
@encoding_option("the corpus")
@click.option("--resume", is_flag=True, help="Resume an interrupted build or addition.")
@click.option("--json", "as_json", is_flag=True, help="Progress and result as JSON lines.")
def command(
    source: str,
    corpus: str | None,
    out: Path | None,
    column: str | None,
    id_column: str | None,
    kind: str,
    deleted: tuple[str, ...],
    check: bool,
    engine: "EngineName",
    workers: int | None,
    encoding: str,
    resume: bool,
    as_json: bool,
) -> None:
    """Embed a corpus for `plait search`, or change an index.

    With a MODEL, --corpus and --out, a new index is built. With an INDEX, --corpus adds rows, or replaces those with
    the same id; --delete deletes rows; --check verifies the index. Without any of these, the index is described.
    """
    from plait.cli.display import print_json, progress_for
    from plait.search.record import is_index

    is_old = is_index(source)
    if is_old and (out or column or id_column or kind != "auto"):
        raise click.UsageError(f"{source} is an index, which keeps its --text, --id and --kind; drop these and --out")
    if not is_old and (deleted or check):
        raise click.UsageError(f"--delete and --check are for an index; {source} is none")
    if not is_old and not (corpus and out):
        raise click.UsageError("give --corpus FILE and --out DIR")
    if resume and not corpus:
        raise click.UsageError("--resume goes with --corpus")
    from plait.inference.predictor import load
    from plait.search.build import index
    from plait.search.index import Index

    progress = progress_for(as_json)
    facts: dict[str, object] = {}
    try:
        if is_old:
            found = Index(source)
            if corpus:
                if engine != "auto" or workers:
                    model = load(found.record.model, engine=engine, workers=workers or 0, log=log)
                    found = Index(source, model=model)
                facts["added"] = found.add(corpus, resume=resume, encoding=encoding, progress=progress)
            if deleted:
                facts["deleted"] = found.delete(deleted, progress=progress)
        else:
            assert out is not None and corpus is not None, "checked above"
            model = load(source, engine=engine, workers=workers or 0, log=log)
            found = index(
                model,
                corpus,
                out,
                text=column,
                id=id_column,
                kind=kind,
                encoding=encoding,
                resume=resume,
                progress=progress,
            )
        if check:
            facts["recall"] = found.check().recall
    except KeyboardInterrupt:
        progress.end()
        if corpus:
            progress.note("stopped; the same command with --resume continues")
        raise
    finally:
        progress.end()
    if as_json:
        kinds = "faiss" if any(segment.ann for segment in found.record.segments) else "exact"
        about = {"rows": len(found), "search": kinds, "model": found.record.model, **facts}
        print_json({"kind": "result", "index": found.folder, **about})
        return
    if "added" in facts:
        click.echo(f"rows added or replaced: {facts['added']:,}")
    if "deleted" in facts:
        missing = len(set(deleted)) - int(str(facts["deleted"]))
        click.echo(
            f"rows deleted: {facts['deleted']:,}" + (f"; ids that were not found: {missing:,}" if missing else "")
        )
    if check:
        click.echo(f"every file is intact; recall@10 against exact search: {facts['recall']:.3f}")
    click.echo(f"{len(found):,} rows in {found.folder}, embedded by {found.record.model}")
