"""Files with one row per example that was scored: where it stands, its texts, and facts about its prediction."""

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

import numpy as np

from plait.data.examples import Examples
from plait.data.labels import Labels
from plait.data.prediction_arrays import PredictionArrays
from plait.data.write import csv_cell, csv_lines, defuse, json_line
from plait.errors import RequestError
from plait.files import atomic_file
from plait.model.decode import within_range
from plait.model.headings import PREDICTION, PROBABILITY, class_heading
from plait.model.tasks import TaskSpec

__all__ = ["ReadableLabel", "check_place", "confidence", "prediction_rows", "readable_label", "write_rows"]

ReadableLabel = str | tuple[str, ...] | float  # a class or yes/no, the labels of a multilabel task, a score
_SUFFIXES = (".csv", ".jsonl")


def readable_label(value: np.ndarray, labels: Labels) -> ReadableLabel:
    """A label or prediction as people read it."""
    if labels.about.is_score:
        return float(str(value))  # so that 3.8 in float32 does not become 3.7999999523
    if value.ndim:
        return tuple(name for name, assigned in zip(labels.names, value, strict=True) if assigned)
    return labels.names[int(value)]


def confidence(predictions: PredictionArrays) -> np.ndarray:
    """The probability of each predicted class (n,); multilabel (n, C): of each label, that it is as predicted."""
    values, shares_nC = predictions.values, predictions.probabilities
    assert shares_nC is not None, "all but scores have probabilities"
    if values.ndim == 1:
        chosen_n: np.ndarray = np.take_along_axis(shares_nC, values[:, None], axis=1)[:, 0]
        return chosen_n
    as_predicted_nC: np.ndarray = np.where(values == 1, shares_nC, 1 - shares_nC)
    return as_predicted_nC


def prediction_rows(spec: TaskSpec, examples: Examples, predictions: PredictionArrays) -> list[dict[str, object]]:
    """Every example with its label, its prediction, the probabilities of all classes, and its texts."""
    seen, labels = within_range(predictions, spec), spec.labels
    shares: list[dict[str, float]] = [{}] * len(examples)
    if seen.probabilities is not None:
        sure = confidence(seen)
        sure_n = (sure if sure.ndim == 1 else sure.min(axis=1)).tolist()  # of the least certain label
        headings = [PROBABILITY, *map(class_heading, labels.names)]
        pairs = zip(sure_n, seen.probabilities.tolist(), strict=True)
        shares = [dict(zip(headings, [first, *row], strict=True)) for first, row in pairs]
    return [
        {
            "task": spec.name,
            "where": examples.origins[row],
            "label": readable_label(examples.labels[row], labels),
            PREDICTION: readable_label(seen.values[row], labels),
            **shares[row],
            "texts": tuple(column[row] for column in examples.texts),
        }
        for row in range(len(examples))
    ]


def check_place(argument: str, path: Path, used: Iterable[str] = ()) -> None:
    """Refuse a file that cannot be written, or that would overwrite data."""
    if path.suffix.lower() not in _SUFFIXES:
        raise RequestError(f"`{argument}` {path}: unknown file format; use {' or '.join(_SUFFIXES)}")
    if not path.resolve().parent.is_dir():
        raise RequestError(f"`{argument}` {path}: its folder does not exist")
    if path.is_dir():
        raise RequestError(f"`{argument}` {path}: a folder; give the name of a file")
    if path.exists() and path.name in {Path(name).name for name in used}:
        raise RequestError(f"`{argument}` {path}: a data file has this name; choose another name")


def write_rows(
    rows: Sequence[Mapping[str, object]], path: Path, columns: Sequence[str] = (), *, safe_csv: bool = False
) -> None:
    """Write a csv file with one column per text, or a jsonl file with a list of texts; it appears atomically.

    In csv, the columns are those given and all others that a row has; what a row lacks is empty. With `safe_csv`, cells
    that a spreadsheet would take for formulas are defused.
    """
    with atomic_file(path) as aside, aside.open("wb") as file:
        if path.suffix.lower() == ".jsonl":
            file.writelines(map(json_line, rows))
            return
        names = list(dict.fromkeys([*columns, *(name for row in rows for name in row if name != "texts")]))
        most = max((len(_texts(row)) for row in rows), default=1)
        file.write(csv_lines([[*names, *("text", "text2", "text3")[:most]]]))
        for row in rows:
            texts = _texts(row)
            cells = [*(csv_cell(row.get(name)) for name in names), *texts, *[""] * (most - len(texts))]
            file.write(csv_lines([map(defuse, cells) if safe_csv else cells]))


def _texts(row: Mapping[str, object]) -> tuple[str, ...]:
    texts = row["texts"]
    assert isinstance(texts, tuple)
    return texts
