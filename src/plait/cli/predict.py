"""`plait predict MODEL TASK`"""

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

import click

from plait.cli.files import file_options, work_through

if TYPE_CHECKING:
    from plait.inference.stream import Job

__all__ = ["command"]


@click.command()
@click.argument("model", type=click.Path())
@click.argument("task")
@click.argument("texts", nargs=-1, metavar="[TEXT [TEXT]]")
@file_options(".csv, .jsonl or .parquet")
@click.option(
    "--text", "columns", multiple=True, metavar="COLUMN", help="The file's text columns, if not as in training."
)
@click.option("--json", "as_json", is_flag=True, help="The prediction as JSON.")
def command(
    model: str,
    task: str,
    texts: tuple[str, ...],
    source: str | None,
    output: str | None,
    stdin_kind: str | None,
    resume: bool,
    errors: Path | None,
    columns: tuple[str, ...],
    as_json: bool,
) -> None:
    """Predict with one task of a model.

    For one text, or one pair of texts, given here; or for every row of a file, of any size. Its other columns are
    passed through; a bad row gets an empty prediction and a line in the file of errors.
    """
    if bool(texts) == bool(source):
        raise click.UsageError("give TEXT (two for a pair), or --input FILE")
    if texts and (output or stdin_kind or resume or errors or columns):
        raise click.UsageError("--output, --format, --resume, --errors and --text go with --input, not with TEXT")
    from plait.cli.display import print_json
    from plait.errors import RequestError
    from plait.inference.predictor import load
    from plait.model.about import read_about

    def make() -> "Job":
        from plait.inference.stream import predict_job
        from plait.model.load import model_identity

        read_about(model)  # a task needs a plait model; a plain encoder, or a wrong path, is refused here
        predictor = load(model)
        spec = predictor.task(task)
        return predict_job(predictor, spec, columns or spec.text, model_identity(model))

    if source:
        work_through(
            make,
            source,
            output,
            ("csv", "jsonl", "parquet"),
            stdin_kind=stdin_kind,
            resume=resume,
            errors=errors,
            as_json=as_json,
        )
        return
    read_about(model)
    predictor = load(model)
    spec = predictor.task(task)
    if any(not text.strip() for text in texts):
        raise RequestError("TEXT is empty; give something to read")
    if len(texts) != len(spec.text):
        needed = ("one text", "two texts", "three texts")[len(spec.text) - 1]
        raise RequestError(f"the task {task!r} reads {needed}, {len(texts)} given; quote each text")
    (prediction,) = predictor.predict(task, texts if len(texts) == 1 else [texts])
    if as_json:
        print_json(asdict(prediction))
    elif prediction.probabilities is None:
        click.echo(f"{prediction.score:.2f}   (from {spec.labels.low:g} to {spec.labels.high:g})")
    else:
        others = "  ".join(f"{name} {share:.2f}" for name, share in prediction.probabilities.items())
        label = prediction.label if isinstance(prediction.label, str) else ", ".join(prediction.label or ()) or "none"
        click.echo(f"{label}   ({others})")
