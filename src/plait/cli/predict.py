"""`plait predict MODEL TASK`"""

from dataclasses import asdict
from pathlib import Path

import click

__all__ = ["command"]


@click.command()
@click.argument("model", type=click.Path())
@click.argument("task")
@click.argument("texts", nargs=-1, metavar="[TEXT [TEXT]]")
@click.option(
    "--input", "source", type=click.Path(path_type=Path, exists=True, dir_okay=False), help="A csv, tsv or jsonl file."
)
@click.option("--output", type=click.Path(path_type=Path), help="Where predictions go: .csv or .jsonl.")
@click.option(
    "--text", "columns", multiple=True, metavar="COLUMN", help="The file's text columns, if not as in training."
)
@click.option("--json", "as_json", is_flag=True, help="The prediction as JSON.")
def command(
    model: str,
    task: str,
    texts: tuple[str, ...],
    source: Path | None,
    output: Path | None,
    columns: tuple[str, ...],
    as_json: bool,
) -> None:
    """Predict with one task of a model.

    For one text, or one pair of texts, given here; or for every row of a file.
    """
    if bool(texts) == bool(source):
        raise click.UsageError("give TEXT (two for a pair), or --input FILE")
    if bool(source) != bool(output):
        raise click.UsageError("--input and --output go together")
    from plait.cli.display import print_json, watcher_for
    from plait.errors import RequestError
    from plait.inference.files import output_format, predict_file
    from plait.inference.predictor import load
    from plait.model.about import read_about

    if output:
        output_format(output, (".csv", ".jsonl"))
    read_about(model)  # a task needs a plait model; a plain encoder, or a wrong path, is refused here
    predictor = load(model)
    spec = predictor.task(task)
    if source and output:
        watcher = watcher_for(as_json)
        rows = predict_file(predictor, spec, source, output, columns or spec.text, watcher)
        if as_json:
            print_json({"kind": "result", "output": str(output), "rows": rows})
        else:
            click.echo(f"{rows:,} predictions in {output}")
        return
    if len(texts) != len(spec.text):
        needed = "one text" if len(spec.text) == 1 else "two texts"
        raise RequestError(f"the task {task!r} reads {needed}, {len(texts)} given; quote each text")
    (prediction,) = predictor.predict(task, texts if len(texts) == 1 else [(texts[0], texts[1])])
    if as_json:
        print_json(asdict(prediction))
    elif prediction.probabilities is None:
        click.echo(f"{prediction.score:.2f}   (from {spec.labels.low:g} to {spec.labels.high:g})")
    else:
        others = "  ".join(f"{name} {share:.2f}" for name, share in prediction.probabilities.items())
        click.echo(f"{prediction.label}   ({others})")
