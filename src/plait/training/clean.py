"""`plait.clean`: the training rows whose label is probably wrong."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np

from plait.data.kinds import KINDS
from plait.errors import RecipeError, RequestError, did_you_mean
from plait.evaluation.label_errors import find_label_errors
from plait.evaluation.row_files import ReadableLabel, check_place, confidence, readable_label, write_rows
from plait.model.decode import within_range
from plait.progress import Progress, SilentProgress
from plait.recipe.schema import Recipe
from plait.recipe.task import Task
from plait.runs.directory import RunDirectory
from plait.training.given_recipe import as_recipe, saved_recipe
from plait.training.out_of_fold import HeldOutPredictions, predict_frozen, predict_trained
from plait.training.threads import restore_threads

__all__ = ["CleanedTask", "LabelError", "clean"]

_COLUMNS = ("task", "where", "label", "predicted", "probability", "label_probability")


@dataclass(frozen=True)
class LabelError:
    """A training row whose label is probably wrong."""

    task: str
    where: str  # file:line
    texts: tuple[str, ...]
    label: ReadableLabel
    predicted: ReadableLabel  # by a model that has not seen the row
    probability: float | None  # of the prediction; None for scores
    label_probability: float | None  # of the label; None for scores and several labels


@dataclass(frozen=True)
class CleanedTask:
    """The likely label errors of a task, worst first, and how many rows were checked."""

    task: str
    rows: int
    errors: list[LabelError]
    agreement: float | None = None  # the share of labels that the held-out predictions confirm; None for scores


@restore_threads()
def clean(
    source: str | Path | Mapping[str, Any] | Recipe,
    tasks: str | Sequence[str] = (),
    *,
    data: str | Path | None = None,
    profile: str | None = None,
    overrides: Sequence[str] = (),
    folds: int = 5,
    train: bool = False,
    out: str | Path | None = None,
    safe_csv: bool = False,
    progress: Progress | None = None,
) -> dict[str, CleanedTask]:
    """Find the training rows of some tasks, or of all, whose label is probably wrong.

    `source` is a recipe, as for `plait.train`, or the folder of a run. Every row is predicted by a model that was
    trained on the other folds: by default a head on the frozen encoder, with `train` the whole recipe. The rows are
    written to `out`, a csv or jsonl file; by default to label-errors.csv in the folder of a run, where `plait report`
    finds them. With `safe_csv`, csv cells that a spreadsheet would take for formulas are defused.
    """
    if folds < 2:
        raise RequestError(f"the argument `folds`: expected a number from 2, found {folds}")
    run = RunDirectory(Path(source)) if isinstance(source, str | Path) and Path(source, "run.json").is_file() else None
    place = Path(out) if out else run.label_errors if run else None
    if train and not place:
        raise RequestError("`train` needs `out`: its trainings go to a folder beside it")
    progress = progress or SilentProgress()
    with TemporaryDirectory() as folder:
        tables = RunDirectory(Path(folder))  # data frames become files
        with tables.errors_in_rows():
            if run:
                recipe = saved_recipe(run, data or (run.tables if run.tables.is_dir() else None), profile, overrides)
            else:
                recipe = as_recipe(tables.store_tables(source), data, profile, overrides)
            known = {name: task for part in recipe.stage_recipes() for name, task in part.tasks.items()}
            names = _checked(known, [tasks] if isinstance(tasks, str) else list(tasks))
            if place:
                check_place("out", place, [source.file for task in known.values() for source in task.train])
            if train and place:
                found = predict_trained(recipe, names, folds, place.with_name(f"{place.stem}-folds"), progress)
            else:
                found = {name: predict_frozen(recipe, name, folds, progress) for name in names}
        cleaned = {name: _clean_task(name, held, tables) for name, held in found.items()}
    if place:
        rows = [asdict(error) for task in cleaned.values() for error in task.errors]
        write_rows(rows, place, _COLUMNS, safe_csv=safe_csv)
    return cleaned


def _checked(known: Mapping[str, Task], names: Sequence[str]) -> list[str]:
    """The tasks to clean: those given, or all that have labels."""
    unknown = [f"the recipe has no task {name!r}; {did_you_mean(name, known)}" for name in names if name not in known]
    if unknown:
        raise RequestError(*unknown)
    unlabelled = [name for name, task in known.items() if not task.label]
    if mistakes := [f"the task {name!r} has no labels to check" for name in names if name in unlabelled]:
        raise RequestError(*mistakes)
    found = list(names) or [name for name in known if name not in unlabelled]
    if not found:
        raise RecipeError("the recipe has no task with labels to check")
    return found


def _clean_task(name: str, held: HeldOutPredictions, tables: RunDirectory) -> CleanedTask:
    spec, examples, predictions = held
    agreement = None
    if not spec.labels.about.is_score:
        agreement = float(np.mean(predictions.values == examples.labels))
    return CleanedTask(name, len(examples), _list_errors(held, tables), agreement)


def _list_errors(held: HeldOutPredictions, tables: RunDirectory) -> list[LabelError]:
    """The rows that are probably mislabelled, worst first."""
    spec, examples, predictions = held
    seen = within_range(predictions, spec)
    sure = None if seen.probabilities is None else confidence(seen)
    found = []
    for row in find_label_errors(spec, examples.labels, predictions):
        label, single = examples.labels[row], KINDS[spec.kind].one_class
        found.append(
            LabelError(
                spec.name,
                tables.place_of(examples.origins[row]),
                tuple(column[row] for column in examples.texts),
                readable_label(label, spec.labels),
                readable_label(seen.values[row], spec.labels),
                None if sure is None else float(sure[row].min()),
                float(seen.probabilities[row, int(label)]) if single and seen.probabilities is not None else None,
            )
        )
    return found
