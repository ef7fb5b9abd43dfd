"""The parts of all shards, checked, and written as one file in the order of the corpus."""

import json
import shutil
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from plait.data.readers.parquet import pyarrow_or_error, python_rows
from plait.errors import RequestError
from plait.files import atomic_file, sha256_of
from plait.inference.corpus import Shard
from plait.inference.shards import PartRecord, ShardOutput, changed_facts, divisions
from plait.inference.stream import Done
from plait.inference.writers import WRITERS, Chunk, Header
from plait.progress import Progress

__all__ = ["check_parts", "merge_parts"]

_ROWS = 2048  # read at a time


def check_parts(folder: Path, progress: Progress) -> list[tuple[ShardOutput, PartRecord]]:
    """The parts in a folder; every one that is missing, damaged or of another request is reported at once."""
    counts = sorted(divisions(folder))
    if len(counts) != 1:
        found = f"parts of {' and of '.join(map(str, counts))} shards; delete those of all but one" if counts else ""
        raise RequestError(f"{folder}: {found or 'no parts of shards; give the folder that --shards wrote to'}")
    parts = [ShardOutput(folder, Shard(number, counts[0])) for number in range(counts[0])]
    records = {part.shard.number: record for part in parts if (record := part.record)}
    mistakes = _missing(folder, [part for part in parts if part.shard.number not in records])
    mistakes += _mixed(folder, records)
    progress.begin("checking", len(parts))
    for part in parts:
        record = records.get(part.shard.number)
        if record and sha256_of(part.path) != record.sha256:
            mistakes.append(f"{part.path}: damaged; delete it, and run --shard {part.shard.number} again")
        progress.advance()
    progress.end()
    if mistakes:
        raise RequestError(*mistakes)
    return [(part, records[part.shard.number]) for part in parts]


def _missing(folder: Path, parts: Sequence[ShardOutput]) -> list[str]:
    """Which shards were not begun, and which were not finished."""
    mistakes = []
    for begun, what in ((False, "missing"), (True, "not finished")):
        numbers = [str(part.shard.number) for part in parts if part.output.is_begun == begun]
        if numbers:
            listed = f"{', '.join(numbers[:-1])} and {numbers[-1]}" if numbers[1:] else numbers[0]
            shards, are = ("shards", "are") if numbers[1:] else ("shard", "is")
            command = f"--shards {parts[0].shard.count} --shard {numbers[0] if not numbers[1:] else 'NUMBER'}"
            mistakes.append(f"{folder}: {shards} {listed} of {parts[0].shard.count} {are} {what}; run {command}")
    return mistakes


def _mixed(folder: Path, records: dict[int, PartRecord]) -> list[str]:
    """Which shards belong to another request than most of them."""
    if not records:
        return []
    requests = {number: json.dumps(record.request, sort_keys=True) for number, record in records.items()}
    usual = Counter(requests.values()).most_common(1)[0][0]
    first = next(number for number, request in requests.items() if request == usual)
    return [
        f"{folder}: shard {number} differs from shard {first} in the "
        f"{changed_facts(records[number].request, records[first].request)}; delete its part and run it again"
        for number, request in requests.items()
        if request != usual
    ]


def merge_parts(folder: Path, output: Path, kind: str, progress: Progress, *, safe_csv: bool = False) -> Done:
    """Check all parts and write their rows into one file, which appears atomically; memory does not grow with them."""
    if output.is_dir() or not output.resolve().parent.is_dir():
        what = "is a folder; give the name of a file" if output.is_dir() else "its folder does not exist"
        raise RequestError(f"--output {output}: {what}")
    parts = check_parts(folder, progress)
    record = parts[0][1]
    if kind == "npy" and record.width is None:
        raise RequestError(f"--output {output}: .npy holds embeddings only; use .parquet, .jsonl or .csv")
    rows, bad = (sum(getattr(found, what) for _, found in parts) for what in ("rows", "bad"))
    progress.begin("merging", rows)
    with atomic_file(output) as aside:
        if kind == "parquet":
            _merge_parquet([part.path for part, _ in parts], aside, progress)
        else:
            _merge_others([part.path for part, _ in parts], record, rows, kind, aside, progress, safe_csv)
    progress.end()
    errors = output.with_name(f"{output.name}.errors.jsonl")
    if not bad:
        errors.unlink(missing_ok=True)  # of an earlier output
        return Done(rows, 0, None)
    with atomic_file(errors) as aside, aside.open("wb") as file:
        for part, found in parts:
            if found.bad:
                with part.errors.open("rb") as listed:
                    shutil.copyfileobj(listed, file)
    return Done(rows, bad, errors)


def _merge_parquet(paths: Sequence[Path], output: Path, progress: Progress) -> None:
    """One row group after the other."""
    parquet = pyarrow_or_error(output)
    with parquet.ParquetWriter(output, parquet.read_schema(paths[0])) as writer:
        for path in paths:
            with parquet.ParquetFile(path) as file:
                for number in range(file.num_row_groups):
                    table = file.read_row_group(number)
                    writer.write_table(table)
                    progress.advance(len(table))


def _merge_others(
    paths: Sequence[Path],
    record: PartRecord,
    rows: int,
    kind: str,
    output: Path,
    progress: Progress,
    safe_csv: bool,
) -> None:
    """The rows of parquet in another format."""
    names = pyarrow_or_error(output).read_schema(paths[0]).names
    new = {*record.added, *([f"{record.prefix}embedding"] if record.width is not None else [])}
    passed = dict.fromkeys(name for name in names if name not in new)
    header = Header(passed, record.added, record.width, record.prefix, safe_csv)
    writer = WRITERS[kind]
    with output.open("wb") as file:
        file.write(writer.first(header, rows))
        for path in paths:
            for chunk in _chunks(path, header):
                file.write(writer.part(chunk, header))
                progress.advance(len(chunk.added))


def _chunks(path: Path, header: Header) -> Iterator[Chunk]:
    """The rows of a part as they were before they were written."""
    with pyarrow_or_error(path).ParquetFile(path) as file:
        for batch in file.iter_batches(batch_size=_ROWS):
            vectors_nD = None
            good = np.ones(len(batch), dtype=bool)
            if header.width is not None:
                column = batch.column(f"{header.prefix}embedding")
                good = column.is_valid().to_numpy(zero_copy_only=False)
                vectors_nD = np.full((len(batch), header.width), np.nan, dtype=np.float32)
                vectors_nD[good] = column.flatten().to_numpy().reshape(-1, header.width)
                batch = batch.drop_columns([f"{header.prefix}embedding"])
            rows = list(python_rows(batch))
            added = [_added(row, header) if fine else None for row, fine in zip(rows, good.tolist(), strict=True)]
            yield Chunk([{name: row[name] for name in header.passed} for row in rows], added, vectors_nD)


def _added(row: dict[str, Any], header: Header) -> list[object] | None:
    """The new cells of a row; None if it was a bad one."""
    cells = [tuple(row[name]) if isinstance(row[name], list) else row[name] for name in header.added]
    return None if cells and all(cell is None for cell in cells) else cells
