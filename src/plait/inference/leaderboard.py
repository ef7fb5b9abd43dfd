"""Predictions as the leaderboard of Stanford's CS224N default project takes them."""

import re
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

from plait.errors import RequestError
from plait.inference.predictor import Predictor
from plait.inference.stream import Job, predict_job
from plait.model.tasks import TaskSpec

__all__ = ["PLACES", "leaderboard_file", "leaderboard_job"]

# Kind of label → the beginning of the file's name, and the heading, as the project's own code spells it.
PLACES: Mapping[str, tuple[str, str]] = {
    "classes": ("sst", "Predicted_Sentiment"),
    "yes_no": ("para", "Predicted_Is_Paraphrase"),
    "score": ("sts", "Predicted_Similiary"),
}


def leaderboard_file(spec: TaskSpec, source: str) -> str:
    """The name that the predictions for a file have there; one with dev in its name has another than one without."""
    if spec.labels.kind not in PLACES:
        raise RequestError(
            f"--leaderboard: the task {spec.name!r} has no place there; it takes classes, yes or no, and scores"
        )
    split = "dev" if "dev" in re.split(r"[^a-z]+", Path(source).name.lower()) else "test"
    return f"{PLACES[spec.labels.kind][0]}-{split}-output.csv"


def leaderboard_job(predictor: Predictor, spec: TaskSpec, identity: str) -> Job:
    """The bare answer for each row: the class as the data writes it, 1.0 or 0.0, or the score."""
    job = predict_job(predictor, spec, spec.text, f"{identity} leaderboard")
    written = ("0.0", "1.0") if spec.labels.kind == "yes_no" else spec.labels.classes
    answers = dict(zip(spec.labels.names, written, strict=True))
    place = list(job.added).index("score" if spec.labels.kind == "score" else "label")

    def work(texts: list[list[str]]) -> tuple[list[list[object]], None]:
        said = [cells[place] for cells in job.work(texts)[0]]
        return [[answers[cell] if isinstance(cell, str) else repr(cell)] for cell in said], None

    return replace(job, work=work, added={PLACES[spec.labels.kind][1]: "text"}, needs=("id",))
