"""Rows of real tasks for the benchmarks of training, in batches of like length."""

import csv
import json
import os
import random
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from tokenizers import Tokenizer

BATCH = 32
FILES = {  # task → file, columns of text, column of the label
    "sts": ("cs224n/sts-train.csv", ("sentence1", "sentence2"), "similarity"),
    "quora": ("cs224n/quora-train.csv", ("sentence1", "sentence2"), "is_duplicate"),
    "sst": ("cs224n/ids-sst-train.csv", ("sentence",), "sentiment"),
}


@dataclass(frozen=True)
class Row:
    """One labelled text or pair."""

    texts: tuple[str, ...]
    label: float


def data_folder() -> Path:
    """Where the data lies."""
    folder = Path(os.environ.get("PLAIT_DATA") or Path(__file__).resolve().parents[2] / "shared/data")
    if not folder.is_dir():
        raise SystemExit(f"{folder}: no such directory; set PLAIT_DATA to the folder with cs224n/sts-train.csv")
    return folder


def read_rows(task: str) -> list[Row]:
    """All rows of a task."""
    name, columns, label = FILES[task]
    with (data_folder() / name).open(encoding="utf-8", newline="") as file:
        records = csv.DictReader(file, delimiter="\t")
        return [Row(tuple(one[column].strip() for column in columns), float(one[label])) for one in records]


@cache
def load_tokenizer(minilm: str) -> Tokenizer:
    """As the checkpoint has it, without padding."""
    tokenizer = Tokenizer.from_file(f"{minilm}/tokenizer.json")
    tokenizer.no_padding()
    tokenizer.enable_truncation(256)
    return tokenizer


def lengths_of(rows: Sequence[Row], minilm: str) -> list[list[int]]:
    """The tokens of each text of each row."""
    tokenizer = load_tokenizer(minilm)
    return [[len(encoding.ids) for encoding in tokenizer.encode_batch(list(row.texts))] for row in rows]


def batches_of(task: str, count: int, minilm: str) -> list[list[Row]]:
    """So many batches of a task, the same ones always: rows drawn, those of like length together, batches shuffled."""
    generator = random.Random(task)
    rows = generator.sample(read_rows(task), count * BATCH)
    length = {row: sum(lengths) for row, lengths in zip(rows, lengths_of(rows, minilm), strict=True)}
    rows.sort(key=length.__getitem__)
    batches = [rows[start : start + BATCH] for start in range(0, len(rows), BATCH)]
    generator.shuffle(batches)
    return batches


def write_rows(path: Path, batches: Sequence[Sequence[Row]]) -> None:
    """The rows of some batches one after the other, as plait reads them."""
    lines = [
        json.dumps({"first": row.texts[0], "second": row.texts[-1], "label": row.label})
        for batch in batches
        for row in batch
    ]
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
