"""A corpus → an index: texts are embedded as `plait embed` does, chunk by chunk, and an interrupted build resumes."""

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, replace
from pathlib import Path
from shutil import rmtree
from typing import Any

import numpy as np

from plait.data.examples import text_problem
from plait.data.frames import is_table, write_table
from plait.data.read import open_table, row_problem
from plait.data.readers.records import Record
from plait.data.write import json_line
from plait.errors import DataError, RequestError
from plait.files import read_json, write_json
from plait.inference.cosines import unit_vectors
from plait.inference.inputs import fingerprint
from plait.inference.jobs import ChunkResult, Job, embed_job
from plait.inference.predictor import Predictor, load
from plait.inference.stream import run_job
from plait.model.directory.load import EngineName
from plait.progress import Progress, SilentProgress
from plait.search.approximate import faiss_or_error
from plait.search.index import Index, changing
from plait.search.record import IndexRecord, SegmentRecord, is_index
from plait.search.segment import VECTORS_FILE, IdRow, Segment, write_segment

__all__ = ["BAD_ROWS_FILE", "KINDS_OF_INDEX", "add_corpus", "default_text_column", "index", "unit_job"]

KINDS_OF_INDEX = ("auto", "exact", "faiss")
BAD_ROWS_FILE = "bad-rows.jsonl"  # of the corpus that was indexed last
_CORPUS = "corpus.json"  # in the folder of an unfinished segment


def index(
    model: str | Path | Predictor,
    corpus: Any,
    out: str | Path,
    *,
    text: str | None = None,
    id: str | None = None,
    kind: str = "auto",
    engine: EngineName = "auto",
    workers: int = 0,
    encoding: str = "utf-8",
    resume: bool = False,
    progress: Progress | None = None,
) -> Index:
    """Embed a corpus, a file or a table, and write its index to a new folder.

    `text` is the column to embed, by default that of training. `id` is the column by which rows are replaced and
    deleted; without one, rows are numbered from 0. `kind` is `exact`, `faiss` (approximate), or `auto`: faiss from
    200,000 rows on, if it is installed.
    """
    if kind not in KINDS_OF_INDEX:
        raise RequestError(f"the argument `kind`: expected {', '.join(KINDS_OF_INDEX)}, found {kind!r}")
    if kind == "faiss":
        faiss_or_error()  # fail now, not after the last row
    folder = Path(out)
    if is_index(folder):
        raise RequestError(f"{folder}: is an index already; add to it, or choose another `out`")
    if resume and not (folder / "000001" / _CORPUS).is_file():
        raise RequestError(f"{folder}: there is nothing to resume; drop --resume")
    if folder.exists() and not (folder.is_dir() and all(_is_ours(path) for path in folder.iterdir())):
        raise RequestError(f"{folder}: holds other files; choose another `out`")
    predictor = model if isinstance(model, Predictor) else load(model, engine=engine, workers=workers)
    source = str(predictor.folder.resolve())
    column = text or default_text_column(predictor)
    record = IndexRecord(source, predictor.identity, predictor.engine, predictor.width, column, id, kind)
    shown = progress or SilentProgress()
    is_new = not folder.exists()
    folder.mkdir(parents=True, exist_ok=True)
    with changing(folder):
        try:
            with _as_file(corpus, folder) as path:
                made, _ = _write_corpus(folder, record, predictor, path, resume=resume, encoding=encoding, shown=shown)
        except (DataError, RequestError):
            if is_new and not any(path.is_dir() for path in folder.iterdir()):
                rmtree(folder)
            raise
        made.save(folder)
    (folder / made.segments[0].name / _CORPUS).unlink()
    return Index(folder, model=predictor)


def default_text_column(predictor: Predictor) -> str:
    """The first text column of the model's first task, or `text`."""
    return next((spec.text[0] for spec in predictor.tasks.values()), "text")


def add_corpus(of: Index, corpus: Any, *, resume: bool, encoding: str, progress: Progress) -> int:
    """Add the rows of a corpus to an index; those whose id is there already replace the old ones."""
    folder, predictor = of.folder, of.model
    with changing(folder):
        of.reopen()
        begun = folder / f"{of.record.next_segment:06d}" / _CORPUS
        if resume and not begun.is_file():
            raise RequestError(f"{folder}: there is nothing to resume; drop --resume")
        with _as_file(corpus, folder) as path:
            record, new = _write_corpus(
                folder, of.record, predictor, path, resume=resume, encoding=encoding, shown=progress
            )
        if of.record.id is not None:
            names = [name for name, _ in Segment(folder / new.name, new).rows() if name is not None]
            old = [one.without(one.find(names)) for one in of.segments]
            record = replace(record, segments=(*old, new))
        of.commit(record, progress)
    return new.live


@contextmanager
def _as_file(corpus: Any, folder: Path) -> Iterator[Path]:
    """The corpus as a file; a table is written to one, which is deleted at the end."""
    if not is_table(corpus):
        if not isinstance(corpus, str | Path):
            raise RequestError(f"the argument `corpus`: expected a file or a table, found {type(corpus).__name__}")
        path = Path(corpus)
        if not path.is_file():
            what = "a folder; give one file" if path.is_dir() else "no such file"
            raise RequestError(f"{path}: {what}")
        yield path
        return
    with tempfile.TemporaryDirectory(dir=folder.parent, prefix=".corpus-") as place:
        path = Path(place) / "corpus.jsonl"
        write_table(corpus, path, "the corpus")
        yield path


def _write_corpus(
    folder: Path,
    record: IndexRecord,
    predictor: Predictor,
    corpus: Path,
    *,
    resume: bool,
    encoding: str,
    shown: Progress,
) -> tuple[IndexRecord, SegmentRecord]:
    """Write the segment of a corpus; the record names it, but is not saved."""
    place = folder / f"{record.next_segment:06d}"
    job = replace(unit_job(predictor, record.text), needs=(record.id,) if record.id else (), encoding=encoding)
    request = {
        **{key: value for key, value in asdict(record).items() if key != "segments"},
        "corpus": fingerprint(str(corpus)),
        "encoding": encoding,
    }
    if not resume:
        rmtree(place, ignore_errors=True)
        job.open(str(corpus), "npy", option="--text")  # a missing column is found before anything is written
        place.mkdir()
        write_json(place / _CORPUS, request)
    elif changed := [key for key, value in read_json(place / _CORPUS).items() if request[key] != value]:
        raise RequestError(
            f"{folder}: its {', '.join(changed)} changed since it was begun; start again without --resume"
        )
    errors = folder / BAD_ROWS_FILE
    vectors = place / VECTORS_FILE
    if not vectors.is_file():
        has_parts = (place / f".{VECTORS_FILE}.parts" / "journal.jsonl").is_file()
        run_job(job, str(corpus), str(vectors), "npy", shown, resume=resume and has_parts, errors=errors)
    count = len(np.load(vectors, mmap_mode="r"))
    if not count:
        rmtree(place)
        raise DataError(f"{corpus}: has no rows; there is nothing to index")
    numbered = _Numbered(record, corpus, encoding, errors)
    new = write_segment(place, numbered.rows(), record.kind, shown)
    if new.rows != count:
        raise RequestError(f"{corpus}: changed while it was indexed; start again")
    if numbered.bad:
        shown.note(f"bad rows that were left out: {numbered.bad:,}, listed in {errors}")
    if repeats := new.deleted - numbered.bad:
        shown.note(f"rows that repeat an id, of which only the last was indexed: {repeats:,}")
    changed_record = replace(
        record,
        next_segment=record.next_segment + 1,
        next_number=record.next_number + (0 if record.id else count),
        segments=(*record.segments, new),
    )
    return changed_record, new


class _Numbered:
    """The rows of a corpus with their ids; bad ones have none."""

    def __init__(self, record: IndexRecord, corpus: Path, encoding: str, errors: Path) -> None:
        self.record, self.corpus, self.encoding, self.errors = record, corpus, encoding, errors
        self.bad = 0

    def rows(self) -> Iterator[IdRow]:
        for number, one in enumerate(open_table(self.corpus, encoding=self.encoding).records):
            if self._is_bad(one):
                self.bad += 1
                yield None, {}
            else:
                row = dict(one.cells or one.values)
                name = str(self.record.next_number + number) if self.record.id is None else one.values[self.record.id]
                yield name, row

    def _is_bad(self, one: Record) -> bool:
        columns = (self.record.text, *([self.record.id] if self.record.id else []))
        if one.problem or row_problem(one, columns, ()):
            return True
        if text_problem([self.record.text], [one.values[self.record.text]]):
            return True
        if self.record.id and not one.values[self.record.id].strip():
            with self.errors.open("ab") as file:
                problem = f"column {self.record.id!r} is empty; expected an id"
                where = f"{self.corpus.name}:{one.line}"
                file.write(json_line({"where": where, "problem": problem, "row": one.values}))
            return True
        return False


def unit_job(predictor: Predictor, column: str) -> Job:
    """The embedding of each row as a unit vector."""
    job = embed_job(predictor, column)

    def work(texts: list[list[str]]) -> ChunkResult:
        found = job.work(texts)
        assert found.vectors_nD is not None, "it embeds"
        return found._replace(vectors_nD=unit_vectors(found.vectors_nD))

    return replace(job, work=work)


def _is_ours(path: Path) -> bool:
    """Whether a file belongs to a build that was interrupted."""
    return path.name in (".lock", BAD_ROWS_FILE) or (path / _CORPUS).is_file()
