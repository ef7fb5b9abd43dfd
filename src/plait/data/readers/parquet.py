"""parquet, read batch by batch with pyarrow."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from plait.data.readers.records import MOST_BYTES, Record, Table, as_text
from plait.errors import DataError

__all__ = ["pyarrow_or_error", "python_rows", "read_parquet"]

_BATCH_ROWS = 4096
_BATCH_BYTES = 64_000_000  # of a batch that is decoded at once
_ALWAYS = 256_000_000  # bytes that every part of a column may unpack to
_MOST_RATIO = 300  # of bytes unpacked to bytes in the file; texts have less than 20
# What pyarrow raises for a damaged file: its own errors are of these classes.
_DAMAGE = (OSError, ValueError, LookupError, TypeError, ArithmeticError, NotImplementedError)


def pyarrow_or_error(path: str | Path) -> Any:
    """pyarrow's parquet module; if it is missing, a DataError says how to install it."""
    try:
        import pyarrow.parquet
    except ImportError:
        raise DataError(f'{path}: parquet needs pyarrow; pip install "plait[data]", or use .csv or .jsonl') from None
    return pyarrow.parquet


def read_parquet(path: Path) -> Table:
    """The table of a file; rows are numbered from 1."""
    parquet = pyarrow_or_error(path)
    try:
        names, texts = _columns(parquet.ParquetFile(path, memory_map=True))
        # A text that occurs a thousand times is in the file once, and with this option in memory as well.
        file = parquet.ParquetFile(path, memory_map=True, read_dictionary=texts)
    except _DAMAGE as error:
        problem = f"cannot be read as parquet ({_reason(error)}); replace it with an intact file"
        raise DataError(f"{path}: {problem}") from None
    return Table(names, _records(path, file))


def _columns(file: Any) -> tuple[tuple[str, ...], list[str]]:
    """The names of all columns, and of those that hold texts; raises ValueError for a part that unpacks to too much."""
    import pyarrow

    with file:
        for group in range(file.metadata.num_row_groups):
            about = file.metadata.row_group(group)
            for column in map(about.column, range(about.num_columns)):
                most = max(_ALWAYS, _MOST_RATIO * column.total_compressed_size)
                if column.total_uncompressed_size > most:
                    raise ValueError(f"the column {column.path_in_schema} unpacks to more than {most:,} bytes")
        kinds = (pyarrow.types.is_string, pyarrow.types.is_large_string, pyarrow.types.is_binary)
        texts = [field.name for field in file.schema_arrow if any(is_kind(field.type) for is_kind in kinds)]
        return tuple(file.schema_arrow.names), texts


def _records(path: Path, file: Any) -> Iterator[Record]:
    number = 0
    single_precision = _single_precision(file.schema_arrow)
    try:
        for batch in file.iter_batches(batch_size=_BATCH_ROWS):
            lengths_n = _text_lengths(batch)
            decoded = batch.to_pylist() if lengths_n.sum() <= _BATCH_BYTES else None
            for place in range(batch.num_rows):
                number += 1
                if lengths_n[place] > MOST_BYTES:
                    problem = f"the row has {lengths_n[place]:,} bytes; shorten it to {MOST_BYTES:,} or less"
                    yield Record(number, {}, problem)
                    continue
                row = decoded[place] if decoded else batch.slice(place, 1).to_pylist()[0]
                cells = {name: _shortest(cell) if name in single_precision else cell for name, cell in row.items()}
                yield Record(number, {name: as_text(cell) for name, cell in cells.items()}, cells=cells)
    except _DAMAGE as error:
        problem = f"cannot be read after row {number:,} ({_reason(error)}); replace it with an intact file"
        raise DataError(f"{path}: {problem}") from None
    finally:
        file.close()


def _text_lengths(batch: Any) -> np.ndarray:
    """The bytes of all texts of each row, without unpacking texts that occur more than once."""
    import pyarrow
    from pyarrow import compute

    lengths_n = np.zeros(batch.num_rows, np.int64)
    for column in batch.columns:
        if pyarrow.types.is_dictionary(column.type):
            places = column.indices.fill_null(0).to_numpy(zero_copy_only=False)
            distinct, where_n = np.unique(places, return_inverse=True)
            if len(column.dictionary):
                used = compute.binary_length(column.dictionary.take(pyarrow.array(distinct)))
                known_n = column.is_valid().to_numpy(zero_copy_only=False)
                lengths_n += used.fill_null(0).to_numpy(zero_copy_only=False).astype(np.int64)[where_n] * known_n
    return lengths_n


def python_rows(batch: Any) -> Iterator[dict[str, Any]]:
    """The rows of a record batch, by column."""
    single_precision = _single_precision(batch.schema)
    for row in batch.to_pylist():
        yield {name: _shortest(cell) if name in single_precision else cell for name, cell in row.items()}


def _single_precision(schema: Any) -> set[str]:
    """The columns of 32-bit numbers and smaller ones."""
    return {field.name for field in schema if str(field.type) in ("float", "halffloat")}


def _shortest(cell: float | None) -> float | None:
    """A 32-bit number as it was written: 3.8, not 3.799999952316284."""
    return None if cell is None else float(str(np.float32(cell)))


def _reason(error: Exception) -> str:
    """The first line of an error message."""
    return str(error).splitlines()[0].rstrip(".")
