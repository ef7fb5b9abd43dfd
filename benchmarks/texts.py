"""Real texts of mixed length, the same for every contender, and scored pairs.

They come from the files of Stanford's CS224N default project, in the folder `cs224n` of $PLAIT_DATA or ../shared/data.
"""

import csv
import os
import random
from pathlib import Path

from store import REPO

# Data set → its file, its text columns, and its share of the texts.
SETS = {
    "SST": ("ids-sst-train.csv", ("sentence",), 0.3),
    "Quora": ("quora-train.csv", ("sentence1", "sentence2"), 0.3),
    "STS": ("sts-train.csv", ("sentence1", "sentence2"), 0.3),
    "CFIMDB": ("ids-cfimdb-train.csv", ("sentence",), 0.1),
}
FULL, REDUCED = 5000, 300
SEED = 11711


def data_folder() -> Path:
    for place in (os.environ.get("PLAIT_DATA"), REPO.parent / "shared" / "data"):
        if place and (Path(place) / "cs224n").is_dir():
            return Path(place) / "cs224n"
    raise SystemExit("the texts are missing: set PLAIT_DATA to a folder that contains cs224n/")


def read_rows(name: str) -> list[dict[str, str]]:
    with (data_folder() / name).open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file, delimiter="\t"))


def texts_of(name: str) -> list[str]:
    """The distinct texts of a data set."""
    file, columns, _ = SETS[name]
    return list(dict.fromkeys(row[column].strip() for row in read_rows(file) for column in columns))


def draw(full: bool) -> dict[str, list[str]]:
    """Data set → a sample of its texts, sized by its share."""
    total = FULL if full else REDUCED
    return {
        name: random.Random(f"{SEED}/{name}").sample(texts_of(name), round(total * share))
        for name, (_, _, share) in SETS.items()
    }


def mixed(full: bool) -> list[str]:
    """The sampled texts of all data sets, without duplicates, shuffled."""
    texts = list(dict.fromkeys(text for drawn in draw(full).values() for text in drawn))
    random.Random(SEED).shuffle(texts)
    return texts


def scored_pairs() -> tuple[list[str], list[str], list[float]]:
    """The pairs of STS's dev file with their similarities."""
    rows = read_rows("sts-dev.csv")
    return (
        [row["sentence1"] for row in rows],
        [row["sentence2"] for row in rows],
        [float(row["similarity"]) for row in rows],
    )
