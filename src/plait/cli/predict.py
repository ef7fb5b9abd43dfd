"""`plait predict MODEL TASK`"""

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

import click

from plait.cli.files import engine_option, file_options, log, process_file

if TYPE_CHECKING:
    from plait.inference.stream import Job
    from plait.model.directory.load import EngineName

__all__ = ["command"]


@click.command()
@click.argument("model", type=click.Path())
@click.argument("task", required=False)
@click.argument("texts", nargs=-1, metavar="[TEXT [TEXT]]")
@file_options(".csv, .jsonl or .parquet")
@click.option(
    "--text",
    "columns",
    multiple=True,
    metavar="COLUMN",
    help="The text columns of the file.  [default: as in training]",
)
@click.option(
    "--every",
    multiple=True,
    metavar="TASK=FILE…",
    help="Predict for several tasks, each with its own file; --output is a folder.",
)
@click.option("--leaderboard", is_flag=True, help="With --every: files in the format of CS224N's leaderboard.")
@engine_option
@click.option("--json", "as_json", is_flag=True, help="The prediction as JSON.")
def command(
    model: str,
    task: str | None,
    texts: tuple[str, ...],
    source: str | None,
    output: str | None,
    stdin_kind: str | None,
    workers: int | None,
    resume: bool,
    errors: Path | None,
    columns: tuple[str, ...],
    every: tuple[str, ...],
    leaderboard: bool,
    engine: "EngineName",
    as_json: bool,
) -> None:
    """Predict with one task of a model, or with several.

    For one text or pair on the command line, or for every row of a file of any size. Other columns of the file are
    passed through; a bad row gets an empty prediction and a line in the errors file. --every sst=a.csv sts=b.csv
    --output DIR predicts for several tasks, one file per task.
    """
    if every:
        if source or stdin_kind or workers or errors or columns:
            options = "--input, --format, --workers, --errors and --text"
            raise click.UsageError(f"{options} are for one task, not for --every")
        if output is None:
            raise click.UsageError("--every needs --output, a folder")
        given = [*every, *([task] if task else []), *texts]  # what follows the first TASK=FILE without an option
        _predict_every(model, given, Path(output), engine, leaderboard=leaderboard, resume=resume, as_json=as_json)
        return
    if leaderboard:
        raise click.UsageError("--leaderboard goes with --every")
    if task is None:
        raise click.UsageError("give TASK, or --every TASK=FILE")
    if bool(texts) == bool(source):
        raise click.UsageError("give TEXT (two for a pair), or --input FILE")
    if texts and (output or stdin_kind or workers or resume or errors or columns):
        options = "--output, --format, --workers, --resume, --errors and --text"
        raise click.UsageError(f"{options} go with --input, not with TEXT")
    from plait.cli.display import print_json
    from plait.errors import RequestError
    from plait.inference.predictor import load
    from plait.model.directory.record import open_directory

    def make() -> "Job":
        from plait.inference.stream import predict_job

        open_directory(model)  # a task needs a plait model: refuse a plain encoder, or a wrong path
        predictor = load(model, engine=engine, workers=workers or 0, log=log)
        spec = predictor.task(task)
        return predict_job(predictor, spec, columns or spec.text)

    if source:
        process_file(
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
    open_directory(model)
    predictor = load(model, engine="torch" if engine == "auto" else engine)  # measuring is not worth it for one text
    spec = predictor.task(task)
    if any(not text.strip() for text in texts):
        raise RequestError("TEXT is empty")
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


def _predict_every(
    model: str,
    assignments: list[str],
    folder: Path,
    engine: "EngineName",
    *,
    leaderboard: bool,
    resume: bool,
    as_json: bool,
) -> None:
    """Predict for every TASK=FILE into a folder; all mistakes are reported before the first one begins."""
    from functools import partial

    from plait.data.read import FORMAT_NAMES, format_of
    from plait.errors import DataError, RequestError
    from plait.inference.inputs import open_input
    from plait.inference.leaderboard import leaderboard_file, leaderboard_job
    from plait.inference.predictor import load
    from plait.inference.resumable import ResumableOutput
    from plait.inference.stream import predict_job
    from plait.model.directory.record import open_directory
    from plait.model.tasks import parse_task_files

    open_directory(model)
    predictor = load(model, engine=engine, log=log)
    given, mistakes = parse_task_files("--every", assignments, predictor.tasks)
    outputs: dict[Path, tuple[str, str]] = {}
    for task, source in given:
        kind = format_of(Path(source))
        suffix = {"tsv": "csv", "xlsx": "csv", "json": "jsonl"}.get(kind or "", kind)
        name = f"{task.replace('/', '-')}.{suffix}"
        if kind is None or source.startswith("hub:"):
            mistakes.append(f"--every {task}={source}: unknown file format; plait reads {FORMAT_NAMES}")
            continue
        if leaderboard:
            try:
                name = leaderboard_file(predictor.tasks[task], source)
            except RequestError as error:
                mistakes += error.mistakes
                continue
        if folder / name in outputs:
            mistakes.append(f"--every {task}={source}: {name} is already the output of {outputs[folder / name][0]}")
        outputs[folder / name] = task, source
    if folder.exists() and not folder.is_dir():
        mistakes.append(f"--output {folder}: is a file; --every needs a folder")
    read = {Path(source).resolve() for _, source in given}
    jobs: dict[Path, Job] = {}
    for place, (task, source) in outputs.items():
        spec = predictor.tasks[task]
        job = leaderboard_job(predictor, spec) if leaderboard else predict_job(predictor, spec, spec.text)
        jobs[place] = job
        written = (place, place.with_name(f"{place.name}.errors.jsonl"))
        mistakes += [
            f"--output {folder}: its file {path.name} is an input; choose another folder"
            for path in written
            if path.resolve() in read
        ]
        try:
            open_input(source, (*job.text, *job.needs), quoting=job.quoting, ends=job.concerns)
        except DataError as error:
            mistakes += error.mistakes
    begun = {place: resume and ResumableOutput(place).journal.is_file() for place in outputs}
    if resume and not any(begun.values()):
        mistakes.append(f"{folder}: there is nothing to resume; drop --resume")
    if mistakes:
        raise RequestError(*mistakes)
    folder.mkdir(parents=True, exist_ok=True)
    for place, (_, source) in outputs.items():
        process_file(
            partial(jobs.__getitem__, place),
            source,
            str(place),
            ("csv", "jsonl", "parquet"),
            stdin_kind=None,
            resume=begun[place],
            errors=None,
            as_json=as_json,
            kind="leaderboard" if leaderboard else None,
        )
