"""A trained model in the hands of its user: embed, predict, compare."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from plait.data.frames import columns_of, is_frame
from plait.data.records import is_unicode
from plait.errors import RequestError, did_you_mean
from plait.inference.workers import use_workers
from plait.model.apply import Advance
from plait.model.ensemble import AnyModel, answer, count_cut, embed, limit_of, width_of
from plait.model.load import load_model
from plait.model.tasks import TaskSpec

__all__ = ["Prediction", "Predictor", "load"]

Tuple = tuple[str, ...]


@dataclass(frozen=True)
class Prediction:
    """What a task says of one example.

    `label` is the name of a class or of yes/no, a tuple of names for several labels at once, None for scores; `score`
    is the probability of that label (of the least certain one where there are several), or the score in the task's own
    range; `probabilities` has one number a class, None for scores. Of a triplet, `label` says which text is nearer to
    the first: second or third.
    """

    label: str | tuple[str, ...] | None
    score: float
    probabilities: dict[str, float] | None


class Predictor:
    """A loaded model, or an ensemble of several."""

    def __init__(self, model: AnyModel) -> None:
        self._model = model

    @property
    def tasks(self) -> Mapping[str, TaskSpec]:
        """The tasks by name; empty for a plain encoder."""
        return self._model.tasks

    @property
    def width(self) -> int:
        """The dimensions of an embedding."""
        return width_of(self._model)

    def embed(self, texts: Iterable[str], *, progress: Advance | None = None) -> np.ndarray:
        """Embeddings (texts, width) in float32; unit vectors where the model normalises."""
        embedded: np.ndarray = embed(self._model, as_texts(texts), progress=progress).numpy()
        return embedded

    def predict(
        self, task: str, texts: Iterable[str] | Iterable[Tuple], *, progress: Advance | None = None
    ) -> list[Prediction]:
        """The task's prediction for each text, for each pair or triplet of texts, or for each row of a data frame."""
        spec = self.task(task)
        decoded = answer(self._model, task, as_columns(spec, texts), progress=progress)
        if decoded.probabilities is None:
            return [Prediction(None, float(value), None) for value in decoded.values]
        return [
            as_prediction(value, row, spec.labels.names)
            for value, row in zip(decoded.values, decoded.probabilities, strict=True)
        ]

    def limit(self, task: str | None = None) -> int:
        """The tokens at which inputs are cut, for a task or for embeddings."""
        return limit_of(self._model, self.task(task).name if task else None)

    def count_cut(self, texts: Sequence[Sequence[str]], task: str | None = None) -> tuple[int, int]:
        """How many inputs of the encoder the texts, given by column, make, and how many of those are cut."""
        return count_cut(self._model, texts, self.task(task).name if task else None)

    def similarity(self, first: Iterable[str], second: Iterable[str]) -> np.ndarray:
        """Cosine of every text of the first list with every text of the second: (first, second)."""
        a_nD, b_mD = (unit(self.embed(texts)) for texts in (first, second))
        cosines: np.ndarray = a_nD @ b_mD.T
        return cosines

    def task(self, name: str) -> TaskSpec:
        """The task of that name."""
        if name not in self.tasks:
            hint = did_you_mean(name, self.tasks) if self.tasks else "it is a plain encoder, which only embeds"
            raise RequestError(f"the model has no task {name!r}; {hint}")
        return self.tasks[name]


def as_prediction(value: np.ndarray, probabilities: np.ndarray, names: Sequence[str]) -> Prediction:
    """The prediction of one example; `value` is a class number, or 0/1 for each of several labels at once."""
    shares = dict(zip(names, map(float, probabilities), strict=True))
    if not value.ndim:
        return Prediction(names[int(value)], float(probabilities[value]), shares)
    label = tuple(name for name, said in zip(names, value, strict=True) if said)
    return Prediction(label, float(np.where(value == 1, probabilities, 1 - probabilities).min()), shares)


def unit(vectors_nD: np.ndarray) -> np.ndarray:
    """Each row divided by its length."""
    scaled: np.ndarray = vectors_nD / np.maximum(np.linalg.norm(vectors_nD, axis=1, keepdims=True), 1e-12)
    return scaled


def as_texts(texts: Iterable[str]) -> list[str]:
    """A list of texts, not one text, and nothing else in it."""
    if isinstance(texts, str) or not isinstance(texts, Iterable) or is_frame(texts):
        found = "one text" if isinstance(texts, str) else type(texts).__name__
        raise RequestError(f"expected a list of texts, found {found}; put it into a list")
    listed = list(texts)
    for number, text in enumerate(listed):
        if not isinstance(text, str):
            raise RequestError(f"text {number}: expected a text, found {type(text).__name__}")
        if not is_unicode(text):
            raise RequestError(f"text {number}: has half a character (a lone surrogate)")
    return listed


def as_columns(spec: TaskSpec, texts: Iterable[str] | Iterable[Tuple]) -> list[list[str]]:
    """One column of texts, or one for each side of the pairs or triplets; of a data frame the task's own columns."""
    if is_frame(texts):
        return [as_texts(column) for column in columns_of(texts, spec.text)]
    if len(spec.text) == 1:
        return [as_texts(texts)]  # type: ignore[arg-type]  # that is what it finds out
    needed, what = (("two", "pairs (text, text)"), ("three", "triplets (text, text, text)"))[len(spec.text) - 2]
    rows = list(texts) if isinstance(texts, Iterable) else [texts]
    for number, row in enumerate(rows):
        if not isinstance(row, tuple | list) or len(row) != len(spec.text):
            raise RequestError(f"example {number}: the task {spec.name!r} compares {needed} texts; give {what}")
    return [as_texts([row[side] for row in rows]) for side in range(len(spec.text))]


def load(source: str | Path, *, device: str = "auto", workers: int = 0) -> Predictor:
    """The model in a directory: plait's own, or a plain Hugging Face or sentence-transformers encoder to embed with.

    With `workers`, so many processes encode, each with a copy of the encoder, instead of the threads of this one.
    """
    model = load_model(source, device="cpu" if workers else device)
    if workers:
        use_workers(model, source, workers)
    return Predictor(model)
