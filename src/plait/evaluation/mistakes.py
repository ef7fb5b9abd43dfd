"""The wrong predictions of a model, by what was expected, worst first.

n examples, C classes.
"""

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from plait.data.examples import Examples
from plait.data.labels import Labels
from plait.data.prediction_arrays import PredictionArrays
from plait.data.write import csv_cell, csv_lines, json_line
from plait.errors import RequestError
from plait.files import atomic_file
from plait.model.decode import within_range
from plait.model.tasks import TaskSpec

__all__ = ["Mistake", "check_place", "count_groups", "describe_groups", "find_mistakes", "write_mistakes"]

_SUFFIXES = (".csv", ".jsonl")
_COLUMNS = ("task", "group", "where", "expected", "predicted", "probability", "error")
_Label = str | tuple[str, ...] | float  # a class or yes/no, the labels of a multilabel task, a score


@dataclass(frozen=True)
class Mistake:
    """An example that a model got wrong; for scores every example, since no score is exact."""

    task: str
    where: str  # file:line
    texts: tuple[str, ...]
    expected: _Label
    predicted: _Label
    probability: float | None  # of the wrong prediction; multilabel: of the most confident wrong label; None for scores
    error: float | None  # the absolute error of a score
    group: str = ""  # false positive, false negative, or the expected class; "" for other kinds of label


def find_mistakes(spec: TaskSpec, examples: Examples, predictions: PredictionArrays) -> list[Mistake]:
    """The wrong predictions of a task, most confident first; for scores every example, largest error first.

    False positives come before false negatives, and classes in the order of the expected class.
    """
    scored, predictions = spec.labels.about.is_score, within_range(predictions, spec)
    badness_n = _score_errors(examples, predictions) if scored else _confidence_if_wrong(examples, predictions)
    expected_n = examples.labels if spec.labels.about.one_class else np.zeros(len(examples))
    wrong = [int(row) for row in np.lexsort((-badness_n, expected_n)) if badness_n[row] >= 0]
    return [
        Mistake(
            spec.name,
            examples.origins[row],
            tuple(column[row] for column in examples.texts),
            _readable(examples.labels[row], spec.labels),
            _readable(predictions.values[row], spec.labels),
            None if scored else float(badness_n[row]),
            float(badness_n[row]) if scored else None,
            _group(examples.labels[row], spec.labels),
        )
        for row in wrong
    ]


def count_groups(mistakes: Sequence[Mistake]) -> dict[str, int]:
    """How many mistakes of a task each group has, in the order of the groups."""
    return dict(Counter(mistake.group for mistake in mistakes if mistake.group))


def describe_groups(mistakes: Sequence[Mistake], labels: Labels) -> str:
    """The same as a phrase; empty for kinds of label without groups."""
    counts = count_groups(mistakes)
    if labels.about.is_yes_no:
        return ", ".join(f"{count:,} {group}{'s' * (count != 1)}" for group, count in counts.items())
    return "by expected class: " + ", ".join(f"{name} {count:,}" for name, count in counts.items()) if counts else ""


def _group(expected: np.ndarray, labels: Labels) -> str:
    """What kind of mistake it is to miss this label."""
    if labels.about.is_yes_no:
        return "false negative" if expected else "false positive"
    return labels.names[int(expected)] if labels.about.one_class else ""


def _score_errors(examples: Examples, predictions: PredictionArrays) -> np.ndarray:
    """The absolute error of each score (n,)."""
    errors_n: np.ndarray = np.abs(predictions.values - examples.labels.astype(np.float64))
    return errors_n


def _confidence_if_wrong(examples: Examples, predictions: PredictionArrays) -> np.ndarray:
    """The probability of each wrong prediction (n,), −1 for a correct one."""
    assert predictions.probabilities is not None, "all but scores have probabilities"
    values = predictions.values
    if values.ndim == 1:
        confidence = np.take_along_axis(predictions.probabilities, values[:, None], axis=1)[:, 0]
    else:
        confidence = np.where(values == 1, predictions.probabilities, 1 - predictions.probabilities)
    if_wrong: np.ndarray = np.where(examples.labels == values, -1.0, confidence)
    return if_wrong if values.ndim == 1 else if_wrong.max(axis=1)


def _readable(value: np.ndarray, labels: Labels) -> _Label:
    """A label as people read it."""
    if labels.about.is_score:
        return float(str(value))  # so that 3.8 in float32 does not become 3.7999999523
    if value.ndim:
        return tuple(name for name, assigned in zip(labels.names, value, strict=True) if assigned)
    return labels.names[int(value)]


def check_place(path: Path, used: Iterable[str] = ()) -> None:
    """Refuse a file of mistakes that cannot be written, or that would overwrite data."""
    if path.suffix.lower() not in _SUFFIXES:
        raise RequestError(f"`mistakes` {path}: unknown file format; use {' or '.join(_SUFFIXES)}")
    if not path.resolve().parent.is_dir():
        raise RequestError(f"`mistakes` {path}: its folder does not exist")
    if path.is_dir():
        raise RequestError(f"`mistakes` {path}: a folder; give the name of a file")
    if path.exists() and path.name in {Path(name).name for name in used}:
        raise RequestError(f"`mistakes` {path}: a data file has this name; choose another name")


def write_mistakes(mistakes: Sequence[Mistake], path: Path) -> None:
    """Write a csv file with one column per text, or a jsonl file with a list of texts; it appears atomically."""
    texts = max((len(mistake.texts) for mistake in mistakes), default=1)
    columns = ("text", "text2", "text3")[:texts]
    with atomic_file(path) as aside, aside.open("wb") as file:
        if path.suffix.lower() == ".jsonl":
            file.writelines(json_line(_cells(mistake) | {"texts": mistake.texts}) for mistake in mistakes)
            return
        file.write(csv_lines([[*_COLUMNS, *columns]]))
        for mistake in mistakes:
            cells = [csv_cell(cell) for cell in _cells(mistake).values()]
            file.write(csv_lines([[*cells, *mistake.texts, *[""] * (texts - len(mistake.texts))]]))


def _cells(mistake: Mistake) -> dict[str, object]:
    """What both file formats hold about a mistake, apart from its texts."""
    return {name: getattr(mistake, name) for name in _COLUMNS}
