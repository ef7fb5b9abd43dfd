"""Where a run can be resumed: its newest checkpoint, or the one before if that is damaged."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from plait.errors import ModelError, RunError
from plait.model.directory.record import open_directory
from plait.runs.checkpoint import Position, find_checkpoints, read_position, verify_checkpoint
from plait.runs.directory import RunDirectory
from plait.runs.metrics_file import mark_after_step
from plait.runs.records import MetricsMark

__all__ = ["ResumePoint", "find_resume_point"]


@dataclass(frozen=True)
class ResumePoint:
    """A verified checkpoint."""

    place: Path
    position: Position
    metrics: MetricsMark  # the lines before it


def find_resume_point(run: RunDirectory, note: Callable[[str], None]) -> ResumePoint | None:
    """The newest whole checkpoint; None if there is no checkpoint. `note` receives what is wrong with newer ones."""
    problems: list[str] = []
    for place in find_checkpoints(run.checkpoints):
        try:
            verify_checkpoint(place, needs_manifest=run.record.digests)
            position = read_position(place)
            metrics = _metrics_before(run, position)
            if problems:
                _check_best(run, position, metrics)
        except RunError as error:
            problems += error.mistakes
            continue
        if problems:
            for problem in problems:
                note(problem)
            note(f"{place}: whole, and used instead")
        return ResumePoint(place, position, metrics)
    if problems:
        raise RunError(*dict.fromkeys(problems), f"to train from the beginning, delete {run.checkpoints} and resume")
    return None


def _metrics_before(run: RunDirectory, position: Position) -> MetricsMark:
    """The lines of metrics.jsonl before a checkpoint, verified."""
    if not run.metrics.is_file():
        raise RunError(f"{run.metrics}: missing; restore it from a copy")
    if position.metrics is None:
        return mark_after_step(run.metrics, position.step)
    run.metrics_lines(position.metrics)
    return position.metrics


def _check_best(run: RunDirectory, position: Position, metrics: MetricsMark) -> None:
    """Refuse an older checkpoint if a later stage has replaced the best model that its stage ends with.

    Within its own stage, a better model is trained again.
    """
    if position.best_step is None:
        return
    try:
        best = open_directory(run.best).record.provenance.step
    except ModelError:
        best = None
    later = [line for line in run.metrics_lines() if line.step > position.step or (line.stage or 0) > position.stage]
    if best != position.best_step and any((line.stage or 0) > position.stage for line in later):
        raise RunError(f"{run.best}: of a later stage than the checkpoint of step {position.step:,}")
