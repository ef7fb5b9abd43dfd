"""What task a file is for: its texts, its label, the kind of label; and what else it could be."""

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from plait.data.labels import Kind, as_number, class_order, guess_kind, listed
from plait.data.profile import Column, Profile
from plait.recipe.words import quoted

__all__ = ["Guess", "guess_task"]

# Names that labels and texts go by, the surest first.
LABEL_NAMES = (
    "label", "labels", "gold_label", "class", "category", "target", "is_duplicate", "duplicate", "similarity",
    "relatedness", "score", "sentiment", "rating", "stars", "tags", "topics", "topic", "intent", "emotion",
    "entailment", "y",
)  # fmt: skip
CLASS_NAMES = ("label", "labels", "gold_label", "class", "category")  # that few whole numbers under them are classes
TEXT_NAMES = (
    "text", "sentence", "review", "body", "comment", "content", "message", "question", "title", "document", "utterance",
    "tweet", "abstract", "description", "query",
)  # fmt: skip
PAIRS = (
    ("premise", "hypothesis"), ("query", "passage"), ("query", "document"), ("question", "answer"),
    ("source", "target"), ("left", "right"), ("first", "second"), ("anchor", "positive"), ("a", "b"),
    ("original", "paraphrase"),
)  # fmt: skip
TRIPLETS = (("anchor", "positive", "negative"), ("sent0", "sent1", "hard_neg"), ("query", "positive", "negative"))


@dataclass(frozen=True)
class Guess:
    """How a file is read."""

    text: tuple[str, ...]
    label: tuple[str, ...]
    kind: Kind
    classes: tuple[str, ...] = ()
    range: tuple[float, float] | None = None
    separator: str | None = None
    uneven: bool = False  # one class is far commoner than another
    words: float = 0.0  # in a text, in the mean
    others: tuple[str, ...] = ()  # columns that could be labels too
    notes: list[str] = field(default_factory=list)  # readings that it chose between, and how to change the choice


def guess_task(profile: Profile) -> Guess | str:
    """The task that a file is for, or why it is for none."""
    texts = [column for column in profile.columns.values() if column.is_text]
    labels = [c for c in profile.columns.values() if c.is_label and (not c.is_text or c.separator)]
    texts = [column for column in texts if column not in labels]
    if not labels:
        labels = [column for column in named_labels(profile) if column not in texts and column.distinct > 1]
    if not profile.rows:
        return f"it has no row that can be read: {profile.problem}" if profile.problem else "it has no rows"
    if not texts:
        texts = named_texts(profile, labels)
        labels = [column for column in labels if column not in texts]
    notes: list[str] = []
    if not texts and (texts := words_alone(profile, labels)):
        notes.append(f"{quoted(texts[0].name)} is taken as the text, though its values are single words")
    if not texts:
        return "it has no column of text"
    chosen = choose_texts(texts, bool(labels), notes)
    words = sum(column.words for column in chosen) / len(chosen)
    text = tuple(column.name for column in chosen)
    if len(chosen) == 3:
        return Guess(text, (), "triplets", words=words, notes=notes)
    if not labels:
        return no_label(profile)
    if not (readable := [column for column in labels if not column.trouble]):
        return str(labels[0].trouble)
    labels = readable
    flags = [column for column in labels if column.is_yes_no and column.distinct <= 2]
    named = [column for column in labels if rank(column.name, LABEL_NAMES) < len(LABEL_NAMES)]
    if len(flags) > 1 and len(flags) == len(labels) and not named:
        names = tuple(column.name for column in flags)
        notes.append(
            f"{len(names)} columns of 0 and 1 are taken as several labels at once; for one of them alone write "
            f"label: {quoted(names[0])}"
        )
        return Guess(text, names, "several", names, words=words, notes=notes)
    label = min(labels, key=lambda column: rank(column.name, LABEL_NAMES))
    others = tuple(column.name for column in labels if column is not label)
    if others:
        told = ", ".join(map(quoted, others))
        notes.append(f"{quoted(label.name)} is taken as the label; {told} could be one too, see the end of its task")
    if label.name in label.values:
        notes.append(f"the first line is taken as the names of the columns, but {label.name!r} is a value below it too")
    return read_label(Guess(text, (label.name,), "classes", words=words, others=others, notes=notes), label)


def rank(name: str, names: Sequence[str]) -> int:
    """The place of a name among those that are usual; the end for any other."""
    plain = name.strip().lower()
    return names.index(plain) if plain in names else len(names)


def named_labels(profile: Profile) -> list[Column]:
    """Columns that are named like a label, though their values come hardly twice."""
    return [
        column
        for column in profile.columns.values()
        if rank(column.name, LABEL_NAMES) < len(LABEL_NAMES)
        and 0 < column.distinct < len(column.values)
        and not column.is_date
    ]


def no_label(profile: Profile) -> str:
    """Why a file has no labels."""
    if constant := next((column for column in named_labels(profile) if column.distinct == 1), None):
        return f"every row has the same {constant.name!r}, {constant.values[0]!r}: there is nothing to tell apart"
    return "it has no column of labels; plait predict and plait embed can read it"


def words_alone(profile: Profile, labels: Sequence[Column]) -> list[Column]:
    """The one column that may hold texts of one word: hardly a value twice, no numbers, no dates, and no id by name."""
    found = [
        column
        for column in profile.columns.values()
        if column not in labels
        and column.distinct > 0.5 * len(column.values)
        and not (column.is_number or column.is_date or column.is_list or column.is_named_id)
    ]
    return found if len(found) == 1 and labels else []


def named_texts(profile: Profile, labels: Sequence[Column]) -> list[Column]:
    """Columns that look like no text, but are named like one: texts of one word."""
    return [
        column
        for column in profile.columns.values()
        if rank(re.sub(r"[ _-]?\d+$", "", column.name), TEXT_NAMES) < len(TEXT_NAMES)
        and column.values
        and not column.is_number
        and (column not in labels or len(labels) > 1)
    ]


def choose_texts(texts: list[Column], has_label: bool, notes: list[str]) -> list[Column]:
    """One text, two that belong together, or three that are a triplet."""
    by_name = {column.name.strip().lower(): column for column in texts}
    for names in TRIPLETS:
        if all(name in by_name for name in names):
            return [by_name[name] for name in names]
    if len(texts) == 3 and not has_label:
        notes.append("three texts and no label are taken as anchor, positive and hard negative, in this order")
        return texts
    for first, second in PAIRS:
        if first in by_name and second in by_name:
            return [by_name[first], by_name[second]]
    stems: dict[str, list[Column]] = {}
    for column in texts:
        stems.setdefault(re.sub(r"[ _-]?([0-9]|a|b)$", "", column.name.strip().lower()), []).append(column)
    if pair := next((columns for columns in stems.values() if len(columns) == 2), None):
        return pair
    if len(texts) == 1:
        return texts
    best = min(texts, key=lambda column: (rank(column.name, TEXT_NAMES), -column.words))
    others = [column.name for column in texts if column is not best]
    name, other = quoted(best.name), quoted(others[0])
    notes.append(f"{name} is taken as the text; to compare it with another write text: [{name}, {other}]")
    return [best]


def read_label(guess: Guess, column: Column) -> Guess:
    """The guess with the kind of its label, and with its classes or range."""
    notes = list(guess.notes)
    name = quoted(column.name)
    pair = len(guess.text) == 2
    if column.is_list or (column.separator and not pair):
        separator = None if column.is_list else column.separator
        found = {word for value in column.values for word in listed(value, separator) or ()}
        if separator:
            notes.append(
                f"the parts of {name} between {separator!r} are taken as several labels at once; "
                f"for whole cells as classes write label: {name}"
            )
        return replace(
            guess, kind="several", classes=tuple(sorted(found, key=class_order)), separator=separator, notes=notes
        )
    kind = guess_kind(column.values, pair)
    numbers = [number for value in column.values if (number := as_number(value)) is not None]
    whole = column.is_number and not column.has_fractions
    if whole and not pair and column.distinct > 20:
        kind = "score"
    if kind == "score" and whole and column.distinct <= 5 and rank(column.name, CLASS_NAMES) < len(CLASS_NAMES):
        kind = "classes"
    if kind == "score":
        low, high = float(math.floor(min(numbers))), float(math.ceil(max(numbers)))
        notes.append(f"the scores of {name} are taken to go from {low:g} to {high:g}; range: says otherwise")
        if whole:
            notes.append(f"for classes in place of scores write label: {{column: {name}, kind: classes}}")
        return replace(guess, kind=kind, range=(low, high), notes=notes)
    if whole and kind == "classes" and column.distinct > 2:
        notes.append(
            f"the numbers of {name} are taken as classes; as a score on a scale write "
            f"label: {{column: {name}, kind: score}}"
        )
    counts = column.classes
    uneven = max(counts.values()) > 5 * min(counts.values())
    classes = tuple(sorted(counts, key=class_order)) if kind == "classes" else ()
    return replace(guess, kind=kind, classes=classes, uneven=uneven, notes=notes)
