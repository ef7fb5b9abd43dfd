"""A job without a model, whose results can be checked by hand, and how to run it."""

from pathlib import Path

import numpy as np

from plait.inference.jobs import ChunkResult, Job
from plait.inference.stream import Done, run_job
from plait.progress import SilentProgress
from streaming import read_rows


class Notes(SilentProgress):
    """Collects the notes of a run."""

    def __init__(self) -> None:
        self.messages: list[str] = []

    def note(self, message: str) -> None:
        self.messages.append(message)


def counting(*text: str, identity: str = "model", width: int | None = None) -> Job:
    """The label is the first letter of the first text, the score the number of letters; with a width, vectors."""

    def work(texts: list[list[str]]) -> ChunkResult:
        rows = list(zip(*texts, strict=True))
        if width:
            vectors_nD = np.array([[len(row[0])] * width for row in rows], np.float32)
            return ChunkResult([()] * len(rows), vectors_nD, len(rows), 0)
        return ChunkResult([(row[0][:1], float(sum(map(len, row)))) for row in rows], None, len(rows), 0)

    added = {} if width else {"label": "text", "score": "number"}
    return Job("counting", identity, text or ("sentence",), added, width, None, work, limit=9)


def run(job: Job, source: Path, output: Path, *, progress: SilentProgress | None = None, **options) -> Done:
    """Run a job from file to file."""
    return run_job(job, str(source), str(output), output.suffix[1:], progress or SilentProgress(), **options)


def errors_of(output: Path) -> list[dict]:
    """The bad rows that were listed beside an output."""
    return read_rows(output.with_name(f"{output.name}.errors.jsonl"))
