"""What a task predicts for some examples: a list of predictions, also as arrays and as a data frame.

n examples, C classes.
"""

from collections.abc import Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any, overload

import numpy as np

from plait.data.prediction_arrays import PredictionArrays
from plait.errors import RequestError
from plait.html_table import html_table
from plait.inference.decision import Decision
from plait.inference.prediction import Prediction
from plait.model.card import three_decimals
from plait.model.headings import prediction_headings
from plait.model.tasks import TaskSpec

if TYPE_CHECKING:
    import pandas

__all__ = ["Predictions"]

_SHOWN = 10  # predictions that a notebook or a prompt shows
_Label = str | tuple[str, ...] | None


class Predictions(Sequence[Prediction]):
    """What a task predicts for some examples: a list of `Prediction`, also as arrays and as a data frame."""

    def __init__(
        self, spec: TaskSpec, arrays: PredictionArrays, index: Any = None, decision: Decision | None = None
    ) -> None:
        """`index` is that of the pandas object that the texts came from."""
        self._spec = spec
        self._decision = (decision or Decision()).for_task(spec)
        self._arrays = self._decision.apply(arrays, spec)
        self._index = index

    @property
    def task(self) -> str:
        """The name of the task."""
        return self._spec.name

    @property
    def classes(self) -> tuple[str, ...]:
        """The names of the classes, in the order of the columns of `probabilities`; none for scores."""
        return () if self._arrays.probabilities is None else tuple(self._spec.labels.names)

    @property
    def probabilities(self) -> np.ndarray | None:
        """The probability of each class (n, C); None for scores."""
        return self._arrays.probabilities

    @cached_property
    def labels(self) -> list[_Label]:
        """The label of each prediction; None for scores and abstentions."""
        values, names = self._arrays.values, self.classes
        if self.probabilities is None:
            return [None] * len(values)
        if values.ndim == 1:  # the number of a class
            pairs = zip(values.tolist(), self.abstained.tolist(), strict=True)
            return [None if withheld else names[value] for value, withheld in pairs]
        return [tuple(name for name, assigned in zip(names, row, strict=True) if assigned) for row in values]

    @cached_property
    def scores(self) -> np.ndarray:
        """The score of each prediction (n,): the probability of its label, or the score in the task's own range."""
        values, shares_nC = self._arrays.values, self.probabilities
        if shares_nC is None:
            return values
        if values.ndim == 1:
            chosen_n: np.ndarray = np.take_along_axis(shares_nC, values[:, None], axis=1)[:, 0]
            return chosen_n
        least_n: np.ndarray = np.where(values == 1, shares_nC, 1 - shares_nC).min(axis=1)
        return least_n

    @cached_property
    def abstained(self) -> np.ndarray:
        """Which labels were withheld (n,), because their probability was below `abstain_below`."""
        return self._decision.abstains(self.scores)

    @cached_property
    def cells(self) -> list[list[Any]]:
        """The rows of the columns that `plait predict` writes."""
        shares_nC, top_k = self.probabilities, self._decision.top_k
        if shares_nC is None:
            return [[score] for score in self.scores.tolist()]
        answers = zip(self.labels, self.scores.tolist(), strict=True)
        if top_k is None:
            return [[*answer, *row] for answer, row in zip(answers, shares_nC.tolist(), strict=True)]
        shares = (prediction.probabilities or {} for prediction in self._items)
        return [
            [*answer, *(cell for pair in row.items() for cell in pair)]
            for answer, row in zip(answers, shares, strict=True)
        ]

    def to_frame(self) -> "pandas.DataFrame":
        """A pandas data frame with the columns that `plait predict` writes: prediction, probability, p(CLASS).

        With `top_k`, the most probable classes take the place of p(CLASS). It has the index of the data frame or series
        that was predicted.
        """
        try:
            import pandas
        except ImportError:
            raise RequestError("to_frame needs the package pandas; pip install pandas") from None
        headings = prediction_headings(self._spec, self._decision.top_k)
        columns = zip(*self.cells, strict=True) if len(self) else [()] * len(headings)
        named = {
            name: np.array(column, dtype=np.float64) if kind == "number" else list(column)
            for (name, kind), column in zip(headings.items(), columns, strict=True)
        }
        return pandas.DataFrame(named, index=self._index)

    def __len__(self) -> int:
        return len(self._arrays.values)

    @overload
    def __getitem__(self, place: int) -> Prediction: ...

    @overload
    def __getitem__(self, place: slice) -> "Predictions": ...

    def __getitem__(self, place: int | slice) -> "Prediction | Predictions":
        if not isinstance(place, slice):
            return self._items[place]
        rows = np.arange(len(self))[place]
        index = None if self._index is None else self._index[place]
        return Predictions(self._spec, self._arrays.rows(rows), index, self._decision)

    def __eq__(self, other: object) -> bool:
        """Whether another list holds the same predictions."""
        return self._items == list(other) if isinstance(other, list | Predictions) else NotImplemented

    __hash__ = None  # type: ignore[assignment]  # as for any list

    def __repr__(self) -> str:
        more = f", … {len(self):,} in all" if len(self) > _SHOWN else ""
        return f"Predictions([{', '.join(map(repr, self._items[:_SHOWN]))}{more}])"

    def _repr_html_(self) -> str:
        names = ["", *prediction_headings(self._spec, self._decision.top_k)]
        rows = [[number, *map(_shown, row)] for number, row in enumerate(self.cells[:_SHOWN])]
        more = f"… and {len(self) - _SHOWN:,} more" if len(self) > _SHOWN else ""
        return html_table(f"{self.task}: {len(self):,} predictions", names, rows, more)

    @cached_property
    def _items(self) -> list[Prediction]:
        shares_nC = self.probabilities
        named: list[dict[str, float] | None] = [None] * len(self)
        if shares_nC is not None:
            order = range(len(self.classes))
            kept = self._decision.top_k
            orders = [order] * len(self) if kept is None else (-shares_nC).argsort(axis=1, kind="stable")[:, :kept]
            named = [
                {self.classes[place]: row[place] for place in places}
                for places, row in zip(orders, shares_nC.tolist(), strict=True)
            ]
        return [Prediction(*found) for found in zip(self.labels, self.scores.tolist(), named, strict=True)]


def _shown(cell: _Label | float) -> str:
    """A cell for people; the empty cell of an abstention says so."""
    if isinstance(cell, float):
        return three_decimals(cell)
    if cell is None:
        return "abstained"
    return cell if isinstance(cell, str) else ", ".join(cell) or "none"
