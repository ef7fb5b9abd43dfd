"""parquet, by pyarrow; read batch by batch."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from plait.data.records import Record, Table, as_text
from plait.errors import DataError

__all__ = ["pyarrow_or_error", "read_parquet"]

BATCH = 4096  # rows that are held at a time


def pyarrow_or_error(path: str | Path) -> Any:
    """pyarrow's parquet module, or how to get it."""
    try:
        import pyarrow.parquet
    except ImportError:
        raise DataError(f'{path}: parquet needs pyarrow; pip install "plait[data]", or use .csv or .jsonl') from None
    return pyarrow.parquet


def read_parquet(path: Path) -> Table:
    """The table of a file; rows are counted from 1."""
    parquet = pyarrow_or_error(path)
    try:
        file = parquet.ParquetFile(path, memory_map=True)
    except (OSError, ValueError) as error:  # pyarrow's own errors are of these
        raise DataError(f"{path}: cannot be read as parquet: {str(error).splitlines()[0]}") from None
    return Table(tuple(file.schema_arrow.names), records(path, file))


def records(path: Path, file: Any) -> Iterator[Record]:
    """A record a row."""
    number = 0
    short = {field.name for field in file.schema_arrow if str(field.type) in ("float", "halffloat")}
    try:
        for batch in file.iter_batches(batch_size=BATCH):
            for row in batch.to_pylist():
                number += 1
                cells = {name: shortest(cell) if name in short else cell for name, cell in row.items()}
                yield Record(number, {name: as_text(cell) for name, cell in cells.items()}, cells=cells)
    except (OSError, ValueError) as error:
        raise DataError(f"{path}: cannot be read after row {number:,}: {str(error).splitlines()[0]}") from None
    finally:
        file.close()


def shortest(cell: float | None) -> float | None:
    """A number of 32 bits as it was written: 3.8, not 3.799999952316284."""
    return None if cell is None else float(str(np.float32(cell)))
