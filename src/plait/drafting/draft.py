"""Data files → the tasks of a recipe for them."""

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from plait.data.kinds import KINDS
from plait.data.readers.lines import NOT_UTF8
from plait.drafting.columns import SPLIT_WORDS, Profile, join_profiles, profile_file
from plait.drafting.files import DataFiles
from plait.drafting.guess import GivenColumns, Guess, guess_task, missing_columns
from plait.errors import DataError
from plait.recipe.task import Source
from plait.resolve.run import is_reserved
from plait.resolve.task import default_head

__all__ = ["Draft", "DraftTask", "dev_share", "draft_recipe", "inferred"]

# Words in a file name that say nothing about the task.
_NOISE = ("ids", "id", "student", "data", "dataset", "labelled", "labeled", "full", "all", "raw")
_MANY_PAIRS = 3000  # rows; with 2,000 pairs of SICK, `comparison` and `joined` have the same accuracy
_MAX_SIZE_RATIO = 4  # tasks are trained together unless one has more than this many times the rows of another


@dataclass(frozen=True)
class _File:
    """A file that can be used."""

    split: str | None  # that its name mentions
    profile: Profile
    guess: Guess

    @property
    def path(self) -> Path:
        return Path(self.profile.source.file)


@dataclass(frozen=True)
class DraftTask:
    """One task of the recipe."""

    name: str
    guess: Guess
    splits: dict[str, list[Source] | float]  # files, or a share of the training data
    rows: dict[str, int]
    notes: list[str]
    encoding: str = "utf-8"  # of its files

    @property
    def head(self) -> str:
        """The default head; with many rows, both texts in one input tell more about the classes of pairs."""
        name = default_head(self.guess.kind, len(self.guess.text))
        many_pairs = name == "comparison" and self.rows["train"] >= _MANY_PAIRS
        return "joined" if many_pairs and self.guess.kind == "classes" else name

    @property
    def losses(self) -> tuple[str, ...]:
        """The default loss, and one that draws texts of more than two classes apart."""
        default = KINDS[self.guess.kind].loss
        contrastive = self.guess.kind == "classes" and len(self.guess.classes) > 2 and len(self.guess.text) == 1
        return tuple(name for name in (default, "supervised_contrastive" if contrastive else None) if name)

    @property
    def metric(self) -> str | None:
        """A metric that does not reward always predicting the most common class, if one class is far more common."""
        return KINDS[self.guess.kind].unbalanced_metric if self.guess.unbalanced else None

    @property
    def weight(self) -> float | None:
        """Scales the squared error on a wide range down to the magnitude of the other losses."""
        width = self.guess.range[1] - self.guess.range[0] if self.guess.range else 0
        return float(f"{10 / width**2:.1g}") if width > 2 else None


@dataclass(frozen=True)
class Draft:
    """The tasks that were found, and the files and folders that were not used."""

    tasks: list[DraftTask]
    unused: dict[str, str] = field(default_factory=dict)  # file → why

    @property
    def schedule(self) -> str:
        """All tasks in every step if their sizes are similar; otherwise sampled by the square root of their size."""
        sizes = [task.rows["train"] for task in self.tasks]
        return "together" if max(sizes) <= _MAX_SIZE_RATIO * min(sizes) else "{name: sampled, by: temperature}"


def draft_recipe(
    files: DataFiles | Sequence[Path], given: GivenColumns | None = None, encoding: str = "utf-8"
) -> Draft:
    """Inspect the files and group those of one task; raises a DataError with every reason if none can be trained on.

    A file that was named must have the given columns; one that was found in a folder is left out if it lacks them.
    """
    inputs = files if isinstance(files, DataFiles) else DataFiles(list(files), frozenset(files))
    given = given or GivenColumns()
    unused: dict[str, str] = {}
    mistakes: list[str] = []
    groups: dict[str, list[_File]] = {}
    for path in inputs.files:
        try:
            profile = profile_file(Source(file=str(path)), encoding)
        except DataError as error:
            unused[str(path)] = _reason(path, error)
            continue
        if missing := missing_columns(profile, given):
            mistakes += [f"{path}: {why}" for why in missing] if path in inputs.named else []
            unused[str(path)] = missing[0]
            continue
        guess = guess_task(profile, given)
        if isinstance(guess, str):
            unused[str(path)] = guess
        else:
            split, name = _split_and_name(path, guess)
            groups.setdefault(name, []).append(_File(split, profile, guess))
    if mistakes:
        raise DataError(*mistakes)
    tasks = [task for name, group in groups.items() for task in _draft_tasks(name, group, given)]
    unused |= inputs.unused
    if not tasks:
        raise DataError(*(f"{file}: {why}" for file, why in unused.items()), "none of the files can be trained on")
    return Draft(_distinct_names(tasks), unused)


def _reason(path: Path, error: DataError) -> str:
    """Why a file cannot be read, without its path."""
    first = error.mistakes[0].removeprefix(str(path))
    if NOT_UTF8 in first:
        first += ", or use --encoding latin-1"
    line = re.match(r":(\d+): ", first)
    return f"line {line[1]}: {first[line.end() :]}" if line else first.removeprefix(": ")


def _split_and_name(path: Path, guess: Guess) -> tuple[str | None, str]:
    """The split that a file name mentions, and the task name that remains without it."""
    stem = path.name.lower().removesuffix(".gz").rsplit(".", 1)[0]
    words = [word for word in re.split(r"[\W_]+", stem) if word]
    found = [
        split
        for word in (*words, path.resolve().parent.name.lower())
        for split, names in SPLIT_WORDS.items()
        if word in names
    ]
    noise = {*_NOISE, *(name for names in SPLIT_WORDS.values() for name in names)}
    left = [word for word in words if word not in noise]
    name = "_".join(left) or (guess.label[0] if guess.label else path.resolve().parent.name)
    return (found[0] if found else None), _as_name(name)


def _as_name(words: str) -> str:
    """A valid task name."""
    return re.sub(r"\W+", "_", words).strip("_").lower() or "task"


def _draft_tasks(name: str, group: Sequence[_File], given: GivenColumns) -> list[DraftTask]:
    """The task of files with one name; several if their columns differ, or if several folders have one each."""
    by_columns: dict[tuple[tuple[str, ...], tuple[str, ...]], list[_File]] = {}
    for file in group:
        by_columns.setdefault((file.guess.text, file.guess.label), []).append(file)
    tasks = []
    for alike in by_columns.values():
        folders: dict[Path, list[_File]] = {}
        for file in alike:
            folders.setdefault(file.path.resolve().parent, []).append(file)
        splits = Counter(file.split or "train" for file in alike)
        if len(folders) == 1 or max(splits.values()) == 1:
            tasks.append(_draft_task(name, alike, given))
        else:  # the same split in two folders: these are two datasets
            tasks += [_draft_task(_as_name(f"{folder.name}_{name}"), its, given) for folder, its in folders.items()]
    return tasks


def _draft_task(name: str, files: Sequence[_File], given: GivenColumns) -> DraftTask:
    """One task and the files of its splits."""
    notes: list[str] = []
    splits: dict[str, list[Source] | float] = {}
    rows: dict[str, int] = {}
    ordered = sorted(files, key=lambda file: ("train", None, "dev", "test").index(file.split))
    has_train = any(file.split in ("train", None) for file in ordered)
    guess = _guess_together(ordered, given)
    for place, file in enumerate(ordered):
        split = file.split or "train"
        if not has_train and place == 0:
            split = "train"
            notes.append(f"no training file given; training on {file.path.name}")
        used = 0
        for part, source, count in _parts_of(file.profile, split):
            sources = splits.setdefault(part, [])
            assert isinstance(sources, list), "shares are added below"
            sources.append(source)
            rows[part] = rows.get(part, 0) + count
            used += count
        if used < file.profile.rows:
            notes.append(f"{file.profile.rows - used:,} rows of {file.path.name} name no split and are not used")
    if "train" not in splits:
        first = next(iter(splits))
        splits["train"], rows["train"] = splits.pop(first), rows.pop(first)
    if "dev" not in splits:
        share = dev_share(rows["train"])
        splits["dev"] = share
        notes.append(
            f"no dev data; holding out {share:.0%} of train, with no text in both; to use a file, set dev: FILE"
        )
    rows = {split: rows[split] for split in ("train", "dev", "test") if split in rows}
    notes += [note for file in ordered for note in file.profile.notes]
    encoding = next((file.profile.encoding for file in files if file.profile.encoding != "utf-8"), "utf-8")
    return DraftTask(name, guess, splits, rows, [*guess.notes, *notes], encoding)


def dev_share(rows: int) -> float:
    """The share of so many training rows to hold out for dev."""
    return 0.1 if rows >= 5000 else 0.2


def _guess_together(files: Sequence[_File], given: GivenColumns) -> Guess:
    """How to read the files of one task: as the training files suggest, but with the score range of all files."""
    if len(files) == 1:
        return files[0].guess
    training = [file.profile for file in files if file.split in ("train", None)] or [files[0].profile]
    from_all = guess_task(join_profiles([file.profile for file in files]), given)
    if isinstance(from_all, Guess) and KINDS[from_all.kind].is_score:
        return from_all
    from_training = guess_task(join_profiles(training), given)
    return from_training if isinstance(from_training, Guess) else files[0].guess


def _parts_of(profile: Profile, split: str) -> list[tuple[str, Source, int]]:
    """The splits within one training file, if a column names them; a dev or test file is one split."""
    column = profile.split_column()
    if column is None or split != "train":
        return [(split, profile.source, profile.rows)]
    parts = []
    for value in dict.fromkeys(column.values):
        part = next(part for part, words in SPLIT_WORDS.items() if value.strip().lower() in words)
        source = profile.source.model_copy(update={"where": {column.name: value.strip()}})
        parts.append((part, source, column.values.count(value)))
    return parts


def _distinct_names(tasks: Sequence[DraftTask]) -> list[DraftTask]:
    """The tasks with unique names: duplicates get the name of their label, then a number."""
    names = [task.name for task in tasks]
    taken: set[str] = set()
    renamed = []
    for task in tasks:
        name = task.name if names.count(task.name) == 1 else "_".join([task.name, *task.guess.label[:1]])
        while name in taken or name in ("mean", "longest", "shortest") or is_reserved(name):
            name += "_2"
        taken.add(name)
        renamed.append(replace(task, name=name))
    return renamed


def inferred(tasks: Sequence[DraftTask]) -> list[Mapping[str, object]]:
    """What was found, as JSON."""
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
            "loss": list(task.losses),
            "notes": task.notes,
        }
        for task in tasks
    ]
