"""Labelled rows of real tasks, in batches of similar length: the same for every contender."""

import json
import random
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from compare import Setting
from texts import SEED, read_rows
from tokenizers import Tokenizer

FILES = {  # task → file, text columns, label column
    "sts": ("sts-train.csv", ("sentence1", "sentence2"), "similarity"),
    "quora": ("quora-train.csv", ("sentence1", "sentence2"), "is_duplicate"),
    "sst": ("ids-sst-train.csv", ("sentence",), "sentiment"),
}
LIMIT = 256  # tokens per text, as in minilm


@dataclass(frozen=True)
class Row:
    """One labelled text or pair."""

    texts: tuple[str, ...]
    label: float


def read_task(task: str) -> list[Row]:
    """All distinct rows of a task."""
    name, columns, label = FILES[task]
    found = (Row(tuple(row[column].strip() for column in columns), float(row[label])) for row in read_rows(name))
    return list(dict.fromkeys(found))


def batches_for(tasks: Sequence[str], size: int, setting: Setting) -> dict[str, list[list[Row]]]:
    """Batches of each task for 12 steps in total, or 48 at full size; a step trains one batch."""
    count = (48 if setting.full else 12) // len(tasks)
    return {
        task: batches_of(random.Random(f"{SEED}/{task}").sample(read_task(task), count * size), size, setting.minilm)
        for task in tasks
    }


def in_turns(batches: Mapping[str, Sequence[Any]]) -> Iterator[tuple[str, Any]]:
    """The task and the batch of each step; the tasks take turns."""
    for turn in zip(*batches.values(), strict=True):
        yield from zip(batches, turn, strict=True)


def batches_of(drawn: Sequence[Row], size: int, minilm: str) -> list[list[Row]]:
    """Batches of rows of similar length, in random order, as `batches: sorted` makes them."""
    tokens = {row: sum(lengths) for row, lengths in zip(drawn, lengths_of(drawn, minilm), strict=True)}
    ordered = sorted(drawn, key=tokens.__getitem__)
    batches = [ordered[start : start + size] for start in range(0, len(ordered), size)]
    random.Random(SEED).shuffle(batches)
    return batches


def lengths_of(drawn: Sequence[Row], minilm: str) -> list[list[int]]:
    """The number of tokens of each text of each row."""
    tokenizer = load_tokenizer(minilm)
    return [[len(encoding.ids) for encoding in tokenizer.encode_batch(list(row.texts))] for row in drawn]


@cache
def load_tokenizer(minilm: str) -> Tokenizer:
    tokenizer = Tokenizer.from_file(f"{minilm}/tokenizer.json")
    tokenizer.no_padding()
    tokenizer.enable_truncation(LIMIT)
    return tokenizer


def write_task(path: Path, drawn: Sequence[Row]) -> None:
    """Write rows to a file that a recipe can name."""
    records: list[Mapping[str, object]] = [
        {**{f"text{place}": text for place, text in enumerate(row.texts, start=1)}, "label": row.label} for row in drawn
    ]
    path.write_text("".join(json.dumps(record) + "\n" for record in records), encoding="utf-8")
