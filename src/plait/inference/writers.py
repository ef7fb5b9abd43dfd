"""File formats for predictions and embeddings, written in parts that are joined at the end.

n rows, D width.
"""

import io
import shutil
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO, Protocol

import numpy as np

from plait.data.readers.parquet import pyarrow_or_error
from plait.data.readers.records import as_text
from plait.data.write import csv_cell, csv_lines, defuse, json_line
from plait.errors import DataError

__all__ = ["WRITERS", "Chunk", "Header", "Writer"]

_SHOWN_COLUMNS = 5  # that a message lists
_ROW_GROUP = 16_000_000  # bytes of rows in one row group of parquet


@dataclass(frozen=True)
class Header:
    """The columns of an output: name → type of those passed through and of those added, and the width of the vectors.

    A type is text, texts (a tuple of them), truth, integer, number, or a pyarrow type. The names of the added columns
    include the prefix; it also precedes those of vectors.
    """

    passed: Mapping[str, Any]
    added: Mapping[str, str]
    width: int | None = None
    prefix: str = ""
    safe_csv: bool = False  # whether csv cells that a spreadsheet would take for formulas are defused

    def columns(self, kind: str) -> list[str]:
        """The new columns of a format."""
        return [*self.added, *WRITERS[kind].vector_columns(self)]

    def check(self, kind: str, where: str, columns: Iterable[str]) -> None:
        """Refuse an input that already has a new column of the output: both could not be kept."""
        written = set(self.columns(kind)) if WRITERS[kind].passes else set()
        if taken := [name for name in columns if name in written]:
            shown = ", ".join(map(repr, taken[:_SHOWN_COLUMNS])) + (", ..." if len(taken) > _SHOWN_COLUMNS else "")
            what = "columns" if len(taken) > 1 else "column"
            raise DataError(
                f"{where}: already has the {what} {shown}, which the output adds; rename the {what}, "
                "or use --prefix for the added ones"
            )


@dataclass(frozen=True)
class Chunk:
    """Some rows of an output."""

    passed: Sequence[Mapping[str, object]]  # by column; columns that a row lacks stay empty
    added: Sequence[Sequence[object] | None]  # None for a bad row
    vectors_nD: np.ndarray | None = None  # NaN for a bad row


class Writer(Protocol):
    """One file format."""

    passes: bool  # whether the columns of the input are written too

    def vector_columns(self, header: Header) -> list[str]:
        """The names of the columns of a vector; none if there are no vectors."""

    def first(self, header: Header, rows: int = 0) -> bytes:
        """What precedes all rows, in formats whose parts are simply concatenated."""

    def part(self, chunk: Chunk, header: Header) -> bytes:
        """Some rows."""

    def join(self, parts: Sequence[Path], header: Header, file: BinaryIO) -> None:
        """Write the whole file from its parts."""


class _Concatenated:
    """A format whose parts are concatenated."""

    passes = True

    def vector_columns(self, header: Header) -> list[str]:
        return [] if header.width is None else [f"{header.prefix}embedding"]

    def join(self, parts: Sequence[Path], header: Header, file: BinaryIO) -> None:
        file.write(self.first(header))
        _concatenate(parts, file)

    def first(self, header: Header, rows: int = 0) -> bytes:
        return b""


class _Csv(_Concatenated):
    """Cells as text; a vector takes one column per dimension."""

    def vector_columns(self, header: Header) -> list[str]:
        return [f"{header.prefix}e{number}" for number in range(header.width or 0)]

    def first(self, header: Header, rows: int = 0) -> bytes:
        return csv_lines([map(_cell_writer(header), (*header.passed, *header.columns("csv")))])

    def part(self, chunk: Chunk, header: Header) -> bytes:
        empty = [""] * (len(header.added) + (header.width or 0))
        written = _cell_writer(header)

        def rows() -> Iterable[list[str]]:
            for number, (passed, added) in enumerate(zip(chunk.passed, chunk.added, strict=True)):
                row = [written(passed.get(name)) for name in header.passed]
                if added is None:
                    yield row + empty
                    continue
                row += map(written, added)
                if chunk.vectors_nD is not None:
                    row += map(repr, chunk.vectors_nD[number].tolist())
                yield row

        return csv_lines(rows())


def _cell_writer(header: Header) -> Callable[[object], str]:
    """How a cell becomes text in csv."""
    return (lambda cell: defuse(csv_cell(cell))) if header.safe_csv else csv_cell


class _Jsonl(_Concatenated):
    """One object per row; a vector is a list, null for a bad row."""

    def part(self, chunk: Chunk, header: Header) -> bytes:
        names = header.columns("jsonl")
        lines = []
        for number, (passed, added) in enumerate(zip(chunk.passed, chunk.added, strict=True)):
            cells: list[object] = [None] * len(names)
            if added is not None:
                cells = [*added, *(() if chunk.vectors_nD is None else (chunk.vectors_nD[number].tolist(),))]
            lines.append(json_line({**passed, **dict(zip(names, cells, strict=True))}))
        return b"".join(lines)


class _Leaderboard(_Concatenated):
    """The id and the prediction of each row, with exactly the spaces, tab and commas of CS224N's own files."""

    passes = False

    def first(self, header: Header, rows: int = 0) -> bytes:
        (heading,) = header.added
        return f"id \t {heading} \n".encode()

    def part(self, chunk: Chunk, header: Header) -> bytes:
        ids = (as_text(passed.get("id")).strip() for passed in chunk.passed)
        predictions = ("" if added is None else added[0] for added in chunk.added)
        lines = (f"{name} , {predicted} \n" for name, predicted in zip(ids, predictions, strict=True))
        return "".join(lines).encode("utf-8", "replace")


class _Npy(_Concatenated):
    """Only the vectors; a bad row is NaN."""

    passes = False

    def part(self, chunk: Chunk, header: Header) -> bytes:
        assert chunk.vectors_nD is not None, "only embeddings have this format"
        return chunk.vectors_nD.astype("<f4").tobytes()

    def first(self, header: Header, rows: int = 0) -> bytes:
        """numpy's header with the shape."""
        file = io.BytesIO()
        shape = {"descr": "<f4", "fortran_order": False, "shape": (rows, header.width or 0)}
        np.lib.format.write_array_header_1_0(file, shape)
        return file.getvalue()

    def join(self, parts: Sequence[Path], header: Header, file: BinaryIO) -> None:
        size = 4 * (header.width or 0)
        file.write(self.first(header, sum(path.stat().st_size for path in parts) // size))
        _concatenate(parts, file)


class _Parquet(_Concatenated):
    """Typed columns, by pyarrow; a vector is a list of float32."""

    def part(self, chunk: Chunk, header: Header) -> bytes:
        """A parquet file of its own."""
        file = io.BytesIO()
        pyarrow_or_error("output").write_table(_arrow_table(chunk, header), file)
        return file.getvalue()

    def join(self, parts: Sequence[Path], header: Header, file: BinaryIO) -> None:
        """Write all rows; small parts are combined into larger row groups."""
        import pyarrow

        parquet = pyarrow_or_error("output")
        empty = _arrow_table(Chunk([], [], None if header.width is None else np.zeros((0, header.width))), header)
        with parquet.ParquetWriter(file, empty.schema) as writer:
            waiting = [empty]
            for path in parts:
                waiting.append(parquet.ParquetFile(path).read())
                if sum(table.nbytes for table in waiting) >= _ROW_GROUP:
                    writer.write_table(pyarrow.concat_tables(waiting))
                    waiting = []
            if waiting:
                writer.write_table(pyarrow.concat_tables(waiting))


def _concatenate(parts: Iterable[Path], file: BinaryIO) -> None:
    for path in parts:
        with path.open("rb") as part:
            shutil.copyfileobj(part, file)


def _arrow_table(chunk: Chunk, header: Header) -> Any:
    import pyarrow

    types = {
        "text": pyarrow.string(),
        "texts": pyarrow.list_(pyarrow.string()),
        "truth": pyarrow.bool_(),
        "integer": pyarrow.int64(),
        "number": pyarrow.float64(),
    }
    columns: dict[str, Any] = {}
    for name, kind in header.passed.items():
        cells = [row.get(name) for row in chunk.passed]
        if kind == "text":
            cells = [None if cell is None else _encodable(as_text(cell)) for cell in cells]
        columns[_encodable(name)] = pyarrow.array(cells, type=types.get(kind, kind))
    for place, (name, kind) in enumerate(header.added.items()):
        columns[_encodable(name)] = pyarrow.array([row and row[place] for row in chunk.added], type=types[kind])
    if chunk.vectors_nD is not None:
        pairs = zip(chunk.vectors_nD, chunk.added, strict=True)
        vectors = [None if added is None else vector for vector, added in pairs]
        columns[_encodable(f"{header.prefix}embedding")] = pyarrow.array(vectors, type=pyarrow.list_(pyarrow.float32()))
    return pyarrow.table(columns)


def _encodable(text: str) -> str:
    """A text whose lone surrogates are replaced, since UTF-8 cannot encode them."""
    return text if text.isascii() else text.encode("utf-8", "replace").decode()


WRITERS: Mapping[str, Writer] = {
    "csv": _Csv(),
    "jsonl": _Jsonl(),
    "leaderboard": _Leaderboard(),
    "npy": _Npy(),
    "parquet": _Parquet(),
}
