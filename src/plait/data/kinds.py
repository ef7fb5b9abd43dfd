"""`KINDS`: the kinds of label, and everything about a task that follows from its kind.

n examples, C classes, M models.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

import numpy as np

from plait.data.prediction_arrays import PredictionArrays

if TYPE_CHECKING:
    from plait.data.labels import Labels

__all__ = ["KINDS", "Kind", "LabelKind"]

Kind = Literal["classes", "multilabel", "yes_no", "score", "triplets", "unlabelled"]
_SCORE_BINS = 5  # equally large parts of the scores that are spread evenly over folds
_SHOWN_CLASSES = 8


@dataclass(frozen=True)
class LabelKind:
    """One kind of label."""

    predicts: str  # what a task of this kind predicts, in a few words
    rows: str  # how messages name labels of this kind
    heads: tuple[str, ...]  # the default head for one, two and three texts; "" where there is none
    loss: str | None  # the default
    metric: str | None  # the default
    describe: "Callable[[Labels], str]"  # classes or range, for people
    strata: Callable[[np.ndarray], list[str]]  # encoded labels → what every fold gets its share of
    constant: "Callable[[Labels, np.ndarray, int], PredictionArrays] | None"  # train labels → one answer for n rows
    average: Callable[[Sequence[PredictionArrays], float], PredictionArrays]  # of M models, with the threshold
    chance: float = 0.0  # the score of guessing, where there is no constant answer
    labelled: bool = True  # whether the data has a label column
    multilabel: bool = False  # whether an example may have several classes
    one_output: bool = False  # whether a head has one output, whatever the number of classes
    is_score: bool = False  # a number in a range, without probabilities
    is_yes_no: bool = False
    symmetric: bool = False  # whether the label of a pair does not depend on the order of its texts
    random_heads: tuple[str, ...] | None = None  # the default heads if they start from random weights; None: the same
    unbalanced_metric: str | None = None  # the metric to prefer if one class is far more common than another

    @property
    def has_classes(self) -> bool:
        """Whether examples belong to named classes."""
        return self.labelled and not self.is_score

    @property
    def one_class(self) -> bool:
        """Whether every example belongs to exactly one named class."""
        return self.has_classes and not self.multilabel

    def outputs(self, labels: "Labels") -> int:
        """The number of outputs of a head."""
        return 1 if self.one_output else len(labels.classes)

    def class_counts(self, labels_n: np.ndarray) -> np.ndarray | None:
        """The number of rows of each class; None without classes."""
        if not self.has_classes:
            return None
        counts: np.ndarray = labels_n.sum(axis=0) if self.multilabel else np.bincount(labels_n)
        return counts


def _class_names(labels: "Labels") -> str:
    return ", ".join(labels.names) if len(labels.names) <= _SHOWN_CLASSES else f"{len(labels.names)} classes"


def _one_stratum(labels_n: np.ndarray) -> list[str]:
    return [""] * len(labels_n)


def _class_strata(labels_n: np.ndarray) -> list[str]:
    return [str(label) for label in labels_n.tolist()]


def _rarest_class_strata(labels_nC: np.ndarray) -> list[str]:
    """The rarest class of each example."""
    counts = labels_nC.sum(axis=0)
    held = [np.flatnonzero(row).tolist() for row in labels_nC]
    return [str(min(found, key=lambda place: (counts[place], place), default="")) for found in held]


def _score_strata(labels_n: np.ndarray) -> list[str]:
    ends = np.quantile(labels_n, np.arange(1, _SCORE_BINS) / _SCORE_BINS)
    return [str(place) for place in np.searchsorted(ends, labels_n, side="right").tolist()]


def _most_common_class(labels: "Labels", train_n: np.ndarray, rows: int) -> PredictionArrays:
    shares_C = np.bincount(train_n, minlength=len(labels.names)) / len(train_n)
    return PredictionArrays(np.full(rows, shares_C.argmax()), np.tile(shares_C, (rows, 1)))


def _common_classes(labels: "Labels", train_nC: np.ndarray, rows: int) -> PredictionArrays:
    """The classes that at least half of the training rows have."""
    shares_C = train_nC.mean(axis=0)
    return PredictionArrays(np.tile(shares_C >= 0.5, (rows, 1)).astype(int), np.tile(shares_C, (rows, 1)))


def _mean_score(labels: "Labels", train_n: np.ndarray, rows: int) -> PredictionArrays:
    return PredictionArrays(np.full(rows, train_n.mean()), None)


def _mean_probabilities(predictions: Sequence[PredictionArrays]) -> np.ndarray:
    given = [part.probabilities for part in predictions if part.probabilities is not None]
    assert len(given) == len(predictions), "every kind but scores has probabilities"
    mean: np.ndarray = np.mean(given, axis=0)
    return mean


def _average_classes(predictions: Sequence[PredictionArrays], threshold: float) -> PredictionArrays:
    mean_nC = _mean_probabilities(predictions)
    return PredictionArrays(mean_nC.argmax(axis=1), mean_nC)


def _average_multilabel(predictions: Sequence[PredictionArrays], threshold: float) -> PredictionArrays:
    mean_nC = _mean_probabilities(predictions)
    return PredictionArrays((mean_nC >= threshold).astype(np.int64), mean_nC)


def _average_yes_no(predictions: Sequence[PredictionArrays], threshold: float) -> PredictionArrays:
    mean_n2 = _mean_probabilities(predictions)
    return PredictionArrays((mean_n2[:, 1] >= threshold).astype(np.int64), mean_n2)


def _average_scores(predictions: Sequence[PredictionArrays], threshold: float) -> PredictionArrays:
    return PredictionArrays(np.mean([part.values for part in predictions], axis=0), None)


KINDS: Mapping[str, LabelKind] = {
    "classes": LabelKind(
        predicts="one of several classes",
        rows="classes",
        heads=("unit_linear", "comparison"),
        random_heads=("linear", "joined"),
        loss="cross_entropy",
        metric="accuracy",
        describe=_class_names,
        strata=_class_strata,
        constant=_most_common_class,
        average=_average_classes,
        unbalanced_metric="macro_f1",
    ),
    "multilabel": LabelKind(
        predicts="any number of several labels",
        rows="multilabel rows",
        heads=("unit_linear", "comparison"),
        random_heads=("linear", "joined"),
        loss="binary_cross_entropy",
        metric="micro_f1",
        describe=_class_names,
        strata=_rarest_class_strata,
        constant=_common_classes,
        average=_average_multilabel,
        multilabel=True,
    ),
    "yes_no": LabelKind(
        predicts="yes or no",
        rows="yes/no labels",
        heads=("unit_linear", "comparison"),
        random_heads=("linear", "difference_product"),
        loss="binary_cross_entropy",
        metric="accuracy",
        describe=_class_names,
        strata=_class_strata,
        constant=_most_common_class,
        average=_average_yes_no,
        one_output=True,
        is_yes_no=True,
        symmetric=True,
        unbalanced_metric="f1",
    ),
    "score": LabelKind(
        predicts="a score",
        rows="scores",
        heads=("unit_linear", "comparison"),
        random_heads=("linear", "cosine"),
        loss="mse",
        metric="pearson",
        describe=lambda labels: f"{labels.low:g} to {labels.high:g}",
        strata=_score_strata,
        constant=_mean_score,
        average=_average_scores,
        one_output=True,
        is_score=True,
        symmetric=True,
    ),
    "triplets": LabelKind(
        predicts="which of two texts is closer",
        rows="triplets",
        heads=("", "", "nearer"),
        loss="simcse_supervised",
        metric="accuracy",
        describe=lambda labels: "anchor, positive, hard negative",
        strata=_one_stratum,
        constant=None,
        chance=0.5,
        average=_average_yes_no,
        labelled=False,
        one_output=True,
    ),
    "unlabelled": LabelKind(
        predicts="nothing, it only trains the encoder",
        rows="rows without a label",
        heads=("", ""),
        loss=None,
        metric=None,
        describe=lambda labels: "no label",
        strata=_one_stratum,
        constant=None,
        average=_average_scores,
        labelled=False,
        one_output=True,
    ),
}
