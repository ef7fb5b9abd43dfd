"""Everything that a report says about one run, collected from its directory."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from plait.data.examples import Examples
from plait.data.prediction_arrays import PredictionArrays
from plait.errors import PlaitError, RunError
from plait.evaluation.calibration import predict_unseen
from plait.evaluation.evaluate import TaskScores, score_predictions
from plait.evaluation.paired import TaskComparison, compare_rows, correct_for_several
from plait.evaluation.significance import Interval
from plait.model.directory.load import load_model
from plait.model.directory.record import ModelRecord, open_directory
from plait.model.encode_texts import AnyModel, predict_columns
from plait.model.tasks import TaskSpec
from plait.progress import Progress
from plait.reporting.curves import Curves, read_curves
from plait.reporting.sampling import sample_examples
from plait.runs.directory import RunDirectory
from plait.runs.origins import known_origins, split_examples
from plait.runs.records import ResultRecord

__all__ = ["RunFacts", "ScoredSplit", "collect_run"]

_SPLITS = ("train", "dev", "test")


@dataclass(frozen=True)
class ScoredSplit:
    """A task's predictions on a split, or on a sample of it."""

    spec: TaskSpec
    split: str
    examples: Examples  # those that were predicted
    predictions: PredictionArrays
    scores: TaskScores  # on them
    rows: int  # of the whole split

    @property
    def is_sample(self) -> bool:
        return len(self.examples) < self.rows

    @property
    def right_n(self) -> np.ndarray:
        """Whether each prediction is right; scores are never exactly right."""
        same: np.ndarray = self.predictions.values == self.examples.labels
        return same if same.ndim == 1 else np.all(same, axis=1)


@dataclass(frozen=True)
class RunFacts:
    """A run: its records, its curves, its data, and what its best model predicts."""

    run: RunDirectory
    name: str
    result: ResultRecord | None  # None while it trains
    model: AnyModel | None  # None if the model or its files are gone
    record: ModelRecord | None
    curves: Curves
    data: Mapping[str, Mapping[str, Examples]]  # task → split → examples
    scored: Mapping[str, ScoredSplit]  # task → the rows that are shown: dev, or test if there is no dev
    tested: Mapping[str, ScoredSplit]  # task → test
    notes: list[str] = field(default_factory=list)
    single_task: Sequence[TaskComparison] = ()  # the tasks that were trained alone as well, compared with that

    @property
    def specs(self) -> dict[str, TaskSpec]:
        """The tasks of the model."""
        return self.record.tasks if self.record else {}

    @property
    def tasks(self) -> list[str]:
        """Every task that the run has trained or scored."""
        return list(dict.fromkeys([*self.specs, *(turn.task for turn in self.curves.turns)]))

    @property
    def baselines(self) -> dict[str, dict[str, float]]:
        """Baseline → task → its dev score."""
        found = self.result.baselines if self.result else self.run.read_baselines() or {}
        dev: dict[str, dict[str, float]] = found.get("dev", {})
        return dev

    def value(self, task: str) -> float | None:
        """The dev score of a task by its own metric: that of the run, on all dev rows."""
        known = self.result.scores if self.result else self.record.provenance.scores if self.record else {}
        found: float | None = known.get(task, {}).get(self.specs[task].metric)
        scored = self.scored.get(task)
        return scored.scores.value if found is None and scored and scored.split == "dev" else found

    def interval(self, task: str) -> Interval | None:
        """The interval of that score; of a sample, scaled to the number of all rows."""
        scored, value = self.scored.get(task), self.value(task)
        if scored is None or value is None or scored.split != "dev" or scored.scores.interval is None:
            return None
        shrink = (len(scored.examples) / scored.rows) ** 0.5
        low, high = (value + shrink * (end - scored.scores.value) for end in scored.scores.interval)
        return low, high


def collect_run(folder: Path, name: str, rows: int, data_folder: Path | None, progress: Progress) -> RunFacts:
    """Read a run and predict its dev and test rows; what is missing becomes a note.

    Files are looked for in `data_folder` too. Notes name no folders of this machine, since pages are shared.
    """
    run = RunDirectory(folder)
    if not run.has_begun:
        raise RunError(f"{folder}: not a run; give the folder that plait train wrote, or a results file of a suite")
    notes: list[str] = []
    result = run.read_result() if run.is_trained else None
    if result is None:
        notes.append("This run is not finished; the report shows what there is so far.")
    record = model = None
    try:
        record = open_directory(run.best).record
        model = load_model(run.best).model
    except PlaitError:
        notes.append("Its best model is missing or damaged, so predictions are not shown; plait evaluate says more.")
    data = _read_data(run, record, data_folder, notes) if record else {}
    scored: dict[str, ScoredSplit] = {}
    tested: dict[str, ScoredSplit] = {}
    if record and model:
        refitted = record.provenance.refit
        if refitted:
            notes.append("The model was trained once more on all rows (refit), so dev is not predicted again.")
        wanted = {split: [task for task in data if data[task].get(split)] for split in ("dev", "test")}
        if refitted:
            wanted["dev"] = []
        total = sum(min(rows, len(data[task][split])) for split in wanted for task in wanted[split])
        if total:
            progress.begin("predicting for the report", total)
        for split, found in (("dev", scored), ("test", tested)):
            for task in wanted[split]:
                found[task] = _score(model, record, task, split, data[task][split], rows)
                progress.advance(len(found[task].examples))
        progress.end()
        either = {**tested, **scored}
        scored = {task: either[task] for task in record.tasks if task in either}
    for each in scored.values():
        if each.is_sample:
            what = f"{len(each.examples):,} of {each.rows:,} {each.split} rows"
            notes.append(f"{each.spec.name}: {what}, drawn evenly, are shown; its score is that of all of them.")
    metrics = record.metrics if record else {}
    lines = run.metrics_lines() if run.metrics.is_file() else ()
    alone = correct_for_several([one for each in scored.values() if (one := _compare_alone(run, each))])
    curves = read_curves(lines, metrics)
    return RunFacts(run, name, result, model, record, curves, data, scored, tested, notes, alone)


def _compare_alone(run: RunDirectory, scored: ScoredSplit) -> TaskComparison | None:
    """A task beside the model that was trained on it alone; None if there is none."""
    part, task = RunDirectory(run.single_tasks / scored.spec.name), scored.spec.name
    if not part.is_trained:
        return None
    try:
        alone = load_model(part.best)
    except PlaitError:
        return None
    if alone.record is None or alone.record.tasks[task].labels != scored.spec.labels:
        return None
    own = _score(alone.model, alone.record, task, scored.split, scored.examples, len(scored.examples))
    return compare_rows(scored.spec, scored.examples.labels, own.predictions, scored.predictions)


def _read_data(
    run: RunDirectory, record: ModelRecord, folder: Path | None, notes: list[str]
) -> dict[str, dict[str, Examples]]:
    """The examples of every split of every task whose files are here and unchanged."""
    data: dict[str, dict[str, Examples]] = {}
    for task, origin in known_origins(run.best, record).items():
        missing = []
        for split in _SPLITS:
            if task not in record.tasks or not origin.data.get(split):
                continue
            try:
                data.setdefault(task, {})[split] = split_examples(record.tasks[task], origin, split, folder)
            except (PlaitError, OSError):
                missing.append(split)
        if missing:
            why = "their files are missing or changed; plait report --data DIR looks for them in a folder"
            notes.append(f"{task}: its {' and '.join(missing)} rows are not shown: {why}")
    return data


def _score(model: AnyModel, record: ModelRecord, task: str, split: str, examples: Examples, most: int) -> ScoredSplit:
    part, spec = sample_examples(examples, most), record.tasks[task]
    answered = predict_columns(model, task, part.texts).predictions
    found = predict_unseen(record.provenance.calibration, spec, split, part, answered)
    scores = score_predictions(spec, part.labels, found, intervals=True)
    return ScoredSplit(spec, split, part, found, scores, len(examples))
