"""parquet, read batch by batch with pyarrow."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from plait.data.readers.records import Record, Table, as_text
from plait.errors import DataError

__all__ = ["pyarrow_or_error", "read_parquet"]

_BATCH_ROWS = 4096
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
        file = parquet.ParquetFile(path, memory_map=True)
    except _DAMAGE as error:
        problem = f"cannot be read as parquet ({_reason(error)}); replace it with an intact file"
        raise DataError(f"{path}: {problem}") from None
    return Table(tuple(file.schema_arrow.names), _records(path, file))


def _records(path: Path, file: Any) -> Iterator[Record]:
    number = 0
    single_precision = {field.name for field in file.schema_arrow if str(field.type) in ("float", "halffloat")}
    try:
        for batch in file.iter_batches(batch_size=_BATCH_ROWS):
            for row in batch.to_pylist():
                number += 1
                cells = {name: _shortest(cell) if name in single_precision else cell for name, cell in row.items()}
                yield Record(number, {name: as_text(cell) for name, cell in cells.items()}, cells=cells)
    except _DAMAGE as error:
        problem = f"cannot be read after row {number:,} ({_reason(error)}); replace it with an intact file"
        raise DataError(f"{path}: {problem}") from None
    finally:
        file.close()


def _shortest(cell: float | None) -> float | None:
    """A 32-bit number as it was written: 3.8, not 3.799999952316284."""
    return None if cell is None else float(str(np.float32(cell)))


def _reason(error: Exception) -> str:
    """The first line of an error message."""
    return str(error).splitlines()[0].rstrip(".")
