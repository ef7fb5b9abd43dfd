"""A draft → a commented recipe, tried on its data."""

import os
import re
import shlex
from collections.abc import Sequence
from pathlib import Path

from plait.data.guess import Guess
from plait.errors import DataError, PlaitError
from plait.model.files import whole_file
from plait.recipe.read import read_recipe
from plait.recipe.schema import SPLITS, Source
from plait.recipe.words import quoted
from plait.training.draft import Draft, DraftTask
from plait.training.settle import settle
from plait.training.tables import TABLES

__all__ = ["write_draft"]

SMALL = 3000  # rows in all; fewer are gone through more often
LIMIT = 512  # tokens; the data is tried without the encoder
LONG = 150  # words in the mean text; longer ones are likely to be cut


def write_draft(draft: Draft, target: Path, encoder: str) -> int:
    """Write the recipe, tried on its data; how many rows it leaves out. What is left to mend is raised at the end."""
    bad = 0
    mistakes: tuple[str, ...] = ()
    with whole_file(target) as aside:
        aside.write_text("\n".join(recipe_lines(draft, target, encoder)) + "\n", encoding="utf-8")
        try:
            recipe = read_recipe(aside, TABLES, assignments=["bad_rows=skip"])
            bad = sum(map(len, settle(recipe, LIMIT).bad.values()))
        except PlaitError as error:
            mistakes = tuple(mistake.replace(str(aside), str(target)) for mistake in error.mistakes)
        if bad:
            aside.write_text("\n".join(recipe_lines(draft, target, encoder, bad)) + "\n", encoding="utf-8")
    if mistakes:
        raise DataError(f"{target}: is written, and cannot train before this is mended:", *mistakes)
    return bad


def recipe_lines(draft: Draft, target: Path, encoder: str, bad_rows: int = 0) -> list[str]:
    """The recipe as text, with a comment wherever a choice was made."""
    rows = sum(task.rows["train"] for task in draft.tasks)
    file, out, quick = (shlex.quote(text) for text in (str(target), f"runs/{target.stem}", f"runs/{target.stem}-quick"))
    lines = [
        f"# plait train {file} --out {out}",
        f"# For a first look in a few minutes: plait train {file} --profile quick --out {quick}",
        f"encoder: {quoted(encoder)}",
        "tasks:",
    ]
    for task in draft.tasks:
        lines += task_lines(task, target.resolve().parent)
    schedule = "tasks of like size, one batch of each in every step"
    if draft.schedule != "together":
        schedule = "tasks of unlike size: larger ones come more often, but not by as much as they are larger"
    lines += [
        f"schedule: {draft.schedule}{'':4}# {schedule}",
        f"epochs: {5 if rows < SMALL else 3}",
        f"batch_size: {16 if rows < SMALL else 32}",
        "lr: 1e-4",
        "head_lr: 1e-3                       # the heads are new, the encoder is not",
    ]
    if bad_rows:
        lines.append(f"bad_rows: skip                      # {bad_rows:,} rows cannot be used; stop lists them instead")
    lines += [
        "seed: 11711",
        "profiles:",
        "  quick: {rows: 500, dev_rows: 200, epochs: 2, batch_size: 16}",
    ]
    for file, why in draft.unused.items():
        lines.append(f"# {Path(file).name} is not used: {why}")
    return lines


def task_lines(task: DraftTask, folder: Path) -> list[str]:
    """One task, with what was guessed as comments."""
    guess = task.guess
    lines = [f"  {quoted(task.name)}:{'':4}# {task.rows['train']:,} rows"]
    lines += [f"    # {note}" for note in task.notes]
    for split in SPLITS:
        if split in task.splits:
            lines.append(f"    {split}: {source_text(task.splits[split], folder)}")
    lines.append(f"    text: {list_text(guess.text)}")
    if guess.label:
        lines.append(f"    label: {label_text(guess)}")
    lines.append("    # What follows is chosen by the kind of label: take it away if you change the text or the label.")
    lines.append(f"    head: {task.head}")
    lines.append(f"    loss: {task.loss}")
    if task.metric:
        lines.append(f"    metric: {task.metric}{'':4}# some classes are rare; accuracy would hide them")
        lines.append("    # class_weights: balanced        # makes rare classes count as much as common ones")
    if task.weight and task.weight != 1:
        lines.append(f"    weight: {task.weight:g}{'':4}# a squared error is large on this range")
    if guess.words > LONG:
        lines.append("    # max_length: 128                # texts are long; a smaller limit is faster and reads less")
    for other in guess.others:
        lines.append(f"    # Another task of the same file: this one under another name, with label: {quoted(other)}")
    return lines


def source_text(sources: list[Source] | float, folder: Path) -> str:
    """The files of a split, relative to the recipe's folder."""
    if isinstance(sources, float):
        return f"{sources:g}"
    texts = []
    for source in sources:
        path = Path(source.file).resolve()
        near = os.path.relpath(path, folder)
        file = quoted(str(path) if near.startswith("../../..") else near)
        where = ", ".join(f"{quoted(column)}: {quoted(value)}" for column, value in source.where.items())
        texts.append(f"{{file: {file}, where: {{{where}}}}}" if where else file)
    return texts[0] if len(texts) == 1 else f"[{', '.join(texts)}]"


def label_text(guess: Guess) -> str:
    """The label with its classes or its range."""
    column = list_text(guess.label)
    if guess.kind == "score" and guess.range:
        return f"{{column: {column}, range: [{guess.range[0]:g}, {guess.range[1]:g}]}}"
    if guess.kind == "several":
        separator = f", separator: {quoted(guess.separator)}" if guess.separator else ""
        return f"{{column: {column}, kind: several{separator}}}"
    if guess.kind == "classes" and len(guess.classes) <= 12:
        words = [word if re.fullmatch(r"-?\d+", word) else quoted(word) for word in guess.classes]
        classes = ", ".join(f"{word}: {word}" for word in words)
        return f"{{column: {column}, classes: {{{classes}}}}}    # as the data has it: as it is shown"
    return f"{{column: {column}, kind: {guess.kind}}}"


def list_text(names: Sequence[str]) -> str:
    """One name, or several in brackets."""
    return quoted(names[0]) if len(names) == 1 else f"[{', '.join(map(quoted, names))}]"
