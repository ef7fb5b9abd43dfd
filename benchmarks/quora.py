"""The questions of Quora's dev file, their labelled pairs, and models and indexes made from them."""

import os
from pathlib import Path

from store import store_folder
from texts import data_folder, read_rows

import plait

TRAINING_PAIRS = 20_000


def questions() -> list[str]:
    """The distinct questions."""
    rows = read_rows("quora-dev.csv")
    return list(dict.fromkeys(row[side].strip() for row in rows for side in ("sentence1", "sentence2")))


def labelled_pairs() -> list[tuple[str, str, bool]]:
    """Pairs of different questions, and whether they are duplicates."""
    found = [
        (row["sentence1"].strip(), row["sentence2"].strip(), float(row["is_duplicate"]) == 1)
        for row in read_rows("quora-dev.csv")
        if row["is_duplicate"].strip()
    ]
    return [pair for pair in found if pair[0] != pair[1]]


def question_index(model: str, name: str) -> plait.Index:
    """The index of all questions, by one model; their numbers are their ids."""
    folder = store_folder("indexes") / name
    if not (folder / "index.json").is_file():
        rows = [{"text": question} for question in questions()]
        plait.index(model, rows, folder, text="text", progress=plait.show_progress())
    return plait.Index(folder)


def pair_model() -> Path:
    """MiniLM, not fine-tuned, with a head that compares pairs, solved on some pairs of Quora's training file."""
    run = store_folder("models") / "quora-pairs"
    if not (run / "best" / "plait.json").is_file():
        task = {
            "train": os.fspath(data_folder() / "quora-train.csv"),
            "dev": os.fspath(data_folder() / "quora-dev.csv"),
            "text": ["sentence1", "sentence2"],
            "label": "is_duplicate",
            "head": "comparison",
            "train_rows": TRAINING_PAIRS,
            "dev_rows": 2000,
        }
        # The head is solved before the first step; one small step changes nothing worth mentioning.
        recipe = {"encoder": "minilm", "tasks": {"quora": task}, "steps": 1, "lr": 1e-7, "head_lr": 1e-7}
        result = plait.train(recipe, run, baselines=False, progress=plait.show_progress())
        print(f"the pair head: dev accuracy {result.scores['quora']['accuracy']:.3f}")
    return run / "best"
