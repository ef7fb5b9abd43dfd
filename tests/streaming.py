"""A tiny trained model with a task of every kind of label, and files to predict for."""

import csv
import gzip
import json
from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest

from tiny import sentences, write_csv, write_tasks

# Task → its text columns, all of which the rows of `rows_of` have.
TASKS = {
    "mood": ["sentence"],
    "same": ["one", "two"],
    "near": ["one", "two"],
    "tags": ["sentence"],
    "far": ["a", "b", "c"],
}


def train_model(folder: Path, encoder: Path) -> Path:
    """A run with tasks of classes, yes/no labels, scores, multilabel and triplets, after one step of each."""
    import plait

    recipe = write_tasks(folder / "data", encoder)
    first, second, third = (sentences(24, seed) for seed in (21, 22, 23))
    tags = ["|".join(tag for bit, tag in enumerate("xyz") if row >> bit & 1) for row in range(24)]
    write_csv(folder / "data/tags.csv", ["sentence", "tags"], list(zip(first, tags, strict=True)))
    write_csv(folder / "data/far.csv", ["a", "b", "c"], list(zip(first, second, third, strict=True)))
    recipe["tasks"]["tags"] = {
        "train": str(folder / "data/tags.csv"),
        "text": "sentence",
        "label": {"column": "tags", "separator": "|"},
    }
    recipe["tasks"]["far"] = {"train": str(folder / "data/far.csv"), "text": ["a", "b", "c"]}
    plait.train({**recipe, "epochs": 1, "batch_size": 64}, folder / "run", baselines=False)
    return folder / "run"


def rows_of(count: int, seed: int = 5) -> list[dict[str, str]]:
    """Rows that every task can read, each with an id and a note that csv must quote."""
    first, second, third = (sentences(count, seed + more) for more in range(3))
    return [
        {"id": str(number), "sentence": a, "one": a, "two": b, "a": a, "b": b, "c": c, "note": f'Zoë, "{number}"\nü ☃'}
        for number, (a, b, c) in enumerate(zip(first, second, third, strict=True))
    ]


def write_rows(path: Path, rows: Sequence[Mapping[str, object]]) -> Path:
    """Write a file in the format that its name implies."""
    kind = path.name.removesuffix(".gz").rpartition(".")[2]
    if kind == "parquet":
        import pyarrow
        import pyarrow.parquet

        pyarrow.parquet.write_table(pyarrow.Table.from_pylist(list(rows)), path)
        return path
    if kind == "xlsx":
        write_sheets(path, [list(rows[0]), *(list(row.values()) for row in rows)])
        return path
    opened = gzip.open if path.suffix == ".gz" else open
    with opened(path, "wt", newline="", encoding="utf-8") as file:
        if kind == "jsonl":
            file.writelines(json.dumps(row, ensure_ascii=False) + "\n" for row in rows)
        elif kind == "json":
            json.dump(rows, file, indent=1)
        elif kind == "tsv":  # not quoted
            lines = [list(rows[0]), *(list(row.values()) for row in rows)]
            file.writelines("\t".join(str(cell).replace("\n", " ") for cell in line) + "\n" for line in lines)
        else:
            writer = csv.DictWriter(file, list(rows[0]))
            writer.writeheader()
            writer.writerows(rows)
    return path


def write_sheets(path: Path, *sheets: list[list]) -> None:
    """Write a spreadsheet; skips the test if openpyxl is missing."""
    openpyxl = pytest.importorskip("openpyxl")
    book = openpyxl.Workbook()
    book.remove(book.active)
    for rows in sheets:
        sheet = book.create_sheet()
        for row in rows:
            sheet.append(row)
    book.save(path)


def read_rows(path: Path) -> list[dict]:
    """The rows of an output, read without plait."""
    if path.suffix == ".parquet":
        import pyarrow.parquet

        return pyarrow.parquet.read_table(path).to_pylist()
    with path.open(newline="", encoding="utf-8") as file:
        return [json.loads(line) for line in file] if path.suffix == ".jsonl" else list(csv.DictReader(file))
