"""A model as a function of batches of rows, as engines for large data call it."""

from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from plait.data.readers.records import Record, as_text
from plait.errors import DataError, RequestError
from plait.inference.decision import Decision
from plait.inference.jobs import Answers, Job, embed_job, predict_job
from plait.inference.predictor import Predictor, load
from plait.model.directory.load import EngineName

__all__ = ["BatchMapper"]


class BatchMapper:
    """Adds embeddings, or with a `task` its predictions, to batches of rows.

    For `Dataset.map` of datasets, `map_batches` of Ray Data and `mapInPandas` of Spark. A batch is a data frame of
    pandas, or a mapping of columns to lists or arrays; the answer is of the same kind. The new columns are those of
    `plait embed` and `plait predict`. A row whose text is empty gets None, or in an array of embeddings NaN. The model
    is loaded once per object; a pickled object loads it again, and refuses a model that changed on disk.
    """

    def __init__(
        self,
        model: Predictor | str | Path,
        task: str | None = None,
        *,
        text: str | list[str] | None = None,
        threshold: float | None = None,
        abstain_below: float | None = None,
        top_k: int | None = None,
        prefix: str = "",
        engine: EngineName = "auto",
    ) -> None:
        """`text` names the text columns, if they are not called as in training."""
        self.predictor = model if isinstance(model, Predictor) else load(model, engine=engine)
        self.task = task
        self.text = [text] if isinstance(text, str) else list(text or ())
        self.decision = Decision(threshold, abstain_below, top_k)
        self.prefix = prefix
        self.job = replace(self._make_job(), prefix=prefix)

    def _make_job(self) -> Job:
        if self.task is not None:
            spec = self.predictor.task(self.task)
            return predict_job(self.predictor, spec, self.text or spec.text, self.decision)
        if self.decision != Decision() or len(self.text) > 1:
            raise RequestError(
                "embeddings take one `text` column and no `threshold`, `abstain_below` or `top_k`; name a task"
            )
        default = next((spec.text[0] for spec in self.predictor.tasks.values()), "text")
        return embed_job(self.predictor, *(self.text or [default]))

    def __reduce__(self) -> tuple[Callable[..., "BatchMapper"], tuple[Predictor]]:
        decision = self.decision
        options = {
            "task": self.task,
            "text": self.text,
            "threshold": decision.threshold,
            "abstain_below": decision.abstain_below,
            "top_k": decision.top_k,
            "prefix": self.prefix,
        }
        return partial(BatchMapper, **options), (self.predictor,)  # type: ignore[arg-type]

    def __call__(self, batch: Any) -> Any:
        """The batch with the new columns."""
        is_frame = hasattr(batch, "assign")
        if not is_frame and not isinstance(batch, Mapping):
            raise RequestError(f"expected a mapping of columns or a pandas data frame, found {type(batch).__name__}")
        if missing := [name for name in self.job.text if name not in batch]:
            raise DataError(f"the batch has no column {missing[0]!r}; name the text columns with `text`")
        names = self.job.text
        columns = [[as_text(cell) for cell in batch[name]] for name in names]
        records = [
            Record(row, dict(zip(names, texts, strict=True))) for row, texts in enumerate(zip(*columns, strict=True))
        ]
        as_arrays = not is_frame and all(isinstance(column, np.ndarray) for column in batch.values())
        new = self._columns(self.job.answer(records), as_arrays)
        if taken := [name for name in new if name in batch]:
            raise DataError(f"the batch already has the column {taken[0]!r}; use a `prefix` for the new ones")
        return batch.assign(**new) if is_frame else {**batch, **new}

    def _columns(self, found: Answers, as_arrays: bool) -> dict[str, Any]:
        """The new columns."""
        new: dict[str, Any] = {}
        for place, (name, kind) in enumerate(self.job.added.items()):
            cells = [None if row is None else row[place] for row in found.added]
            new[f"{self.prefix}{name}"] = _array(cells, kind) if as_arrays else cells
        if found.vectors_nD is not None:
            vectors_nD = found.vectors_nD
            rows = [None if row is None else vector for row, vector in zip(found.added, vectors_nD, strict=True)]
            new[f"{self.prefix}embedding"] = vectors_nD if as_arrays else rows
        return new


def _array(cells: list[Any], kind: str) -> np.ndarray:
    if kind == "number":
        return np.array([np.nan if cell is None else cell for cell in cells], dtype=np.float64)
    made = np.empty(len(cells), dtype=object)  # cells may be tuples, which numpy would make a table of
    made[:] = cells
    return made
