"""Predictions and embeddings for every row of a file; the output appears only when it is whole."""

import csv
import json
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from plait.data.read import read_rows
from plait.errors import RequestError
from plait.inference.predictor import Prediction, Predictor
from plait.model.files import whole_file
from plait.model.tasks import TaskSpec
from plait.model.watch import Watcher

__all__ = ["embed_file", "output_format", "predict_file"]


def output_format(path: Path, allowed: Sequence[str]) -> str:
    """The kind of file that a name asks for."""
    if path.suffix not in allowed:
        raise RequestError(f"--output {path}: unknown kind of file; give {' or '.join(allowed)}")
    if not path.resolve().parent.is_dir():
        raise RequestError(f"--output {path}: its folder does not exist")
    return path.suffix


def predict_file(
    predictor: Predictor, spec: TaskSpec, source: Path, output: Path, columns: Sequence[str], watcher: Watcher
) -> int:
    """Write the texts and a task's predictions, row by row; the number of rows."""
    if len(columns) != len(spec.text):
        raise RequestError(f"the task {spec.name!r} reads {len(spec.text)} text columns, {len(columns)} given")
    rows = read_rows([source], columns, quoting=spec.quoting)
    texts = [rows.columns[column] for column in columns]
    watcher.begin(f"predicting {spec.name}", len(rows) * len(spec.views))
    examples = texts[0] if len(texts) == 1 else list(zip(*texts, strict=True))
    predictions = predictor.predict(spec.name, examples, progress=watcher.advance)
    watcher.end()
    if cut := predictor.cut(texts, spec.name):
        watcher.note(cut)
    names = [] if spec.labels.kind == "score" else list(spec.labels.names)
    predicted = [*([] if spec.labels.kind == "score" else ["label"]), "score", *(f"p({name})" for name in names)]
    if set(predicted) & set(columns):  # the file's own columns keep their names
        predicted = [f"predicted {name}" for name in predicted]
    header = [*columns, *predicted]
    records = [
        [*(column[row] for column in texts), *cells(prediction, names)] for row, prediction in enumerate(predictions)
    ]
    with whole_file(output) as aside, aside.open("w", encoding="utf-8", newline="") as file:
        if output.suffix == ".jsonl":
            file.writelines(
                json.dumps(dict(zip(header, record, strict=True)), ensure_ascii=False) + "\n" for record in records
            )
        else:
            csv.writer(file).writerows([header, *records])
    return len(rows)


def cells(prediction: Prediction, names: Sequence[str]) -> list[str | float | None]:
    """The columns of one prediction."""
    if prediction.probabilities is None:
        return [prediction.score]
    return [prediction.label, prediction.score, *(prediction.probabilities[name] for name in names)]


def embed_file(predictor: Predictor, source: Path, output: Path, column: str, watcher: Watcher) -> tuple[int, int]:
    """Write the embeddings of a column as a numpy array; its shape."""
    rows = read_rows([source], [column])
    watcher.begin("embedding", len(set(rows.columns[column])))
    embedded = predictor.embed(rows.columns[column], progress=watcher.advance)
    watcher.end()
    if cut := predictor.cut([rows.columns[column]]):
        watcher.note(cut)
    with whole_file(output) as aside, aside.open("wb") as file:
        np.save(file, embedded)
    return len(rows), predictor.width
