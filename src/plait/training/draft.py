"""Data files → what a recipe for them says, as it is guessed."""

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from plait.data.guess import Guess, guess_task
from plait.data.profile import SPLIT_WORDS, Profile, join_profiles, profile_file
from plait.data.read import format_of
from plait.errors import DataError, RequestError
from plait.recipe.schema import Source
from plait.training.settle import is_taken
from plait.training.task_data import DEFAULT_HEADS, DEFAULT_LOSSES

__all__ = ["Draft", "DraftTask", "data_files", "draft_recipe", "inferred"]

NOISE = ("ids", "id", "student", "data", "dataset", "labelled", "labeled", "full", "all", "raw")  # no names of tasks
EVEN = 4  # tasks of which none has this many times the rows of another are trained together


Found = tuple[str | None, Profile, Guess]  # the split that a file's name tells of, its columns, how it is read


@dataclass(frozen=True)
class DraftTask:
    """One task as it was guessed."""

    name: str
    guess: Guess
    splits: dict[str, list[Source] | float]  # files, or a share of the training data
    rows: dict[str, int]
    notes: list[str]

    @property
    def head(self) -> str:
        """The head that it gets; a cosine reaches no range below 0."""
        if self.guess.kind == "score" and len(self.guess.text) == 2 and self.guess.range and self.guess.range[1] <= 0:
            return "difference_product"
        return DEFAULT_HEADS[self.guess.kind][len(self.guess.text) - 1]

    @property
    def loss(self) -> str:
        """The loss that it gets."""
        return DEFAULT_LOSSES[self.guess.kind]

    @property
    def metric(self) -> str | None:
        """A metric that does not praise a model for the commonest class, where one is far commoner."""
        if not self.guess.uneven:
            return None
        return {"classes": "macro_f1", "yes_no": "f1"}.get(self.guess.kind)

    @property
    def weight(self) -> float | None:
        """What brings a squared error on a wide range down to the size of the other losses."""
        width = self.guess.range[1] - self.guess.range[0] if self.guess.range else 0
        return float(f"{5 / width**2:.1g}") if width > 2 else None


@dataclass(frozen=True)
class Draft:
    """The tasks that were found, and the files that are for none."""

    tasks: list[DraftTask]
    unused: dict[str, str] = field(default_factory=dict)  # file → why

    @property
    def schedule(self) -> str:
        """Tasks of like size together; else each as often as the root of its size."""
        sizes = [task.rows["train"] for task in self.tasks]
        return "together" if max(sizes) <= EVEN * min(sizes) else "{name: sampled, by: temperature}"


def data_files(places: Sequence[Path]) -> list[Path]:
    """The files given, and those that lie in the folders given."""
    mistakes: list[str] = []
    files: list[Path] = []
    for place in places:
        if place.is_dir():
            inside = sorted(path for path in place.iterdir() if path.is_file() and format_of(path))
            mistakes += [] if inside else [f"{place}: has no data files; give .csv, .tsv, .jsonl or .parquet files"]
            files += inside
        elif place.is_file():
            files.append(place)
        elif str(place).startswith("hub:"):
            mistakes.append(f"{place}: only files are looked at; download it, or name it in a recipe of your own")
        else:
            mistakes.append(f"{place}: no such file or folder")
    if mistakes:
        raise RequestError(*mistakes)
    return list(dict.fromkeys(files))


def draft_recipe(files: Sequence[Path]) -> Draft:
    """Look at the files and put those of one task together; raises where none is for training."""
    unused: dict[str, str] = {}
    groups: dict[str, list[Found]] = {}
    mistakes: list[str] = []
    for path in files:
        try:
            profile = profile_file(Source(file=str(path)))
        except DataError as error:
            mistakes += error.mistakes
            continue
        guess = guess_task(profile)
        if isinstance(guess, str):
            unused[str(path)] = guess
        else:
            split, name = split_and_name(path, guess)
            groups.setdefault(name, []).append((split, profile, guess))
    if mistakes:
        raise DataError(*mistakes)
    tasks = [task for name, group in groups.items() for task in draft_tasks(name, group)]
    if not tasks:
        raise DataError(*(f"{file}: {why}" for file, why in unused.items()), "no file is one to train on")
    return Draft(distinct_names(tasks), unused)


def split_and_name(path: Path, guess: Guess) -> tuple[str | None, str]:
    """The split that a file's name tells of, and the task's name that is left of it."""
    stem = path.name.lower().removesuffix(".gz").rsplit(".", 1)[0]
    words = [word for word in re.split(r"[\W_]+", stem) if word]
    found = [
        split
        for word in (*words, path.resolve().parent.name.lower())
        for split, names in SPLIT_WORDS.items()
        if word in names
    ]
    noise = {*NOISE, *(name for names in SPLIT_WORDS.values() for name in names)}
    left = [word for word in words if word not in noise]
    name = "_".join(left) or (guess.label[0] if guess.label else path.resolve().parent.name)
    return (found[0] if found else None), as_name(name)


def as_name(words: str) -> str:
    """The name of a task."""
    return re.sub(r"\W+", "_", words).strip("_").lower() or "task"


def draft_tasks(name: str, group: Sequence[Found]) -> list[DraftTask]:
    """The task of files with one name; several where they are not read alike, or where folders have one each."""
    ways: dict[tuple[tuple[str, ...], tuple[str, ...]], list[Found]] = {}
    for split, profile, guess in group:
        ways.setdefault((guess.text, guess.label), []).append((split, profile, guess))
    tasks = []
    for alike in ways.values():
        folders: dict[Path, list[Found]] = {}
        for file in alike:
            folders.setdefault(Path(file[1].source.file).resolve().parent, []).append(file)
        splits = Counter(split or "train" for split, _, _ in alike)
        if len(folders) == 1 or max(splits.values()) == 1:
            tasks.append(draft_task(name, alike))
        else:  # two files for one split in two folders are two data sets
            tasks += [draft_task(as_name(f"{folder.name}_{name}"), files) for folder, files in folders.items()]
    return tasks


def draft_task(name: str, files: Sequence[Found]) -> DraftTask:
    """One task and the files of its splits."""
    notes: list[str] = []
    splits: dict[str, list[Source] | float] = {}
    rows: dict[str, int] = {}
    ordered = sorted(files, key=lambda file: ("train", None, "dev", "test").index(file[0]))
    has_train = any(split in ("train", None) for split, _, _ in ordered)
    guess = guess_files(ordered)
    for place, (split, profile, _) in enumerate(ordered):
        as_split = split or "train"
        if not has_train and place == 0:
            as_split = "train"
            notes.append(f"no training file among those given: {Path(profile.source.file).name} is trained on")
        told = 0
        for part, source, count in parts_of(profile, as_split):
            kept = splits.setdefault(part, [])
            assert isinstance(kept, list), "shares come below"
            kept.append(source)
            rows[part] = rows.get(part, 0) + count
            told += count
        if told < profile.rows:
            notes.append(f"{profile.rows - told:,} rows of {Path(profile.source.file).name} tell no split: not used")
    if "train" not in splits:
        first = next(iter(splits))
        splits["train"], rows["train"] = splits.pop(first), rows.pop(first)
    if "dev" not in splits:
        share = 0.1 if rows["train"] >= 5000 else 0.2
        splits["dev"] = share
        notes.append(f"no dev data: {share:.0%} of train is split off, no text on both sides; dev: FILE changes it")
    rows = {split: rows[split] for split in ("train", "dev", "test") if split in rows}
    return DraftTask(name, guess, splits, rows, [*guess.notes, *notes])


def guess_files(files: Sequence[Found]) -> Guess:
    """How the files of one task are read: as those to train on look, and scores in the range of all files."""
    if len(files) == 1:
        return files[0][2]
    training = [profile for split, profile, _ in files if split in ("train", None)] or [files[0][1]]
    together = guess_task(join_profiles([profile for _, profile, _ in files]))
    if isinstance(together, Guess) and together.kind == "score":
        return together
    alone = guess_task(join_profiles(training))
    return alone if isinstance(alone, Guess) else files[0][2]


def parts_of(profile: Profile, outer: str) -> list[tuple[str, Source, int]]:
    """The splits that a column of one file tells apart, if it has one; a file named dev or test stays one."""
    column = profile.split_column()
    if column is None or outer != "train":
        return [(outer, profile.source, profile.rows)]
    parts = []
    for value in dict.fromkeys(column.values):
        split = next(split for split, words in SPLIT_WORDS.items() if value.strip().lower() in words)
        source = profile.source.model_copy(update={"where": {column.name: value.strip()}})
        parts.append((split, source, column.values.count(value)))
    return parts


def distinct_names(tasks: Sequence[DraftTask]) -> list[DraftTask]:
    """Tasks with a name each: those of one name get their label's beside it, then a number."""
    names = [task.name for task in tasks]
    taken: set[str] = set()
    renamed = []
    for task in tasks:
        name = task.name if names.count(task.name) == 1 else "_".join([task.name, *task.guess.label[:1]])
        while name in taken or name in ("mean", "longest", "shortest") or is_taken(name):
            name += "_2"
        taken.add(name)
        renamed.append(replace(task, name=name))
    return renamed


def inferred(draft: Draft) -> list[Mapping[str, object]]:
    """What was found, for machines."""
    return [
        {
            "task": task.name,
            "text": list(task.guess.text),
            "label": list(task.guess.label),
            "kind": task.guess.kind,
            "classes": list(task.guess.classes),
            "range": task.guess.range and list(task.guess.range),
            "rows": task.rows,
            "splits": {
                split: given if isinstance(given, float) else [source.model_dump() for source in given]
                for split, given in task.splits.items()
            },
            "head": task.head,
            "loss": task.loss,
            "notes": task.notes,
        }
        for task in draft.tasks
    ]
