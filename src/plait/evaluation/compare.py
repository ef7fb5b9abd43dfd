"""`plait.compare`: whether one model is better than another, task by task."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from plait.errors import RequestError, RunError, did_you_mean
from plait.evaluation.evaluate_model import Evaluation, GivenModel, evaluate
from plait.evaluation.paired import TaskComparison, compare_rows, correct_for_several, shared_rows
from plait.html_table import html_table
from plait.model.card import three_decimals
from plait.model.directory.load import EngineName
from plait.model.directory.record import open_directory, recipe_tasks
from plait.progress import Progress, SilentProgress
from plait.runs.directory import RunDirectory

__all__ = ["ModelComparison", "compare", "compare_evaluations", "compare_single_task"]


@dataclass(frozen=True)
class ModelComparison:
    """Two models on the same rows."""

    first: str
    second: str
    data: str  # the split, or "the data given"
    tasks: dict[str, TaskComparison]  # p is corrected for all of them
    notes: list[str] = field(default_factory=list)  # such as tasks that were not compared, and why

    def to_json(self) -> dict[str, Any]:
        compared = {task: one.to_json() for task, one in self.tasks.items()}
        return {"first": self.first, "second": self.second, "data": self.data, "tasks": compared, "notes": self.notes}

    def _repr_html_(self) -> str:
        rows = [
            [
                task,
                one.metric,
                f"{one.rows:,}",
                three_decimals(one.first),
                three_decimals(one.second),
                f"{one.difference:+.3f}",
                "{:+.3f} to {:+.3f}".format(*one.interval) if one.interval else "–",
                three_decimals(one.corrected_p),
                one.verdict,
            ]
            for task, one in self.tasks.items()
        ]
        names = ["task", "metric", "rows", self.first, self.second, "difference", "95 % interval", "p", ""]
        caption = f"{self.second} compared with {self.first} on {self.data}"
        return html_table(caption, names, rows, " ".join(f"{note}." for note in self.notes))


def compare(
    first: GivenModel,
    second: GivenModel,
    on: Mapping[str, Any] | None = None,
    *,
    split: Literal["train", "dev", "test"] = "dev",
    data: str | Path | None = None,
    text_columns: str | Sequence[str] = (),
    label_columns: str | Sequence[str] = (),
    encoding: str = "utf-8",
    engine: EngineName = "auto",
    progress: Progress | None = None,
    log: Callable[[str], None] = lambda message: None,
) -> ModelComparison:
    """Test whether the second model is better than the first, task by task, on the rows that both have.

    The models and the other arguments are those of `plait.evaluate`. Accuracy is tested by McNemar's exact test, other
    metrics by a paired bootstrap; p is corrected for the number of tasks (Holm).
    """
    progress = progress or SilentProgress()
    names = [_name(model) for model in (first, second)]
    if mistakes := [
        f"the argument `on`: {name} has no task {task!r}; {did_you_mean(task, tasks)}"
        for name, tasks in zip(names, map(_tasks, (first, second)), strict=True)
        for task in on or ()
        if task not in tasks
    ]:
        raise RequestError(*mistakes)
    before, after = (
        evaluate(
            model,
            on,
            split=split,
            data=data,
            text_columns=text_columns,
            label_columns=label_columns,
            encoding=encoding,
            engine=engine,
            progress=progress,
            log=log,
        )
        for model in (first, second)
    )
    notes: list[str] = []
    compared: list[TaskComparison] = []
    for task in dict.fromkeys([*before.scores, *after.scores]):
        if task in before.scores and task in after.scores:
            found = compare_evaluations(task, before, after, notes)
            compared += [found] if found else []
        else:
            notes.append(f"{task}: not compared, only {names[task not in before.scores]} is scored on it")
    if not compared:
        raise RequestError(f"{names[0]} and {names[1]} have no task to compare:", *notes)
    tasks = {one.task: one for one in correct_for_several(compared)}
    return ModelComparison(names[0], names[1], before.data, tasks, notes)


def compare_single_task(
    run: str | Path,
    *,
    split: Literal["train", "dev", "test"] = "dev",
    data: str | Path | None = None,
    engine: EngineName = "auto",
    progress: Progress | None = None,
) -> ModelComparison:
    """Test whether training together helps: a run compared with its single-task models, task by task.

    The run was trained with `single_task`; the first model of each task is the one that was trained on it alone.
    """
    directory = RunDirectory(Path(run))
    blocks = recipe_tasks(directory.record.recipe)
    names = [name for name in blocks if RunDirectory(directory.single_tasks / name).is_trained]
    if not names:
        raise RunError(f"{run}: has no single-task models; train it with `single_task`, or measure its `transfer`")
    progress = progress or SilentProgress()
    together = evaluate(directory.folder, split=split, data=data, engine=engine, progress=progress)
    notes: list[str] = []
    compared: list[TaskComparison] = []
    for name in names:
        if name in together.scores:
            part = directory.single_tasks / name
            alone = evaluate(part, split=split, data=data, engine=engine, progress=progress)
            found = compare_evaluations(name, alone, together, notes)
            compared += [found] if found else []
    tasks = {one.task: one for one in correct_for_several(compared)}
    return ModelComparison("single task", "together", together.data, tasks, notes)


def compare_evaluations(task: str, before: Evaluation, after: Evaluation, notes: list[str]) -> TaskComparison | None:
    """Two evaluations of a task on the rows that they share; None, and a note, if that is impossible."""
    spec, other = before.tasks[task], after.tasks[task]
    if spec.labels != other.labels:
        notes.append(f"{task}: not compared, the models predict different labels")
        return None
    rows_n, others_n = shared_rows(before.examples[task], after.examples[task])
    counts = [len(before.examples[task]), len(after.examples[task])]
    if not len(rows_n):
        notes.append(f"{task}: not compared, the models share no {before.data} row; give labelled data with `on`")
        return None
    if len(rows_n) < max(counts):
        which = " and ".join(f"{count:,}" for count in counts)
        notes.append(f"{task}: the models have {which} {before.data} rows; the {len(rows_n):,} of both are compared")
    if spec.metric != other.metric:
        notes.append(f"{task}: compared by {spec.metric}, the metric of the first; the second has {other.metric}")
    labels_n = before.examples[task].labels[rows_n]
    return compare_rows(spec, labels_n, before.predictions[task].rows(rows_n), after.predictions[task].rows(others_n))


def _name(model: GivenModel) -> str:
    return str(model) if isinstance(model, str | Path) else str(model.loaded.folder)


def _tasks(model: GivenModel) -> Mapping[str, object]:
    return open_directory(model).record.tasks if isinstance(model, str | Path) else model.loaded.model.tasks
