"""The data of benchmarks/small_data.py: sets, draws of training rows, test rows, scores."""

import csv
import random
import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from texts import data_folder

SIZES = (64, 500, 2_000)
DRAWS = 3
TEST_ROWS = 1_500
SEED = 11711


@dataclass(frozen=True)
class Set:
    """A data set: its files, its columns, and the kind of its labels."""

    files: tuple[str, ...]
    text: tuple[str, ...]
    label: str
    kind: str = "classes"  # or score


SENTENCE, PAIR = ("sentence",), ("sentence1", "sentence2")
SETS = {
    "sst5": Set(("cs224n/ids-sst-train.csv", "cs224n/ids-sst-dev.csv"), SENTENCE, "sentiment"),
    "sst2": Set(("senteval/sst2.csv",), SENTENCE, "label"),
    "cr": Set(("senteval/cr.csv",), SENTENCE, "label"),
    "mr": Set(("senteval/mr.csv",), SENTENCE, "label"),
    "subj": Set(("senteval/subj.csv",), SENTENCE, "label"),
    "mpqa": Set(("senteval/mpqa.csv",), SENTENCE, "label"),
    "trec": Set(("senteval/trec.csv",), SENTENCE, "label"),
    "mrpc": Set(("pairs/mrpc-train.csv", "pairs/mrpc-test.csv"), PAIR, "is_duplicate"),
    "quora": Set(("cs224n/quora-dev.csv",), PAIR, "is_duplicate"),
    "sts": Set(("cs224n/sts-train.csv", "cs224n/sts-dev.csv"), PAIR, "similarity", "score"),
    "sick": Set(("nli/sick-train.csv", "nli/sick-test.csv"), PAIR, "relatedness", "score"),
    "sick-entailment": Set(("nli/sick-train.csv", "nli/sick-test.csv"), PAIR, "entailment"),
}
GROUPS = (("sst5", "quora", "sts"), ("cr", "subj", "trec"), ("mr", "mrpc", "sick"), ("sst2", "mpqa", "sick-entailment"))
Row = tuple[tuple[str, ...], str]  # texts and label


@dataclass(frozen=True)
class Cell:
    """The rows of one measurement."""

    train: list[Row]
    test: list[Row]
    kind: str
    draw: int

    @property
    def pairs(self) -> bool:
        return len(self.train[0][0]) == 2


def read_set(name: str) -> list[Row]:
    """All rows, each text or pair once."""
    found = SETS[name]
    rows: dict[tuple[str, ...], str] = {}
    for file in found.files:
        with (data_folder().parent / file).open(encoding="utf-8", newline="") as opened:
            delimiter = "\t" if file.startswith("cs224n/") else ","
            for row in csv.DictReader(opened, delimiter=delimiter):
                if all(row[column] for column in (*found.text, found.label)):
                    label = row[found.label].strip()
                    label = label if found.kind == "score" else label.removesuffix(".0")
                    rows.setdefault(tuple(row[column].strip() for column in found.text), label)
    return list(rows.items())


def make_cell(name: str, size: int, draw: int) -> Cell:
    """Test rows are the same for all sizes and draws; training rows share no text with them."""
    rows = read_set(name)
    random.Random(f"{SEED}/{name}").shuffle(rows)
    test = rows[: min(TEST_ROWS, len(rows) // 2)]
    seen = {text for texts, _ in test for text in texts}
    rest = [row for row in rows[len(test) :] if not seen.intersection(row[0])]
    return Cell(random.Random(f"{SEED}/{name}/{draw}").sample(rest, min(size, len(rest))), test, SETS[name].kind, draw)


def score(cell: Cell, predicted: Sequence[Any]) -> float:
    """Accuracy, or Pearson's correlation."""
    if cell.kind == "score":
        known = np.array([float(label) for _, label in cell.test])
        values = np.asarray(predicted, dtype=float)
        return float(np.corrcoef(known, values)[0, 1]) if values.std() else 0.0
    return statistics.mean(str(found) == label for found, (_, label) in zip(predicted, cell.test, strict=True))
