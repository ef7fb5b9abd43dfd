"""Numbers and labels as a report writes them."""

from pathlib import PurePath

import numpy as np

from plait.data.examples import Examples
from plait.data.labels import Labels
from plait.evaluation.significance import Interval
from plait.model.card import three_decimals
from plait.reporting.sampling import shorten_text

__all__ = ["interval_words", "label_words", "minutes", "place_words", "shown_texts", "signed", "text_of"]


def interval_words(interval: Interval | None) -> str:
    """Both ends of an interval."""
    return "–" if interval is None else " to ".join(map(three_decimals, interval))


def signed(value: float) -> str:
    """A difference with its sign."""
    return f"{value:+.3f}".replace("-", "−")


def label_words(value: np.ndarray, labels: Labels) -> str:
    """An encoded label, or a prediction, for people."""
    if labels.about.is_score:
        return f"{float(value):.2f}"
    if not labels.about.labelled:
        return "closer to the first" if value else "closer to the second"
    if np.ndim(value):
        return ", ".join(name for name, given in zip(labels.names, value, strict=True) if given) or "none"
    return labels.names[int(value)]


def minutes(seconds: float) -> str:
    """A time span."""
    whole = round(seconds)
    if whole < 60:
        return f"{whole} s"
    return (
        f"{whole // 60} min {whole % 60:02d} s" if whole < 3600 else f"{whole // 3600} h {whole % 3600 // 60:02d} min"
    )


def place_words(origin: str) -> str:
    """Where a row comes from, without the folders of this machine."""
    return PurePath(origin).name


def shown_texts(examples: Examples, row: int) -> tuple[str, ...]:
    """The texts of a row, long ones truncated."""
    return tuple(shorten_text(column[row]) for column in examples.texts)


def text_of(examples: Examples, row: int) -> str:
    """The same as one line, for a tooltip."""
    return " | ".join(shorten_text(column[row], 160) for column in examples.texts)
