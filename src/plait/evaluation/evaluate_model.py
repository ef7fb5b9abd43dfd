"""`plait.evaluate`: what a model scores on labelled data, and what it gets wrong."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, Protocol

from plait.data.examples import Examples
from plait.errors import RequestError, did_you_mean
from plait.evaluation.evaluate import TaskScores, score_predictions
from plait.evaluation.mistakes import Mistake, check_place, find_mistakes, write_mistakes
from plait.evaluation.order import Order, measure_order, needs_pass
from plait.evaluation.word_weights import WordWeight, measure_word_weights, weighted_member
from plait.html_table import html_table
from plait.model.card import three_decimals
from plait.model.directory.load import EngineName, LoadedModel, load_model
from plait.model.directory.record import ModelRecord, open_directory, recipe_tasks
from plait.model.encode_texts import predict_columns
from plait.model.tasks import TaskSpec
from plait.progress import Progress, SilentProgress
from plait.runs.origins import find_split, given_examples

__all__ = ["Evaluation", "evaluate"]


class _Predictor(Protocol):
    """What `plait.load` returns."""

    @property
    def loaded(self) -> LoadedModel: ...


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
    model: str | Path | _Predictor,
    on: Mapping[str, Any] | None = None,
    *,
    split: Literal["train", "dev", "test"] = "dev",
    data: str | Path | None = None,
    mistakes: str | Path | None = None,
    word_weights: str | None = None,
    at_least: int = 5,
    engine: EngineName = "auto",
    progress: Progress | None = None,
    log: Callable[[str], None] = lambda message: None,
) -> Evaluation:
    """Score a model on a split of the data that it was trained with, or on other labelled data.

    `model` is a directory, a run, or what `plait.load` returned, with its own engine. `on` maps tasks to other data: a
    file, a list of files, a data frame or a list of dicts. `data` is a folder to look for the files of the split in.
    The file `mistakes`, .csv or .jsonl, gets the wrong predictions. `word_weights` is a task whose words are weighed,
    those that occur `at_least` so often, for models with `pooling: weighted`.
    """
    place = Path(mistakes) if mistakes else None
    if place:
        check_place(place)
    loaded = _load(model, engine, log)
    record, scored = loaded.record, loaded.model
    if record is None:
        raise RequestError(f"{loaded.folder}: no task to score; it is a plain encoder, which only embeds")
    if on is not None:
        examples = given_examples(record.tasks, on)
    else:
        examples = find_split(record, loaded.folder, split, Path(data) if data else None)
    if place:
        check_place(place, {where.rpartition(":")[0] for part in examples.values() for where in part.origins})
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
    scores = {
        task: score_predictions(scored.tasks[task], part.labels, predicted[task].predictions, intervals=True)
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
    wrong = {
        task: find_mistakes(scored.tasks[task], part, predicted[task].predictions) for task, part in examples.items()
    }
    if place:
        write_mistakes([mistake for found in wrong.values() for mistake in found], place)
    return Evaluation(
        model=loaded.folder,
        data="the data given" if on is not None else split,
        tasks={task: scored.tasks[task] for task in examples},
        scores=scores,
        baselines={} if on is not None else record.provenance.baselines.get(split, {}),
        orders={task: order for task, order in orders.items() if order},
        mistakes=wrong,
        word_weights=weighs,
        notes=notes,
    )


def _load(model: str | Path | _Predictor, engine: EngineName, log: Callable[[str], None]) -> LoadedModel:
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
    return notes
