"""What a recipe may write in more than one way, normalized before the schema sees it."""

import codecs
import math
import re
from collections.abc import Mapping

from plait.errors import RequestError
from plait.names import excerpt, path_problem

__all__ = [
    "LARGEST",
    "as_class_weights",
    "as_device",
    "as_encoding",
    "as_fold",
    "as_interval",
    "as_label",
    "as_losses",
    "as_map",
    "as_path",
    "as_range",
    "as_share",
    "as_sources",
    "as_tuple",
    "as_where",
    "as_word",
    "as_words",
    "class_word",
    "known_encoding",
    "sources_or_share",
]


LARGEST = 1_000_000_000  # a number of rows, tokens or steps; a larger one is a mistake


def class_word(value: object) -> str:
    """A class as the data spells it: true, not True."""
    return str(value).lower() if isinstance(value, bool) else str(value)


def as_word(value: object) -> object:
    """A single class, even if YAML reads a number."""
    return value if value is None else class_word(value)


def as_tuple(value: object) -> object:
    """One thing, or several in a list."""
    if isinstance(value, list | tuple):
        return tuple(value)
    return value if value is None else (value,)


def as_encoding(value: object) -> object:
    """An encoding that Python knows, by its usual name, and whose lines end with the byte of a line feed."""
    if not isinstance(value, str):
        return value
    try:
        name = codecs.lookup(value).name.removesuffix("-sig")  # a byte order mark is always removed
        if "\n".encode(name) == b"\n":
            return {"iso8859-1": "latin-1"}.get(name, name)
    except (LookupError, UnicodeError):
        raise ValueError(f"unknown encoding {value!r}; use one such as utf-8, latin-1 or cp1252") from None
    raise ValueError(f"{value!r} is not read line by line; save the file as UTF-8")


def known_encoding(value: str) -> str:
    """The encoding that an argument or option names."""
    try:
        return str(as_encoding(value))
    except ValueError as error:
        raise RequestError(f"`encoding`: {error}") from None


def as_range(value: object) -> object:
    if value is None or (isinstance(value, list | tuple) and len(value) == 2):
        return value and tuple(value)
    raise ValueError("expected the lowest and the highest score, such as [0, 5]")


def as_label(value: object) -> object:
    """A label given as a bare column."""
    return {"column": value} if isinstance(value, str | list | tuple) else value


def as_sources(value: object) -> object:
    """A source, several in a list, or none."""
    return () if value is None else as_tuple(value)


def as_share(value: object) -> object:
    if isinstance(value, int | float) and not isinstance(value, bool) and 0 < value < 1:
        return float(value)
    raise ValueError(f"expected files, or a share of the training data between 0 and 1, found {value!r}")


def as_device(value: object) -> object:
    if isinstance(value, str) and re.fullmatch(r"auto|cpu|mps|cuda(:\d+)?", value):
        return value
    several = isinstance(value, str) and re.fullmatch(r"cuda:\d+(,\d+)+", value)
    hint = "; a run uses one device" if several else ""
    raise ValueError(f"expected auto, cpu, mps, cuda or one GPU such as cuda:1, found {value!r}{hint}")


def as_fold(value: object) -> object:
    found = re.fullmatch(r"([1-9]\d{0,3})/([1-9]\d{0,3})", value) if isinstance(value, str) else None
    if value is None or (found and int(found[1]) <= int(found[2]) and int(found[2]) > 1):
        return value
    raise ValueError(f"expected which fold of how many, such as 2/5, found {value!r}")


def as_where(value: object) -> object:
    """Values of columns are strings, even if YAML reads numbers."""
    if isinstance(value, Mapping) and value:
        return {str(column): class_word(wanted) for column, wanted in value.items()}
    raise ValueError("expected columns and the required value of each, such as {split: train}")


def as_losses(value: object) -> object:
    """A loss, or a list of losses that is not empty."""
    if value == []:
        raise ValueError("expected a loss, or a list of losses, found an empty list")
    return as_tuple(value)


def as_words(value: object) -> object:
    """Classes are strings, even if YAML reads numbers: `[0, 1]` or `{0: awful, 1: fine}`."""
    if isinstance(value, Mapping):
        return {class_word(key): str(name) for key, name in value.items()}
    if isinstance(value, list | tuple):
        return {class_word(key): str(key) for key in value}
    return value


def as_map(value: object) -> object:
    """Labels and what each becomes; both are strings, even if YAML reads numbers."""
    if value is None:
        return value
    if isinstance(value, Mapping) and value and not any(isinstance(new, list | Mapping) for new in value.values()):
        return {class_word(key): class_word(new) for key, new in value.items()}
    raise ValueError("expected labels and what each becomes, such as {0: 0.5, 1: 4.5}")


def as_path(value: object) -> object:
    """A path, or a name that may be one."""
    if isinstance(value, str) and (problem := path_problem(value)):
        raise ValueError(f"{excerpt(value)!r} {problem}")
    return value


def as_interval(value: object) -> object:
    """`epoch`, or a number of steps."""
    if value == "epoch" or (isinstance(value, int) and not isinstance(value, bool) and 0 < value <= LARGEST):
        return value
    most = f", at most {LARGEST:,}" if isinstance(value, int) and value > LARGEST else ""
    raise ValueError(f"expected 'epoch' or a positive number of steps{most}")


def as_class_weights(value: object) -> object:
    """`balanced`, or a weight per class; YAML may read the classes as numbers."""
    if isinstance(value, Mapping) and all(
        isinstance(weight, int | float) and not isinstance(weight, bool) and 0 < weight < math.inf
        for weight in value.values()
    ):
        return {class_word(key): weight for key, weight in value.items()}
    if value is None or value == "balanced":
        return value
    raise ValueError("expected 'balanced' or a positive weight for each class")


def sources_or_share(value: object) -> str:
    return "share" if isinstance(value, int | float) else "sources"
