"""The result of a finished run."""

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from plait.html_table import html_table
from plait.model.card import three_decimals
from plait.runs.directory import RunDirectory
from plait.runs.records import Gain, StageResult

__all__ = ["Result"]


@dataclass(frozen=True)
class Result:
    """A finished run."""

    run: Path
    model: Path  # the best model's directory
    scores: dict[str, Any]  # task → metric → value, of the best model on dev
    baselines: dict[str, Any]  # split → baseline → task → value
    best_step: int
    steps: int
    seconds: float  # of training and evaluation, without pauses
    kept: tuple[str, ...] = ()  # tasks of the start model, or of earlier stages: scored, not trained
    gains: dict[str, Gain] = field(default_factory=dict)  # by task, over the best baseline
    single_task: dict[str, float] = field(default_factory=dict)  # task → its metric on dev when trained alone
    kept_models: tuple[Path, ...] = ()  # the best models' directories, best first, if several were kept
    conflicts: dict[str, dict[str, float]] = field(default_factory=dict)  # by pair of tasks, if measured
    stages: tuple[StageResult, ...] = ()  # empty if there is only one

    def _repr_html_(self) -> str:
        baselines = self.baselines.get("dev", {})
        rows = [
            [
                task,
                ", ".join(f"{metric} {three_decimals(value)}" for metric, value in scores.items()),
                *(three_decimals(values.get(task)) for values in baselines.values()),
                _shown_gain(self.gains.get(task)),
            ]
            for task, scores in self.scores.items()
        ]
        caption = f"{self.run}: dev scores after step {self.best_step:,} of {self.steps:,}"
        names = ["task", "scores", *baselines, "gain over the best baseline"]
        return html_table(caption, names, rows, f"The best model: {self.model}")

    @staticmethod
    def of(run: RunDirectory, kept: tuple[str, ...], single_task: dict[str, float]) -> "Result":
        """The result of a finished run directory."""
        record = run.read_result()
        return Result(
            run=run.folder,
            model=run.best,
            scores=record.scores,
            baselines=record.baselines,
            best_step=record.best_step or 0,
            steps=record.steps,
            seconds=record.seconds,
            kept=kept,
            gains=record.gains,
            single_task=single_task,
            kept_models=tuple(run.kept / model.name for model in record.kept),
            conflicts=record.conflicts,
            stages=tuple(record.stages),
        )


def _shown_gain(gain: Gain | None) -> str:
    return f"{gain.difference:+.3f} ({gain.low:+.3f} to {gain.high:+.3f}), {gain.verdict}" if gain else "–"
