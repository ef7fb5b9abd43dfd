"""Rows of one shape made into another on reading. `MAKES` names every way; keyword-only parameters are its options."""

from collections.abc import Callable, Mapping, Sequence
from itertools import cycle, islice

from plait.data.read import Rows
from plait.recipe.schema import Task

__all__ = ["MAKES", "as_made", "triplets"]

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
    sides: dict[str, tuple[list[int], list[int]]] = {}
    for row, (premise, word) in enumerate(zip(rows.columns[text[0]], rows.columns[label], strict=True)):
        if word.strip() in (entailed, contradicting):
            sides.setdefault(premise.strip(), ([], []))[word.strip() == contradicting].append(row)
    chosen: list[tuple[int, int]] = []
    lonely = 0
    for positives, negatives in sides.values():
        if positives and negatives:
            count = max(len(positives), len(negatives))
            chosen += zip(islice(cycle(positives), count), islice(cycle(negatives), count), strict=True)
        else:
            lonely += len(positives) + len(negatives)
    premises, hypotheses = rows.columns[text[0]], rows.columns[text[1]]
    columns = {
        MADE_TEXT[0]: [premises[row] for row, _ in chosen],
        MADE_TEXT[1]: [hypotheses[row] for row, _ in chosen],
        MADE_TEXT[2]: [hypotheses[row] for _, row in chosen],
    }
    return Rows(columns, [rows.origins[row] for row, _ in chosen], rows.bad, lonely)


MAKES: Mapping[str, Callable[..., Rows]] = {"triplets": triplets}


def as_made(task: Task) -> Task:
    """The task as it is after making: with the columns that its rows then have."""
    return task.model_copy(update={"text": MADE_TEXT, "label": None, "make": None}) if task.make else task
