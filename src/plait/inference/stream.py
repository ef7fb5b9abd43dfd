"""Predictions and embeddings for every row of a file of any size: in flat memory, in order, one row out for each in."""

import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from plait import __version__
from plait.data.examples import text_problem
from plait.data.parquet import pyarrow_or_error
from plait.data.read import SHOWN, row_problem
from plait.data.records import Record
from plait.data.write import json_line
from plait.errors import RequestError
from plait.inference.inputs import Input, fingerprint, open_input
from plait.inference.parts import Parts
from plait.inference.predictor import Prediction, Predictor
from plait.inference.writers import WRITERS, Chunk, Header
from plait.model.tasks import TaskSpec
from plait.model.watch import Watcher

__all__ = ["Done", "Job", "embed_job", "output_kind", "predict_job", "run_job"]

ROWS = 2048  # in one chunk; texts of like length in it are encoded together
CHARACTERS = 2_000_000  # of text in one chunk
ROWS_OF_PIPE = 256  # so that the reader of a pipe does not wait long

Added = Sequence[Sequence[object]]
Texts = list[list[str]]  # by column
Results = tuple[Header, Chunk, list[dict[str, object]]]


@dataclass(frozen=True)
class Job:
    """What is done with each chunk of rows."""

    what: str
    identity: str  # of the model and the task, so that two halves of an output come from one
    text: tuple[str, ...]  # columns that it reads
    added: Mapping[str, str]  # columns that it writes, with their types
    width: int | None  # of the vectors that it writes
    quoting: str | None
    work: Callable[[Texts], tuple[Added, np.ndarray | None]]
    limit: int  # tokens at which inputs are cut
    count_cut: Callable[[Texts], tuple[int, int]]  # inputs, and those of them that are cut
    needs: tuple[str, ...] = ()  # other columns that the input must have
    engine: str = "torch"  # what embeds; another one gives other last bits

    @property
    def concerns(self) -> tuple[str, ...]:
        """The columns of an input that matter: those that it reads, and those whose names it would take."""
        return (*self.text, *self.needs, *self.added, "embedding")


@dataclass(frozen=True)
class Done:
    """What became of a file."""

    rows: int
    bad: int
    errors: Path | None  # where the bad rows are listed


def predict_job(predictor: Predictor, spec: TaskSpec, columns: Sequence[str], identity: str) -> Job:
    """A task's prediction for each row."""
    if len(columns) != len(spec.text):
        raise RequestError(f"the task {spec.name!r} reads {len(spec.text)} text columns, {len(columns)} given")
    names = () if spec.labels.kind == "score" else spec.labels.names
    label = {"label": "texts" if spec.labels.kind == "several" else "text"} if names else {}
    added = {**label, "score": "number", **{f"p({name})": "number" for name in names}}

    def work(texts: Texts) -> tuple[Added, None]:
        examples: Any = texts[0] if len(texts) == 1 else list(zip(*texts, strict=True))
        return [cells(prediction, names) for prediction in predictor.predict(spec.name, examples)], None

    return Job(
        f"predicting {spec.name}",
        f"{identity} {spec.name}",
        tuple(columns),
        added,
        None,
        spec.quoting,
        work,
        predictor.limit(spec.name),
        lambda texts: predictor.count_cut(texts, spec.name),
        engine=predictor.engine,
    )


def embed_job(predictor: Predictor, column: str, identity: str) -> Job:
    """The embedding of each row."""

    def work(texts: Texts) -> tuple[Added, np.ndarray]:
        return [()] * len(texts[0]), predictor.embed(texts[0])

    facts = predictor.limit(), predictor.count_cut
    return Job("embedding", identity, (column,), {}, predictor.width, None, work, *facts, engine=predictor.engine)


def cells(prediction: Prediction, names: Sequence[str]) -> list[object]:
    """The columns of one prediction."""
    if prediction.probabilities is None:
        return [prediction.score]
    return [prediction.label, prediction.score, *(prediction.probabilities[name] for name in names)]


def output_kind(path: str, allowed: Sequence[str]) -> str:
    """The kind of file that the name of an output asks for."""
    kind = Path(path).suffix.removeprefix(".").lower()
    if kind not in allowed:
        raise RequestError(f"--output {path}: unknown kind of file; give {' or '.join('.' + name for name in allowed)}")
    return kind


def run_job(
    job: Job,
    source: str,
    output: str,
    kind: str | None,
    watcher: Watcher,
    *,
    stdin_kind: str | None = None,
    resume: bool = False,
    errors: Path | None = None,
) -> Done:
    """Work through a file, or through `-`, the standard input; write a file that appears whole, or to `-` as it comes.

    A bad row gets an empty result and a line in the file of errors. Without a kind, the output is csv or jsonl as the
    input is.
    """
    place = None if output == "-" else Path(output)
    listed = errors or (place and place.with_name(f"{place.name}.errors.jsonl"))
    check_places(source, place, listed)
    if kind == "parquet":
        pyarrow_or_error(output)  # now, and not after the first rows
    given = open_input(
        source,
        (*job.text, *job.needs),
        quoting=job.quoting,
        pipe_kind=stdin_kind,
        keep_in=place and place.parent,
        ends=() if kind in ("csv", "parquet") else job.concerns,
    )
    kind = kind or ("csv" if given.kind in ("csv", "tsv") else "jsonl")
    stream = Stream(job, given, watcher)
    if place is None or listed is None:
        return to_stdout(stream, kind, errors)
    request = {
        "model or task": job.identity,
        "text columns": list(job.text),
        "input": fingerprint(source),
        "engine": job.engine,
        "version of plait": __version__,
    }
    parts = Parts(place)
    with parts.open(request, resume=resume):
        watcher.begin(job.what, given.rows, parts.done("rows"))
        if parts.parts:
            watcher.note(f"going on after row {parts.done('rows'):,}")
        for header, chunk, bad in stream.chunks(ROWS, parts.done("rows")):
            found = b"".join(map(json_line, bad))
            parts.add(WRITERS[kind].part(chunk, header), found, rows=len(chunk.added), bad=len(bad))
        watcher.end()
        stream.tell()
        parts.finish(WRITERS[kind], stream.header, listed)
    bad_rows = parts.done("bad")
    return Done(parts.done("rows"), bad_rows, listed if bad_rows else None)


def check_places(source: str, output: Path | None, errors: Path | None) -> None:
    """Refuse to write where nothing can be written, or over what is still needed."""
    used = {} if source == "-" else {Path(source).resolve(): "the input"}
    for option, path in (("--output", output), ("--errors", errors)):
        if path is None:
            continue
        if not path.resolve().parent.is_dir():
            raise RequestError(f"{option} {path}: its folder does not exist")
        if path.is_dir() or (output and path.exists() and not path.is_file()):
            raise RequestError(f"{option} {path}: is not a plain file; choose another name")
        if path.resolve() in used:
            raise RequestError(f"{option} {path}: is {used[path.resolve()]} itself; choose another name")
        used[path.resolve()] = "the output"


def to_stdout(stream: "Stream", kind: str, errors: Path | None) -> Done:
    """Write rows as they come; the first bad ones are told on the standard error, unless a file is given for them."""
    rows = count = 0
    out, writer, watcher = sys.stdout.buffer, WRITERS[kind], stream.watcher
    listed = errors.open("wb") if errors else None
    watcher.begin(stream.job.what, stream.given.rows)
    try:
        out.write(writer.first(stream.header))
        for header, chunk, bad in stream.chunks(ROWS_OF_PIPE):
            out.write(writer.part(chunk, header))
            out.flush()
            if listed:
                listed.write(b"".join(map(json_line, bad)))
            else:
                for row in bad[: max(0, SHOWN - count)]:
                    watcher.note(f"{row['where']}: {row['problem']}")
            rows += len(chunk.added)
            count += len(bad)
        out.flush()
    finally:
        if listed:
            listed.close()
    watcher.end()
    if count > SHOWN and not listed:
        watcher.note(f"... and {count - SHOWN:,} more bad rows; --errors FILE lists them all")
    stream.tell()
    return Done(rows, count, errors if count else None)


class Stream:
    """The rows of an input, chunk by chunk, with what a job makes of them."""

    def __init__(self, job: Job, given: Input, watcher: Watcher) -> None:
        self.job = job
        self.given = given
        self.watcher = watcher
        self.header = Header(given.columns, job.added, job.width)
        self.inputs = self.cut = 0

    def chunks(self, size: int, skip: int = 0) -> Iterator[Results]:
        """Each chunk with its results and its bad rows; the first `skip` rows were done before."""
        for records in grouped(self.given.records, size, skip):
            if self.given.grows:
                names = {name for record in records for name in record.values if name.endswith(self.job.concerns)}
                self.header = replace(self.header, passed={**self.header.passed, **dict.fromkeys(names, "text")})
            yield self.header, *self.results(records)
            self.watcher.advance(len(records))

    def results(self, records: Sequence[Record]) -> tuple[Chunk, list[dict[str, object]]]:
        """What the job makes of some rows."""
        problems = [self.problem(record) for record in records]
        good = [number for number, problem in enumerate(problems) if problem is None]
        texts = [[records[number].values[column] for number in good] for column in self.job.text]
        made, vectors = self.job.work(texts) if good else ([], None)
        inputs, cut = self.job.count_cut(texts) if good else (0, 0)
        self.inputs, self.cut = self.inputs + inputs, self.cut + cut
        added: list[Sequence[object] | None] = [None] * len(records)
        for number, result in zip(good, made, strict=True):
            added[number] = result
        vectors_nD = None
        if self.job.width is not None:
            vectors_nD = np.full((len(records), self.job.width), np.nan, dtype=np.float32)
            if vectors is not None:
                vectors_nD[good] = vectors
        bad: list[dict[str, object]] = [
            {"where": f"{self.given.name}:{record.line}", "problem": problem, "row": record.values or record.raw}
            for record, problem in zip(records, problems, strict=True)
            if problem
        ]
        return Chunk([record.cells or record.values for record in records], added, vectors_nD), bad

    def problem(self, record: Record) -> str | None:
        """Why a row can have no result."""
        if found := record.problem or row_problem(record, (*self.job.text, *self.job.needs), ()):
            return found
        return next(filter(None, (text_problem(column, record.values[column]) for column in self.job.text)), None)

    def tell(self) -> None:
        """What a user should know at the end."""
        if self.cut:
            self.watcher.note(f"{self.cut:,} of {self.inputs:,} inputs were cut at {self.job.limit} tokens")


def grouped(records: Iterator[Record], size: int, skip: int) -> Iterator[list[Record]]:
    """Rows in chunks of a size, smaller where the texts are long."""
    chunk: list[Record] = []
    characters = 0
    for number, record in enumerate(records):
        if number < skip:
            continue
        chunk.append(record)
        characters += len(record.raw) + sum(map(len, record.values.values()))
        if len(chunk) == size or characters >= CHARACTERS:
            yield chunk
            chunk, characters = [], 0
    if chunk:
        yield chunk
