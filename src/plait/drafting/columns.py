"""What the columns of a file seem to contain: text, labels, lists, splits, or nothing useful."""

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from plait.data.labels import MOST, NO, YES, as_number, class_of, is_label, listed, mostly_different
from plait.data.read import BINARY_FORMATS, format_of, open_source
from plait.data.readers.lines import NOT_UTF8
from plait.data.readers.records import Nested, Record
from plait.recipe.task import Source

__all__ = ["SPLIT_WORDS", "Column", "Profile", "join_profiles", "profile_file"]

SPLIT_WORDS = {
    "train": ("train", "training"),
    "dev": ("dev", "val", "valid", "validation", "trial", "development"),
    "test": ("test", "testing"),
}
# A word, or one character of a script that is written without spaces between words.
_WORD = re.compile(r"[\u0e00-\u0eff\u1780-\u17ff\u3040-\u30ff\u3400-\u9fff]|[^\s\u0e00-\u0eff\u3040-\u9fff]+")
_DATE = re.compile(r"(\d{4}[-/.]\d{1,2}[-/.]\d{1,2}|\d{1,2}[-/.]\d{1,2}[-/.]\d{2,4})([ T,].*)?")
_ODD_NUMBER = re.compile(r"[+-]?\d+(,\d+)+|[+-]?\d+([.,]\d+)?\s?%")  # 3,5 or 50 %
_SEPARATORS = ("|", ";", ",")
_ID_NAMES = ("", "id", "ids", "index", "idx", "uid", "guid", "key", "unnamed: 0")
_SPLIT_NAMES = ("split", "set", "fold", "partition", "subset")


@dataclass(frozen=True)
class Column:
    """One column of a file."""

    name: str
    values: list[str]  # without empty ones

    @cached_property
    def distinct(self) -> int:
        """The number of distinct values."""
        return len(set(self.values))

    @cached_property
    def mean_words(self) -> float:
        """The mean number of words per value."""
        return sum(len(_WORD.findall(value)) for value in self.values) / max(1, len(self.values))

    @cached_property
    def is_number(self) -> bool:
        return self._is_most(sum(as_number(value) is not None for value in self.values))

    @cached_property
    def is_yes_no(self) -> bool:
        """Most values are 0 and 1, or words for them."""
        return self._is_most(sum(value.strip().lower() in YES | NO for value in self.values))

    @cached_property
    def is_list(self) -> bool:
        """Most values are lists, or text that is a JSON list."""
        lists = [value for value in self.values if isinstance(value, Nested) or value.lstrip().startswith("[")]
        return self._is_most(sum(listed(value, None) is not None for value in lists))

    @cached_property
    def is_date(self) -> bool:
        """Most values are dates, with or without a time."""
        return self._is_most(sum(_DATE.fullmatch(value.strip()) is not None for value in self.values))

    @cached_property
    def label_problem(self) -> str | None:
        """Why the values cannot be read as labels, and how to write them instead."""
        if self._is_most(sum(value.lstrip().startswith("[") for value in self.values)) and not self.is_list:
            return f'the lists in {self.name!r} are not JSON; write ["a", "b"] with double quotes, or a|b'
        odd = sum(_ODD_NUMBER.fullmatch(value.strip()) is not None for value in self.values)
        numbers = sum(as_number(value) is not None for value in self.values)
        if odd >= 0.1 * len(self.values) and self._is_most(odd + numbers):
            return f"the numbers in {self.name!r} contain commas or percent signs; write them like 3.5"
        return None

    @cached_property
    def is_text(self) -> bool:
        """Most values differ and consist of words: they are not numbers, names of classes or ids."""
        if not self.values or self.is_number or self.is_list or self.is_date or self.label_problem:
            return False
        if self.mean_words < 1.5:
            return False
        return self.distinct >= min(20, 0.5 * len(self.values)) and self.distinct > 0.02 * len(self.values)

    @cached_property
    def is_id(self) -> bool:
        """A number or name that identifies each row, and is not a label."""
        return self.is_named_id or (
            self.distinct == len(self.values) > 20 and not self.has_fractions and self.mean_words < 1.5
        )

    @cached_property
    def all_differ(self) -> bool:
        """There are many values, and hardly two are the same."""
        return mostly_different(self.distinct, len(self.values))

    @cached_property
    def is_named_id(self) -> bool:
        return self.name.strip().lower() in _ID_NAMES

    @cached_property
    def has_fractions(self) -> bool:
        """Some values are numbers, but not integers."""
        numbers = [number for value in self.values if (number := as_number(value)) is not None]
        return any(not number.is_integer() for number in numbers)

    @cached_property
    def class_counts(self) -> Counter[str]:
        """How often each class occurs, if the values are classes."""
        return Counter(class_of(value) for value in self.values)

    @cached_property
    def is_label(self) -> bool:
        """The values repeat, or are numbers on a scale, or lists."""
        if not self.values or self.is_id or self.is_split or self.is_date:
            return False
        if self.label_problem or self.is_list or self.separator:
            return True
        if self.is_number and (self.has_fractions or self.distinct <= 200):
            return True
        return 2 <= self.distinct <= max(2, min(200, len(self.values) // 3)) and self.mean_words < 6

    @cached_property
    def is_split(self) -> bool:
        """The values name the split of each row."""
        words = {word for group in SPLIT_WORDS.values() for word in group}
        return self.name.strip().lower() in _SPLIT_NAMES and {value.strip().lower() for value in self.values} <= words

    @cached_property
    def separator(self) -> str | None:
        """The separator between several labels in one cell; None if the cells do not look like that."""
        if self.is_number or self.is_list or self.label_problem:
            return None
        for separator in _SEPARATORS:
            cells = [value for value in self.values if separator in value]
            parts = Counter(part.strip() for value in self.values for part in value.split(separator) if part.strip())
            repeat = sum(parts.values()) >= 3 * len(parts)
            if len(cells) >= 0.05 * len(self.values) and parts and repeat and max(len(p.split()) for p in parts) <= 4:
                return separator
        return None

    def _is_most(self, count: int) -> bool:
        """Whether `count` is most of the values."""
        return bool(self.values) and count >= MOST * len(self.values)


@dataclass(frozen=True)
class Profile:
    """The columns of a file."""

    source: Source
    columns: dict[str, Column]
    rows: int
    problem: str | None = None  # with the first bad row, and its line
    notes: tuple[str, ...] = ()  # about rows that cannot be read
    encoding: str = "utf-8"

    def split_column(self) -> Column | None:
        """The column that names the split of each row."""
        return next((column for column in self.columns.values() if column.is_split), None)


def profile_file(source: Source, encoding: str = "utf-8") -> Profile:
    """Read every row of a file, since it may be sorted. Bad rows are skipped here and reported later."""
    table = open_source(source, None, "train", encoding)
    records = list(table.records)
    sound = [record.values for record in records if not record.problem]
    where = Path(source.file).name
    notes = [f"{where}: {note}" for note in _bad_row_notes(records)]
    problem = next((f"{where}:{record.line}: {record.problem}" for record in records if record.problem), None)
    if notes and NOT_UTF8 in notes[0]:
        problem = notes[0]
    names: Sequence[str] = table.columns or list(dict.fromkeys(name for row in sound for name in row))
    columns = {name: Column(name, [value for row in sound if is_label(value := row.get(name, ""))]) for name in names}
    used = "utf-8" if format_of(Path(source.file)) in BINARY_FORMATS else encoding
    return Profile(source, columns, len(sound), problem, tuple(notes), used)


def _bad_row_notes(records: Sequence[Record]) -> Iterator[str]:
    """Why rows cannot be read: their encoding, and the first of any other problem."""
    latin = sum(record.problem is not None and record.problem.startswith(NOT_UTF8) for record in records)
    if latin:
        yield f"{latin:,} of {len(records):,} rows are {NOT_UTF8}; --encoding latin-1 reads them"
    others = [record for record in records if record.problem and not record.problem.startswith(NOT_UTF8)]
    if others:
        first = f"the first in line {others[0].line}: {others[0].problem}"
        yield f"{len(others):,} of {len(records):,} rows cannot be read, {first}"


def join_profiles(profiles: Sequence[Profile]) -> Profile:
    """The profile of several files with the same columns, as if they were one."""
    first = profiles[0]
    columns = {
        name: Column(name, [v for profile in profiles if name in profile.columns for v in profile.columns[name].values])
        for name in first.columns
    }
    return Profile(first.source, columns, sum(profile.rows for profile in profiles), first.problem)
