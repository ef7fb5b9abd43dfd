"""The files that predictions and embeddings go to, written part by part and joined at the end.

n rows, D width.
"""

import io
import shutil
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO, Protocol

import numpy as np

from plait.data.parquet import pyarrow_or_error
from plait.data.records import as_text
from plait.data.write import csv_cell, csv_lines, json_line

__all__ = ["WRITERS", "Chunk", "Header", "Writer"]

ROW_GROUP = 16_000_000  # bytes of parquet's rows that are written at a time


@dataclass(frozen=True)
class Header:
    """The columns of an output by name: those passed through, those added, and how wide a vector is, if there is one.

    Each has the type of its values: text, texts (a tuple of them), truth, integer, number, or a type of pyarrow.
    """

    passed: Mapping[str, Any]
    added: Mapping[str, str]
    width: int | None = None

    def names(self, *vector: str) -> list[str]:
        """The names of the added columns and of those of the vector; the file's own columns keep theirs."""
        names = [*self.added, *vector]
        while any(name in self.passed for name in names):
            names = [f"predicted {name}" for name in names]
        return names


@dataclass(frozen=True)
class Chunk:
    """Some rows of an output."""

    passed: Sequence[Mapping[str, object]]  # by column; what a row lacks is empty
    added: Sequence[Sequence[object] | None]  # None: the row was bad
    vectors_nD: np.ndarray | None = None  # not a number where the row was bad


class Writer(Protocol):
    """One kind of file."""

    def first(self, header: Header) -> bytes:
        """What stands before all rows, where parts need only stand one after the other."""

    def part(self, chunk: Chunk, header: Header) -> bytes:
        """Some rows."""

    def join(self, parts: Sequence[Path], header: Header, file: BinaryIO) -> None:
        """The whole file."""


class Appended:
    """A kind of file whose parts stand one after the other."""

    def join(self, parts: Sequence[Path], header: Header, file: BinaryIO) -> None:
        """The beginning, then every part."""
        file.write(self.first(header))
        for path in parts:
            with path.open("rb") as part:
                shutil.copyfileobj(part, file)

    def first(self, header: Header) -> bytes:
        """Nothing."""
        return b""


class Csv(Appended):
    """Cells as text; a vector has a column for each of its numbers."""

    def first(self, header: Header) -> bytes:
        """The names of the columns."""
        numbers = (f"e{number}" for number in range(header.width or 0))
        return csv_lines([[*header.passed, *header.names(*numbers)]])

    def part(self, chunk: Chunk, header: Header) -> bytes:
        """Some rows."""
        empty = [""] * (len(header.added) + (header.width or 0))

        def rows() -> Iterable[list[str]]:
            for number, (passed, added) in enumerate(zip(chunk.passed, chunk.added, strict=True)):
                row = [csv_cell(passed.get(name)) for name in header.passed]
                if added is None:
                    yield row + empty
                    continue
                row += map(csv_cell, added)
                if chunk.vectors_nD is not None:
                    row += map(repr, chunk.vectors_nD[number].tolist())
                yield row

        return csv_lines(rows())


class JsonLines(Appended):
    """An object a row; a vector is a list, null where the row was bad."""

    def part(self, chunk: Chunk, header: Header) -> bytes:
        """Some rows."""
        names = header.names(*(() if chunk.vectors_nD is None else ("embedding",)))
        lines = []
        for number, (passed, added) in enumerate(zip(chunk.passed, chunk.added, strict=True)):
            cells: list[object] = [None] * len(names)
            if added is not None:
                cells = [*added, *(() if chunk.vectors_nD is None else (chunk.vectors_nD[number].tolist(),))]
            lines.append(json_line({**passed, **dict(zip(names, cells, strict=True))}))
        return b"".join(lines)


class Leaderboard(Appended):
    """The id and the answer of each row, with the blanks, the tab and the commas of CS224N's own files."""

    def first(self, header: Header) -> bytes:
        """The heading, which is no header of what follows."""
        (heading,) = header.added
        return f"id \t {heading} \n".encode()

    def part(self, chunk: Chunk, header: Header) -> bytes:
        """Some rows."""
        ids = (as_text(passed.get("id")).strip() for passed in chunk.passed)
        answers = ("" if added is None else added[0] for added in chunk.added)
        lines = (f"{name} , {answer} \n" for name, answer in zip(ids, answers, strict=True))
        return "".join(lines).encode("utf-8", "replace")


class Npy(Appended):
    """The vectors alone, a row of NaN for a bad one."""

    def part(self, chunk: Chunk, header: Header) -> bytes:
        """Some rows."""
        assert chunk.vectors_nD is not None, "only embeddings are written so"
        return chunk.vectors_nD.astype("<f4").tobytes()

    def join(self, parts: Sequence[Path], header: Header, file: BinaryIO) -> None:
        """numpy's header with the shape, then every part."""
        width = header.width or 0
        rows = sum(path.stat().st_size for path in parts) // (4 * width)
        np.lib.format.write_array_header_1_0(file, {"descr": "<f4", "fortran_order": False, "shape": (rows, width)})
        super().join(parts, header, file)


class Parquet:
    """Columns with types, by pyarrow; a vector is a list of float32."""

    def first(self, header: Header) -> bytes:
        """Nothing: parts cannot stand one after the other."""
        return b""

    def part(self, chunk: Chunk, header: Header) -> bytes:
        """Some rows, as a file of their own."""
        file = io.BytesIO()
        pyarrow_or_error("output").write_table(arrow_table(chunk, header), file)
        return file.getvalue()

    def join(self, parts: Sequence[Path], header: Header, file: BinaryIO) -> None:
        """All rows, several parts in one group."""
        import pyarrow

        parquet = pyarrow_or_error("output")
        empty = arrow_table(Chunk([], [], None if header.width is None else np.zeros((0, header.width))), header)
        with parquet.ParquetWriter(file, empty.schema) as writer:
            waiting = [empty]
            for path in parts:
                waiting.append(parquet.ParquetFile(path).read())
                if sum(table.nbytes for table in waiting) >= ROW_GROUP:
                    writer.write_table(pyarrow.concat_tables(waiting))
                    waiting = []
            if waiting:
                writer.write_table(pyarrow.concat_tables(waiting))


def arrow_table(chunk: Chunk, header: Header) -> Any:
    """Some rows as pyarrow holds them."""
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
            cells = [None if cell is None else writable(as_text(cell)) for cell in cells]
        columns[writable(name)] = pyarrow.array(cells, type=types.get(kind, kind))
    names = header.names(*(() if chunk.vectors_nD is None else ("embedding",)))
    for place, (name, kind) in enumerate(zip(names, header.added.values(), strict=False)):
        columns[name] = pyarrow.array([row and row[place] for row in chunk.added], type=types[kind])
    if chunk.vectors_nD is not None:
        pairs = zip(chunk.vectors_nD, chunk.added, strict=True)
        vectors = [None if added is None else vector for vector, added in pairs]
        columns[names[-1]] = pyarrow.array(vectors, type=pyarrow.list_(pyarrow.float32()))
    return pyarrow.table(columns)


def writable(text: str) -> str:
    """A text without half characters, which no file of UTF-8 holds."""
    return text if text.isascii() else text.encode("utf-8", "replace").decode()


WRITERS: Mapping[str, Writer] = {
    "csv": Csv(),
    "jsonl": JsonLines(),
    "leaderboard": Leaderboard(),
    "npy": Npy(),
    "parquet": Parquet(),
}
