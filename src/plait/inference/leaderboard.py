"""Predictions in the format of the leaderboard of Stanford's CS224N default project."""

import re
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

from plait.errors import RequestError
from plait.inference.jobs import ChunkResult, Job, predict_job
from plait.inference.predictor import Predictor
from plait.model.headings import PREDICTION
from plait.model.tasks import TaskSpec

__all__ = ["leaderboard_file", "leaderboard_job"]

# Kind of label → prefix of the file's name, and the heading exactly as the project's own code spells it.
_FILES: Mapping[str, tuple[str, str]] = {
    "classes": ("sst", "Predicted_Sentiment"),
    "yes_no": ("para", "Predicted_Is_Paraphrase"),
    "score": ("sts", "Predicted_Similiary"),
}


def leaderboard_file(spec: TaskSpec, source: str) -> str:
    """The file name that the leaderboard expects: for dev if the input's name contains that word, else for test."""
    if spec.labels.kind not in _FILES:
        raise RequestError(
            f"--leaderboard: the task {spec.name!r} cannot be submitted; only classes, yes/no labels and scores can"
        )
    split = "dev" if "dev" in re.split(r"[^a-z]+", Path(source).name.lower()) else "test"
    return f"{_FILES[spec.labels.kind][0]}-{split}-output.csv"


def leaderboard_job(predictor: Predictor, spec: TaskSpec) -> Job:
    """Only the prediction for each row: the class as the data spells it, 1.0 or 0.0, or the score."""
    job = predict_job(predictor, replace(spec, abstain_below=None), spec.text)
    about = spec.labels.about
    written = ("0.0", "1.0") if about.is_yes_no else spec.labels.classes
    spelling = dict(zip(spec.labels.names, written, strict=True))
    place = list(job.added).index(PREDICTION)

    def work(texts: list[list[str]]) -> ChunkResult:
        done = job.work(texts)
        predicted = [cells[place] for cells in done.cells]
        return done._replace(cells=[[spelling[cell] if isinstance(cell, str) else repr(cell)] for cell in predicted])

    heading = _FILES[spec.labels.kind][1]
    return replace(job, identity=f"{job.identity} leaderboard", work=work, added={heading: "text"}, needs=("id",))
