"""`plait embed MODEL`"""

from pathlib import Path

import click

__all__ = ["command"]


@click.command()
@click.argument("model", type=click.Path())
@click.option(
    "--input",
    "source",
    type=click.Path(path_type=Path, exists=True, dir_okay=False),
    required=True,
    help="A csv, tsv or jsonl file.",
)
@click.option("--output", type=click.Path(path_type=Path), required=True, help="Where the vectors go: .npy.")
@click.option("--text", "column", metavar="COLUMN", help="The file's text column.  [default: as in training]")
@click.option("--json", "as_json", is_flag=True, help="Progress and result as JSON lines.")
def command(model: str, source: Path, output: Path, column: str | None, as_json: bool) -> None:
    """Embed every row of a file.

    MODEL may also be a plain Hugging Face or sentence-transformers encoder.
    """
    from plait.cli.display import print_json, watcher_for
    from plait.inference.files import embed_file, output_format
    from plait.inference.predictor import load

    output_format(output, (".npy",))
    predictor = load(model)
    column = column or next((spec.text[0] for spec in predictor.tasks.values()), "text")
    shape = embed_file(predictor, source, output, column, watcher_for(as_json))
    if as_json:
        print_json({"kind": "result", "output": str(output), "rows": shape[0], "width": shape[1]})
    else:
        click.echo(f"{shape[0]:,} vectors of {shape[1]} numbers in {output}")
