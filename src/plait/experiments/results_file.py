"""The results of a suite in one JSON-lines file, to be committed and shared.

Lines are only added; of two lines about the same thing the later one counts. The `kind` of a line is

- `row`: the recipe of a row without seed, fold and draw, its grid or ensemble, and the hash of both;
- `cell`: the result of one cell, with the hash of its row's recipe;
- `gain`: a tested gain of one row over another, since the predictions behind the test are not in the file.
"""

import hashlib
import json
import os
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, ClassVar

from plait.errors import RunError
from plait.experiments.records import CellResult
from plait.experiments.statistics import MeanDifference
from plait.files import lock

__all__ = ["ListedCell", "RecordedGain", "ResultsFile"]

_Key = tuple[str, int, str | None, int | None]  # row, seed, fold, draw


@dataclass(frozen=True)
class _RowLine:
    """The recipe that cells of a row were run with; a row may have several, of different versions of plait."""

    kind: ClassVar = "row"
    row: str
    hash: str
    recipe: dict[str, Any]  # without seed, fold and draw
    keys: dict[str, Any]  # its grid or ensemble

    @staticmethod
    def of(row: str, result: CellResult) -> "_RowLine":
        left_out = {"seed", "fold", *(["draw"] if result.recipe.get("draw") else [])}
        recipe = {key: value for key, value in result.recipe.items() if key not in left_out}
        text = json.dumps([recipe, result.row], sort_keys=True)
        return _RowLine(row, hashlib.sha256(text.encode()).hexdigest()[:16], recipe, result.row)


@dataclass(frozen=True)
class RecordedGain:
    """A gain of one row over another in one column, before the correction for several tests."""

    kind: ClassVar = "gain"
    row: str
    column: str
    against: str
    seeds: list[int]  # that both rows have
    mean: float
    low: float | None
    high: float | None
    p: float | None
    untested: str | None  # why there is no test
    row_error: float | None = None  # as in MeanDifference; not in lines of plait 0.1
    seed_error: float | None = None
    degrees: float = 0.0

    @property
    def difference(self) -> MeanDifference:
        errors = self.row_error, self.seed_error, self.degrees
        return MeanDifference(self.mean, self.low, self.high, self.p, *errors)


@dataclass(frozen=True)
class ListedCell:
    """A cell in a results file."""

    where: str  # file:line
    result: CellResult


@dataclass
class _Content:
    """What the lines of a file say."""

    rows: dict[str, _RowLine] = field(default_factory=dict)  # by hash
    cells: dict[_Key, ListedCell] = field(default_factory=dict)
    gains: dict[tuple[str, str], RecordedGain] = field(default_factory=dict)  # by row and column

    def add_line(self, where: str, value: dict[str, Any]) -> None:
        """Raises KeyError, TypeError or ValueError if the line is damaged."""
        kind = value.pop("kind")
        if kind == "row":
            row = _RowLine(**value)
            self.rows[row.hash] = row
        elif kind == "cell":
            key: _Key = (value.pop("row"), value.pop("seed"), value.pop("fold"), value.pop("draw", None))
            row = self.rows[value.pop("recipe")]
            recipe = {**row.recipe, "seed": key[1], "fold": key[2], **({"draw": key[3]} if key[3] else {})}
            self.cells[key] = ListedCell(where, CellResult.from_json({**value, "recipe": recipe, "row": row.keys}))
        elif kind == "gain":
            gain = RecordedGain(**value)
            self.gains[gain.row, gain.column] = gain
        else:
            raise ValueError(f"unknown kind {kind!r}")


class ResultsFile:
    """A results file; several processes may read it and add to it."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._content = _Content()
        self._seen: tuple[int, int] | None = None  # time and size of the file when it was last read

    def find(self, row: str, seed: int, fold: str | None, draw: int | None = None) -> ListedCell | None:
        return self._read().cells.get((row, seed, fold, draw))

    def rows(self) -> set[str]:
        """The rows that have cells."""
        return {row for row, *_ in self._read().cells}

    def seeds(self) -> list[int]:
        """The seeds that have cells, in the order of the file."""
        return list(dict.fromkeys(seed for _, seed, *_ in self._read().cells))

    def find_gain(self, row: str, column: str) -> RecordedGain | None:
        return self._read().gains.get((row, column))

    def add(self, row: str, seed: int, fold: str | None, result: CellResult, draw: int | None = None) -> None:
        """Add a cell, unless it is listed already."""
        with self._locked() as content:
            if (row, seed, fold, draw) in content.cells:
                return
            recipe = _RowLine.of(row, result)
            cell = {key: value for key, value in result.to_json().items() if key != "row"}
            place = {"seed": seed, "fold": fold, **({"draw": draw} if draw else {})}
            line = {"kind": "cell", "row": row, **place, **cell, "recipe": recipe.hash}
            is_new = recipe.hash not in content.rows
            self._append([*([_as_line(recipe)] if is_new else []), line])

    def add_gains(self, gains: Iterable[RecordedGain]) -> None:
        """Add the gains that the file does not list in the same way."""
        with self._locked() as content:
            new = [gain for gain in gains if content.gains.get((gain.row, gain.column)) != gain]
            self._append([_as_line(gain) for gain in new])

    @contextmanager
    def _locked(self) -> Iterator[_Content]:
        """The content, while no other process can add to the file."""
        self.path.parent.mkdir(parents=True, exist_ok=True)
        with lock(self.path.with_name(f".{self.path.name}.lock")):
            yield self._read()

    def _read(self) -> _Content:
        """The content of the file; it is parsed again only after a change."""
        if not self.path.is_file():
            self._content, self._seen = _Content(), None
            return self._content
        status = self.path.stat()
        if self._seen != (status.st_mtime_ns, status.st_size):
            self._content = _parse(self.path)
            self._seen = (status.st_mtime_ns, status.st_size)
        return self._content

    def _append(self, lines: list[dict[str, Any]]) -> None:
        """Write lines in one call, after removing what a killed process left of its last line."""
        if not lines:
            return
        new = "".join(json.dumps(line, ensure_ascii=False) + "\n" for line in lines).encode()
        with self.path.open("ab+") as file:
            file.seek(0)
            old = file.read()
            complete = _complete_lines(old)
            if len(complete) < len(old):
                file.truncate(len(complete))
            file.write(complete[len(old) :] + new)
            file.flush()
            os.fsync(file.fileno())


def _as_line(record: _RowLine | RecordedGain) -> dict[str, Any]:
    return {"kind": record.kind, **asdict(record)}


def _complete_lines(text: bytes) -> bytes:
    """The text without a last line that a killed process did not finish."""
    start = text.rfind(b"\n") + 1
    try:
        json.loads(text[start:])
    except ValueError:
        return text[:start]
    return text + b"\n"


def _parse(path: Path) -> _Content:
    content = _Content()
    for number, line in enumerate(_complete_lines(path.read_bytes()).splitlines(), start=1):
        try:
            content.add_line(f"{path}:{number}", dict(json.loads(line)))
        except (KeyError, TypeError, ValueError, AttributeError):
            raise RunError(f"{path}:{number}: damaged; remove this line") from None
    return content
