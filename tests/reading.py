"""Read small data files, and check what became of every line."""

import csv
import io
import re
from pathlib import Path

from plait.data.read import BadRow, Rows, read_rows, row_mistakes
from plait.errors import DataError
from plait.recipe.read import recipe_from
from plait.recipe.task import Source
from plait.recipe.tree import Tree
from plait.resolve.run import ResolvedStage, resolve_tasks
from plait.resolve.variants import VARIANTS

HEADER = b"text,label\n"
TOO_FEW = "1 field, but the header has 2; complete or remove the row"
TOO_MANY = "3 fields, but the header has 2; quote texts that contain ','"
AFTER_QUOTE = "',' expected after '\"'; is a closing quote missing?"
OPEN_QUOTE = "the quote that opens here is never closed; is a closing quote missing?"
LATIN = "if the file is latin-1, write encoding: latin-1 in the task"
NUL = "contains a NUL byte; if the file is UTF-16, save it as UTF-8"
CARRIAGE_RETURN = "a carriage return without a line feed; save the file with \\n or \\r\\n line endings"
EMPTY_FILE = "the file is empty; add a header line with the column names"


def sources(folder: Path, *names: str) -> list[Source]:
    return [Source(file=str(folder / name)) for name in names]


def read(
    folder: Path, name: str, content: str | bytes, columns: tuple[str, ...] = ("text", "label"), **options
) -> Rows:
    (folder / name).write_bytes(content.encode() if isinstance(content, str) else content)
    return read_rows(sources(folder, name), columns, **options)


def mistakes(folder: Path, name: str, content: str | bytes, columns: tuple[str, ...] = ("text", "label")) -> list[str]:
    """Every bad row, or what is wrong with the file; paths without the folder."""
    try:
        found = row_mistakes(read(folder, name, content, columns).bad)
    except DataError as error:
        found = list(error.mistakes)
    assert found
    return [mistake.replace(f"{folder}/", "") for mistake in found]


def resolve(recipe: dict) -> ResolvedStage:
    """Read the data of a recipe, with the limit and width of the tiny encoder."""
    return resolve_tasks(recipe_from(Tree(recipe), VARIANTS), limit=40, width=16)


def csv_rows(rows: list[tuple[str, ...]]) -> list[str]:
    """Each row as the csv module writes it."""
    lines = []
    for row in rows:
        file = io.StringIO()
        csv.writer(file, lineterminator="\n").writerow(row)
        lines.append(file.getvalue())
    return lines


def line_of(where: str) -> int:
    return int(where.rpartition(":")[2])


def good(rows: Rows) -> list[tuple[int, str]]:
    """The line and text of each good row."""
    return [(line_of(where), text) for where, text in zip(rows.origins, rows.columns["text"], strict=True)]


def bad(rows: Rows | list[BadRow]) -> list[tuple[int, str]]:
    """The line and problem of each bad row."""
    found = rows.bad if isinstance(rows, Rows) else rows
    return [(line_of(row.where), row.problem) for row in found]


def check_every_line_is_accounted_for(rows: Rows, content: bytes) -> None:
    """Every line below the header belongs to exactly one row, good or bad; empty lines may belong to none."""
    spans = [_lines_of_good(rows, row) for row in range(len(rows.origins))] + [_lines_of_bad(row) for row in rows.bad]
    found = sorted(line for span in spans for line in span)
    assert len(set(found)) == len(found)
    lines = content.split(b"\n")
    filled = {number for number, line in enumerate(lines, start=1) if number > 1 and line.removesuffix(b"\r")}
    assert filled <= set(found) <= set(range(2, len(lines) + 1))


def _lines_of_good(rows: Rows, row: int) -> range:
    """The lines of a good row: one more for each line feed in its fields."""
    first = line_of(rows.origins[row])
    return range(first, first + 1 + sum(column[row].count("\n") for column in rows.columns.values()))


def _lines_of_bad(row: BadRow) -> range:
    """The lines that a bad row claims to span."""
    first = line_of(row.where)
    several = re.search(rf"\(lines {first} to (\d+)\)$", row.problem)
    return range(first, int(several[1]) + 1 if several else first + 1)
