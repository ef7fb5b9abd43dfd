"""What a cell leaves behind: cell.json with its result, answers.npz with its predictions."""

import zipfile
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from plait.data.prediction_arrays import PredictionArrays
from plait.errors import RunError
from plait.experiments.tune import FinishedTrial
from plait.files import atomic_file, read_json_with_digest, write_json_with_digest
from plait.model.directory.record import recipe_tasks

__all__ = ["CellResult", "LabelledPredictions", "read_predictions", "write_predictions"]

_FORMER_KINDS = {"several": "multilabel"}


@dataclass(frozen=True)
class CellResult:
    """cell.json: what a cell scored, and how."""

    scores: dict[str, float]  # task → its metric on the suite's split; empty if the cell failed
    metrics: dict[str, str]  # task → name of its metric
    kinds: dict[str, str]  # task → kind of label
    encoder: str  # a name; of a directory only the last part, as in the recipe
    rows: dict[str, int]  # task → training rows; with folds, those of all folds together
    epochs: list[int | None]  # of each stage
    seconds: float  # of all its own runs
    recipe: dict[str, Any]  # before the grid, without folders
    row: dict[str, Any] = field(default_factory=dict)  # the grid or ensemble of its row in the suite
    data: dict[str, str] = field(default_factory=dict)  # file → sha256
    settings: list[str] = field(default_factory=list)  # what the grid chose
    failed: str | None = None  # why it has no scores
    trials: list[FinishedTrial] = field(default_factory=list)  # of its grid
    train: dict[str, float] = field(default_factory=dict)  # task → its metric on all training rows; empty if not scored
    free: dict[str, dict[str, float]] = field(default_factory=dict)  # baseline → task → score; empty if not measured
    versions: dict[str, str] = field(default_factory=dict)  # package → version; empty for cells of plait 0.1
    variants: dict[str, str] = field(default_factory=dict)  # "head linear" → "linear.v1"; unlisted ones have version 1

    @staticmethod
    def from_json(value: Mapping[str, Any]) -> "CellResult":
        """Raises KeyError, TypeError, ValueError or AttributeError if the value is not that of a cell."""
        known = {name: value[name] for name in CellResult.__dataclass_fields__ if name in value}
        encoder = Path(value["encoder"])  # plait 0.1 wrote the whole path of a directory
        known["encoder"] = encoder.name if encoder.is_absolute() else value["encoder"]
        known["kinds"] = {task: _FORMER_KINDS.get(kind, kind) for task, kind in value["kinds"].items()}
        known["trials"] = [FinishedTrial(**trial) for trial in value.get("trials", ())]
        return CellResult(**known)

    def to_json(self) -> dict[str, Any]:
        return asdict(self)

    def training_sources(self, task: str) -> list[Any]:
        """The files or hub data sets that a task was trained on; with folds, those that were divided."""
        sources: list[Any] = recipe_tasks(self.recipe)[task]["train"]
        return sources

    @property
    def chosen_apart(self) -> bool:
        """Whether other dev rows than the scored ones selected the epoch, for every scored task."""
        tasks = recipe_tasks(self.recipe)
        of_run = bool(self.recipe.get("choose_rows"))
        return all(of_run or tasks.get(task, {}).get("choose_rows") for task in self.scores)

    def dev_share(self, task: str) -> float:
        """The share of the training data that was used as dev; 0 if dev has its own files."""
        dev = recipe_tasks(self.recipe)[task]["dev"]
        return dev if isinstance(dev, float) else 0.0

    @staticmethod
    def read(file: Path) -> "CellResult":
        try:
            return CellResult.from_json(read_json_with_digest(file)[0])
        except (KeyError, ValueError, TypeError, AttributeError):
            raise RunError(f"{file}: damaged; remove it to score the cell again") from None

    def write(self, file: Path) -> None:
        write_json_with_digest(file, self.to_json())


@dataclass(frozen=True)
class LabelledPredictions:
    """The predictions of one task on the suite's split, with the labels."""

    labels: np.ndarray
    predictions: PredictionArrays


def read_predictions(file: Path) -> dict[str, LabelledPredictions]:
    """The predictions of a cell by task."""
    try:
        with np.load(file, allow_pickle=False) as arrays:
            found = {name: arrays[name] for name in arrays.files}
        tasks = [name.removesuffix("/labels") for name in found if name.endswith("/labels")]
        return {
            task: LabelledPredictions(found[f"{task}/labels"], PredictionArrays.from_arrays(found, task))
            for task in tasks
        }
    except (OSError, ValueError, KeyError, zipfile.BadZipFile):
        raise RunError(f"{file}: damaged; remove it and the cell.json beside it to score the cell again") from None


def write_predictions(file: Path, predictions: Mapping[str, LabelledPredictions]) -> None:
    arrays: dict[str, np.ndarray] = {}
    for task, of_task in predictions.items():
        arrays |= {f"{task}/labels": of_task.labels, **of_task.predictions.to_arrays(task)}
    with atomic_file(file) as temporary, temporary.open("wb") as target:
        np.savez_compressed(target, **arrays)  # type: ignore[arg-type]
