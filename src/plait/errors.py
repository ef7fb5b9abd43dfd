"""Every error that a user can meet, in one tree.

PlaitError
├── RecipeError      the recipe is invalid
├── DataError        a data file, column, row or label does not match the recipe
├── EncoderError     a checkpoint cannot be found, or does not match its own config
├── ModelError       a model directory is incomplete, modified, or of a newer format
├── RunError         a run directory cannot be used in this way
├── SearchIndexError an index is incomplete, modified, or of another model
├── RequestError     a call or command asks for something that the model cannot do
├── NotFiniteError   a loss, gradient, weight or output became infinite or NaN
└── ExecutionError   a valid request failed while running
"""

import difflib
from collections.abc import Iterable, Sequence

__all__ = [
    "OUT_OF_MEMORY",
    "DataError",
    "EncoderError",
    "ExecutionError",
    "ModelError",
    "NotFiniteError",
    "PlaitError",
    "RecipeError",
    "RequestError",
    "RunError",
    "SearchIndexError",
    "did_you_mean",
    "is_out_of_memory",
]

_LISTED = 20  # words that a message lists at most
OUT_OF_MEMORY = "out of memory; try a smaller batch_size or max_length, or a smaller encoder or head"
_NO_MEMORY = (
    "can't allocate memory",
    "cannot allocate memory",
    "not enough memory",
    "out of memory",
    "bad_alloc",
    "could not create a primitive",  # oneDNN's words
    "could not create a memory",
)
_COMPARED = 10_000  # words among which the closest is looked for


class PlaitError(Exception):
    """One or more mistakes, each a sentence that says where, what is wrong and what to do."""

    exit_code = 2  # the request was wrong
    is_reported = False  # by another process of the same training

    def __init__(self, *mistakes: str) -> None:
        super().__init__("\n".join(mistakes))
        self.mistakes = mistakes


class RecipeError(PlaitError):
    """The recipe is invalid."""


class DataError(PlaitError):
    """A data file, column, row or label does not match the recipe."""


class EncoderError(PlaitError):
    """A checkpoint cannot be found, or does not match its own config."""


class ModelError(PlaitError):
    """A model directory is incomplete, modified, or of a newer format."""


class RunError(PlaitError):
    """A run directory cannot be used in this way."""


class SearchIndexError(PlaitError):
    """An index is incomplete, modified, or of another model."""


class RequestError(PlaitError):
    """A call or command asks for something that the model cannot do."""


class NotFiniteError(PlaitError):
    """A loss, gradient, weight or output became infinite or NaN; nothing was saved or answered."""

    exit_code = 1  # the work failed

    def __init__(self, *mistakes: str, rows: Sequence[tuple[str, int]] = ()) -> None:
        super().__init__(*mistakes)
        self.rows = rows  # the task and row number of each example in the batch


class ExecutionError(PlaitError):
    """A valid request failed while running."""

    exit_code = 1


def did_you_mean(word: str, allowed: Iterable[str]) -> str:
    """The end of a message about an unknown word: the closest allowed word, or the allowed ones."""
    choices: Sequence[str] = sorted(allowed)
    if len(choices) <= _COMPARED and (close := difflib.get_close_matches(word, choices, n=1)):
        return f"did you mean {close[0]!r}?"
    more = f" and {len(choices) - _LISTED} others" if len(choices) > _LISTED else ""
    return f"allowed: {', '.join(choices[:_LISTED]) or 'none'}{more}"


def is_out_of_memory(error: BaseException) -> bool:
    """Whether Python, numpy or torch could not allocate memory, on a CPU or another device."""
    return isinstance(error, MemoryError) or (
        isinstance(error, RuntimeError) and any(words in str(error).lower() for words in _NO_MEMORY)
    )
