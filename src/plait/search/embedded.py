"""The texts of a file with their embeddings, and results written beside its rows.

n texts, D width.
"""

import tempfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from plait.data.frames import is_table, write_table
from plait.data.read import open_table
from plait.errors import RequestError
from plait.inference.jobs import ChunkResult, Job
from plait.inference.predictor import Predictor
from plait.inference.stream import Done, output_kind, run_job
from plait.progress import Progress
from plait.search.build import default_text_column, unit_job

__all__ = ["EmbeddedTexts", "check_files", "embed_source", "write_results"]

_OUTPUT_KINDS = ("csv", "jsonl", "parquet")


def check_files(source: str, out: Path | None) -> None:
    """Refuse a file that is not there, and an output that could not be written."""
    if not Path(source).is_file():
        raise RequestError(f"{source}: {'a folder; give one file' if Path(source).is_dir() else 'no such file'}")
    if out is None:
        return
    output_kind(str(out), _OUTPUT_KINDS, "--out")
    if not out.resolve().parent.is_dir():
        raise RequestError(f"--out {out}: its folder does not exist")
    if out.resolve() == Path(source).resolve():
        raise RequestError(f"--out {out}: is the input itself; choose another name")


@dataclass(frozen=True)
class EmbeddedTexts:
    """The good rows of a file or table."""

    file: Path
    job: Job  # that embedded it
    texts: list[str]
    rows: np.ndarray  # the number of each row in the file, from 0
    vectors_nD: np.ndarray  # unit vectors
    bad: int


@contextmanager
def embed_source(
    predictor: Predictor, source: Any, column: str | None, encoding: str, progress: Progress
) -> Iterator[EmbeddedTexts]:
    """Embed a file, a table or a list of texts; the vectors are in a temporary file that is memory-mapped."""
    with tempfile.TemporaryDirectory(prefix="plait-") as place:
        folder = Path(place)
        file, column = _as_file(source, folder, column or default_text_column(predictor))
        job = replace(unit_job(predictor, column), encoding=encoding)
        done = run_job(job, str(file), str(folder / "vectors.npy"), "npy", progress, errors=folder / "bad.jsonl")
        if not done.rows - done.bad:
            raise RequestError(f"{file}: has no row with a text")
        if done.bad:
            progress.note(f"bad rows that were left out: {done.bad:,}; plait embed lists them")
        vectors_nD = np.load(folder / "vectors.npy", mmap_mode="r")
        (rows,) = np.nonzero(~np.isnan(vectors_nD[:, 0]))
        records = open_table(file, encoding=encoding).records
        is_good = np.zeros(len(vectors_nD), bool)
        is_good[rows] = True
        texts = [one.values[column] for one, good in zip(records, is_good, strict=True) if good]
        yield EmbeddedTexts(file, job, texts, rows, vectors_nD[rows] if done.bad else vectors_nD, done.bad)


def _as_file(source: Any, folder: Path, column: str) -> tuple[Path, str]:
    if isinstance(source, str | Path):
        check_files(str(source), None)
        return Path(source), column
    listed = source if is_table(source) else list(source)
    if not is_table(listed):
        listed, column = [{"text": text} for text in listed], "text"
    write_table(listed, folder / "texts.jsonl", "the texts")
    return folder / "texts.jsonl", column


def write_results(
    embedded: EmbeddedTexts,
    output: str | Path,
    added: Mapping[str, str],
    cells: Sequence[Sequence[object]],
    shown: Progress,
) -> Done:
    """Write the rows of the file with added columns; `cells` are those of the good rows."""
    kind = output_kind(str(output), _OUTPUT_KINDS, "--out")
    left: Iterable[Sequence[object]] = iter(cells)

    def work(texts: list[list[str]]) -> ChunkResult:
        return ChunkResult([next(left) for _ in texts[0]], None, 0, 0)  # type: ignore[call-overload]

    job = replace(embedded.job, what="writing", added=added, width=None, work=work)
    return run_job(job, str(embedded.file), str(output), kind, shown)
