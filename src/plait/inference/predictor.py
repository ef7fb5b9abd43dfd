"""A trained model for its users: embed, predict, compare."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np

from plait.data.examples import text_problem, value_problem
from plait.data.frames import columns_of, is_frame
from plait.errors import DataError, ModelError, RequestError, did_you_mean
from plait.inference.cosines import unit_vectors
from plait.inference.decision import Decision
from plait.inference.explanation import Explanation, explain_answers, variants
from plait.inference.predictions import Predictions
from plait.model.directory.load import EngineName, LoadedModel, load_model
from plait.model.encode_texts import Advance, Embedded, Predicted, embed_texts, predict_columns
from plait.model.engines.workers import use_workers
from plait.model.tasks import TaskSpec

__all__ = ["Predictor", "load"]

_TextTuple = tuple[str, ...]


class Predictor:
    """A loaded model, or an ensemble of several; threads can share it, and other processes can be sent it."""

    def __init__(self, loaded: LoadedModel, workers: int = 0) -> None:
        self.loaded = loaded
        self._model = loaded.model
        self._workers = workers

    def __reduce__(self) -> tuple[Callable[..., "Predictor"], tuple[object, ...]]:
        """Pickled as its directory and options; whoever unpickles it loads the model again."""
        device = self._model.members[0].device.type
        return _reload, (str(self.folder.resolve()), self.identity, device, self.engine, self._workers)

    @property
    def tasks(self) -> Mapping[str, TaskSpec]:
        """The tasks by name; empty for a plain encoder."""
        return self._model.tasks

    @property
    def width(self) -> int:
        """The dimensions of an embedding."""
        return sum(member.encoder.config.width for member in self._model.members)

    @property
    def engine(self) -> str:
        """What embeds: torch or onnx."""
        engine = self._model.members[0].engine
        return engine.name if engine else "torch"

    @property
    def folder(self) -> Path:
        """The directory of the model."""
        return self.loaded.folder

    @property
    def identity(self) -> str:
        """Distinguishes one model from another."""
        return self.loaded.identity

    def embed(self, texts: Iterable[str], *, advance: Advance | None = None) -> np.ndarray:
        """Embeddings (texts, width) in float32; unit vectors if the model normalises. An empty text is refused."""
        embedded: np.ndarray = self.embed_column(_as_texts(texts), advance=advance).vectors_nD.numpy()
        return embedded

    def predict(
        self,
        task: str,
        texts: Iterable[str] | Iterable[_TextTuple],
        *,
        threshold: float | None = None,
        abstain_below: float | None = None,
        top_k: int | None = None,
        advance: Advance | None = None,
    ) -> Predictions:
        """The task's prediction for each text, pair or triplet of texts, or for each row of a data frame.

        An empty text is refused, as it is in data files: there is nothing to predict from. From the probability
        `threshold` on, a yes/no task says yes and a multilabel task assigns a label. A label whose probability is lower
        than `abstain_below` is withheld. Both default to what `plait calibrate` fitted; `abstain_below=0` withholds
        none. With `top_k`, only so many classes are listed, the most probable first.
        """
        spec, decision = self.task(task), Decision(threshold, abstain_below, top_k)
        decision.check(spec)
        predicted = predict_columns(self._model, task, _as_columns(spec, texts), advance=advance)
        return Predictions(spec, predicted.predictions, _index_of(texts), decision)

    def explain(self, task: str, text: str | _TextTuple, *, label: str | None = None) -> Explanation:
        """Which words of a text, pair or triplet the answer of a task depends on, by leaving out one at a time.

        `label` chooses another class than the predicted one.
        """
        spec = self.task(task)
        (given,) = zip(*_as_columns(spec, [text]), strict=True)  # type: ignore[arg-type]  # it checks just that
        columns = list(zip(*variants(given), strict=True))
        predicted = self.predict_columns(task, columns)
        answers = [asdict(one) for one in Predictions(spec, predicted.predictions)]
        return explain_answers(task, given, answers, label, truncated=bool(predicted.truncated))

    def embed_column(self, texts: Sequence[str], *, advance: Advance | None = None) -> Embedded:
        """Embeddings of a column of text, and how many of the texts were truncated."""
        return embed_texts(self._model, texts, advance=advance)

    def predict_columns(
        self, task: str, columns: Sequence[Sequence[str]], *, advance: Advance | None = None
    ) -> Predicted:
        """A task's predictions for columns of text as arrays, and how many inputs were truncated."""
        return predict_columns(self._model, task, columns, advance=advance)

    def limit(self, task: str | None = None) -> int:
        """The tokens to which inputs are truncated, for a task or for embeddings."""
        return self._model.limit(self.task(task).name if task else None)

    def similarity(self, first: Iterable[str], second: Iterable[str]) -> np.ndarray:
        """The cosine of every text of the first list with every text of the second: (first, second)."""
        given = _as_texts(first, "first"), _as_texts(second, "second")
        a_nD, b_mD = (unit_vectors(self.embed_column(texts).vectors_nD.numpy()) for texts in given)
        cosines: np.ndarray = a_nD @ b_mD.T
        return cosines

    def task(self, name: str) -> TaskSpec:
        """The task of that name."""
        if name not in self.tasks:
            hint = did_you_mean(name, self.tasks) if self.tasks else "it is a plain encoder, which only embeds"
            raise RequestError(f"the model has no task {name!r}; {hint}")
        return self.tasks[name]


def _as_texts(texts: Iterable[str], argument: str = "texts") -> list[str]:
    """A list of texts; refuses a single text and anything else."""
    if isinstance(texts, str) or not isinstance(texts, Iterable) or is_frame(texts):
        found = "one text" if isinstance(texts, str) else type(texts).__name__
        hint = "give one of its columns" if is_frame(texts) else "put it into a list"
        raise RequestError(f"the argument `{argument}`: expected a list of texts, found {found}; {hint}")
    listed = list(texts)
    for number, text in enumerate(listed):
        if problem := value_problem(text):
            raise RequestError(f"the argument `{argument}`: text {number} {problem}")
    return listed


def _as_columns(spec: TaskSpec, texts: Iterable[str] | Iterable[_TextTuple]) -> list[list[str]]:
    """One column of texts, or one per side of the pairs or triplets; the task's own columns of a data frame."""
    if is_frame(texts):
        columns = columns_of(texts, spec.text)
        for number, given in enumerate(zip(*columns, strict=True)):
            if problem := text_problem(spec.text, given):
                raise DataError(f"row {number} of the data frame: {problem}")
        return columns
    if len(spec.text) == 1:
        return [_as_texts(texts)]  # type: ignore[arg-type]  # it checks just that
    needed, what = (("two", "pairs (text, text)"), ("three", "triplets (text, text, text)"))[len(spec.text) - 2]
    rows = list(texts) if isinstance(texts, Iterable) else [texts]
    for number, row in enumerate(rows):
        where = f"the argument `texts`: example {number}"
        if not isinstance(row, tuple | list) or len(row) != len(spec.text):
            raise RequestError(f"{where}: the task {spec.name!r} compares {needed} texts; give {what}")
        for side, text in enumerate(row):
            if problem := value_problem(text):
                raise RequestError(f"{where}: text {side} {problem}")
    return [[row[side] for row in rows] for side in range(len(spec.text))]


def _index_of(texts: Any) -> Any:
    """The index of a pandas object; None for anything else."""
    return texts.index if hasattr(texts, "iloc") else None


def load(
    source: str | Path,
    *,
    device: str = "auto",
    engine: EngineName = "auto",
    workers: int = 0,
    log: Callable[[str], None] = lambda message: None,
) -> Predictor:
    """The model in a directory: plait's own, or a plain Hugging Face or sentence-transformers encoder to embed with.

    The engine `onnx` embeds with the graphs that `plait export` wrote, `torch` without them. `auto` means the faster of
    the two, which is measured once, or torch if there are no graphs; `log` receives which. int8 graphs are used only
    with the engine `onnx`. With `workers`, that many processes encode instead of threads, each with its own copy of the
    encoder.
    """
    loaded = load_model(source, device="cpu" if workers else device, engine=engine, log=log)
    if workers:
        use_workers(loaded, workers)
    return Predictor(loaded, workers)


def _reload(folder: str, identity: str, device: str, engine: EngineName, workers: int) -> Predictor:
    """A pickled model, which must not have changed on disk."""
    predictor = load(folder, device=device, engine=engine, workers=workers)
    if predictor.identity != identity:
        raise ModelError(f"{folder}: holds another model than the one that was pickled; load it again, then pickle it")
    return predictor
