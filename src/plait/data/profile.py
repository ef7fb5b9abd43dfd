"""What the columns of a file look like: text, labels, lists, splits, or nothing of use."""

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from plait.data.labels import MOST, NO, YES, as_number, class_of, is_label, listed
from plait.data.read import open_source
from plait.data.records import Nested
from plait.recipe.schema import Source

__all__ = ["Column", "Profile", "join_profiles", "profile_file"]

# A word, or a character of a language that puts no blanks between its words.
WORD = re.compile(r"[\u0e00-\u0eff\u1780-\u17ff\u3040-\u30ff\u3400-\u9fff]|[^\s\u0e00-\u0eff\u3040-\u9fff]+")
DATE = re.compile(r"(\d{4}[-/.]\d{1,2}[-/.]\d{1,2}|\d{1,2}[-/.]\d{1,2}[-/.]\d{2,4})([ T,].*)?")
ODD_NUMBER = re.compile(r"[+-]?\d+(,\d+)+|[+-]?\d+([.,]\d+)?\s?%")  # 3,5 or 50 %
SEPARATORS = ("|", ";", ",")
SPLIT_WORDS = {
    "train": ("train", "training"),
    "dev": ("dev", "val", "valid", "validation", "trial", "development"),
    "test": ("test", "testing"),
}
ID_NAMES = ("", "id", "ids", "index", "idx", "uid", "guid", "key", "unnamed: 0")
SPLIT_NAMES = ("split", "set", "fold", "partition", "subset")


@dataclass(frozen=True)
class Column:
    """One column of a file."""

    name: str
    values: list[str]  # that are not empty

    @cached_property
    def distinct(self) -> int:
        """How many different values it has."""
        return len(set(self.values))

    @cached_property
    def words(self) -> float:
        """The mean number of words in a value."""
        return sum(len(WORD.findall(value)) for value in self.values) / max(1, len(self.values))

    def share(self, count: int) -> bool:
        """Whether most of the values were counted."""
        return bool(self.values) and count >= MOST * len(self.values)

    @cached_property
    def is_number(self) -> bool:
        """Most values are numbers."""
        return self.share(sum(as_number(value) is not None for value in self.values))

    @cached_property
    def is_yes_no(self) -> bool:
        """Most values are 0 and 1, or words for them."""
        return self.share(sum(value.strip().lower() in YES | NO for value in self.values))

    @cached_property
    def is_list(self) -> bool:
        """Most values are lists, or JSON that is one."""
        lists = [value for value in self.values if isinstance(value, Nested) or value.lstrip().startswith("[")]
        return self.share(sum(listed(value, None) is not None for value in lists))

    @cached_property
    def is_date(self) -> bool:
        """Most values are dates, with or without a time."""
        return self.share(sum(DATE.fullmatch(value.strip()) is not None for value in self.values))

    @cached_property
    def trouble(self) -> str | None:
        """Why these labels cannot be read as they are, and how to write them."""
        if self.share(sum(value.lstrip().startswith("[") for value in self.values)) and not self.is_list:
            return f'the lists of {self.name!r} are not JSON; write ["a", "b"] with double quotes, or a|b'
        odd = sum(ODD_NUMBER.fullmatch(value.strip()) is not None for value in self.values)
        numbers = sum(as_number(value) is not None for value in self.values)
        if odd >= 0.1 * len(self.values) and self.share(odd + numbers):
            return f"the numbers of {self.name!r} have commas or percent signs; write them plainly: 3.5"
        return None

    @cached_property
    def is_text(self) -> bool:
        """Most values differ, and they have words: neither numbers nor names of classes nor ids."""
        if not self.values or self.is_number or self.is_list or self.is_date or self.trouble or self.words < 1.5:
            return False
        return self.distinct >= min(20, 0.5 * len(self.values)) and self.distinct > 0.02 * len(self.values)

    @cached_property
    def is_id(self) -> bool:
        """A number or a name of each row, and no label."""
        return self.is_named_id or (
            self.distinct == len(self.values) > 20 and not self.has_fractions and self.words < 1.5
        )

    @cached_property
    def is_named_id(self) -> bool:
        """It is called an id."""
        return self.name.strip().lower() in ID_NAMES

    @cached_property
    def has_fractions(self) -> bool:
        """Some values are numbers that are not whole."""
        numbers = [number for value in self.values if (number := as_number(value)) is not None]
        return any(not number.is_integer() for number in numbers)

    @cached_property
    def classes(self) -> Counter[str]:
        """How often each class stands there, if these are classes."""
        return Counter(class_of(value) for value in self.values)

    @cached_property
    def is_label(self) -> bool:
        """The values come again and again, or are numbers on a scale, or lists."""
        if not self.values or self.is_id or self.is_split or self.is_date:
            return False
        if (
            self.trouble
            or self.is_list
            or self.separator
            or (self.is_number and (self.has_fractions or self.distinct <= 200))
        ):
            return True
        return 2 <= self.distinct <= max(2, min(200, len(self.values) // 3)) and self.words < 6

    @cached_property
    def is_split(self) -> bool:
        """It says which rows to train on."""
        words = {word for group in SPLIT_WORDS.values() for word in group}
        return self.name.strip().lower() in SPLIT_NAMES and {value.strip().lower() for value in self.values} <= words

    @cached_property
    def separator(self) -> str | None:
        """What parts several labels in one cell, if that is what these are."""
        if self.is_number or self.is_list or self.trouble:
            return None
        for separator in SEPARATORS:
            parted = [value for value in self.values if separator in value]
            parts = Counter(part.strip() for value in self.values for part in value.split(separator) if part.strip())
            often = sum(parts.values()) >= 3 * len(parts)
            if len(parted) >= 0.05 * len(self.values) and parts and often and max(len(p.split()) for p in parts) <= 4:
                return separator
        return None


@dataclass(frozen=True)
class Profile:
    """The columns of a file."""

    source: Source
    columns: dict[str, Column]
    rows: int
    problem: str | None = None  # of the first row that cannot be read, with its line

    def split_column(self) -> Column | None:
        """The column that says which rows to train on."""
        return next((column for column in self.columns.values() if column.is_split), None)


def profile_file(source: Source) -> Profile:
    """Look at every row of a file, which may be sorted; bad rows are passed over, since reading tells of them."""
    table = open_source(source, None, "train")
    records = list(table.records)
    sound = [record.values for record in records if not record.problem]
    where = Path(source.file).name
    problem = next((f"{where}:{record.line}: {record.problem}" for record in records if record.problem), None)
    names: Sequence[str] = table.columns or list(dict.fromkeys(name for row in sound for name in row))
    columns = {name: Column(name, [value for row in sound if is_label(value := row.get(name, ""))]) for name in names}
    return Profile(source, columns, len(sound), problem)


def join_profiles(profiles: Sequence[Profile]) -> Profile:
    """Files that are read alike as if they were one."""
    first = profiles[0]
    columns = {
        name: Column(name, [v for profile in profiles if name in profile.columns for v in profile.columns[name].values])
        for name in first.columns
    }
    return Profile(first.source, columns, sum(profile.rows for profile in profiles), first.problem)
