"""`plait cluster FILE`"""

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

import click

from plait.cli.files import encoding_option, engine_option, log

if TYPE_CHECKING:
    from plait.model.directory.load import EngineName

__all__ = ["command"]

_SHOWN = 30  # clusters in a terminal


@click.command()
@click.argument("source", metavar="FILE", type=click.Path())
@click.option("--model", required=True, type=click.Path(), help="The model that embeds the texts.")
@click.option("--text", "column", metavar="COLUMN", help="The text column of the file.  [default: as in training]")
@click.option("--clusters", type=click.IntRange(min=2), help="Make so many, by k-means.  [default: the dense ones]")
@click.option(
    "--at-least", type=float, default=0.6, show_default=True, help="The cosine with the centre of a dense cluster."
)
@click.option("--smallest", type=click.IntRange(min=1), default=5, show_default=True, help="Texts of a dense cluster.")
@click.option(
    "--out",
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="All rows with their clusters: .csv, .jsonl, .parquet.",
)
@engine_option
@click.option("--workers", type=click.IntRange(min=1), help="Encode with this many processes instead of threads.")
@encoding_option("the file")
@click.option("--json", "as_json", is_flag=True, help="Progress and clusters as JSON lines.")
def command(
    source: str,
    model: str,
    column: str | None,
    clusters: int | None,
    at_least: float,
    smallest: int,
    out: Path | None,
    engine: "EngineName",
    workers: int | None,
    encoding: str,
    as_json: bool,
) -> None:
    """Group similar texts.

    Each cluster is named by its most typical text. Without --clusters, texts with nothing similar belong to none.
    """
    from plait.cli.display import console, print_json, print_table, progress_for
    from plait.inference.predictor import load
    from plait.search.cluster import cluster
    from plait.search.embedded import check_files

    check_files(source, out)
    predictor = load(model, engine=engine, workers=workers or 0, log=log)
    progress = progress_for(as_json)
    try:
        found = cluster(
            predictor,
            source,
            text=column,
            clusters=clusters,
            at_least=at_least,
            smallest=smallest,
            out=out,
            encoding=encoding,
            progress=progress,
        )
    finally:
        progress.end()
    if as_json:
        print_json({"kind": "result", "out": out, "unclustered": found.unclustered, **asdict(found)})
        return
    screen = console()
    rows = [(f"{len(one.rows):,}", f"{one.cohesion:.2f}", one.name) for one in found.clusters[:_SHOWN]]
    if rows:
        print_table(screen, ("texts", "cosine with the centre", "most typical text"), rows)
    if (more := len(found.clusters) - _SHOWN) > 0:
        screen.print(f"… and {more:,} smaller clusters")
    rest = f", texts in none: {found.unclustered:,}" if found.unclustered else ""
    screen.print(
        f"texts: {found.texts:,}, clusters: {len(found.clusters):,}{rest}"
        + (f": {out}" if out else "; --out FILE writes them"),
        soft_wrap=True,
    )
