"""What the labels of a task mean: a class, several classes, yes or no, a score in a range, or nothing."""

import json
import math
import re
import textwrap
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from plait.data.kinds import KINDS, Kind, LabelKind
from plait.data.readers.records import Nested, as_text, is_unicode
from plait.errors import DataError, did_you_mean

__all__ = [
    "MOST",
    "NO",
    "YES",
    "Labels",
    "as_number",
    "class_of",
    "class_order",
    "encode_labels",
    "guess_kind",
    "is_label",
    "labels_from",
    "listed",
    "map_labels",
    "mostly_different",
    "unused_in_map",
]

MOST = 0.9  # share of the values that must look like a kind; the others are then bad rows
_FEW_ROWS = 20  # of which each may have a class of its own
YES = frozenset({"1", "1.0", "true", "yes"})
NO = frozenset({"0", "0.0", "false", "no"})
_NUMBER = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)(e[+-]?\d+)?", re.ASCII | re.IGNORECASE)


@dataclass(frozen=True)
class Labels:
    """The labels of a task: as the data writes them, and as people see them."""

    kind: Kind
    classes: tuple[str, ...] = ()  # as written; of yes_no: (no, yes)
    names: tuple[str, ...] = ()  # as shown
    low: float = 0.0  # of a score
    high: float = 1.0
    separator: str | None = None  # between several labels in one cell
    map: dict[str, str] = field(default_factory=dict)  # label in the data → what it becomes first

    @property
    def about(self) -> LabelKind:
        """What follows from the kind of label."""
        return KINDS[self.kind]

    @property
    def outputs(self) -> int:
        return self.about.outputs(self)

    def describe(self) -> str:
        """The classes or the range, for people."""
        return self.about.describe(self)


def guess_kind(values: Sequence[str], pair: bool) -> Kind:
    """The kind of label that a column seems to hold, if neither the recipe nor the loss says."""
    filled = [value.strip().lower() for value in values if is_label(value)]
    most = MOST * max(1, len(filled))
    if filled and sum(isinstance(value, Nested) for value in values) >= most:
        return "multilabel"
    if pair and sum(word in YES | NO for word in filled) >= most:
        return "yes_no"
    numbers = [number for word in filled if (number := as_number(word)) is not None]
    if len(numbers) >= most:
        fractional = any(not number.is_integer() for number in numbers)
        return "score" if fractional or pair else "classes"
    return "classes"


def labels_from(
    columns: Mapping[str, Sequence[str]],
    kind: Kind,
    *,
    classes: Mapping[str, str] | None = None,
    range: tuple[float, float] | None = None,
    positive: str | None = None,
    separator: str | None = None,
) -> Labels:
    """The labels of a task, from its training columns, already mapped, and what the recipe says about them."""
    if kind == "triplets":
        return Labels("triplets", ("third", "second"), ("third", "second"))
    if kind == "unlabelled":
        return Labels("unlabelled")
    if kind == "multilabel" and len(columns) > 1:
        names = dict.fromkeys(columns) if classes is None else classes
        if set(names) != set(columns):
            raise DataError(f"the classes must be the label's columns: {', '.join(columns)}")
        shown = tuple(names[column] or column for column in columns)
        if len(set(shown)) < len(shown):
            raise DataError("two classes have the same name; give each its own")
        return Labels("multilabel", tuple(columns), shown)
    (values,) = columns.values()
    if kind == "multilabel":
        there = {word for value in values for word in listed(value, separator) or ()}
        known = {word: word for word in sorted(there, key=class_order)} if classes is None else classes
        return _multilabel_labels(known, separator)
    if kind == "score":
        numbers = [number for value in values if (number := as_number(value)) is not None]
        if range is None and values and not numbers:
            return Labels("score")  # every row is bad and will be reported as such
        if range is None and (not numbers or min(numbers) == max(numbers)):
            raise DataError("the scores do not vary; give their range, such as range: [0, 5]")
        low, high = range or (min(numbers), max(numbers))
        return Labels("score", low=float(low), high=float(high))
    if kind == "yes_no":
        if positive is None:
            return Labels("yes_no", ("0", "1"), ("no", "yes"))
        others = sorted({class_of(value) for value in values if is_label(value)} - {class_of(positive)})
        if len(others) > 1:
            raise DataError(f"positive: {positive!r} leaves more than one other value: {', '.join(others[:5])}")
        words = (others[0] if others else f"not {positive}", class_of(positive))
        return Labels("yes_no", words, words)
    if classes is not None:
        if len({class_of(word) for word in classes}) < max(2, len(classes)):
            raise DataError("classes: a task needs at least two classes, each given once")
        if len(set(classes.values())) < len(classes):
            raise DataError("classes: two classes have the same name; give each its own")
        return Labels("classes", tuple(class_of(word) for word in classes), tuple(classes.values()))
    found = sorted({class_of(value) for value in values if is_label(value)}, key=class_order)
    if len(found) < 2:
        raise DataError(f"a task needs at least two classes, the training data has {len(found)}")
    return Labels("classes", tuple(found), tuple(found))


def _multilabel_labels(classes: Mapping[str, str], separator: str | None) -> Labels:
    if len(classes) < 2:
        raise DataError(f"a multilabel task needs at least two classes, the training data has {len(classes)}")
    if len(set(classes.values())) < len(classes):
        raise DataError("two classes have the same name; give each its own")
    return Labels("multilabel", tuple(map(class_of, classes)), tuple(classes.values()), separator=separator)


def encode_labels(columns: Sequence[Sequence[str]], labels: Labels, rows: int) -> tuple[np.ndarray, dict[int, str]]:
    """Class numbers, 0/1 or scores (rows,), multilabel 0/1 (rows, C); and what is wrong with bad labels, by row."""
    if not labels.about.labelled:
        return np.ones(rows, dtype=np.int64), {}
    if labels.about.multilabel:
        return _encode_multilabel(columns, labels, rows)
    bad: dict[int, str] = {}
    encoded = np.zeros(rows, dtype=np.float32 if labels.about.is_score else np.int64)
    places = {word: place for place, word in enumerate(labels.classes)}
    plain_yes_no = labels.about.is_yes_no and labels.classes == ("0", "1")
    for row, value in enumerate(map_labels(columns[0], labels.map)):
        word = value.strip()
        if not word:
            bad[row] = "the label is empty"
        elif not is_unicode(word):
            bad[row] = "the label contains a lone surrogate, which is half a character"
        elif not is_label(word) and word not in places:
            bad[row] = f"the label is {word}, not a number"
        elif labels.about.is_score:
            number = as_number(word)
            if number is None:
                bad[row] = f"the label {word!r} is not a number"
            elif not labels.low <= number <= labels.high:
                bad[row] = f"the label {word} is outside the range {labels.describe()}; the label's `range` sets it"
            else:
                encoded[row] = number
        elif plain_yes_no:
            if word.lower() not in YES | NO:
                bad[row] = f"the label {word!r} is neither yes (1, true) nor no (0, false)"
            encoded[row] = word.lower() in YES
        elif class_of(word) in places:
            encoded[row] = places[class_of(word)]
        else:
            bad[row] = _unknown_class(word, labels)
    return encoded, bad


def _encode_multilabel(
    columns: Sequence[Sequence[str]], labels: Labels, rows: int
) -> tuple[np.ndarray, dict[int, str]]:
    """0/1 for each class of each row, from one column of lists or from one column per class."""
    bad: dict[int, str] = {}
    encoded = np.zeros((rows, len(labels.classes)), dtype=np.int64)
    if len(columns) > 1:
        for place, column in enumerate(columns):
            for row, value in enumerate(column):
                word = value.strip().lower()
                if word not in YES | NO:
                    bad.setdefault(row, f"the label {labels.classes[place]!r} is {value!r}, neither 1 nor 0")
                encoded[row, place] = word in YES
        return encoded, bad
    places = {word: place for place, word in enumerate(labels.classes)}
    for row, value in enumerate(map_labels(columns[0], labels.map, separator=labels.separator, multilabel=True)):
        words = listed(value, labels.separator)
        if words is None:
            bad[row] = f"the label {value!r} is not a JSON list; give the label's `separator` if it lists words"
            continue
        for word in words:
            if word in places:
                encoded[row, places[word]] = 1
            else:
                bad.setdefault(row, _unknown_class(word, labels))
    return encoded, bad


def _unknown_class(word: str, labels: Labels) -> str:
    known = textwrap.shorten(", ".join(labels.classes), 200, placeholder=" ...")
    return f"the label {word!r} is not one of the classes of the training data: {known}"


def map_labels(
    values: Sequence[str], mapping: Mapping[str, str], *, separator: str | None = None, multilabel: bool = False
) -> Sequence[str]:
    """The labels of a column after the recipe's map; those that it does not list stay. In lists, each is mapped."""
    if not mapping:
        return values
    if not multilabel:
        return [mapping.get(class_of(value), value) for value in values]
    lists = [listed(value, separator) for value in values]
    return [
        value if words is None else Nested(json.dumps([mapping.get(word, word) for word in words]))
        for value, words in zip(values, lists, strict=True)
    ]


def unused_in_map(
    values: Sequence[str], mapping: Mapping[str, str], *, separator: str | None = None, multilabel: bool = False
) -> list[str]:
    """Messages about labels of a map that no row has, which are probably misspelt."""
    there = {class_of(value) for value in values if is_label(value)}
    if multilabel:
        there = {word for value in values for word in listed(value, separator) or ()}
    return [f"map: no row has the label {word!r}; {did_you_mean(word, there)}" for word in mapping if word not in there]


def listed(value: str, separator: str | None) -> list[str] | None:
    """The classes in one cell: split at the separator, or a JSON list; None if it is neither."""
    if separator is not None and not isinstance(value, Nested):
        return [class_of(word) for word in value.split(separator) if word.strip()]
    try:
        words = json.loads(value)
    except (ValueError, RecursionError):
        return None
    if not isinstance(words, list) or any(isinstance(word, list | dict | type(None)) for word in words):
        return None
    found = [class_of(as_text(word)) for word in words]
    return found if all(map(is_unicode, found)) else None


def as_number(value: str) -> float | None:
    """A finite number, or None; stricter than Python's float: `1_0` is a word."""
    if not _NUMBER.fullmatch(value.strip()):
        return None
    number = float(value)
    return number if math.isfinite(number) else None


def is_label(value: str) -> bool:
    """Whether a cell holds a label: not empty, not the NaN that tables write for a missing value, valid Unicode."""
    return value.strip().lower() not in ("", "nan") and is_unicode(value)


def mostly_different(distinct: int, rows: int) -> bool:
    """Whether so many values are distinct that they identify rows, or measure something, rather than name classes."""
    return rows > _FEW_ROWS and distinct >= MOST * rows


def class_of(value: str) -> str:
    """The class that a cell names: `2.0` and ` 2` are the class `2`."""
    word = value.strip()
    number = as_number(word)
    return str(int(number)) if number is not None and number.is_integer() and abs(number) < 1e15 else word


def class_order(word: str) -> tuple[bool, float, str]:
    """Sort key: numbers by size, then words alphabetically."""
    number = as_number(word)
    return (number is None, number or 0.0, word)
