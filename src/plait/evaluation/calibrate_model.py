"""`plait.calibrate`: fit the probabilities of a model, and perhaps its decisions, and store them in it."""

import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from plait.data.examples import Examples
from plait.errors import RequestError, did_you_mean
from plait.evaluation.calibration import (
    FEWEST_ROWS,
    Fitted,
    TaskCalibration,
    ThresholdFor,
    calibrate_task,
    has_probabilities,
)
from plait.files import atomic_folder
from plait.html_table import html_table
from plait.model.card import three_decimals, with_calibration
from plait.model.directory.find import RECORD
from plait.model.directory.load import load_model
from plait.model.directory.record import ModelDirectory, open_directory, recipe_tasks
from plait.model.directory.save import write_manifest, write_record
from plait.model.encode_texts import AnyModel, predict_columns
from plait.model.engines.onnx import GRAPH_FOLDER
from plait.model.ensemble_build import copy_model
from plait.progress import Progress, SilentProgress
from plait.recipe.normalize import known_encoding
from plait.runs.origins import CHOOSING, Columns, find_split, given_examples

__all__ = ["Calibration", "calibrate", "fit_tasks", "save_calibration"]


@dataclass(frozen=True)
class Calibration:
    """What was fitted, and stored in a model."""

    model: Path
    tasks: dict[str, TaskCalibration]
    notes: list[str] = field(default_factory=list)  # such as tasks that cannot be calibrated, and why

    def to_json(self) -> dict[str, Any]:
        tasks = {task: found.to_json() for task, found in self.tasks.items()}
        return {"model": self.model, "tasks": tasks, "notes": self.notes}

    def table(self) -> tuple[list[str], list[list[str]]]:
        """The headings and a row for each task: what was fitted, and each effect before and after."""
        names = ["task", "rows", "temperature", "ece", "log loss", "threshold", "abstain below", "score"]
        rows = [
            [
                task,
                f"{found.rows:,}",
                three_decimals(found.temperature),
                _change(found.ece),
                _change(found.log_loss),
                f"{found.threshold:.3g}",
                "–" if found.abstain_below is None else f"{found.abstain_below:.3g}",
                f"{found.metric} {_change(found.score)}",
            ]
            for task, found in self.tasks.items()
        ]
        return names, rows

    def _repr_html_(self) -> str:
        return html_table(f"{self.model}, calibrated", *self.table(), " ".join(f"{note}." for note in self.notes))


def _change(values: tuple[float, float]) -> str:
    return " → ".join(map(three_decimals, values))


def calibrate(
    model: str | Path,
    on: Mapping[str, Any] | None = None,
    *,
    tasks: str | Sequence[str] = (),
    threshold: ThresholdFor | None = None,
    abstain_for: float | None = None,
    out: str | Path | None = None,
    data: str | Path | None = None,
    text_columns: str | Sequence[str] = (),
    label_columns: str | Sequence[str] = (),
    encoding: str = "utf-8",
    progress: Progress | None = None,
) -> Calibration:
    """Fit a temperature for each task, so that a probability of 0.8 means right in 8 of 10 cases.

    It is fitted on the dev rows, on those of `choose_rows` if there are, or on labelled data `on` that the model was
    not trained with. With `threshold`, the threshold of yes/no and multilabel tasks maximizes accuracy or F1. With
    `abstain_for`, labels are withheld so that the others reach this accuracy. Every effect is measured on rows that
    were not fitted on (cross-fitting), and what does not help there is left as it was. The result is stored in the
    model, or in a copy `out`; only the given `tasks` change, by default all.
    """
    names = (tasks,) if isinstance(tasks, str) else tuple(tasks)
    if abstain_for is not None and not 0 < abstain_for <= 1:
        raise RequestError(f"`abstain_for`: expected an accuracy above 0 and up to 1, found {abstain_for!r}")
    if threshold not in (None, "accuracy", "f1"):
        raise RequestError(f"`threshold`: expected accuracy or f1, found {threshold!r}")
    directory = open_directory(model)
    place = Path(out) if out else directory.folder
    _check(directory, names, place, out is not None)
    if on is not None:
        columns = Columns(_as_tuple(text_columns), _as_tuple(label_columns), known_encoding(encoding))
        examples = given_examples(directory.record.tasks, on, columns)
    else:
        examples = find_split(directory.record, directory.folder, CHOOSING, Path(data) if data else None)
    examples = {task: part for task, part in examples.items() if not names or task in names}
    blocks = recipe_tasks(directory.record.provenance.recipe)
    rows = {
        task: "the data given" if on is not None else "choose" if blocks.get(task, {}).get("choose_rows") else "dev"
        for task in examples
    }
    notes = [
        f"{task}: not calibrated, no labelled rows; give them with `on`"
        for task in names or directory.record.tasks
        if task not in examples and on is None
    ]
    wanted = Fitted(True, threshold, abstain_for)
    loaded = load_model(directory.folder).model
    found = fit_tasks(loaded, examples, rows, wanted, notes, progress or SilentProgress())
    if found:
        save_calibration(directory, place, found)
    return Calibration(place, found, notes)


def _check(directory: ModelDirectory, names: Sequence[str], place: Path, is_copy: bool) -> None:
    """Refuse what cannot be calibrated; all mistakes at once."""
    folder, tasks = directory.folder, directory.record.tasks
    mistakes = [f"{folder}: no task {name!r}; {did_you_mean(name, tasks)}" for name in names if name not in tasks]
    if directory.record.is_ensemble:
        mistakes.append(f"{folder}: an ensemble; calibrate its members before they are put together")
    if (folder / GRAPH_FOLDER).is_dir() and not is_copy:
        mistakes.append(f"{folder}: has ONNX graphs; calibrate the model that was exported, then export it again")
    if is_copy and place.exists():
        mistakes.append(f"`out` {place}: already exists; choose another name")
    if mistakes:
        raise RequestError(*mistakes)


def fit_tasks(
    model: AnyModel,
    examples: Mapping[str, Examples],
    data: Mapping[str, str],
    wanted: Fitted,
    notes: list[str],
    progress: Progress,
) -> dict[str, TaskCalibration]:
    """Fit every task that has probabilities and enough examples; a note says why another has not."""
    usable: dict[str, Examples] = {}
    for task, part in examples.items():
        if not has_probabilities(model.tasks[task]):
            notes.append(f"{task}: not calibrated, it predicts {model.tasks[task].labels.about.predicts}")
        elif len(part) < FEWEST_ROWS:
            notes.append(f"{task}: not calibrated, {len(part):,} rows are too few; {FEWEST_ROWS} are needed")
        else:
            usable[task] = part
    progress.begin("calibrating", sum(len(part) * len(part.texts) for part in usable.values()))
    found = {}
    for task, part in usable.items():
        predicted = predict_columns(model, task, part.texts, advance=progress.advance).predictions
        found[task] = calibrate_task(model.tasks[task], part, predicted, wanted, data[task])
        if wanted.abstain_for is not None and found[task].abstain_below is None:
            notes.append(f"{task}: no label is withheld; {_why_none(found[task], wanted.abstain_for)}")
    progress.end()
    return found


def _why_none(found: TaskCalibration, target: float) -> str:
    if not found.coverage:
        return "it may have several"
    reached = found.coverage[0].accuracy >= target
    return f"all of them reach {target:g}" if reached else f"no share of the rows reaches {target:g}"


def save_calibration(directory: ModelDirectory, place: Path, found: Mapping[str, TaskCalibration]) -> None:
    """Write a model with what was fitted; a reader sees the old model or the new one."""
    record = directory.record
    tasks = {name: found[name].apply(spec) if name in found else spec for name, spec in record.tasks.items()}
    calibration = {**record.provenance.calibration, **{name: one.to_json() for name, one in found.items()}}
    provenance = replace(record.provenance, calibration=calibration)
    place.parent.mkdir(parents=True, exist_ok=True)
    with atomic_folder(place) as aside:
        if place == directory.folder:  # with the files of others
            shutil.copytree(place, aside, dirs_exist_ok=True)
        copy_model(directory, aside)
        write_record(aside, replace(record, tasks=tasks, provenance=provenance))
        write_manifest(aside, [aside / name for name in sorted({*directory.manifest, RECORD})])
        card = aside / "README.md"
        before = card.read_text(encoding="utf-8") if card.is_file() else ""
        card.write_text(with_calibration(before, calibration), encoding="utf-8")


def _as_tuple(columns: str | Sequence[str]) -> tuple[str, ...]:
    return (columns,) if isinstance(columns, str) else tuple(columns)
