"""`plait predict MODEL TASK`"""

from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING

import click

from plait.cli.complete import complete_task, complete_task_file
from plait.cli.corpus import CorpusEngine, corpus_options, inner_engine, is_sharded, process_merge, process_shards
from plait.cli.files import file_options, log, process_file

if TYPE_CHECKING:
    from plait.inference.batch_mapper import BatchMapper
    from plait.inference.decision import Decision
    from plait.inference.jobs import Job
    from plait.inference.predictor import Predictor
    from plait.model.directory.load import EngineName
    from plait.model.tasks import TaskSpec

__all__ = ["check_texts", "command"]

_KINDS = ("csv", "jsonl", "parquet")
_SHOWN_CLASSES = 5  # of one prediction in a terminal


@click.command()
@click.argument("model", type=click.Path(), required=False)
@click.argument("task", required=False, shell_complete=complete_task)
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
    shell_complete=complete_task_file,
    help="Predict for several tasks, each with its own file; --output is a folder.",
)
@click.option("--leaderboard", is_flag=True, help="With --every: files in the format of CS224N's leaderboard.")
@click.option(
    "--top-k",
    type=click.IntRange(min=1),
    metavar="N",
    help="List only the N most probable classes, the highest first.  [default: all in files, 5 for TEXT]",
)
@click.option(
    "--threshold",
    type=click.FloatRange(0, 1),
    metavar="P",
    help="The probability from which a yes/no task says yes, and a multilabel task assigns a label.",
)
@click.option(
    "--abstain-below",
    type=click.FloatRange(0, 1),
    metavar="P",
    help="Leave the prediction empty if its probability is lower.",
)
@corpus_options
@click.option("--json", "as_json", is_flag=True, help="The prediction as JSON.")
def command(
    model: str | None,
    task: str | None,
    texts: tuple[str, ...],
    source: str | None,
    output: str | None,
    stdin_kind: str | None,
    workers: int | None,
    encoding: str,
    prefix: str,
    safe_csv: bool,
    resume: bool,
    errors: Path | None,
    columns: tuple[str, ...],
    every: tuple[str, ...],
    leaderboard: bool,
    top_k: int | None,
    threshold: float | None,
    abstain_below: float | None,
    shards: int | None,
    shard: int | None,
    merge: Path | None,
    engine: CorpusEngine,
    as_json: bool,
) -> None:
    """Predict with one task of a model, or with several.

    For one text or pair on the command line, or for every row of a file or folder of any size. Its other columns are
    passed through, and these are added: prediction, and for labels its probability and p(CLASS) of every class, or
    with --top-k the columns top 1, p(top 1) and so on. A bad row gets an empty prediction and a line in the errors
    file. --every sst=a.csv sts=b.csv --output DIR predicts for several tasks, one file per task. --shards N --shard I
    predicts for a part of the rows, on any machine; --engine ray for all of them on Ray.
    """
    if merge is not None:
        process_merge(merge, output, _KINDS, as_json, safe_csv=safe_csv)
        return
    if model is None:
        raise click.UsageError("give MODEL and TASK")
    decided = (top_k, threshold, abstain_below) != (None, None, None)
    if every:
        if shards or shard is not None or engine == "ray":
            raise click.UsageError("--shards, --shard and --engine ray are for one task, not for --every")
        if source or stdin_kind or workers or errors or columns or decided:
            options = "--input, --format, --workers, --errors, --text, --top-k, --threshold and --abstain-below"
            raise click.UsageError(f"{options} are for one task, not for --every")
        if leaderboard and prefix:
            raise click.UsageError("--prefix does not go with --leaderboard, whose headings are fixed")
        if output is None:
            raise click.UsageError("--every needs --output, a folder")
        given = [*every, *([task] if task else []), *texts]  # what follows the first TASK=FILE without an option
        _predict_every(
            model,
            given,
            Path(output),
            inner_engine(engine),
            leaderboard=leaderboard,
            encoding=encoding,
            prefix=prefix,
            safe_csv=safe_csv,
            resume=resume,
            as_json=as_json,
        )
        return
    if leaderboard:
        raise click.UsageError("--leaderboard goes with --every")
    if task is None:
        raise click.UsageError("give TASK, or --every TASK=FILE")
    if bool(texts) == bool(source):
        raise click.UsageError("give TEXT (two for a pair), or --input FILE")
    if texts and (
        output or stdin_kind or workers or resume or errors or columns or encoding != "utf-8" or prefix or safe_csv
    ):
        options = "--output, --format, --workers, --resume, --errors, --text, --encoding, --prefix and --safe-csv"
        raise click.UsageError(f"{options} go with --input, not with TEXT")
    if texts and (shards or shard is not None or engine == "ray"):
        raise click.UsageError("--shards, --shard and --engine ray go with --input, not with TEXT")
    from plait.inference.decision import Decision
    from plait.inference.predictor import load
    from plait.model.directory.record import open_directory

    decision = Decision(threshold, abstain_below, top_k)

    def make() -> "BatchMapper":
        from plait.inference.batch_mapper import BatchMapper

        open_directory(model)  # a task needs a plait model: refuse a plain encoder, or a wrong path
        processes = workers if workers and engine != "ray" else 0
        predictor = load(model, engine=inner_engine(engine), workers=processes, log=log)
        return BatchMapper(predictor, task, text=list(columns), **asdict(decision), prefix=prefix)

    if source and is_sharded(source, output, shards, shard, engine):
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
    if source:
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
        return
    open_directory(model)
    quick = inner_engine(engine)
    predictor = load(model, engine="torch" if quick == "auto" else quick)  # measuring is not worth it for one text
    _predict_text(predictor, task, texts, decision, as_json=as_json)


def check_texts(spec: "TaskSpec", texts: tuple[str, ...]) -> None:
    """Refuse empty texts, and more or fewer than the task reads."""
    from plait.errors import RequestError

    if any(not text.strip() for text in texts):
        raise RequestError("TEXT is empty")
    if len(texts) != len(spec.text):
        needed = ("one text", "two texts", "three texts")[len(spec.text) - 1]
        raise RequestError(f"the task {spec.name!r} reads {needed}, {len(texts)} given; quote each text")


def _predict_text(
    predictor: "Predictor", task: str, texts: tuple[str, ...], decision: "Decision", *, as_json: bool
) -> None:
    """Print the prediction for one text, pair or triplet."""
    from plait.cli.display import print_json
    from plait.inference.predictions import Predictions

    spec = predictor.task(task)
    decision = decision.for_task(spec)
    decision.check(spec)
    check_texts(spec, texts)
    predicted = predictor.predict_columns(task, [[text] for text in texts])
    (prediction,) = Predictions(spec, predicted.predictions, decision=decision)
    if as_json:
        print_json({**asdict(prediction), "truncated": bool(predicted.truncated)})
        return
    if predicted.truncated:
        which = "the input was" if predicted.inputs == 1 else f"{predicted.truncated} of {predicted.inputs} inputs were"
        click.echo(f"{which} truncated to {predictor.limit(task)} tokens", err=True)
    if prediction.probabilities is None:
        click.echo(f"{prediction.score:.2f}   (from {spec.labels.low:g} to {spec.labels.high:g})")
        return
    shares = sorted(prediction.probabilities.items(), key=lambda share: -share[1])[: decision.top_k or _SHOWN_CLASSES]
    others = "  ".join(f"{name} {share:.2f}" for name, share in shares)
    if more := len(spec.labels.names) - len(shares):
        others += f"  … and {more:,} more"
    if prediction.abstained:
        label = f"no prediction, its probability would be below {decision.abstain_below:g}"
    else:
        label = prediction.label if isinstance(prediction.label, str) else ", ".join(prediction.label or ()) or "none"
    click.echo(f"{label}   ({others})")


def _predict_every(
    model: str,
    assignments: list[str],
    folder: Path,
    engine: "EngineName",
    *,
    leaderboard: bool,
    encoding: str,
    prefix: str,
    safe_csv: bool,
    resume: bool,
    as_json: bool,
) -> None:
    """Predict for every TASK=FILE into a folder; all mistakes are reported before the first one begins."""
    from functools import partial

    from plait.data.read import FORMAT_NAMES, format_of
    from plait.errors import DataError, RequestError
    from plait.inference.jobs import predict_job
    from plait.inference.leaderboard import leaderboard_file, leaderboard_job
    from plait.inference.predictor import load
    from plait.inference.resumable import ResumableOutput
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
        jobs[place] = job = replace(job, encoding=encoding, prefix=prefix, safe_csv=safe_csv)
        written = (place, place.with_name(f"{place.name}.errors.jsonl"))
        mistakes += [
            f"--output {folder}: its file {path.name} is an input; choose another folder"
            for path in written
            if path.resolve() in read
        ]
        try:
            job.open(source, "leaderboard" if leaderboard else place.suffix[1:])
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
            _KINDS,
            stdin_kind=None,
            resume=begun[place],
            errors=None,
            encoding=encoding,
            prefix=prefix,
            safe_csv=safe_csv,
            as_json=as_json,
            kind="leaderboard" if leaderboard else None,
        )
