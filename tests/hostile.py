"""Small tasks of four kinds of label whose texts try to break out of a page."""

import csv
from pathlib import Path

from tiny import sentences, write_csv, write_tasks

HOSTILE = "<script>alert(1)</script> & </script><!-- \u2028 good film"
KINDS = {"mood": "classes", "same": "yes_no", "near": "score", "tags": "multilabel"}


def write_data(folder: Path, encoder: Path) -> dict:
    """The tiny tasks with more rows, a multilabel task, and a hostile text in train and dev of each task."""
    recipe = write_tasks(folder, encoder, rows=48)
    texts = sentences(60, seed=31)
    tags = ["|".join(tag for bit, tag in enumerate("xyz") if row >> bit & 1) for row in range(60)]
    write_csv(folder / "tags-train.csv", ["sentence", "tags"], list(zip(texts, tags, strict=True)))
    write_csv(folder / "tags-dev.csv", ["sentence", "tags"], list(zip(sentences(30, seed=32), tags[:30], strict=True)))
    recipe["tasks"]["tags"] = {
        "train": str(folder / "tags-train.csv"),
        "dev": str(folder / "tags-dev.csv"),
        "text": "sentence",
        "label": {"column": "tags", "separator": "|"},
    }
    wrong = {"mood": ["low"], "same": ["other", 1], "near": ["other", 5], "tags": ["x"]}  # labels that the text belies
    for task, cells in wrong.items():
        for split in ("train", "dev"):
            with (folder / f"{task}-{split}.csv").open("a", newline="", encoding="utf-8") as file:
                csv.writer(file).writerow([HOSTILE, *cells])
    return recipe
