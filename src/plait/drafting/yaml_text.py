"""A draft → a commented recipe, validated on its data."""

import math
import os
import re
import shlex
from collections.abc import Sequence
from pathlib import Path

from plait.drafting.draft import Draft, DraftTask
from plait.drafting.files import unused_sentences
from plait.drafting.guess import Guess
from plait.errors import DataError, PlaitError
from plait.files import atomic_file
from plait.recipe.quick import QUICK, QUICK_LIMITS
from plait.recipe.read import read_recipe
from plait.recipe.task import SPLITS, Source
from plait.recipe.yaml_quote import quoted
from plait.resolve.run import resolve_tasks
from plait.resolve.variants import VARIANTS

__all__ = ["write_draft"]

_FEW_ROWS = 3000  # of the largest task; with fewer, batches are smaller
_MANY_ROWS = 5000  # of the largest task; a tenth more of them is not worth a second training
_LIMIT, _WIDTH = 512, 1  # stand in for the encoder's, which is not loaded to validate the data
_LONG_TEXT = 150  # words; longer texts are likely to be truncated


def write_draft(draft: Draft, target: Path, encoder: str) -> int:
    """Write the recipe and validate it on its data; returns how many rows it skips.

    A recipe that cannot be trained yet is written as well, and its problems are raised as a DataError.
    """
    bad = 0
    mistakes: tuple[str, ...] = ()
    with atomic_file(target) as aside:
        aside.write_text("\n".join(_recipe_lines(draft, target, encoder)) + "\n", encoding="utf-8")
        try:
            recipe = read_recipe(aside, VARIANTS, overrides=["bad_rows=skip"])
            bad = sum(len(task.bad) for task in resolve_tasks(recipe, _LIMIT, _WIDTH).tasks.values())
        except PlaitError as error:
            mistakes = tuple(mistake.replace(str(aside), str(target)) for mistake in error.mistakes)
        if bad:
            aside.write_text("\n".join(_recipe_lines(draft, target, encoder, bad)) + "\n", encoding="utf-8")
    if mistakes:
        raise DataError(f"{target}: written, but it needs these corrections before it can be trained:", *mistakes)
    return bad


def _recipe_lines(draft: Draft, target: Path, encoder: str, bad_rows: int = 0) -> list[str]:
    """The recipe as text, with a comment on every choice."""
    rows = max(task.rows["train"] for task in draft.tasks)
    file, out, quick = (shlex.quote(text) for text in (str(target), f"runs/{target.stem}", f"runs/{target.stem}-quick"))
    lines = [
        f"# plait train {file} --out {out}",
        f"# Quick trial in a few minutes: plait train {file} --profile quick --out {quick}",
        f"encoder: {quoted(encoder)}",
        "tasks:",
    ]
    for task in draft.tasks:
        lines += _task_lines(task, target.resolve().parent)
    schedule = "tasks of similar size: every step trains on one batch of each"
    if draft.schedule != "together":
        schedule = "tasks of different size: larger ones are drawn more often, but less than proportionally"
    lines += [
        f"schedule: {draft.schedule}{'':4}# {schedule}",
        f"epochs: {_epochs(draft.tasks)}{'':25}# fewer rows are trained more often",
        f"batch_size: {16 if rows < _FEW_ROWS else 32}",
        "lr: 5e-5",
        "head_lr: 5e-4                       # the heads adapt faster than the encoder",
    ]
    if rows < _MANY_ROWS and any(isinstance(task.splits["dev"], float) for task in draft.tasks):
        lines.append("refit: true                         # in the end, train once more with the dev rows")
    if bad_rows:
        lines.append(f"bad_rows: skip                      # {bad_rows:,} rows are unusable; stop reports them instead")
    lines += [
        "seed: 11711",
        "profiles:",
        f"  {QUICK}: {{{', '.join(f'{key}: {most}' for key, most in QUICK_LIMITS.items())}, batch_size: 16}}",
    ]
    lines += [f"# {sentence}" for sentence in unused_sentences({_shown(f): why for f, why in draft.unused.items()})]
    return lines


def _shown(file: str) -> str:
    """A file or folder without the folder that it is in."""
    return f"{Path(file).name}/" if Path(file).is_dir() else Path(file).name


def _epochs(tasks: Sequence[DraftTask]) -> int:
    """Passes over the largest task: its updates grow with the square root of its rows, from 3 passes on linearly.

    To draw classes apart takes some 120 updates, however few the rows are.
    """
    rows = max(task.rows["train"] for task in tasks)
    passes = max(3, min(15, round(120 / math.sqrt(rows))))
    contrastive = any(len(task.losses) > 1 for task in tasks)
    return max(passes, min(30, round(1920 / rows))) if contrastive else passes


def _task_lines(task: DraftTask, folder: Path) -> list[str]:
    """One task, with the assumptions about it as comments."""
    guess = task.guess
    lines = [f"  {quoted(task.name)}:{'':4}# {task.rows['train']:,} rows"]
    lines += [f"    # {note}" for note in task.notes]
    for split in SPLITS:
        if split in task.splits:
            lines.append(f"    {split}: {_source_text(task.splits[split], folder)}")
    if task.encoding != "utf-8":
        lines.append(f"    encoding: {quoted(task.encoding)}")
    lines.append(f"    text: {_list_text(guess.text)}")
    if guess.label:
        lines.append(f"    label: {_label_text(guess)}")
    lines.append("    # The keys below follow from the kind of label: remove them if you change text or label.")
    lines.append(f"    head: {task.head}")
    lines.append(f"    loss: {_loss_text(task.losses)}")
    if task.metric:
        lines.append(f"    metric: {task.metric}{'':4}# some classes are rare, which accuracy would hide")
        lines.append("    # class_weights: balanced        # makes rare classes count as much as common ones")
    if task.weight and task.weight != 1:
        lines.append(f"    weight: {task.weight:g}{'':4}# squared errors are large on this range")
    if guess.mean_words > _LONG_TEXT:
        lines.append(
            "    # max_length: 128                # the texts are long; a lower limit is faster but truncates more"
        )
    for other in guess.others:
        lines.append(
            f"    # To also train on {quoted(other)}, copy this task under another name with label: {quoted(other)}"
        )
    return lines


def _source_text(sources: list[Source] | float, folder: Path) -> str:
    """The files of a split, relative to the recipe's folder unless they are far away."""
    if isinstance(sources, float):
        return f"{sources:g}"
    texts = []
    for source in sources:
        path = Path(source.file).resolve()
        relative = os.path.relpath(path, folder)
        file = quoted(str(path) if relative.startswith("../../..") else relative)
        where = ", ".join(f"{quoted(column)}: {quoted(value)}" for column, value in source.where.items())
        texts.append(f"{{file: {file}, where: {{{where}}}}}" if where else file)
    return texts[0] if len(texts) == 1 else f"[{', '.join(texts)}]"


def _label_text(guess: Guess) -> str:
    """The label with its classes or its range."""
    column = _list_text(guess.label)
    if guess.kind == "score" and guess.range:
        return f"{{column: {column}, range: [{guess.range[0]:g}, {guess.range[1]:g}]}}"
    if guess.kind == "multilabel":
        separator = f", separator: {quoted(guess.separator)}" if guess.separator else ""
        return f"{{column: {column}, kind: multilabel{separator}}}"
    if guess.kind == "classes" and len(guess.classes) <= 12 and not guess.typos:
        words = [word if re.fullmatch(r"-?\d+", word) else quoted(word) for word in guess.classes]
        classes = ", ".join(f"{word}: {word}" for word in words)
        return f"{{column: {column}, classes: {{{classes}}}}}    # value in the data: name to display"
    return f"{{column: {column}, kind: {guess.kind}}}"


def _loss_text(names: Sequence[str]) -> str:
    """The loss of the head, and those beside it with half its weight, so that other tasks keep theirs."""
    first, *others = names
    beside = [f"{{name: {name}, weight: 0.5}}" for name in others]
    return f"[{', '.join([first, *beside])}]" if beside else first


def _list_text(names: Sequence[str]) -> str:
    """One name, or several in brackets."""
    return quoted(names[0]) if len(names) == 1 else f"[{', '.join(map(quoted, names))}]"
