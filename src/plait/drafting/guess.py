"""Which task a file is for: its texts, its label, the kind of label, and the alternatives."""

import difflib
import math
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from plait.data.kinds import Kind
from plait.data.labels import as_number, class_order, guess_kind, listed
from plait.data.read import only_column_problem
from plait.data.similar import similar_note
from plait.drafting.columns import Column, Profile
from plait.recipe.yaml_quote import quoted

__all__ = ["GivenColumns", "Guess", "guess_task", "is_unbalanced", "missing_columns"]

# Common names of label and text columns, the most reliable first.
_LABEL_NAMES = (
    "label", "labels", "gold_label", "class", "category", "target", "is_duplicate", "duplicate", "similarity",
    "relatedness", "score", "sentiment", "rating", "stars", "tags", "topics", "topic", "intent", "emotion",
    "entailment", "y",
)  # fmt: skip
_CLASS_NAMES = ("label", "labels", "gold_label", "class", "category")  # a few integers in such a column are classes
_TEXT_NAMES = (
    "text", "sentence", "review", "body", "comment", "content", "message", "question", "title", "document", "utterance",
    "tweet", "abstract", "description", "query",
)  # fmt: skip
_PAIRS = (
    ("premise", "hypothesis"), ("query", "passage"), ("query", "document"), ("question", "answer"),
    ("source", "target"), ("left", "right"), ("first", "second"), ("anchor", "positive"), ("a", "b"),
    ("original", "paraphrase"),
)  # fmt: skip
_TRIPLETS = (("anchor", "positive", "negative"), ("sent0", "sent1", "hard_neg"), ("query", "positive", "negative"))


@dataclass(frozen=True)
class GivenColumns:
    """The columns that a user names, so that they need not be guessed."""

    text: tuple[str, ...] = ()
    label: str | None = None

    @property
    def names(self) -> tuple[str, ...]:
        """All of them."""
        return (*self.text, self.label) if self.label is not None else self.text


@dataclass(frozen=True)
class Guess:
    """How to read a file as a task."""

    text: tuple[str, ...]
    label: tuple[str, ...]
    kind: Kind
    classes: tuple[str, ...] = ()
    range: tuple[float, float] | None = None
    separator: str | None = None
    unbalanced: bool = False  # one class is far more common than another
    mean_words: float = 0.0  # per text
    others: tuple[str, ...] = ()  # columns that could also be labels
    typos: bool = False  # some classes are probably others, misspelt
    notes: list[str] = field(default_factory=list)  # what was assumed, and how to change it


def missing_columns(profile: Profile, given: GivenColumns) -> list[str]:
    """What to say about each given column that a file does not have."""
    names = [name for name in profile.columns if name]
    return [
        f"no column {column!r}; {_closest(column, names)}its columns are {', '.join(names)}"
        for column in given.names
        if column not in profile.columns
    ]


def _closest(column: str, names: Sequence[str]) -> str:
    by_case = {name.lower(): name for name in reversed(names)}
    close = difflib.get_close_matches(column.lower(), by_case, n=1)
    return f"did you mean {by_case[close[0]]!r}? " if close else ""


def guess_task(profile: Profile, given: GivenColumns = GivenColumns()) -> Guess | str:  # noqa: B008  # it is frozen
    """The task that a file is for, or why it cannot be used. The file must have the given columns."""
    if not profile.rows:
        return f"it has no valid rows: {profile.problem}" if profile.problem else "it has no rows"
    notes: list[str] = []
    if problem := only_column_problem(list(profile.columns)):
        return problem
    texts, labels = _candidates(profile, given, notes)
    if not texts:
        return "it has no text column; name it with --text"
    chosen = texts if given.text else _choose_texts(texts, labels, given, notes)
    if empty := next((column for column in (*chosen, *labels) if not column.values), None):
        return f"the column {empty.name!r} is empty"
    mean_words = sum(column.mean_words for column in chosen) / len(chosen)
    text = tuple(column.name for column in chosen)
    if len(chosen) == 3:
        return Guess(text, (), "triplets", mean_words=mean_words, notes=notes)
    if not labels:
        return _why_no_label(profile)
    if given.label is not None and (problem := _unlike_label(labels[0])):
        return problem
    if not (readable := [column for column in labels if not column.label_problem]):
        return str(labels[0].label_problem)
    if profile.problem and all(column.distinct < 2 for column in readable):
        return f"its valid rows have only one label: {profile.problem}"
    labels = readable
    flags = [column for column in labels if column.is_yes_no and column.distinct <= 2]
    named = [column for column in labels if _is_named_like(column, _LABEL_NAMES)]
    if len(flags) > 1 and len(flags) == len(labels) and not named:
        names = tuple(column.name for column in flags)
        notes.append(
            f"treating {len(names)} columns of 0 and 1 as one multilabel task; to use a single column, write "
            f"label: {quoted(names[0])}"
        )
        return Guess(text, names, "multilabel", names, mean_words=mean_words, notes=notes)
    label = min(labels, key=lambda column: _rank(column.name, _LABEL_NAMES))
    others = tuple(column.name for column in labels if column is not label)
    if others:
        shown = ", ".join(map(quoted, others))
        notes.append(f"using {quoted(label.name)} as the label; alternatives: {shown} (see the end of the task)")
    if label.name in label.values:
        notes.append(
            f"the first line is read as the header, but {label.name!r} is also a value; is the header missing?"
        )
    return _read_label(Guess(text, (label.name,), "classes", mean_words=mean_words, others=others, notes=notes), label)


def _candidates(profile: Profile, given: GivenColumns, notes: list[str]) -> tuple[list[Column], list[Column]]:
    """The columns that may be texts and those that may be labels: the given ones, or what the values look like."""
    free = replace(
        profile, columns={name: column for name, column in profile.columns.items() if name not in given.names}
    )
    texts = [column for column in free.columns.values() if column.is_text]
    labels = [c for c in free.columns.values() if c.is_label and (not c.is_text or c.separator)]
    texts = [column for column in texts if column not in labels]
    if not labels:
        labels = [column for column in _named_labels(free) if column not in texts and column.distinct > 1]
    if given.label is not None:
        labels = [profile.columns[given.label]]
    if given.text:
        return [profile.columns[name] for name in given.text], labels
    if not texts:
        texts = _named_texts(free, labels)
        labels = [column for column in labels if column not in texts]
    if not texts and (texts := _single_words(free, labels)):
        notes.append(f"using {quoted(texts[0].name)} as the text, although its values are single words")
    return texts, labels


def _rank(name: str, names: Sequence[str]) -> int:
    """The position of a name in a list of common names; the end for any other name."""
    plain = name.strip().lower()
    return names.index(plain) if plain in names else len(names)


def _is_named_like(column: Column, names: Sequence[str]) -> bool:
    return _rank(column.name, names) < len(names)


def _named_labels(profile: Profile) -> list[Column]:
    """Columns that are named like a label, although their values hardly repeat."""
    return [
        column
        for column in profile.columns.values()
        if _is_named_like(column, _LABEL_NAMES) and 0 < column.distinct < len(column.values) and not column.is_date
    ]


def _why_no_label(profile: Profile) -> str:
    if constant := next((column for column in _named_labels(profile) if column.distinct == 1), None):
        return _constant(constant)
    named = (column for column in profile.columns.values() if _is_named_like(column, _LABEL_NAMES))
    if unlike := next((column for column in named if column.all_differ and not column.is_text), None):
        score = f"; if it is a score, --label {quoted(unlike.name)} reads it" if unlike.is_number else ""
        return f"{_different(unlike)}: an id or a date{score}"
    return "it has no label column; name it with --label, or use the file with plait predict or plait embed"


def _unlike_label(column: Column) -> str | None:
    """Why the values of a column cannot be learned, although a user names it as the label."""
    if column.distinct == 1:
        return _constant(column)
    if column.all_differ and not column.is_number and not column.is_list and not column.separator:
        return f"{_different(column)}: an id, a date or a text? name another column with --label"
    return None


def _different(column: Column) -> str:
    return f"{column.name!r} has {column.distinct:,} different values in {len(column.values):,} rows"


def _constant(column: Column) -> str:
    return f"every row has the same {column.name!r}, {column.values[0]!r}; there is nothing to learn"


def _single_words(profile: Profile, labels: Sequence[Column]) -> list[Column]:
    """The only column that may contain one-word texts: values hardly repeat and are not numbers, dates or ids."""
    found = [
        column
        for column in profile.columns.values()
        if column not in labels
        and column.distinct > 0.5 * len(column.values)
        and not (column.is_number or column.is_date or column.is_list or column.is_named_id)
    ]
    return found if len(found) == 1 and labels else []


def _named_texts(profile: Profile, labels: Sequence[Column]) -> list[Column]:
    """Columns that do not look like text, but are named like it: one-word texts."""
    return [
        column
        for column in profile.columns.values()
        if _rank(re.sub(r"[ _-]?\d+$", "", column.name), _TEXT_NAMES) < len(_TEXT_NAMES)
        and column.values
        and not column.is_number
        and (column not in labels or len(labels) > 1)
    ]


def _choose_texts(texts: list[Column], labels: Sequence[Column], given: GivenColumns, notes: list[str]) -> list[Column]:
    """One text, a pair, or a triplet unless a label is given; adds to `notes` what was assumed."""
    by_name = {column.name.strip().lower(): column for column in texts}
    for names in _TRIPLETS:
        if all(name in by_name for name in names) and given.label is None:
            return [by_name[name] for name in names]
    if len(texts) == 3 and not labels:
        notes.append("treating the three texts as anchor, positive and hard negative, in this order")
        return texts
    for first, second in _PAIRS:
        if first in by_name and second in by_name:
            return [by_name[first], by_name[second]]
    stems: dict[str, list[Column]] = {}
    for column in texts:
        stems.setdefault(re.sub(r"[ _-]?([0-9]|a|b)$", "", column.name.strip().lower()), []).append(column)
    if pair := next((columns for columns in stems.values() if len(columns) == 2), None):
        return pair
    if len(texts) == 1:
        return texts
    best = min(texts, key=lambda column: (_rank(column.name, _TEXT_NAMES), -column.mean_words))
    others = [column.name for column in texts if column is not best]
    name, other = quoted(best.name), quoted(others[0])
    notes.append(f"using {name} as the text; to train on pairs, write text: [{name}, {other}]")
    return [best]


def _read_label(guess: Guess, column: Column) -> Guess:
    """The guess, completed with the kind of label and its classes or range."""
    notes = list(guess.notes)
    name = quoted(column.name)
    pair = len(guess.text) == 2
    if column.is_list or (column.separator and not pair):
        separator = None if column.is_list else column.separator
        found = Counter(word for value in column.values for word in listed(value, separator) or ())
        if separator:
            notes.append(
                f"splitting {name} at {separator!r} into several labels; "
                f"to treat each cell as one class, write label: {name}"
            )
        notes += [note] if (note := similar_note(found)) else []
        return replace(
            guess, kind="multilabel", classes=tuple(sorted(found, key=class_order)), separator=separator, notes=notes
        )
    kind = guess_kind(column.values, pair)
    numbers = [number for value in column.values if (number := as_number(value)) is not None]
    integers = column.is_number and not column.has_fractions
    if integers and not pair and column.distinct > 20:
        kind = "score"
    if kind == "score" and integers and column.distinct <= 5 and _is_named_like(column, _CLASS_NAMES):
        kind = "classes"
    if kind == "score":
        low, high = float(math.floor(min(numbers))), float(math.ceil(max(numbers)))
        notes.append(f"assuming that {name} ranges from {low:g} to {high:g}; change range if it does not")
        if integers and column.all_differ:
            notes.append(f"{_different(column)}: an id? a score? it is read as a score")
        elif integers:
            notes.append(f"to predict classes instead of scores, write label: {{column: {name}, kind: classes}}")
        return replace(guess, kind=kind, range=(low, high), notes=notes)
    if integers and kind == "classes" and column.distinct > 2:
        notes.append(
            f"treating the numbers in {name} as classes; to predict a score instead, write "
            f"label: {{column: {name}, kind: score}}"
        )
    counts = column.class_counts
    classes = tuple(sorted(counts, key=class_order)) if kind == "classes" else ()
    typos = similar_note(counts) if kind == "classes" else None
    notes += [typos] if typos else []
    return replace(guess, kind=kind, classes=classes, unbalanced=is_unbalanced(counts), typos=bool(typos), notes=notes)


def is_unbalanced(counts: Mapping[str, int]) -> bool:
    """Whether one class is far more common than another."""
    return max(counts.values()) > 5 * min(counts.values())
