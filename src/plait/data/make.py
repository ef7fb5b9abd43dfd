"""Rows of one shape made into another on reading. `MAKES` names every way; keyword-only parameters are its options."""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from itertools import cycle, islice

from plait.data.examples import text_problem
from plait.data.read import Rows
from plait.errors import DataError
from plait.recipe.schema import Task

__all__ = ["MAKES", "as_made", "triplets"]

COMMON = 4  # labels that a message shows
MADE_TEXT = ("anchor", "positive", "negative")  # columns of what is made


def triplets(
    rows: Rows,
    text: Sequence[str],
    label: str,
    *,
    entailed: str = "entailment",
    contradicting: str = "contradiction",
) -> Rows:
    """Premise, hypothesis and label → anchor, positive and hard negative (Gao 2021).

    Each entailed hypothesis meets a contradicting one of the same premise; where there are fewer of one, they come
    again. Rows without a partner are counted; rows with any other label are passed over.
    """
    premises, hypotheses = rows.columns[text[0]], rows.columns[text[1]]
    words = [word.strip() for word in rows.columns[label]]
    check_words(words, entailed, contradicting)
    sides: dict[str, tuple[list[int], list[int]]] = {}
    bad = list(rows.bad)
    for row, (premise, hypothesis, word) in enumerate(zip(premises, hypotheses, words, strict=True)):
        if word not in (entailed, contradicting):
            continue
        problem = text_problem(text[0], premise) or text_problem(text[1], hypothesis)
        if problem:
            bad.append(rows.bad_row(row, problem))
        else:
            sides.setdefault(premise.strip(), ([], []))[word == contradicting].append(row)
    chosen: list[tuple[int, int]] = []
    lonely = 0
    for positives, negatives in sides.values():
        if positives and negatives:
            count = max(len(positives), len(negatives))
            chosen += zip(islice(cycle(positives), count), islice(cycle(negatives), count), strict=True)
        else:
            lonely += len(positives) + len(negatives)
    columns = {
        MADE_TEXT[0]: [premises[row] for row, _ in chosen],
        MADE_TEXT[1]: [hypotheses[row] for row, _ in chosen],
        MADE_TEXT[2]: [hypotheses[row] for _, row in chosen],
    }
    return Rows(columns, [rows.origins[row] for row, _ in chosen], bad, lonely)


def check_words(words: Sequence[str], entailed: str, contradicting: str) -> None:
    """Refuse labels that no triplet can come of."""
    if entailed == contradicting:
        raise DataError(f"make: entailed and contradicting are both {entailed!r}; give each its own label")
    for option, wanted in (("entailed", entailed), ("contradicting", contradicting)):
        if words and wanted not in words:
            common = ", ".join(repr(word) for word, _ in Counter(words).most_common(COMMON))
            raise DataError(f"make: no row has the label {wanted!r}, the commonest are {common}; give {option}")


MAKES: Mapping[str, Callable[..., Rows]] = {"triplets": triplets}


def as_made(task: Task) -> Task:
    """The task as it is after making: with the columns that its rows then have."""
    return task.model_copy(update={"text": MADE_TEXT, "label": None, "make": None}) if task.make else task
