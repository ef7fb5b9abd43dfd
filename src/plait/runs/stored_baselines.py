"""The baselines of a run: what they scored and what they predicted, measured once."""

import hashlib
import io
import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from plait.data.prediction_arrays import PredictionArrays
from plait.errors import RunError
from plait.files import atomic_file, read_json_with_digest, sha256_of, write_json_with_digest

__all__ = ["StoredBaselines"]

_ARRAYS_DIGEST = "predictions_sha256"  # in baselines.json, which is written last
_MEASURE_AGAIN = "delete baselines.json and baselines.npz, and resume the run to measure them again"
_Answers = Mapping[str, Mapping[str, Mapping[str, PredictionArrays]]]  # split → baseline → task → predictions


class StoredBaselines:
    """baselines.json and baselines.npz."""

    def __init__(self, folder: Path) -> None:
        self._scores = folder / "baselines.json"
        self._predictions = folder / "baselines.npz"

    @property
    def are_measured(self) -> bool:
        return self._scores.is_file()

    def read(self, *, needs_digest: bool) -> dict[str, Any] | None:
        """Split → baseline → task → value; None if they have not been measured."""
        if not self.are_measured:
            return None
        value = self._read_record(needs_digest=needs_digest)
        value.pop(_ARRAYS_DIGEST, None)
        return value

    def write(self, baselines: Mapping[str, Any]) -> None:
        stored = {_ARRAYS_DIGEST: sha256_of(self._predictions)} if self._predictions.is_file() else {}
        write_json_with_digest(self._scores, {**baselines, **stored})

    def read_predictions(self) -> dict[str, dict[str, dict[str, PredictionArrays]]]:
        """Split → baseline → task → predictions; empty if they were not stored, or by an older plait and damaged."""
        known = self._read_record(needs_digest=False).get(_ARRAYS_DIGEST) if self.are_measured else None
        content = self._predictions.read_bytes() if self._predictions.is_file() else None
        if known and (content is None or hashlib.sha256(content).hexdigest() != known):
            raise RunError(f"{self._predictions}: missing or damaged; {_MEASURE_AGAIN}")
        try:
            with np.load(io.BytesIO(content or b""), allow_pickle=False) as file:
                arrays = {name: file[name] for name in file.files}
        except (OSError, ValueError, EOFError, zipfile.BadZipFile):
            return {}
        found: dict[str, dict[str, dict[str, PredictionArrays]]] = {}
        for name in arrays:
            prefix, _, what = name.rpartition("/")
            if what == "values":
                split, baseline, task = prefix.split("/", 2)  # only a task may have a slash in its name
                found.setdefault(split, {}).setdefault(baseline, {})[task] = PredictionArrays.from_arrays(
                    arrays, prefix
                )
        return found

    def write_predictions(self, answers: _Answers) -> None:
        """Comes before `write`, which stores the digest."""
        arrays: dict[str, np.ndarray] = {}
        for split, baselines in answers.items():
            for baseline, tasks in baselines.items():
                for task, predictions in tasks.items():
                    arrays |= predictions.to_arrays(f"{split}/{baseline}/{task}")
        with atomic_file(self._predictions) as temporary, temporary.open("wb") as file:
            np.savez_compressed(file, **arrays)  # type: ignore[arg-type]

    def _read_record(self, *, needs_digest: bool) -> dict[str, Any]:
        try:
            value, has_digest = read_json_with_digest(self._scores)
        except (ValueError, TypeError):
            raise RunError(f"{self._scores}: damaged; {_MEASURE_AGAIN}") from None
        if needs_digest and not has_digest:
            raise RunError(f"{self._scores}: damaged; {_MEASURE_AGAIN}")
        return value
