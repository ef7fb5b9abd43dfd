"""What the labels of a task mean: classes, yes or no, or a score in a range."""

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from plait.errors import DataError

__all__ = ["Kind", "Labels", "encode_labels", "guess_kind", "labels_from"]

Kind = Literal["classes", "yes_no", "score"]
MOST = 0.9  # of the values must look like a kind: the rest are then bad rows, and not a reason to take another kind
YES = frozenset({"1", "1.0", "true", "yes"})
NUMBER = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)(e[+-]?\d+)?", re.ASCII | re.IGNORECASE)
NO = frozenset({"0", "0.0", "false", "no"})


@dataclass(frozen=True)
class Labels:
    """The labels of a task: as written in the data, and as shown to people."""

    kind: Kind
    classes: tuple[str, ...] = ()  # as written; of yes_no: (no, yes)
    names: tuple[str, ...] = ()  # as shown
    low: float = 0.0  # of a score
    high: float = 1.0

    @property
    def outputs(self) -> int:
        """How many numbers a head gives for one example."""
        return len(self.classes) if self.kind == "classes" else 1

    def describe(self) -> str:
        """What `check` prints."""
        if self.kind == "score":
            return f"{self.low:g} to {self.high:g}"
        return ", ".join(self.names) if len(self.names) <= 8 else f"{len(self.names)} classes"


def guess_kind(values: Sequence[str], pair: bool) -> Kind:
    """The kind of label that a column holds, where neither the recipe nor its loss says."""
    filled = [word for value in values if (word := value.strip().lower())]
    most = MOST * max(1, len(filled))
    if pair and sum(word in YES | NO for word in filled) >= most:
        return "yes_no"
    numbers = [number for word in filled if (number := as_number(word)) is not None]
    if len(numbers) >= most:
        fractional = any(not number.is_integer() for number in numbers)
        return "score" if fractional or pair else "classes"
    return "classes"


def labels_from(
    values: Sequence[str],
    kind: Kind,
    *,
    classes: Mapping[str, str] | None = None,
    range: tuple[float, float] | None = None,
    positive: str | None = None,
) -> Labels:
    """The labels of a task from its training column and from what the recipe says of it."""
    if kind == "score":
        numbers = [number for value in values if (number := as_number(value)) is not None]
        if range is None and values and not numbers:
            return Labels("score")  # every row is bad and is named as such
        if range is None and (not numbers or min(numbers) == max(numbers)):
            raise DataError("the scores do not vary; give their range, such as range: [0, 5]")
        low, high = range or (min(numbers), max(numbers))
        return Labels("score", low=float(low), high=float(high))
    if kind == "yes_no":
        if positive is None:
            return Labels("yes_no", ("0", "1"), ("no", "yes"))
        others = sorted({class_of(value) for value in values if value.strip()} - {class_of(positive)})
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
    found = sorted({class_of(value) for value in values if value.strip()}, key=class_order)
    if len(found) < 2:
        raise DataError(f"a task needs at least two classes, the training data has {len(found)}")
    return Labels("classes", tuple(found), tuple(found))


def encode_labels(values: Sequence[str], labels: Labels) -> tuple[np.ndarray, dict[int, str]]:
    """Class numbers, 0/1 or scores of a column, and what is wrong with the rows that have none."""
    bad: dict[int, str] = {}
    encoded = np.zeros(len(values), dtype=np.float32 if labels.kind == "score" else np.int64)
    places = {word: place for place, word in enumerate(labels.classes)}
    plain_yes_no = labels.kind == "yes_no" and labels.classes == ("0", "1")
    for row, value in enumerate(values):
        word = value.strip()
        if not word:
            bad[row] = "the label is empty"
        elif labels.kind == "score":
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
            known = ", ".join(labels.classes[:12])
            bad[row] = f"the label {word!r} is not one of the classes of the training data: {known}"
    return encoded, bad


def as_number(value: str) -> float | None:
    """A finite number, or None; not all that Python's float takes is one: `1_0` is a word."""
    if not NUMBER.fullmatch(value.strip()):
        return None
    number = float(value)
    return number if math.isfinite(number) else None


def class_of(value: str) -> str:
    """The word of a class: `2.0` and ` 2` are the class `2`."""
    word = value.strip()
    number = as_number(word)
    return str(int(number)) if number is not None and number.is_integer() and abs(number) < 1e15 else word


def class_order(word: str) -> tuple[bool, float, str]:
    """Numbers by size, then words by spelling."""
    number = as_number(word)
    return (number is None, number or 0.0, word)
