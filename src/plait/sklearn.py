"""plait in scikit-learn: a classifier of texts or pairs of texts, and a transformer from texts to embeddings.

`from plait.sklearn import PlaitClassifier, PlaitEmbedder`; needs scikit-learn (`pip install "plait[sklearn]"`).
n texts, D dimensions, C classes.
"""

import json
import shutil
import tempfile
import weakref
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Self

import numpy as np
from sklearn.base import BaseEstimator, ClassifierMixin, ClassNamePrefixFeaturesOutMixin, TransformerMixin
from sklearn.utils import assert_all_finite, check_consistent_length, check_random_state, column_or_1d
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_is_fitted

from plait.data.examples import value_problem
from plait.data.frames import columns_of, in_rows, is_frame
from plait.drafting.draft import Draft, DraftTask, dev_share
from plait.drafting.guess import Guess, is_unbalanced
from plait.drafting.yaml_text import write_draft
from plait.errors import DataError, RequestError
from plait.inference.predictor import Predictor, load
from plait.recipe.task import Source
from plait.training.train import train

__all__ = ["PlaitClassifier", "PlaitEmbedder"]

_TEXT_COLUMNS = (("text",), ("sentence1", "sentence2"))  # of one text, of a pair


class _InputError(RequestError, ValueError):
    """A mistake in X or y; scikit-learn expects a ValueError."""


class PlaitClassifier(ClassifierMixin, BaseEstimator):  # type: ignore[misc]  # scikit-learn has no types
    """A classifier of texts or pairs of texts, trained with the settings that `plait init` would choose.

    `epochs`, `batch_size` and `lr` replace those settings, and `overrides` any other key of the recipe, as in
    `plait.train`: "pooling=cls". `encoder` is a name, a directory or a hub name, as in a recipe. `random_state` is the
    recipe's seed. A fitted classifier has `classes_` (C,) and `model_`, a `plait.Predictor` with the task `task`;
    `save` writes it as a model directory.
    """

    def __init__(
        self,
        encoder: str = "minilm",
        *,
        task: str = "label",
        epochs: int | None = None,
        batch_size: int | None = None,
        lr: float | None = None,
        overrides: Sequence[str] = (),
        random_state: Any = None,
    ) -> None:
        self.encoder = encoder
        self.task = task
        self.epochs = epochs
        self.batch_size = batch_size
        self.lr = lr
        self.overrides = overrides
        self.random_state = random_state

    def fit(self, X: Any, y: Any) -> Self:
        """Train on texts, or pairs of texts, and the class of each."""
        rows = _rows_of(X)
        if y is None:
            raise _InputError("requires y to be passed, but the target y is None")
        label_n = column_or_1d(y, warn=True)
        assert_all_finite(label_n, input_name="y")
        check_classification_targets(label_n)
        check_consistent_length(rows, label_n)
        self.classes_, class_n = np.unique(label_n, return_inverse=True)
        if len(self.classes_) < 2:
            raise _InputError(f"y: only one class, {self.classes_[0]}; a classifier needs two or more")
        names = _class_names(self.classes_)
        self._trained = self._train(rows, [names[number] for number in class_n], names)
        self._task = self.task
        return self

    def predict(self, X: Any) -> np.ndarray:
        """The class of each text or pair (n,)."""
        probability_nC = self.predict_proba(X)
        label_n: np.ndarray = self.classes_[probability_nC.argmax(axis=1)]
        return label_n

    def predict_proba(self, X: Any) -> np.ndarray:
        """The probability of each class (n, C), in the order of `classes_`."""
        check_is_fitted(self)
        texts = len(self.model_.tasks[self._task].text)
        rows = _rows_of(X, texts)
        predictions = self.model_.predict(self._task, [row[0] for row in rows] if texts == 1 else rows)
        order = [predictions.classes.index(name) for name in _class_names(self.classes_)]
        assert predictions.probabilities is not None, "a task with classes has probabilities"
        probability_nC: np.ndarray = predictions.probabilities[:, order].astype(np.float64)
        probability_nC /= probability_nC.sum(axis=1, keepdims=True)
        return probability_nC

    @property
    def model_(self) -> Predictor:
        """The trained model."""
        check_is_fitted(self)
        return self._trained.predictor

    def save(self, folder: str | Path) -> Path:
        """Write the model to a new directory, for `plait.load` and every command."""
        check_is_fitted(self)
        if (target := Path(folder)).exists():
            raise RequestError(f"{target}: already exists; choose another directory")
        shutil.copytree(self.model_.folder, target)
        return target

    def _train(self, rows: list[tuple[str, ...]], labels: list[str], names: Sequence[str]) -> "_TrainedModel":
        """Train in a temporary run, of which only the model stays."""
        text = _TEXT_COLUMNS[len(rows[0]) - 1]
        with tempfile.TemporaryDirectory(prefix="plait-") as place:
            file, recipe = Path(place) / "rows.jsonl", Path(place) / "recipe.yaml"
            with file.open("w", encoding="utf-8") as stream:
                for row, label in zip(rows, labels, strict=True):
                    cells = {**dict(zip(text, row, strict=True)), "label": label}
                    stream.write(json.dumps(cells) + "\n")
            unbalanced = is_unbalanced(Counter(labels))
            guess = Guess(text, ("label",), "classes", tuple(names), unbalanced=unbalanced)
            splits: dict[str, list[Source] | float] = {
                "train": [Source(file=str(file))],
                "dev": dev_share(len(rows)),
            }
            draft = Draft([DraftTask(self.task, guess, splits, {"train": len(rows)}, [])])
            try:
                write_draft(draft, recipe, self.encoder)
                result = train(recipe, Path(place) / "run", overrides=self._overrides(), baselines=False)
            except DataError as error:
                raise _InputError(*in_rows(error.mistakes, {file: "X", recipe: "the recipe"})) from None
            return _TrainedModel.of(_files_in(result.model))

    def _overrides(self) -> list[str]:
        """The parameters as changes of the recipe."""
        given = {"epochs": self.epochs, "batch_size": self.batch_size, "lr": self.lr}
        if self.random_state is not None:
            fixed = isinstance(self.random_state, int | np.integer)
            given["seed"] = self.random_state if fixed else check_random_state(self.random_state).randint(2**31 - 1)
        return [*(f"{key}={value}" for key, value in given.items() if value is not None), *self.overrides]

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        _take_texts(tags)
        return tags


class PlaitEmbedder(
    ClassNamePrefixFeaturesOutMixin,  # type: ignore[misc]
    TransformerMixin,  # type: ignore[misc]
    BaseEstimator,  # type: ignore[misc]
):
    """A transformer from texts to their embeddings (n, D).

    `model` is a model directory, a run, an encoder such as minilm, or a hub name, as in `plait.load`; its weights stay
    as they are.
    """

    def __init__(self, model: str | Path = "minilm") -> None:
        self.model = model

    def fit(self, X: Any, y: Any = None) -> Self:
        """Load the model; the texts are only checked."""
        _rows_of(X, 1)
        self.model_ = load(self.model)
        self._n_features_out = self.model_.width
        return self

    def transform(self, X: Any) -> np.ndarray:
        """The embedding of each text (n, D), in float32."""
        check_is_fitted(self)
        return self.model_.embed([text for (text,) in _rows_of(X, 1)])

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        _take_texts(tags)
        tags.transformer_tags.preserves_dtype = []  # always float32
        return tags


class _TrainedModel:
    """A model in a temporary directory that is deleted with this object; it is pickled with its files."""

    def __init__(self, folder: Path) -> None:
        self.predictor = load(folder)
        weakref.finalize(self, shutil.rmtree, folder, ignore_errors=True)

    @staticmethod
    def of(files: Mapping[str, bytes]) -> "_TrainedModel":
        """A model directory with these files."""
        folder = Path(tempfile.mkdtemp(prefix="plait-"))
        for name, content in files.items():
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            (folder / name).write_bytes(content)
        return _TrainedModel(folder)

    def __reduce__(self) -> tuple[Callable[..., "_TrainedModel"], tuple[dict[str, bytes]]]:
        return _TrainedModel.of, (_files_in(self.predictor.folder),)


def _files_in(folder: Path) -> dict[str, bytes]:
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def _rows_of(X: Any, texts: int | None = None) -> list[tuple[str, ...]]:
    """The texts or pairs of X: a list, an array, a series, or a data frame with one or two columns.

    `texts` is how many a row must have; by default as many as the first.
    """
    if is_frame(X):
        rows: list[Any] = list(zip(*columns_of(X, [str(name) for name in X.columns]), strict=True))
    elif isinstance(X, str) or not hasattr(X, "__iter__"):
        raise _InputError(f"X: expected a list of texts or of pairs of texts, found {type(X).__name__}")
    else:
        rows = [tuple(row) if isinstance(row, list | tuple | np.ndarray) else (row,) for row in X]
    if not rows:
        raise _InputError("X: 0 samples, but a minimum of 1 is required")
    if texts is None and len(rows[0]) not in (1, 2):
        raise _InputError(f"X: row 0: expected a text or a pair of texts, found {len(rows[0])} values")
    needed = texts or len(rows[0])
    mistakes = []
    for number, row in enumerate(rows):
        if len(row) != needed:
            wanted = ("one text", "a pair of texts")[needed - 1]
            raise _InputError(f"X: row {number}: expected {wanted}, found {len(row)} values")
        mistakes += [f"X: row {number}: the text {problem}" for text in row if (problem := value_problem(text))]
    if mistakes:
        raise _InputError(*mistakes)
    return [tuple(map(str, row)) for row in rows]  # numpy has its own type of str


def _class_names(classes_C: np.ndarray) -> list[str]:
    """The classes as the recipe and the model write them."""
    values = classes_C.tolist()
    names = [str(int(value) if isinstance(value, float) and value.is_integer() else value).strip() for value in values]
    if len(set(names)) < len(names) or "" in names:
        raise _InputError("y: the classes must be different words; some are empty, or differ in white space only")
    return names


def _take_texts(tags: Any) -> None:
    """Say in the tags of an estimator that X holds texts."""
    tags.input_tags.string = True
    tags.input_tags.one_d_array = True
    tags.input_tags.two_d_array = False
