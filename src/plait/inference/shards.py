"""One shard of a corpus → one part in a folder, with a record beside it that says what the part holds.

The folder reads as one data set of parquet, in the order of the corpus: names with an underscore or dot hold no rows.
"""

import re
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from plait.data.read import format_of
from plait.data.readers.parquet import pyarrow_or_error
from plait.errors import DataError, RequestError
from plait.files import read_json, sha256_of, write_json
from plait.inference.corpus import Corpus, Shard, find_corpus
from plait.inference.inputs import Input
from plait.inference.jobs import Job
from plait.inference.resumable import ResumableOutput
from plait.inference.stream import Done, request_of, write_file
from plait.inference.writers import Header
from plait.progress import Progress

__all__ = [
    "PartRecord",
    "ShardOutput",
    "changed_facts",
    "check_shard",
    "divisions",
    "open_shard",
    "run_shard",
    "shard_request",
]

_NAME = re.compile(r"[._]?part-(\d{5,})-of-(\d{5,})\.parquet")
_ANOTHER_FOLDER = "choose another folder, or delete this one"


@dataclass(frozen=True)
class PartRecord:
    """`_part-00000-of-00004.parquet.json`: what a shard's part holds. It is written last."""

    request: dict[str, Any]  # the same for all shards
    rows: int
    bad: int
    size: int  # bytes
    sha256: str
    added: dict[str, str]  # new columns with their types, as in a Header
    width: int | None
    prefix: str
    format: int = 1

    @staticmethod
    def read(path: Path) -> "PartRecord | None":
        """None if there is no such file; a damaged one counts as none, so that its shard is processed again."""
        try:
            return PartRecord(**read_json(path))
        except (OSError, ValueError, TypeError):
            return None


class ShardOutput:
    """The files of one shard's output."""

    def __init__(self, folder: Path, shard: Shard) -> None:
        name = f"part-{shard.number:05d}-of-{shard.count:05d}.parquet"
        self.shard = shard
        self.path = folder / name
        self.record_path = folder / f"_{name}.json"
        self.errors = folder / f"_{name}.errors.jsonl"
        self.output = ResumableOutput(self.path, f"delete {folder}/.{name}.parts to begin the shard again")

    @property
    def record(self) -> PartRecord | None:
        """What it holds, if it is finished."""
        found = PartRecord.read(self.record_path)
        return found if found and self.path.is_file() and self.path.stat().st_size == found.size else None

    @property
    def rows_on_disk(self) -> int:
        """How many of its rows are done."""
        found = self.record
        return found.rows if found else self.output.rows_on_disk


def divisions(folder: Path) -> set[int]:
    """The numbers of shards of the parts in a folder, finished or not: one number unless they were mixed."""
    if not folder.is_dir():
        return set()
    names = (_NAME.match(path.name) for path in folder.iterdir())
    return {int(name[2]) for name in names if name}


def changed_facts(first: dict[str, Any], second: dict[str, Any]) -> str:
    """What differs between two requests: "model or task and the input"; "" if they are the same."""
    return " and the ".join(what for what in first | second if first.get(what) != second.get(what))


def check_shard(source: str, folder: Path, shard: Shard | None) -> None:
    """Refuse a shard that does not exist, or a folder that holds something else; no shard means that all are meant."""
    mistakes = []
    if shard and not 0 <= shard.number < shard.count:
        mistakes.append(f"--shard {shard.number}: with --shards {shard.count}, expected 0 to {shard.count - 1}")
    if folder.exists() and not folder.is_dir():
        mistakes.append(f"--output {folder}: is a file; shards need a folder")
    elif format_of(folder) or folder.suffix == ".npy":
        mistakes.append(f"--output {folder}: named like a file; shards need a folder, and --merge makes a file of them")
    if Path(source).is_dir() and folder.resolve().is_relative_to(Path(source).resolve()):
        mistakes.append(f"--output {folder}: lies in the input folder; choose another place")
    if Path(source).resolve().parent == folder.resolve():
        mistakes.append(f"--output {folder}: holds the input; choose another folder")
    if shard and (others := divisions(folder) - {shard.count}):
        what = f"holds parts of {min(others)} shards, not {shard.count}"
        mistakes.append(f"--output {folder}: {what}; {_ANOTHER_FOLDER}")
    if mistakes:
        raise RequestError(*mistakes)


def run_shard(job: Job, source: str, folder: Path, shard: Shard, progress: Progress) -> Done:
    """Process one shard of a file or folder into its part; what an earlier process finished is not repeated."""
    check_shard(source, folder, shard)
    pyarrow_or_error(folder)  # fail now, not after the first rows
    part = ShardOutput(folder, shard)
    corpus = find_corpus(Path(source))
    request = shard_request(job, corpus)
    if record := part.record:
        if changed := changed_facts(request, record.request):
            raise RequestError(f"{part.path}: the {changed} changed since it was written; {_ANOTHER_FOLDER}")
        part.output.discard()
        progress.note(f"shard {shard.number} of {shard.count} is already done")
        return Done(record.rows, record.bad, part.errors if record.bad else None)
    given = open_shard(job, source, folder, shard)

    def finished(done: Done, header: Header) -> None:
        facts = done.rows, done.bad, part.path.stat().st_size, sha256_of(part.path)
        written = PartRecord(request, *facts, dict(header.added), header.width, header.prefix)
        write_json(part.record_path, asdict(written))

    begun = part.output.is_begun
    local = {**request, "input": {**request["input"], "changed": corpus.changed}}
    return write_file(job, given, part.output, part.errors, "parquet", local, progress, resume=begun, finished=finished)


def shard_request(job: Job, corpus: Corpus) -> dict[str, Any]:
    """What all shards of one output have in common, on any machine."""
    return {**request_of(job), "input": {"files": len(corpus.files), "sha256": corpus.digest}}


def open_shard(job: Job, source: str, folder: Path, shard: Shard) -> Input:
    """The rows of a shard; the first shard to be opened leaves a note of the corpus in the folder."""
    is_new = not folder.exists()
    folder.mkdir(parents=True, exist_ok=True)
    try:
        return job.open(source, "parquet", option="--text", shard=shard, survey=folder / "_corpus.json")
    except DataError:
        if is_new:
            with suppress(OSError):  # another shard may use it by now
                folder.rmdir()
        raise
