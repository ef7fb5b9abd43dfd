"""Data files with random damage: a named error, or rows that are skipped and counted; labels stay with their texts."""

import gzip
import random
from typing import Any

from faults.bench import Bench
from faults.mutations import mutate_bytes, mutate_text
from plait.errors import PlaitError
from streaming import write_rows
from tiny import sentences

__all__ = ["check"]

ROW, ROWS, MOST = "data_files", 24, 4  # changes of a file
KINDS = ("csv", "tsv", "jsonl", "json", "csv.gz", "parquet", "xlsx", "csv", "jsonl")


def _rows() -> list[dict[str, object]]:
    """Every text says which label it has."""
    texts = sentences(ROWS, seed=3)
    return [
        {"number": row, "sentence": f"{text} {'odd' if row % 2 else 'even'} {row}", "label": ("even", "odd")[row % 2]}
        for row, text in enumerate(texts)
    ]


def check(bench: Bench, number: int) -> str:
    """Change a file at some places, and read it as the training data of a task."""
    chance = bench.chance(ROW, number)
    kind = chance.choice(KINDS)
    source = bench.once(f"rows.{kind}", lambda place: write_rows(place, _rows()) and None)
    changes = chance.randint(1, MOST)
    path = bench.folder / f"changed.{kind}"
    path.write_bytes(_changed(source.read_bytes(), kind, changes, chance))
    task = {"train": str(path), "text": "sentence", "label": "label"}
    recipe = {"encoder": str(bench.encoder), "tasks": {"it": task}, "bad_rows": chance.choice(["stop", "skip"])}
    try:
        wrong = sum(_contradicts(text, label) for text, label in _read(recipe) if label in ("even", "odd"))
    except PlaitError as error:
        return "" if path.name in str(error) or "tasks.it" in str(error) else f"{kind}: names no file: {error}"
    return f"{kind}: {wrong} rows have another label after {changes} changes" if wrong > changes else ""


def _changed(data: bytes, kind: str, changes: int, chance: random.Random) -> bytes:
    packed = kind == "csv.gz" and chance.random() < 0.7
    data = gzip.decompress(data) if packed else data  # else the archive itself is damaged
    for _ in range(changes):
        text = kind not in ("parquet", "xlsx", "csv.gz") and chance.random() < 0.3
        if text:
            data = mutate_text(data.decode("utf-8", "replace"), chance).encode("utf-8", "replace")
        else:
            data = mutate_bytes(data, chance)
    return gzip.compress(data) if packed else data


def _read(recipe: dict[str, Any]) -> list[tuple[str, str]]:
    """The texts and their labels."""
    from small_runs import resolve

    task = resolve(recipe).stages[-1].tasks["it"]
    examples, names = task.splits["train"], task.spec.labels.names
    labels = [names[int(label)] if names else str(label) for label in examples.labels]
    return list(zip(examples.texts[0], labels, strict=True))


def _contradicts(text: str, label: str) -> bool:
    """Whether a text says that it has the other label."""
    return {"even", "odd"} & set(text.split()) == {"odd" if label == "even" else "even"}
