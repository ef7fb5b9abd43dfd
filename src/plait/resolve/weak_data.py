"""Data from which little can be learned, or by which little can be told: said before training."""

import re
from collections.abc import Iterator, Mapping

import numpy as np

from plait.data.examples import Examples
from plait.resolve.task import ResolvedTask

__all__ = ["weak_data"]

_DEV_ROWS = 30  # below it, a score says little
_CLASS_ROWS = 8  # of train
_TIMES = 100  # the rows of the largest task, as a multiple of those of the smallest
_NAMED = 5  # classes in one sentence
_TEXTS, _WORDS = 500, 200  # read at most, needed at least, to tell the language
_ENGLISH_SHARE = 0.08  # of function words among the words; English texts have about 0.3
_FUNCTION_WORDS = """
a about after all an and are as at be been but by can do for from had has have he her his how i if in into is it its
more my no not of on one or our out s she so t than that the their there they this to up was we were what when which
who will with would you your
"""
_ENGLISH = frozenset(re.findall(r"\w+", _FUNCTION_WORDS))
_ENGLISH_ENCODERS = (
    "minilm",
    "gte-small",
    "thenlper/gte-small",
    "bert-base-uncased",
    "bert-base-cased",
    "roberta-base",
)
_MULTILINGUAL = "sentence-transformers/paraphrase-multilingual-MiniLM-L12-v2"


def weak_data(tasks: Mapping[str, ResolvedTask], encoder: str) -> list[str]:
    """What a user should know about the data of some tasks, in sentences."""
    learning = {name: task for name, task in tasks.items() if task.settings.learn}
    notes = [f"{name}: {note}" for name, task in learning.items() for note in _of_task(task)]
    if encoder in _ENGLISH_ENCODERS:
        other = [name for name, task in learning.items() if _is_not_english(task.splits["train"])]
        notes += [
            f"{name}: most texts do not look English, and {encoder} knows English only; try encoder: {_MULTILINGUAL}"
            for name in other
        ]
    sizes = {name: len(task.splits["train"]) for name, task in learning.items()}
    if sizes and max(sizes.values()) >= _TIMES * min(sizes.values()):
        large, small = max(sizes, key=sizes.__getitem__), min(sizes, key=sizes.__getitem__)
        notes.append(
            f"{large} has {sizes[large] // max(1, sizes[small]):,} times the rows of {small}, which may learn little; "
            "schedule: {name: sampled, by: temperature} draws small tasks more often"
        )
    return notes


def _of_task(task: ResolvedTask) -> Iterator[str]:
    """One task by itself."""
    labels, train, dev = task.spec.labels, task.splits["train"], task.splits.get("dev")
    if dev is not None and len(dev) < _DEV_ROWS:
        yield f"dev has {len(dev)} rows, so its scores are rough; {_DEV_ROWS} or more would tell models apart"
    if not labels.about.has_classes:
        return
    counts = _class_counts(train, len(labels.names))
    few = [name for name, count in zip(labels.names, counts, strict=True) if 0 < count < _CLASS_ROWS]
    if few:
        yield f"fewer than {_CLASS_ROWS} training rows of {_listed(few)}"
    if dev is not None:
        absent = [
            name
            for name, count, known in zip(labels.names, _class_counts(dev, len(labels.names)), counts, strict=True)
            if known and not count
        ]
        if absent:
            yield f"dev has no row of {_listed(absent)}, so its scores say nothing about it"


def _class_counts(examples: Examples, classes: int) -> list[int]:
    """The rows of each class."""
    labels = examples.labels
    if labels.ndim > 1:  # multilabel
        return [int(count) for count in labels.sum(axis=0)]
    return [int(count) for count in np.bincount(labels.astype(np.int64), minlength=classes)]


def _listed(names: list[str]) -> str:
    shown = ", ".join(repr(name) for name in names[:_NAMED])
    return f"{shown} and {len(names) - _NAMED} other classes" if len(names) > _NAMED else shown


def _is_not_english(examples: Examples) -> bool:
    """Whether the texts have far fewer of the small words that every English text is full of."""
    texts = [text for column in examples.texts for text in column[:_TEXTS]]
    words = [word for text in texts for word in re.findall(r"[^\W\d_]+", text.lower())]
    return len(words) >= _WORDS and sum(word in _ENGLISH for word in words) < _ENGLISH_SHARE * len(words)
