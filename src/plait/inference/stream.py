"""Predictions and embeddings for every row of a file of any size: constant memory, in order, one row out per row in."""

import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from plait import __version__
from plait.data.read import SHOWN
from plait.data.readers.lines import NOT_UTF8
from plait.data.readers.parquet import pyarrow_or_error
from plait.data.readers.records import Record
from plait.data.write import json_line
from plait.errors import RequestError
from plait.inference.inputs import Input, fingerprint
from plait.inference.jobs import Job, kind_like
from plait.inference.pipe import characters_of, pipe_chunks
from plait.inference.resumable import ResumableOutput
from plait.inference.writers import WRITERS, Chunk, Header
from plait.progress import Progress

__all__ = ["Done", "output_kind", "request_of", "run_job", "write_file"]

_CHUNK_ROWS = 2048  # texts of similar length in one chunk are encoded together
_CHUNK_CHARACTERS = 2_000_000
_PIPE_ROWS = 256  # at most in one chunk of a pipe, so that its reader does not wait long

_Results = tuple[Header, Chunk, list[dict[str, object]]]


@dataclass(frozen=True)
class Done:
    """The outcome of a job."""

    rows: int
    bad: int
    errors: Path | None  # where the bad rows are listed


def output_kind(path: str, allowed: Sequence[str], option: str = "--output") -> str:
    """The file format that the name of an output implies."""
    kind = Path(path).suffix.removeprefix(".").lower()
    if kind not in allowed:
        *firsts, last = (f".{name}" for name in allowed)
        raise RequestError(f"{option} {path}: unknown file format; use {', '.join(firsts)} or {last}")
    return kind


def run_job(
    job: Job,
    source: str,
    output: str,
    kind: str | None,
    progress: Progress,
    *,
    stdin_kind: str | None = None,
    resume: bool = False,
    errors: Path | None = None,
) -> Done:
    """Process a file, a folder, or `-` for standard input, into a file that appears atomically.

    The output `-` means standard output. A bad row gets an empty result and a line in the errors file. Without a kind,
    the output is csv or jsonl like the input.
    """
    place = None if output == "-" else Path(output)
    listed = errors or (place and place.with_name(f"{place.name}.errors.jsonl"))
    _check_places(source, place, listed)
    if kind == "parquet":
        pyarrow_or_error(output)  # fail now, not after the first rows
    given = job.open(source, kind, stdin_kind=stdin_kind, keep_in=place and place.parent, option="--text")
    kind = kind or kind_like(given)
    if place is None or listed is None:
        return _to_stdout(_Stream(job, given, progress), kind, errors)
    request = {**request_of(job), "input": fingerprint(source)}
    return write_file(job, given, ResumableOutput(place), listed, kind, request, progress, resume=resume)


def request_of(job: Job) -> dict[str, object]:
    """What must be the same for all parts of one output, beside the input."""
    request: dict[str, object] = {
        "model or task": job.identity,
        "text columns": list(job.text),
        "engine": job.engine,
        "version of plait": __version__,
    }
    options = {**asdict(job.decision), "encoding": job.encoding, "prefix": job.prefix, "safe_csv": job.safe_csv}
    return request | {f"option --{name.replace('_', '-')}": value for name, value in options.items()}


def write_file(
    job: Job,
    given: Input,
    output: ResumableOutput,
    errors: Path,
    kind: str,
    request: dict[str, object],
    progress: Progress,
    *,
    resume: bool,
    finished: Callable[[Done, Header], None] | None = None,
) -> Done:
    """Process an input into a file that can be resumed until `finished` has returned."""
    stream = _Stream(job, given, progress)
    with output.open(request, resume=resume):
        progress.begin(job.what, given.rows, output.done("rows"))
        if output.parts:
            progress.note(f"resuming after row {output.done('rows'):,}")
        before = output.done("abstained")
        records = _chunks(given.records, _CHUNK_ROWS, output.done("rows"))
        for header, chunk, bad in stream.results(records):
            found = b"".join(map(json_line, bad))
            abstained = before + stream.abstained - output.done("abstained")
            facts = {"rows": len(chunk.added), "bad": len(bad), "abstained": abstained}
            output.add(WRITERS[kind].part(chunk, header), found, **facts)
        progress.end()
        stream.report(output.done("rows") - output.done("bad"), output.done("abstained"))
        output.finish(WRITERS[kind], stream.header, errors)
        bad_rows = output.done("bad")
        done = Done(output.done("rows"), bad_rows, errors if bad_rows else None)
        if finished:
            finished(done, stream.header)
    return done


def _check_places(source: str, output: Path | None, errors: Path | None) -> None:
    """Refuse to write where nothing can be written, or over a file that is still needed."""
    used = {} if source == "-" else {Path(source).resolve(): "the input"}
    for option, path in (("--output", output), ("--errors", errors)):
        if path is None:
            continue
        if not path.resolve().parent.is_dir():
            raise RequestError(f"{option} {path}: its folder does not exist")
        if path.is_dir() or (output and path.exists() and not path.is_file()):
            raise RequestError(f"{option} {path}: not a regular file; choose another name")
        if source != "-" and Path(source).is_dir() and path.resolve().is_relative_to(Path(source).resolve()):
            raise RequestError(f"{option} {path}: lies in the input folder; choose another place")
        if path.resolve() in used:
            raise RequestError(f"{option} {path}: is {used[path.resolve()]} itself; choose another name")
        used[path.resolve()] = "the output"


def _to_stdout(stream: "_Stream", kind: str, errors: Path | None) -> Done:
    """Write rows as they come; the first bad ones are reported on standard error, unless a file is given for them."""
    rows = count = 0
    out, writer, progress, given = sys.stdout.buffer, WRITERS[kind], stream.progress, stream.given
    listed = errors.open("wb") if errors else None
    progress.begin(stream.job.what, given.rows)
    chunks = pipe_chunks(given.records, _PIPE_ROWS, _CHUNK_CHARACTERS) if given.is_pipe else None
    try:
        out.write(writer.first(stream.header))
        out.flush()
        for header, chunk, bad in stream.results(chunks or _chunks(given.records, _PIPE_ROWS)):
            out.write(writer.part(chunk, header))
            out.flush()
            if listed:
                listed.write(b"".join(map(json_line, bad)))
            else:
                for row in bad[: max(0, SHOWN - count)]:
                    progress.note(f"{row['where']}: {row['problem']}")
            rows += len(chunk.added)
            count += len(bad)
        out.flush()
    finally:
        if listed:
            listed.close()
    progress.end()
    if count > SHOWN and not listed:
        progress.note(f"... and {count - SHOWN:,} more bad rows; --errors FILE lists them all")
    stream.report(rows - count, stream.abstained)
    return Done(rows, count, errors if count else None)


class _Stream:
    """The rows of an input, chunk by chunk, with the results of a job."""

    def __init__(self, job: Job, given: Input, progress: Progress) -> None:
        self.job = job
        self.given = given
        self.progress = progress
        self.header = job.header(given.columns)
        self.inputs = self.truncated = self.abstained = self.not_utf8 = 0

    def results(self, chunks: Iterable[list[Record]]) -> Iterator[_Results]:
        """Each chunk with its results and bad rows."""
        for records in chunks:
            if self.given.grows:
                for record in records:
                    self.header.check("jsonl", f"{self.given.name}:{record.line}", record.values)
            yield self.header, *self._results(records)
            self.progress.advance(len(records))

    def _results(self, records: Sequence[Record]) -> tuple[Chunk, list[dict[str, object]]]:
        """The results for some rows."""
        found = self.job.answer(records)
        self.inputs += found.inputs
        self.truncated += found.truncated
        self.abstained += found.abstained
        self.not_utf8 += sum(problem is not None and problem.startswith(NOT_UTF8) for problem in found.problems)
        bad: list[dict[str, object]] = [
            {
                "where": f"{record.file or self.given.name}:{record.line}",
                "problem": problem,
                "row": record.values or record.raw,
            }
            for record, problem in zip(records, found.problems, strict=True)
            if problem
        ]
        return Chunk([record.cells or record.values for record in records], found.added, found.vectors_nD), bad

    def report(self, answered: int, abstained: int) -> None:
        """What a user should know about the results."""
        if self.truncated:
            counts = f"{self.truncated:,} of {self.inputs:,} inputs"
            self.progress.note(f"{counts} were truncated to {self.job.limit} tokens")
        below = self.job.decision.abstain_below
        if below is not None:
            counts = f"{abstained:,} of {answered:,} rows"
            self.progress.note(f"{counts} have no prediction: its probability would be below {below:g}")
        if self.not_utf8:
            rows = "1 row is" if self.not_utf8 == 1 else f"{self.not_utf8:,} rows are"
            self.progress.note(f"{rows} not UTF-8; if the input is latin-1, use --encoding latin-1")


def _chunks(records: Iterator[Record], size: int, skip: int = 0) -> Iterator[list[Record]]:
    """Rows in chunks of at most `size`, smaller if the texts are long; the first `skip` rows were done before."""
    chunk: list[Record] = []
    characters = 0
    for number, record in enumerate(records):
        if number < skip:
            continue
        chunk.append(record)
        characters += characters_of(record)
        if len(chunk) == size or characters >= _CHUNK_CHARACTERS:
            yield chunk
            chunk, characters = [], 0
    if chunk:
        yield chunk
