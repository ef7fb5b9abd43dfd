"""What the columns of a file look like: text, labels, lists, splits, or nothing of use."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import islice

from plait.data.labels import NO, YES, as_number, class_of, is_label
from plait.data.read import open_source
from plait.data.records import Nested
from plait.recipe.schema import Source

__all__ = ["Column", "Profile", "profile_file"]

MOST = 0.9  # of the values must look like something
LOOKED_AT = 50_000  # rows that are enough to tell
SEPARATORS = ("|", ";", ",")
SPLIT_WORDS = {
    "train": ("train", "training"),
    "dev": ("dev", "val", "valid", "validation", "trial", "development"),
    "test": ("test", "testing"),
}
SPLIT_NAMES = ("split", "set", "fold", "partition", "subset")


@dataclass(frozen=True)
class Column:
    """One column of a file."""

    name: str
    values: list[str]  # that are not empty
    rows: int

    @property
    def distinct(self) -> int:
        """How many different values it has."""
        return len(set(self.values))

    @property
    def words(self) -> float:
        """The mean number of words in a value."""
        return sum(len(value.split()) for value in self.values) / max(1, len(self.values))

    def share(self, count: int) -> bool:
        """Whether most of the values were counted."""
        return bool(self.values) and count >= MOST * len(self.values)

    @property
    def is_number(self) -> bool:
        """Most values are numbers."""
        return self.share(sum(as_number(value) is not None for value in self.values))

    @property
    def is_yes_no(self) -> bool:
        """Most values are 0 and 1, or words for them."""
        return self.share(sum(value.strip().lower() in YES | NO for value in self.values))

    @property
    def is_list(self) -> bool:
        """Most values are lists."""
        return self.share(sum(isinstance(value, Nested) for value in self.values))

    @property
    def is_text(self) -> bool:
        """Most values differ, and they have words: neither numbers nor names of classes nor ids."""
        if not self.values or self.is_number or self.is_list or self.words < 1.5:
            return False
        return self.distinct >= min(20, 0.5 * len(self.values)) and self.distinct > 0.02 * len(self.values)

    @property
    def is_id(self) -> bool:
        """A number or a name of each row, and no label."""
        named = self.name.strip().lower() in ("", "id", "ids", "index", "idx", "uid", "guid", "key", "0", "unnamed: 0")
        return named or (self.distinct == len(self.values) > 20 and not self.has_fractions and self.words < 1.5)

    @property
    def has_fractions(self) -> bool:
        """Some values are numbers that are not whole."""
        numbers = [number for value in self.values if (number := as_number(value)) is not None]
        return any(not number.is_integer() for number in numbers)

    @property
    def classes(self) -> Counter[str]:
        """How often each class stands there, if these are classes."""
        return Counter(class_of(value) for value in self.values)

    @property
    def is_label(self) -> bool:
        """The values come again and again, or are numbers on a scale, or lists."""
        if not self.values or self.is_id or self.is_split:
            return False
        if self.is_list or self.separator or (self.is_number and (self.has_fractions or self.distinct <= 200)):
            return True
        return 2 <= self.distinct <= max(2, min(200, len(self.values) // 3)) and self.words < 6

    @property
    def is_split(self) -> bool:
        """It says which rows to train on."""
        words = {word for group in SPLIT_WORDS.values() for word in group}
        return self.name.strip().lower() in SPLIT_NAMES and {value.strip().lower() for value in self.values} <= words

    @property
    def separator(self) -> str | None:
        """What parts several labels in one cell, if that is what these are."""
        if self.is_number or self.is_list:
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
    """The columns of a file, as far as it was looked at."""

    source: Source
    columns: dict[str, Column]
    rows: int
    more: bool  # it has more rows than were looked at

    def split_column(self) -> Column | None:
        """The column that says which rows to train on."""
        return next((column for column in self.columns.values() if column.is_split), None)


def profile_file(source: Source) -> Profile:
    """Look at the rows of a file; bad rows are passed over, since reading tells of them."""
    table = open_source(source, None, "train")
    records = list(islice(table.records, LOOKED_AT + 1))
    sound = [record.values for record in records[:LOOKED_AT] if not record.problem]
    names: Sequence[str] = table.columns or list(dict.fromkeys(name for row in sound for name in row))
    columns = {
        name: Column(name, [value for row in sound if is_label(value := row.get(name, ""))], len(sound))
        for name in names
    }
    return Profile(source, columns, len(sound), len(records) > LOOKED_AT)
