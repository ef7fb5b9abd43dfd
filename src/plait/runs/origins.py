"""Where the data of a trained task came from, and the examples that a model is to be scored on."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from plait.data.examples import Examples, examples_from, sound_examples
from plait.data.folds import hold_out_fold
from plait.data.frames import in_rows, is_table, write_table
from plait.data.read import ENCODING_HINT, read_rows
from plait.data.splits import cut_train, divide, divide_dev, draw_seed, limit_rows, read_splits
from plait.errors import DataError, RequestError, did_you_mean
from plait.files import sha256_of
from plait.model.directory.record import ModelRecord, portable, portable_task, recipe_tasks
from plait.model.tasks import TaskSpec, parse_task_files
from plait.recipe.task import Source, Task
from plait.runs.directory import RunDirectory

__all__ = [
    "CHOOSING",
    "Columns",
    "TaskOrigin",
    "find_split",
    "given_examples",
    "known_origins",
    "named_files",
    "split_examples",
]


CHOOSING = "choose"  # the dev rows that chose the model: those of `choose_rows`, or all


@dataclass(frozen=True)
class TaskOrigin:
    """Where the data of a trained task came from."""

    task: dict[str, Any]  # its block of the recipe
    data: dict[str, Any]  # split → files with rows and sha256
    seed: int
    bad_rows: str
    fold: str | None = None
    draw: int | None = None

    def to_json(self, *, folders: bool) -> dict[str, Any]:
        """For run.json with the folders of this machine, for plait.json without."""
        return {**asdict(self), "task": self.task if folders else portable_task(self.task)}


def named_files(tasks: Mapping[str, TaskSpec], assignments: Sequence[str]) -> dict[str, list[str]]:
    """The files of each task, from TASK=FILE on the command line."""
    given, mistakes = parse_task_files("--on", assignments, tasks)
    if mistakes:
        raise RequestError(*mistakes)
    files: dict[str, list[str]] = {}
    for task, name in given:
        files.setdefault(task, []).append(name)
    return files


@dataclass(frozen=True)
class Columns:
    """How other data than a model was trained with is read: its columns, if not those of training, and its encoding."""

    text: tuple[str, ...] = ()
    label: tuple[str, ...] = ()
    encoding: str = "utf-8"

    def of(self, spec: TaskSpec) -> TaskSpec:
        """The task with these columns; all mistakes at once."""
        mistakes = [
            f"`{argument}`: the task {spec.name!r} has {len(own) or 'no'} {kind} column{'s' * (len(own) != 1)}, "
            f"{len(given)} given"
            for argument, kind, given, own in (
                ("text_columns", "text", self.text, spec.text),
                ("label_columns", "label", self.label, spec.label),
            )
            if given and len(given) != len(own)
        ]
        if mistakes:
            raise RequestError(*mistakes)
        return replace(spec, text=self.text or spec.text, label=self.label or spec.label)


def given_examples(
    tasks: Mapping[str, TaskSpec], on: Mapping[str, Any], columns: Columns | None = None
) -> dict[str, Examples]:
    """The examples of other data than a model was trained with: by task a file, a list of files, or a table."""
    columns = columns or Columns()
    if unknown := next((task for task in on if task not in tasks), None):
        hint = did_you_mean(unknown, tasks) if tasks else "it is a plain encoder, which only embeds"
        raise RequestError(f"the argument `on`: the model has no task {unknown!r}; {hint}")
    examples: dict[str, Examples] = {}
    mistakes: list[str] = []
    for task, given in on.items():
        try:
            spec = columns.of(tasks[task])
            read = _read_table(spec, given) if is_table(given) else _read_files(spec, given, columns.encoding)
            examples[task] = read
        except (DataError, RequestError) as error:
            mistakes += map(_with_argument, error.mistakes)
    if mistakes:
        raise DataError(*mistakes)
    return examples


def _with_argument(mistake: str) -> str:
    """A mistake in given data, with the argument that helps."""
    if ": no column " in mistake:
        return f"{mistake}; `text_columns` and `label_columns` name other columns"
    return mistake.replace(ENCODING_HINT, "give the `encoding` latin-1")


def _read_files(spec: TaskSpec, given: Any, encoding: str = "utf-8") -> Examples:
    """The examples of one or more files."""
    names = [given] if isinstance(given, str | Path) else given
    if not isinstance(names, list | tuple) or not names or not all(isinstance(name, str | Path) for name in names):
        found = "nothing" if names in ([], ()) else type(given).__name__
        raise DataError(f"on[{spec.name!r}]: expected files, a data frame or a list of dicts, found {found}")
    sources = [Source(file=str(name)) for name in names]
    wanted, quoting = [*spec.text, *spec.label], spec.quoting
    rows = read_rows(sources, wanted, lists=spec.label, quoting=quoting, encoding=encoding, split="test")
    return sound_examples(rows, spec.text, spec.label, spec.labels)


def _read_table(spec: TaskSpec, table: Any) -> Examples:
    """The examples of a table in memory; their origins are its rows, which count from 0."""
    what = f"on[{spec.name!r}]"
    with TemporaryDirectory() as folder:
        file = Path(folder) / "table.jsonl"
        write_table(table, file, what)
        try:
            found = _read_files(spec, file)
        except DataError as error:
            raise DataError(*in_rows(error.mistakes, {file: what})) from None
    if not len(found):
        raise DataError(f"{what}: the table has no rows")
    return replace(found, origins=in_rows(found.origins, {file: what}))


def known_origins(folder: Path, record: ModelRecord) -> dict[str, TaskOrigin]:
    """The data behind each task of a model: with the paths of its run if that is still there, else by name."""
    recipe, kept = record.provenance.recipe, record.provenance.kept
    here = folder.resolve()
    for place in (here.parent, here.parent.parent):  # RUN/best, or RUN/kept/epoch3
        run = RunDirectory(place)
        if run.has_begun and portable(run.record.recipe) == recipe:  # not a run that the model was copied into
            recipe, kept = run.record.recipe, run.record.kept
    blocks = recipe_tasks(recipe)
    own = {
        task: TaskOrigin(
            blocks[task],
            data,
            recipe["seed"],
            recipe.get("bad_rows", "stop"),
            recipe.get("fold"),
            recipe.get("draw"),
        )
        for task, data in record.provenance.data.items()
    }
    return {**{task: TaskOrigin(**origin) for task, origin in kept.items()}, **own}


def find_split(record: ModelRecord, folder: Path, split: str, data: Path | None) -> dict[str, Examples]:
    """The examples of a split that a model was trained with: from its run's files, or by name in the folder `data`.

    The split may be CHOOSING.
    """
    part, split = split, "dev" if split == CHOOSING else split
    if not record.tasks:
        raise RequestError(f"{folder}: no task to score; it is a plain encoder, which only embeds")
    if split == "dev" and record.provenance.refit:
        raise RequestError(
            f"{folder}: trained on its dev rows as well (refit: true), so they cannot score it; "
            "use the split test, or give labelled data with `on`; the scores before the refit are in its README.md"
        )
    examples: dict[str, Examples] = {}
    mistakes: list[str] = []
    for task, origin in known_origins(folder, record).items():
        if not origin.data.get(split) or task not in record.tasks:  # a task without a head is not part of the model
            continue
        try:
            examples[task] = split_examples(record.tasks[task], origin, part, data)
        except (RequestError, DataError) as error:
            mistakes += error.mistakes
    if mistakes:
        raise RequestError(*mistakes)
    if not examples:
        members = record.provenance.members
        why = f"its members do not share their {split} data" if members else f"it was trained without {split} data"
        raise RequestError(f"{folder}: {why}; give labelled data with `on`")
    return examples


def split_examples(spec: TaskSpec, origin: TaskOrigin, split: str, data: Path | None) -> Examples:
    """The examples of one split of a trained task, if its files have not changed since training."""
    part, split = split, "dev" if split == CHOOSING else split
    task = Task.model_validate(origin.task)
    key, seed = task.key(split, origin.fold), f"{origin.seed}/{spec.name}"
    known = {(file["name"], file["sha256"]) for file in origin.data[split]}  # two folders may have a file of one name
    mistakes: list[str] = []

    def locate(given: Source) -> Source:
        if given.on_hub:
            return given
        name = Path(given.file).name
        places = [data / name, Path(given.file)] if data else [Path(given.file)]
        path = next((place for place in places if place.is_file()), places[0])
        if not path.is_file():
            mistakes.append(f"{spec.name}: no file {path}; give its folder with `data`, or labelled data with `on`")
        elif (name, sha256_of(path)) not in known:
            mistakes.append(
                f"{spec.name}: {path} is not the {split} file that the model was trained with; "
                "to use it, give it with `on`"
            )
        return given.model_copy(update={"file": str(path)})

    located = task.model_copy(update={key: tuple(locate(source) for source in task.sources(split, origin.fold))})
    if mistakes:
        raise RequestError(*mistakes)
    read = read_splits(located, [split], origin.fold)
    parts = divide(read, located, spec.labels.kind, seed, origin.fold)
    rows = parts[key if origin.fold else split]
    if origin.bad_rows == "skip":
        examples = examples_from(rows, spec.text, spec.label, spec.labels)[0]
    else:
        examples = sound_examples(rows, spec.text, spec.label, spec.labels)
    if origin.fold and key == "train":
        examples = hold_out_fold({"train": examples}, task, spec.labels.kind, origin.fold, seed).splits[split]
    examples = limit_rows(examples, task, spec.labels.kind, split, seed)
    if split == "dev":
        choosing, scored = divide_dev(examples, task, spec.labels.kind)
        examples = (choosing or scored) if part == CHOOSING else scored
    if split == "train":
        examples = cut_train(examples, task, spec.labels.kind, draw_seed(spec.name, origin.seed, origin.draw))
    return examples
