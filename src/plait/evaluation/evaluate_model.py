"""`plait.evaluate`: what a model scores on labelled data, and what it gets wrong."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, Protocol

from plait.data.examples import Examples
from plait.data.prediction_arrays import PredictionArrays
from plait.errors import RequestError, did_you_mean
from plait.evaluation.calibration import predict_unseen
from plait.evaluation.details import Details, find_details
from plait.evaluation.evaluate import TaskScores, score_predictions
from plait.evaluation.mistakes import Mistake, find_mistakes, write_mistakes
from plait.evaluation.order import Order, measure_order, needs_pass
from plait.evaluation.row_files import check_place, prediction_rows, write_rows
from plait.evaluation.word_weights import WordWeight, measure_word_weights, weighted_member
from plait.html_table import html_table
from plait.model.card import three_decimals
from plait.model.directory.load import EngineName, LoadedModel, load_model
from plait.model.directory.record import ModelRecord, open_directory, recipe_tasks
from plait.model.encode_texts import predict_columns
from plait.model.tasks import TaskSpec
from plait.progress import Progress, SilentProgress
from plait.recipe.normalize import known_encoding
from plait.runs.origins import Columns, find_split, given_examples

__all__ = ["Evaluation", "GivenModel", "different_rows", "evaluate"]


class _Predictor(Protocol):
    """What `plait.load` returns."""

    @property
    def loaded(self) -> LoadedModel: ...


GivenModel = str | Path | _Predictor  # a directory, a run, or what `plait.load` returned


@dataclass(frozen=True)
class Evaluation:
    """What a model scored on labelled data."""

    model: Path
    data: str  # the split, or "the data given"
    tasks: dict[str, TaskSpec]  # those that were scored
    scores: dict[str, TaskScores]  # by task, with 95 % bootstrap intervals
    baselines: dict[str, dict[str, float]]  # baseline → task → value; empty for other data than the run's own
    orders: dict[str, Order]  # by task that compares two texts: the effect of swapping them
    mistakes: dict[str, list[Mistake]]  # by task, worst first; for scores all examples
    word_weights: list[WordWeight] = field(default_factory=list)  # heaviest first, if asked for
    notes: list[str] = field(default_factory=list)  # such as tasks that were not scored, and why
    details: dict[str, Details] = field(default_factory=dict)  # by task: classes, confusions, errors, calibration
    examples: dict[str, Examples] = field(default_factory=dict, repr=False, compare=False)  # what was scored
    predictions: dict[str, PredictionArrays] = field(default_factory=dict, repr=False, compare=False)

    def rows(self, task: str) -> list[dict[str, object]]:
        """Every example of a task with its label, its prediction, the probabilities of all classes, and its texts."""
        if task not in self.scores:
            raise RequestError(f"no scores of a task {task!r}; {did_you_mean(task, self.scores)}")
        return prediction_rows(self.tasks[task], self.examples[task], self.predictions[task])

    def _repr_html_(self) -> str:
        rows = [
            [
                task,
                found.metric,
                f"{found.rows:,}",
                *(three_decimals(values.get(task)) for values in self.baselines.values()),
                three_decimals(found.value),
                " to ".join(map(three_decimals, found.interval)) if found.interval else "–",
            ]
            for task, found in self.scores.items()
        ]
        names = ["task", "metric", "rows", *self.baselines, "plait", "95 % interval"]
        return html_table(f"{self.model} on {self.data}", names, rows, " ".join(f"{note}." for note in self.notes))


def evaluate(
    model: GivenModel,
    on: Mapping[str, Any] | None = None,
    *,
    split: Literal["train", "dev", "test"] = "dev",
    data: str | Path | None = None,
    text_columns: str | Sequence[str] = (),
    label_columns: str | Sequence[str] = (),
    encoding: str = "utf-8",
    mistakes: str | Path | None = None,
    predictions: str | Path | None = None,
    safe_csv: bool = False,
    word_weights: str | None = None,
    at_least: int = 5,
    engine: EngineName = "auto",
    progress: Progress | None = None,
    log: Callable[[str], None] = lambda message: None,
) -> Evaluation:
    """Score a model on a split of the data that it was trained with, or on other labelled data.

    `model` is a directory, a run, or what `plait.load` returned, with its own engine. `on` maps tasks to other data: a
    file, a list of files, a data frame or a list of dicts, with the columns of training unless `text_columns` and
    `label_columns` name others. `data` is a folder to look for the files of the split in. The file `mistakes`, .csv or
    .jsonl, gets the wrong predictions, the file `predictions` every row; with `safe_csv`, csv cells that a spreadsheet
    would take for formulas are defused. `word_weights` is a task whose words are weighed, those that occur `at_least`
    so often, for models with `pooling: weighted`.
    """
    columns = Columns(_as_tuple(text_columns), _as_tuple(label_columns), known_encoding(encoding))
    if on is None and columns != Columns():
        raise RequestError(
            "`text_columns`, `label_columns` and `encoding` go with `on`; a split is read as in training"
        )
    places = {
        name: Path(given) for name, given in (("mistakes", mistakes), ("predictions", predictions)) if given is not None
    }
    for argument, place in places.items():
        check_place(argument, place)
    if len({place.resolve() for place in places.values()}) < len(places):
        raise RequestError(f"`predictions` {predictions}: is also the file of `mistakes`; choose another name")
    loaded = _load(model, engine, log)
    record, scored = loaded.record, loaded.model
    if record is None:
        raise RequestError(f"{loaded.folder}: no task to score; it is a plain encoder, which only embeds")
    if on is not None:
        examples = given_examples(record.tasks, on, columns)
    else:
        examples = find_split(record, loaded.folder, split, Path(data) if data else None)
    for argument, place in places.items():
        check_place(argument, place, {where.rpartition(":")[0] for part in examples.values() for where in part.origins})
    weighs: list[WordWeight] = []
    if word_weights is not None:
        member = weighted_member(scored, str(model) if isinstance(model, str | Path) else str(loaded.folder))
        if word_weights not in examples:
            raise RequestError(f"`word_weights`: no task {word_weights!r} here; {did_you_mean(word_weights, examples)}")
        weighs = measure_word_weights(member, word_weights, examples[word_weights].texts, at_least=at_least)
    progress = progress or SilentProgress()
    notes = [] if on is not None else _notes(record, examples, split)
    for note in notes:
        progress.note(note)
    passes = {task: 2 if needs_pass(scored, task) else 1 for task in examples}
    progress.begin("evaluating", sum(passes[task] * len(part) * len(part.texts) for task, part in examples.items()))
    predicted = {
        task: predict_columns(scored, task, part.texts, advance=progress.advance) for task, part in examples.items()
    }
    calibration = record.provenance.calibration if on is None else {}
    answers = {
        task: predict_unseen(calibration, scored.tasks[task], split, part, predicted[task].predictions)
        for task, part in examples.items()
    }
    scores = {
        task: score_predictions(scored.tasks[task], part.labels, answers[task], intervals=True)
        for task, part in examples.items()
    }
    orders = {
        task: measure_order(scored, task, part, predicted[task].predictions, advance=progress.advance)
        for task, part in examples.items()
    }
    progress.end()
    for task, answered in predicted.items():
        if answered.truncated:
            counts = f"{answered.truncated:,} of {answered.inputs:,} inputs"
            notes.append(f"{task}: {counts} were truncated to {scored.tasks[task].max_length} tokens")
            progress.note(notes[-1])
    wrong = {task: find_mistakes(scored.tasks[task], part, answers[task]) for task, part in examples.items()}
    found = Evaluation(
        model=loaded.folder,
        data="the data given" if on is not None else split,
        tasks={task: scored.tasks[task] for task in examples},
        scores=scores,
        baselines={} if on is not None else record.provenance.baselines.get(split, {}),
        orders={task: order for task, order in orders.items() if order},
        mistakes=wrong,
        word_weights=weighs,
        notes=notes,
        details={task: find_details(scored.tasks[task], part.labels, answers[task]) for task, part in examples.items()},
        examples=examples,
        predictions=answers,
    )
    if "mistakes" in places:
        listed = [mistake for task in wrong.values() for mistake in task]
        write_mistakes(listed, places["mistakes"], safe_csv=safe_csv)
    if "predictions" in places:
        rows = [row for task in examples for row in found.rows(task)]
        write_rows(rows, places["predictions"], safe_csv=safe_csv)
    return found


def different_rows(evaluations: Sequence[Evaluation]) -> list[str]:
    """The tasks that several models were scored on, but not on the same examples."""
    tasks = dict.fromkeys(task for found in evaluations for task in found.scores)
    several = {task: [found.examples[task] for found in evaluations if task in found.scores] for task in tasks}
    return [task for task, (first, *others) in several.items() if any(part.texts != first.texts for part in others)]


def _as_tuple(columns: str | Sequence[str]) -> tuple[str, ...]:
    return (columns,) if isinstance(columns, str) else tuple(columns)


def _load(model: GivenModel, engine: EngineName, log: Callable[[str], None]) -> LoadedModel:
    if not isinstance(model, str | Path):
        return model.loaded
    open_directory(model)  # a plain encoder, or a wrong path, is refused before anything is loaded
    return load_model(model, engine=engine, log=log)


def _notes(record: ModelRecord, examples: Mapping[str, Examples], split: str) -> list[str]:
    """The tasks that are not scored, and those that are scored on a part of their rows."""
    why = "its members do not share their" if record.provenance.members else "it was trained without"
    notes = [
        f"{task}: not scored, {why} {split} data; give labelled data with `on`"
        for task in record.tasks
        if task not in examples
    ]
    blocks = recipe_tasks(record.provenance.recipe) if split == "dev" else {}
    for task in examples:
        if count := blocks.get(task, {}).get("choose_rows"):
            notes.append(f"{task}: {count:,} dev rows chose the model; the other {len(examples[task]):,} are scored")
        if record.provenance.calibration.get(task, {}).get("data") == split:
            notes.append(f"{task}: calibrated on {split}, so each row is scored with what was fitted on other rows")
    return notes
