"""`TRACKERS`: where the metrics of a run go beside metrics.jsonl. Each package is imported on use."""

import math
import os
import re
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Protocol

from plait.errors import RecipeError
from plait.progress import Progress, SilentProgress
from plait.recipe.schema import Recipe
from plait.runs.directory import RunDirectory
from plait.runs.records import ConflictLine, MetricsLine, ScoresLine, TrainLine

__all__ = ["TRACKERS", "Trackers", "check_trackers", "numbers_of", "open_trackers"]

_PROJECT = "plait"  # of a tracker that groups runs, unless its own settings say otherwise


@dataclass(frozen=True)
class _TrackedRun:
    """What a tracker is told about a run."""

    folder: Path
    name: str
    recipe: dict[str, Any]
    step: int  # the last that was written before; 0 for a new run
    known: str | None  # what the tracker called the run before it was resumed


class _Tracker(Protocol):
    """Receives the metrics of one run."""

    @property
    def known(self) -> str | None: ...  # what finds the run again when it is resumed

    def log(self, values: Mapping[str, float], step: int) -> None: ...

    def close(self) -> None: ...


class _TensorBoard:
    """Event files in RUN/tensorboard."""

    known = None

    def __init__(self, run: _TrackedRun) -> None:
        from tensorboardX import SummaryWriter

        purge = {"purge_step": run.step + 1} if run.step else {}  # steps that a resumed run repeats
        self.writer = SummaryWriter(str(run.folder / "tensorboard"), **purge)

    def log(self, values: Mapping[str, float], step: int) -> None:
        for name, value in values.items():
            self.writer.add_scalar(name, value, step)

    def close(self) -> None:
        self.writer.close()


class _MLflow:
    """A run in MLflow, wherever its own settings point."""

    def __init__(self, run: _TrackedRun) -> None:
        from mlflow.tracking import MlflowClient

        self.client = MlflowClient()
        if run.known is None:
            project = os.environ.get("MLFLOW_EXPERIMENT_NAME", _PROJECT)
            found = self.client.get_experiment_by_name(project)
            experiment = found.experiment_id if found else self.client.create_experiment(project)
            self.known = str(self.client.create_run(experiment, run_name=run.name).info.run_id)
            self.client.log_dict(self.known, run.recipe, "recipe.json")
        else:
            self.known = run.known
            self.client.update_run(self.known, status="RUNNING")

    def log(self, values: Mapping[str, float], step: int) -> None:
        from mlflow.entities import Metric

        now = round(1000 * time.time())
        metrics = [Metric(re.sub(r"[^\w\-. :/]", "_", name), value, now, step) for name, value in values.items()]
        self.client.log_batch(self.known, metrics=metrics)

    def close(self) -> None:
        self.client.set_terminated(self.known)


class _WandB:
    """A run of Weights & Biases; its files are in RUN/wandb."""

    def __init__(self, run: _TrackedRun) -> None:
        import wandb

        project = os.environ.get("WANDB_PROJECT", _PROJECT)
        self.run = wandb.init(
            project=project, name=run.name, id=run.known, dir=str(run.folder), config=run.recipe, resume="allow"
        )
        self.known = str(self.run.id)

    def log(self, values: Mapping[str, float], step: int) -> None:
        self.run.log(dict(values), step=step)

    def close(self) -> None:
        self.run.finish()


class _Trackio:
    """A run of trackio, in its own database on this machine."""

    def __init__(self, run: _TrackedRun) -> None:
        import trackio

        resume = "allow" if run.known else "never"
        self.run = trackio.init(_PROJECT, name=run.known or run.name, config=run.recipe, resume=resume, embed=False)
        self.known = str(self.run.name)

    def log(self, values: Mapping[str, float], step: int) -> None:
        self.run.log(dict(values), step=step)

    def close(self) -> None:
        self.run.finish()


@dataclass(frozen=True)
class _Entry:
    """How a tracker is started, and the module that it needs."""

    start: Callable[[_TrackedRun], _Tracker]
    module: str


TRACKERS: Mapping[str, _Entry] = {
    "tensorboard": _Entry(_TensorBoard, "tensorboardX"),
    "mlflow": _Entry(_MLflow, "mlflow"),
    "wandb": _Entry(_WandB, "wandb"),
    "trackio": _Entry(_Trackio, "trackio"),
}


def check_trackers(recipe: Recipe) -> None:
    """Refuse trackers that are not installed; all at once."""
    missing = [name for name in recipe.tracker if find_spec(TRACKERS[name].module) is None]
    if missing:
        where = recipe.where("tracker")
        raise RecipeError(*(f'{where}{name} is not installed; pip install "plait[{name}]"' for name in missing))


class Trackers:
    """All trackers of a run; one that fails is given up with a note, and the run goes on."""

    def __init__(self, progress: Progress | None = None) -> None:
        self._open: dict[str, _Tracker] = {}
        self._progress = progress or SilentProgress()

    def start(self, name: str, run: _TrackedRun) -> str | None:
        """Start a tracker; returns what finds the run again."""
        with self._giving_up(name):
            self._open[name] = TRACKERS[name].start(run)
        return self._open[name].known if name in self._open else None

    def write(self, line: MetricsLine) -> None:
        """Send the numbers of a line of metrics.jsonl."""
        values = numbers_of(line)
        for name, tracker in list(self._open.items()):
            with self._giving_up(name):
                tracker.log(values, line.step)

    def close(self) -> None:
        for name, tracker in list(self._open.items()):
            with self._giving_up(name):
                tracker.close()

    @contextmanager
    def _giving_up(self, name: str) -> Iterator[None]:
        try:
            yield
        except Exception as error:  # of a package that is not ours, or of its server
            self._open.pop(name, None)
            said = " ".join(str(error).split()) or type(error).__name__
            self._progress.note(f"{name} failed and is no longer written to: {said}")


@contextmanager
def open_trackers(
    run: RunDirectory, names: Sequence[str], recipe: dict[str, Any], step: int, progress: Progress
) -> Iterator[Trackers]:
    """The trackers of a run while it trains from a step on."""
    trackers = Trackers(progress)
    known = run.read_trackers()
    for name in names:
        tracked = _TrackedRun(run.folder, run.folder.resolve().name, recipe, step, known.get(name))
        if (found := trackers.start(name, tracked)) and found != known.get(name):
            known = {**known, name: found}
            run.write_trackers(known)
    try:
        yield trackers
    finally:
        trackers.close()


def numbers_of(line: MetricsLine) -> dict[str, float]:
    """The numbers of a line by name: loss/TASK, dev/TASK/METRIC, train/TASK/METRIC, mean, cosine/TASK/TASK."""
    found: dict[str, float | None] = {}
    if isinstance(line, TrainLine):
        found = {f"loss/{task}": value for task, value in line.loss.items()}
    elif isinstance(line, ConflictLine):
        found = {f"cosine/{pair}": value for pair, value in line.cosines.items()}
    elif isinstance(line, ScoresLine):
        splits = {"dev": {**line.kept, **line.dev}, "train": line.train, "choose": line.choose}
        found = {
            f"{split}/{task}/{metric}": value
            for split, tasks in splits.items()
            for task, values in tasks.items()
            for metric, value in values.items()
        }
        found["mean"] = line.mean
    return {name: float(value) for name, value in found.items() if value is not None and math.isfinite(value)}
