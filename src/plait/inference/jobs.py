"""What is computed for each chunk of rows of a file: a task's predictions, or embeddings."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from plait.data.examples import text_problem
from plait.data.read import row_problem
from plait.data.readers.records import Record
from plait.errors import RequestError
from plait.inference.corpus import Shard
from plait.inference.decision import Decision
from plait.inference.inputs import Input, open_input
from plait.inference.predictions import Predictions
from plait.inference.predictor import Predictor
from plait.inference.writers import Header
from plait.model.headings import prediction_headings
from plait.model.tasks import TaskSpec

__all__ = ["Answers", "ChunkResult", "Job", "embed_job", "kind_like", "predict_job"]

_Texts = list[list[str]]  # by column


class ChunkResult(NamedTuple):
    """What a job computes for the rows of a chunk."""

    cells: Sequence[Sequence[object]]  # added columns, by row
    vectors_nD: np.ndarray | None
    inputs: int  # of the encoder
    truncated: int
    abstained: int = 0


class Answers(NamedTuple):
    """What a job computed for some rows."""

    added: list[Sequence[object] | None]  # cells by row; None for a bad row
    vectors_nD: np.ndarray | None  # NaN for a bad row
    problems: list[str | None]  # why a bad row has no result
    inputs: int
    truncated: int
    abstained: int


@dataclass(frozen=True)
class Job:
    """What is computed for each chunk of rows."""

    what: str
    identity: str  # of the model and the task, so that both halves of a resumed output come from the same
    text: tuple[str, ...]  # columns to read
    added: Mapping[str, str]  # columns to write, with their types
    width: int | None  # of the vectors to write
    quoting: str | None
    work: Callable[[_Texts], ChunkResult]
    limit: int  # tokens to which inputs are truncated
    needs: tuple[str, ...] = ()  # other columns that the input must have
    engine: str = "torch"  # what embeds; the last bits differ between engines
    decision: Decision = field(default_factory=Decision)
    prefix: str = ""  # before the names of the columns to write
    encoding: str = "utf-8"  # of the input
    safe_csv: bool = False  # whether csv cells that a spreadsheet would take for formulas are defused

    def header(self, passed: Mapping[str, Any]) -> Header:
        """The columns of the output."""
        added = {f"{self.prefix}{name}": kind for name, kind in self.added.items()}
        return Header(passed, added, self.width, self.prefix, self.safe_csv)

    def open(
        self,
        source: str,
        kind: str | None,
        *,
        stdin_kind: str | None = None,
        keep_in: Path | None = None,
        option: str = "",
        shard: Shard | None = None,
        survey: Path | None = None,
    ) -> Input:
        """The input; refused if it lacks a column, or already has one of the output, whose kind is None in a pipe.

        `option` is the one that names other text columns, if the command has it. `shard` and `survey` as in
        `open_input`.
        """
        written = self.header({})
        given = open_input(
            source,
            (*self.text, *self.needs),
            quoting=self.quoting,
            encoding=self.encoding,
            pipe_kind=stdin_kind,
            keep_in=keep_in,
            only=() if kind in ("csv", "parquet") else (*self.text, *self.needs, *written.columns("jsonl")),
            option=option,
            shard=shard,
            survey=survey,
        )
        written.check(kind or kind_like(given), source if source != "-" else given.name, given.columns)
        return given

    def answer(self, records: Sequence[Record]) -> Answers:
        """The results for some rows."""
        problems = [self._problem(record) for record in records]
        good = [number for number, problem in enumerate(problems) if problem is None]
        texts = [[records[number].values[column] for number in good] for column in self.text]
        done = self.work(texts) if good else ChunkResult([], None, 0, 0)
        added: list[Sequence[object] | None] = [None] * len(records)
        for number, result in zip(good, done.cells, strict=True):
            added[number] = result
        vectors_nD = None
        if self.width is not None:
            vectors_nD = np.full((len(records), self.width), np.nan, dtype=np.float32)
            if done.vectors_nD is not None:
                vectors_nD[good] = done.vectors_nD
        return Answers(added, vectors_nD, problems, done.inputs, done.truncated, done.abstained)

    def _problem(self, record: Record) -> str | None:
        """Why a row cannot have a result."""
        if found := record.problem or row_problem(record, (*self.text, *self.needs), ()):
            return found
        return text_problem(self.text, [record.values[column] for column in self.text])


def predict_job(predictor: Predictor, spec: TaskSpec, columns: Sequence[str], decision: Decision | None = None) -> Job:
    """A task's prediction for each row."""
    if len(columns) != len(spec.text):
        raise RequestError(f"the task {spec.name!r} reads {len(spec.text)} text columns, {len(columns)} given")
    decision = (decision or Decision()).for_task(spec)
    decision.check(spec)

    def work(texts: _Texts) -> ChunkResult:
        predicted = predictor.predict_columns(spec.name, texts)
        found = Predictions(spec, predicted.predictions, decision=decision)
        return ChunkResult(found.cells, None, predicted.inputs, predicted.truncated, int(found.abstained.sum()))

    return Job(
        f"predicting {spec.name}",
        f"{predictor.identity} {spec.name}",
        tuple(columns),
        prediction_headings(spec, decision.top_k),
        None,
        spec.quoting,
        work,
        predictor.limit(spec.name),
        engine=predictor.engine,
        decision=decision,
    )


def embed_job(predictor: Predictor, column: str) -> Job:
    """The embedding of each row."""

    def work(texts: _Texts) -> ChunkResult:
        embedded = predictor.embed_column(texts[0])
        return ChunkResult([()] * len(texts[0]), embedded.vectors_nD.numpy(), embedded.inputs, embedded.truncated)

    limit, engine = predictor.limit(), predictor.engine
    return Job("embedding", predictor.identity, (column,), {}, predictor.width, None, work, limit, engine=engine)


def kind_like(given: Input) -> str:
    """The format of an output that has no name: csv or jsonl like the input."""
    return "csv" if given.kind in ("csv", "tsv", "xlsx") else "jsonl"
