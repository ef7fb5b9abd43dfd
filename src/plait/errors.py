"""Every error that a user can meet, in one tree.

PlaitError
├── RecipeError      a recipe says something that cannot be meant
├── DataError        a data file, a column, a row or a label is not as the recipe says
├── EncoderError     a checkpoint cannot be found, or does not fit its own config
├── ModelError       a model directory is incomplete, altered, or of a newer format
├── RunError         a run directory cannot be used in this way
├── RequestError     a call or a command asks for something that the model cannot do
├── NotFiniteError   a loss or a gradient became infinite or not a number
└── WorkError        work that was asked for rightly broke off
"""

import difflib
from collections.abc import Iterable, Sequence

__all__ = [
    "DataError",
    "EncoderError",
    "ModelError",
    "NotFiniteError",
    "PlaitError",
    "RecipeError",
    "RequestError",
    "RunError",
    "WorkError",
    "did_you_mean",
]


class PlaitError(Exception):
    """One or more mistakes, each a sentence that says where, what was found and what to do."""

    exit_code = 2  # the request was wrong

    def __init__(self, *mistakes: str) -> None:
        super().__init__("\n".join(mistakes))
        self.mistakes = mistakes


class RecipeError(PlaitError):
    """A recipe says something that cannot be meant."""


class DataError(PlaitError):
    """A data file, a column, a row or a label is not as the recipe says."""


class EncoderError(PlaitError):
    """A checkpoint cannot be found, or does not fit its own config."""


class ModelError(PlaitError):
    """A model directory is incomplete, altered, or of a newer format."""


class RunError(PlaitError):
    """A run directory cannot be used in this way."""


class RequestError(PlaitError):
    """A call or a command asks for something that the model cannot do."""


class NotFiniteError(PlaitError):
    """A loss or a gradient became infinite or not a number; the weights were left as they were."""

    exit_code = 1  # the work failed

    def __init__(self, *mistakes: str, rows: Sequence[tuple[str, int]] = ()) -> None:
        super().__init__(*mistakes)
        self.rows = rows  # the task and number of each row that was trained on


class WorkError(PlaitError):
    """Work that was asked for rightly broke off."""

    exit_code = 1


def did_you_mean(word: str, allowed: Iterable[str]) -> str:
    """The end of a message about an unknown word: the nearest allowed word, or all of them."""
    choices: Sequence[str] = sorted(allowed)
    close = difflib.get_close_matches(word, choices, n=1)
    return f"did you mean {close[0]!r}?" if close else f"allowed: {', '.join(choices) or 'none'}"
