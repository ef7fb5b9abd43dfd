"""`DERIVATIONS`: rows of one shape turned into another while reading. Keyword-only parameters are the options."""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from itertools import cycle, islice

from plait.data.examples import text_problem
from plait.data.read import Rows
from plait.errors import DataError
from plait.recipe.task import Task

__all__ = ["DERIVATIONS", "as_derived", "triplets"]

_COMMON = 4  # labels that a message shows
_TRIPLET = ("anchor", "positive", "negative")  # columns of a triplet


def triplets(
    rows: Rows,
    text: Sequence[str],
    label: str,
    *,
    entailed: str = "entailment",
    contradicting: str = "contradiction",
) -> Rows:
    """Premise, hypothesis and label → anchor, positive and hard negative (Gao 2021).

    Each entailed hypothesis is paired with a contradicting one of the same premise; the side with fewer is repeated.
    Rows without a partner are counted; rows with any other label are ignored.
    """
    premises, hypotheses = rows.columns[text[0]], rows.columns[text[1]]
    words = [word.strip() for word in rows.columns[label]]
    _check_labels(words, entailed, contradicting)
    sides: dict[str, tuple[list[int], list[int]]] = {}
    bad = list(rows.bad)
    for row, (premise, hypothesis, word) in enumerate(zip(premises, hypotheses, words, strict=True)):
        if word not in (entailed, contradicting):
            continue
        if problem := text_problem(text, (premise, hypothesis)):
            bad.append(rows.bad_row(row, problem))
        else:
            sides.setdefault(premise.strip(), ([], []))[word == contradicting].append(row)
    chosen: list[tuple[int, int]] = []
    unpaired = 0
    for positives, negatives in sides.values():
        if positives and negatives:
            count = max(len(positives), len(negatives))
            chosen += zip(islice(cycle(positives), count), islice(cycle(negatives), count), strict=True)
        else:
            unpaired += len(positives) + len(negatives)
    columns = {
        _TRIPLET[0]: [premises[row] for row, _ in chosen],
        _TRIPLET[1]: [hypotheses[row] for row, _ in chosen],
        _TRIPLET[2]: [hypotheses[row] for _, row in chosen],
    }
    return Rows(columns, [rows.origins[row] for row, _ in chosen], bad, unpaired)


def _check_labels(words: Sequence[str], entailed: str, contradicting: str) -> None:
    """Refuse labels that yield no triplet."""
    if entailed == contradicting:
        raise DataError(f"derive: entailed and contradicting are both {entailed!r}; give each its own label")
    for option, wanted in (("entailed", entailed), ("contradicting", contradicting)):
        if words and wanted not in words:
            common = ", ".join(repr(word) for word, _ in Counter(words).most_common(_COMMON))
            raise DataError(f"derive: no row has the label {wanted!r}, the most common are {common}; set {option}")


DERIVATIONS: Mapping[str, Callable[..., Rows]] = {"triplets": triplets}


def as_derived(task: Task) -> Task:
    """The task after its rows are derived: with the columns that they then have."""
    return task.model_copy(update={"text": _TRIPLET, "label": None, "derive": None}) if task.derive else task
