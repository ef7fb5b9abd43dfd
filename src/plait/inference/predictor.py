"""A trained model in the hands of its user: embed, predict, compare."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from plait.data.read import is_unicode
from plait.errors import RequestError, did_you_mean
from plait.model.apply import Advance, cut_inputs, embed_texts, task_outputs
from plait.model.decode import decode
from plait.model.load import load_model
from plait.model.model import Model
from plait.model.tasks import TaskSpec

__all__ = ["Prediction", "Predictor", "load"]

Pair = tuple[str, str]


@dataclass(frozen=True)
class Prediction:
    """What a task says of one example.

    `label` is the name of a class or of yes/no, None for scores; `score` is the probability of that label, or the
    score in the task's own range; `probabilities` has one number a class, None for scores.
    """

    label: str | None
    score: float
    probabilities: dict[str, float] | None


class Predictor:
    """A loaded model."""

    def __init__(self, model: Model) -> None:
        self._model = model

    @property
    def tasks(self) -> Mapping[str, TaskSpec]:
        """The tasks by name; empty for a plain encoder."""
        return self._model.tasks

    @property
    def width(self) -> int:
        """The dimensions of an embedding."""
        return self._model.encoder.config.width

    def embed(self, texts: Iterable[str], *, progress: Advance | None = None) -> np.ndarray:
        """Embeddings (texts, width) in float32; unit vectors where the model normalises."""
        embedded: np.ndarray = embed_texts(self._model, as_texts(texts), progress=progress).numpy()
        return embedded

    def predict(
        self, task: str, texts: Iterable[str] | Iterable[Pair], *, progress: Advance | None = None
    ) -> list[Prediction]:
        """The task's prediction for each text, or for each pair of texts."""
        spec = self.task(task)
        columns = as_columns(spec, texts)
        decoded = decode(task_outputs(self._model, task, columns, progress=progress), spec)
        if decoded.probabilities is None:
            return [Prediction(None, float(value), None) for value in decoded.values]
        names = spec.labels.names
        return [
            Prediction(names[value], float(row[value]), dict(zip(names, map(float, row), strict=True)))
            for value, row in zip(decoded.values, decoded.probabilities, strict=True)
        ]

    def cut(self, texts: Sequence[Sequence[str]], task: str | None = None) -> str | None:
        """A sentence about the texts, given by column, that are too long to be read whole; None if all fit."""
        spec = self.task(task) if task else None
        limit = spec.max_length if spec else self._model.text.limit
        inputs, cut = cut_inputs(self._model, texts, spec.views if spec else ("first",), limit)
        return f"{cut:,} of {inputs:,} inputs were cut at {limit} tokens" if cut else None

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


def unit(vectors_nD: np.ndarray) -> np.ndarray:
    """Each row divided by its length."""
    scaled: np.ndarray = vectors_nD / np.maximum(np.linalg.norm(vectors_nD, axis=1, keepdims=True), 1e-12)
    return scaled


def as_texts(texts: Iterable[str]) -> list[str]:
    """A list of texts, not one text, and nothing else in it."""
    if isinstance(texts, str) or not isinstance(texts, Iterable):
        found = "one text" if isinstance(texts, str) else type(texts).__name__
        raise RequestError(f"expected a list of texts, found {found}; put it into a list")
    listed = list(texts)
    for number, text in enumerate(listed):
        if not isinstance(text, str):
            raise RequestError(f"text {number}: expected a text, found {type(text).__name__}")
        if not is_unicode(text):
            raise RequestError(f"text {number}: has half a character (a lone surrogate)")
    return listed


def as_columns(spec: TaskSpec, texts: Iterable[str] | Iterable[Pair]) -> list[list[str]]:
    """One column of texts, or two of the pairs' sides."""
    if len(spec.text) == 1:
        return [as_texts(texts)]  # type: ignore[arg-type]  # that is what it finds out
    pairs = list(texts) if isinstance(texts, Iterable) else [texts]
    for number, pair in enumerate(pairs):
        if not isinstance(pair, tuple | list) or len(pair) != 2:
            raise RequestError(f"example {number}: the task {spec.name!r} compares two texts; give pairs (text, text)")
    return [as_texts([pair[side] for pair in pairs]) for side in (0, 1)]


def load(source: str | Path, *, device: str = "auto") -> Predictor:
    """The model in a directory: plait's own, or a plain Hugging Face or sentence-transformers encoder to embed with."""
    return Predictor(load_model(source, device=device))
