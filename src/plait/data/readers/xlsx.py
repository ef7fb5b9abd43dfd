"""xlsx: the first sheet of a spreadsheet, read row by row with openpyxl."""

import warnings
import zipfile
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from plait.data.readers.records import Record, Table, as_text, unique_columns
from plait.errors import DataError

__all__ = ["read_xlsx"]

_MOST_BYTES = 200_000_000  # of all parts of a file, since openpyxl holds some of them in memory
# What openpyxl raises for files that are damaged, or no spreadsheets; a SyntaxError is about XML.
_DAMAGED = (OSError, ValueError, KeyError, IndexError, SyntaxError, zipfile.BadZipFile, zlib.error)


def read_xlsx(path: Path) -> Table:
    """The table of the first sheet; the first row names the columns, and rows are numbered as in the spreadsheet."""
    load = _loader(path)
    _, header = next(_sheet_rows(path, load), (1, ()))
    columns = [as_text(cell).strip() for cell in _without_end(header)]
    if not columns:
        raise DataError(f"{path}:1: the first row of the first sheet is empty; write the column names there")
    names = unique_columns(columns, str(path))
    return Table(names, _records(path, load, names))


def _loader(path: Path) -> Any:
    """openpyxl's function that opens a file; if it is missing, a DataError says how to install it."""
    try:
        from openpyxl import load_workbook
    except ImportError:
        raise DataError(f'{path}: .xlsx needs openpyxl; pip install "plait[data]", or save it as .csv') from None
    return load_workbook


def _sheet_rows(path: Path, load: Any) -> Iterator[tuple[int, tuple[object, ...]]]:
    """The rows of the first sheet, numbered from 1."""
    try:
        with zipfile.ZipFile(path) as parts:
            if sum(part.file_size for part in parts.infolist()) > _MOST_BYTES:
                raise ValueError(f"more than {_MOST_BYTES:,} bytes once it is unpacked")
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # about styles and other features that hold no values
            book = load(path, read_only=True, data_only=True)
        try:
            sheet = book.worksheets[0]
            sheet.reset_dimensions()  # some programs write wrong ones
            yield from enumerate(sheet.iter_rows(values_only=True), start=1)
        finally:
            book.close()
    except _DAMAGED as error:
        reason = (str(error).splitlines() or [type(error).__name__])[0]
        raise DataError(f"{path}: cannot be read as .xlsx ({reason}); save it again, or as .csv") from None


def _records(path: Path, load: Any, columns: tuple[str, ...]) -> Iterator[Record]:
    """The rows below the header that are not empty."""
    for number, row in _sheet_rows(path, load):
        cells = [as_text(cell) for cell in _without_end(row)]
        if number == 1 or not cells:
            continue
        if len(cells) > len(columns):
            problem = f"{len(cells)} cells, but the header has {len(columns)}; name the columns, or empty the cells"
            yield Record(number, {}, problem, "\t".join(cells))
            continue
        cells += [""] * (len(columns) - len(cells))
        yield Record(number, dict(zip(columns, cells, strict=True)))


def _without_end(row: tuple[object, ...]) -> tuple[object, ...]:
    """A row without the empty cells at its end."""
    filled = [place for place, cell in enumerate(row, start=1) if cell not in (None, "")]
    return row[: filled[-1]] if filled else ()
