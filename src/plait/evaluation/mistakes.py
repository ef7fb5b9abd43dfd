"""The wrong predictions of a model, worst first.

n examples, C classes.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from plait.data.examples import Examples
from plait.data.labels import Labels
from plait.data.write import csv_cell, csv_lines, json_line
from plait.errors import RequestError
from plait.model.decode import Decoded
from plait.model.files import whole_file
from plait.model.tasks import TaskSpec

__all__ = ["Mistake", "check_place", "find_mistakes", "write_mistakes"]

KINDS = (".csv", ".jsonl")
FACTS = ("task", "where", "expected", "predicted", "probability", "error")
Answer = str | tuple[str, ...] | float  # a class or yes/no, several labels at once, a score


@dataclass(frozen=True)
class Mistake:
    """One example that a model got wrong; of scores every example, since none is quite right."""

    task: str
    where: str  # file:line
    texts: tuple[str, ...]
    expected: Answer
    predicted: Answer
    probability: float | None  # of the wrong answer; of several labels at once the wrong one that was surest
    error: float | None  # of a score, how far off it is


def find_mistakes(spec: TaskSpec, examples: Examples, decoded: Decoded) -> list[Mistake]:
    """What a task got wrong: the surest wrong answer first; of scores every example, the largest error first."""
    badness_n = score_errors(examples, decoded) if spec.labels.kind == "score" else wrong_sureness(examples, decoded)
    wrong = [int(row) for row in np.argsort(-badness_n, kind="stable") if badness_n[row] >= 0]
    scored = spec.labels.kind == "score"
    return [
        Mistake(
            spec.name,
            examples.origins[row],
            tuple(column[row] for column in examples.texts),
            answer(examples.labels[row], spec.labels),
            answer(decoded.values[row], spec.labels),
            None if scored else float(badness_n[row]),
            float(badness_n[row]) if scored else None,
        )
        for row in wrong
    ]


def score_errors(examples: Examples, decoded: Decoded) -> np.ndarray:
    """How far off each score is (n,)."""
    errors_n: np.ndarray = np.abs(decoded.values - examples.labels.astype(np.float64))
    return errors_n


def wrong_sureness(examples: Examples, decoded: Decoded) -> np.ndarray:
    """The probability of each wrong answer (n,), −1 where the answer is right."""
    assert decoded.probabilities is not None, "all but scores have probabilities"
    values = decoded.values
    if values.ndim == 1:
        said = np.take_along_axis(decoded.probabilities, values[:, None], axis=1)[:, 0]
    else:
        said = np.where(values == 1, decoded.probabilities, 1 - decoded.probabilities)
    sureness: np.ndarray = np.where(examples.labels == values, -1.0, said)
    return sureness if values.ndim == 1 else sureness.max(axis=1)


def answer(value: np.ndarray, labels: Labels) -> Answer:
    """A label as people read it."""
    if labels.kind == "score":
        return float(str(value))  # 3.8 of a float32 is not 3.7999999523
    if value.ndim:
        return tuple(name for name, said in zip(labels.names, value, strict=True) if said)
    return labels.names[int(value)]


def check_place(path: Path, used: Iterable[str] = ()) -> None:
    """Refuse a file of mistakes that cannot be written, or that would be written over data."""
    if path.suffix.lower() not in KINDS:
        raise RequestError(f"--mistakes {path}: unknown kind of file; give {' or '.join(KINDS)}")
    if not path.resolve().parent.is_dir():
        raise RequestError(f"--mistakes {path}: its folder does not exist")
    if path.is_dir():
        raise RequestError(f"--mistakes {path}: is a folder; give the name of a file")
    if path.exists() and path.name in {Path(name).name for name in used}:
        raise RequestError(f"--mistakes {path}: has the name of the data itself; choose another name")


def write_mistakes(mistakes: Sequence[Mistake], path: Path) -> None:
    """A csv file with a column a text, or a jsonl file with a list of texts; it appears whole."""
    texts = max((len(mistake.texts) for mistake in mistakes), default=1)
    columns = ("text", "text2", "text3")[:texts]
    with whole_file(path) as aside, aside.open("wb") as file:
        if path.suffix.lower() == ".jsonl":
            file.writelines(json_line(facts(mistake) | {"texts": mistake.texts}) for mistake in mistakes)
            return
        file.write(csv_lines([[*FACTS, *columns]]))
        for mistake in mistakes:
            cells = [csv_cell(cell) for cell in facts(mistake).values()]
            file.write(csv_lines([[*cells, *mistake.texts, *[""] * (texts - len(mistake.texts))]]))


def facts(mistake: Mistake) -> dict[str, object]:
    """What both kinds of file say of a mistake beside its texts."""
    return {name: getattr(mistake, name) for name in FACTS}
