"""Small data: what a user gets from 64, 500 and 2,000 labelled rows, with plait and with other ways.

    python benchmarks/small_data.py [--sets NAME …] [--sizes N …] [--ways NAME …]   measure what is missing
    python benchmarks/small_data.py --table                                          only print the tables

Every cell is a data set, a number of training rows, a draw and a way. All ways get the same encoder (minilm), the same
training rows and nothing else, and are scored on 1,500 rows that share no text with the training rows and that nothing
is chosen on: accuracy, or Pearson's correlation for scores. Cells are stored in .benchmarks/small-data as they
come, so a run that was stopped resumes.

Free ways train no encoder: the majority class, the cosine of a pair (with a threshold from the training rows), and
scikit-learn's logistic regression on frozen embeddings with cross-validated C (ridge regression for scores; of a pair
[|u − v|; u∗v]). `plait` is `plait init` on a folder with one csv file, and `plait train` with the recipe it writes.
"""

import argparse
import csv
import json
import random
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from store import store_folder
from texts import data_folder
from trainers import QUIET
from venvs import InstallError, python_of

SIZES = (64, 500, 2_000)
DRAWS = 3
TEST_ROWS = 1_500
SEED = 11711
PEER = "small-data"  # peers/small-data.txt


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


# Free ways


def majority(cell: Cell) -> Sequence[Any]:
    if cell.kind == "score":
        return [0.0] * len(cell.test)
    return [statistics.mode(label for _, label in cell.train)] * len(cell.test)


def embed(cell: Cell) -> tuple[list[np.ndarray], list[np.ndarray]]:
    """The embeddings of each text column of train and of test, by the frozen encoder."""
    import plait

    model = plait.load("minilm")
    sides = range(len(cell.train[0][0]))
    train, test = (
        [np.asarray(model.embed([texts[side] for texts, _ in rows])) for side in sides]
        for rows in (cell.train, cell.test)
    )
    return train, test


def has_cosine(cell: Cell) -> bool:
    """Whether the cosine of two texts says something about the label."""
    return cell.pairs and (cell.kind == "score" or len({label for _, label in cell.train}) == 2)


def answers_of(cell: Cell, train: np.ndarray, test: np.ndarray) -> Sequence[Any]:
    """The cosines of test themselves, or the sides of the threshold that is right most often on train."""
    if cell.kind == "score":
        return test.tolist()
    labels = sorted({label for _, label in cell.train})
    known = np.array([label == labels[1] for _, label in cell.train])
    best = max(train.tolist(), key=lambda threshold: float(np.mean((train >= threshold) == known)))
    return [labels[int(value >= best)] for value in test]


def cosine(cell: Cell) -> Sequence[Any] | None:
    if not has_cosine(cell):
        return None
    return answers_of(cell, *(np.sum(u * v, axis=1) for u, v in embed(cell)))


def regression(cell: Cell) -> Sequence[Any]:
    """Logistic or ridge regression on frozen embeddings."""
    from sklearn.linear_model import LogisticRegressionCV, RidgeCV

    train, test = (
        np.concatenate([np.abs(sides[0] - sides[1]), sides[0] * sides[1]], axis=1) if cell.pairs else sides[0]
        for sides in embed(cell)
    )
    if cell.kind == "score":
        scores = [float(label) for _, label in cell.train]
        return RidgeCV(alphas=np.logspace(-3, 3, 13)).fit(train, scores).predict(test).tolist()
    labels = [label for _, label in cell.train]
    folds = max(2, min(5, min(labels.count(label) for label in set(labels))))
    found = LogisticRegressionCV(Cs=np.logspace(-2, 5, 8), cv=folds, max_iter=5_000).fit(train, labels)
    return found.predict(test).tolist()


# plait


def write_csv(path: Path, rows: Sequence[Row]) -> None:
    names = ["sentence"] if len(rows[0][0]) == 1 else ["sentence1", "sentence2"]
    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file)
        writer.writerow([*names, "label"])
        writer.writerows([*texts, label] for texts, label in rows)


def with_plait(cell: Cell) -> Sequence[Any]:
    """As a user would: `plait init`, `plait train`, and the answers of the model."""
    import plait

    command = [sys.executable, "-m", "plait"]
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        (folder / "data").mkdir()
        write_csv(folder / "data/rows.csv", cell.train)
        for arguments in (
            ["init", "data", "--out", "recipe.yaml"],
            ["train", "recipe.yaml", "--out", "run", "--set", f"seed={cell.draw}"],
        ):
            subprocess.run([*command, *arguments], cwd=folder, check=True, capture_output=True)
        model = plait.load(folder / "run")
        (task,) = model.tasks
        texts = [texts if cell.pairs else texts[0] for texts, _ in cell.test]
        answers = model.predict(task, texts)
    if cell.kind == "score":
        return [answer.score for answer in answers]
    raw = {"no": "0", "yes": "1"} if {label for _, label in cell.train} == {"0", "1"} else {}
    return [raw.get(str(answer.label), str(answer.label)) for answer in answers]


# Peers, in an environment of their own


def with_setfit(cell: Cell) -> Sequence[Any] | None:
    """SetFit as its documentation trains it; single texts with classes only."""
    if cell.pairs or cell.kind == "score":
        return None
    from datasets import Dataset
    from setfit import SetFitModel, Trainer, TrainingArguments

    labels = sorted({label for _, label in cell.train})
    model = SetFitModel.from_pretrained(MINILM, labels=labels)
    rows = {
        "text": [texts[0] for texts, _ in cell.train],
        "label": [labels.index(label) for _, label in cell.train],
    }
    arguments = TrainingArguments(batch_size=16, num_epochs=1, seed=cell.draw, report_to="none", save_strategy="no")
    if len(cell.train) > 100:
        arguments.max_steps = 500  # all pairs of 500 texts take hours; its documentation limits the steps the same way
    trainer = Trainer(model=model, args=arguments, train_dataset=Dataset.from_dict(rows))
    trainer.train()
    return [str(label) for label in model.predict([texts[0] for texts, _ in cell.test])]


def with_transformers(cell: Cell) -> Sequence[Any]:
    """AutoModelForSequenceClassification and the Trainer, with the settings of its documentation."""
    import torch
    from transformers import AutoModelForSequenceClassification, AutoTokenizer, Trainer, TrainingArguments

    labels = sorted({label for _, label in cell.train})
    scores = cell.kind == "score"
    tokenizer = AutoTokenizer.from_pretrained(MINILM)
    torch.manual_seed(cell.draw)
    model = AutoModelForSequenceClassification.from_pretrained(MINILM, num_labels=1 if scores else len(labels))

    def dataset(rows: Sequence[Row]) -> list[dict[str, Any]]:
        columns = zip(*(texts for texts, _ in rows), strict=True)
        encoded = tokenizer(*(list(column) for column in columns), truncation=True, max_length=128)
        known = [float(label) if scores else labels.index(label) if label in labels else 0 for _, label in rows]
        return [{**{key: values[i] for key, values in encoded.items()}, "labels": known[i]} for i in range(len(rows))]

    arguments = TrainingArguments(
        learning_rate=2e-5,
        per_device_train_batch_size=16,
        num_train_epochs=3,
        weight_decay=0.01,
        seed=cell.draw,
        **QUIET,
    )
    trainer = Trainer(model=model, args=arguments, train_dataset=dataset(cell.train), processing_class=tokenizer)
    trainer.train()
    outputs = trainer.predict(dataset(cell.test)).predictions
    return outputs[:, 0].tolist() if scores else [labels[place] for place in outputs.argmax(axis=1)]


def with_sentence_transformers(cell: Cell) -> Sequence[Any] | None:
    """The loss that its documentation names for such pairs, then the cosine; pairs with scores or two labels only."""
    if not has_cosine(cell):
        return None
    from datasets import Dataset
    from sentence_transformers import (
        SentenceTransformer,
        SentenceTransformerTrainer,
        SentenceTransformerTrainingArguments,
    )
    from sentence_transformers.sentence_transformer.losses import CosineSimilarityLoss, OnlineContrastiveLoss

    model = SentenceTransformer(MINILM, device="cpu")
    labels = sorted({label for _, label in cell.train})
    top = max(float(label) for _, label in cell.train) if cell.kind == "score" else 1.0
    rows = {
        "sentence1": [texts[0] for texts, _ in cell.train],
        "sentence2": [texts[1] for texts, _ in cell.train],
        "label": [float(label) / top if cell.kind == "score" else int(label == labels[1]) for _, label in cell.train],
    }
    loss = CosineSimilarityLoss(model) if cell.kind == "score" else OnlineContrastiveLoss(model)
    arguments = SentenceTransformerTrainingArguments(
        num_train_epochs=4, per_device_train_batch_size=16, warmup_ratio=0.1, seed=cell.draw, **QUIET
    )
    dataset = Dataset.from_dict(rows)
    SentenceTransformerTrainer(model=model, args=arguments, train_dataset=dataset, loss=loss).train()

    def cosines(rows: Sequence[Row]) -> np.ndarray:
        u, v = (model.encode([texts[side] for texts, _ in rows], normalize_embeddings=True) for side in (0, 1))
        return np.sum(u * v, axis=1)

    return answers_of(cell, cosines(cell.train), cosines(cell.test))


@dataclass(frozen=True)
class Way:
    """One way to get answers for the test rows from the training rows; None where it does not apply."""

    predict: Callable[[Cell], Sequence[Any] | None]
    free: bool = False
    peer: bool = False


PLAIT, REGRESSION, SETFIT = "plait", "regression on frozen embeddings", "SetFit"
WAYS = {
    "majority": Way(majority, free=True),
    "cosine": Way(cosine, free=True),
    REGRESSION: Way(regression, free=True),
    SETFIT: Way(with_setfit, peer=True),
    "sentence-transformers": Way(with_sentence_transformers, peer=True),
    "transformers": Way(with_transformers, peer=True),
    PLAIT: Way(with_plait),
}
MINILM = ""  # the folder of its weights, set by the command line
Key = tuple[str, int, int, str]  # set, rows, draw, way


def stored(path: Path) -> dict[Key, dict[str, Any]]:
    """The cells that were measured."""
    lines = path.read_text(encoding="utf-8").splitlines() if path.is_file() else []
    found = [json.loads(line) for line in lines]
    return {(one["set"], one["rows"], one["draw"], one["way"]): one for one in found}


def measure(name: str, size: int, draw: int, way: str) -> dict[str, Any]:
    """One cell, in a process of its own."""
    python = python_of(PEER) if WAYS[way].peer else Path(sys.executable)
    command = [python, __file__, "--work", json.dumps([name, size, draw, way]), "--minilm", MINILM]
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode:
        raise RuntimeError(done.stderr.strip().splitlines()[-1] if done.stderr.strip() else "no output")
    return {"set": name, "rows": size, "draw": draw, "way": way, **json.loads(done.stdout.splitlines()[-1])}


def work(name: str, size: int, draw: int, way: str) -> None:
    """The worker's side: print score and seconds, or null where the way does not apply."""
    cell = make_cell(name, size, draw)
    began = time.perf_counter()
    predicted = WAYS[way].predict(cell)
    seconds = time.perf_counter() - began
    print(json.dumps({"score": None if predicted is None else score(cell, predicted), "seconds": seconds}))


def mean_of(cells: dict[Key, dict[str, Any]], name: str, size: int, way: str, key: str = "score") -> float | None:
    """The mean over the draws; None unless all of them were measured."""
    found = [cells.get((name, size, draw, way), {}).get(key) for draw in range(DRAWS)]
    return None if any(value is None for value in found) else statistics.mean(found)  # type: ignore[type-var]


def tables(cells: dict[Key, dict[str, Any]]) -> str:
    """One table per number of rows, and how plait compares."""
    parts = []
    for size in SIZES:
        lines = [f"**{size:,} rows**", "", f"| set | {' | '.join(WAYS)} |", "|---" * (len(WAYS) + 1) + "|"]
        for name in SETS:
            found = [mean_of(cells, name, size, way) for way in WAYS]
            lines.append(f"| {name} | {' | '.join('' if value is None else f'{value:.3f}' for value in found)} |")
        seconds = [
            [value for name in SETS if (value := mean_of(cells, name, size, way, "seconds")) is not None]
            for way in WAYS
        ]
        lines.append(f"| seconds | {' | '.join(f'{statistics.mean(own):.1f}' if own else '' for own in seconds)} |")
        parts.append("\n".join(lines))
    return "\n\n".join([*parts, *comparison(cells)])


def comparison(cells: dict[Key, dict[str, Any]]) -> list[str]:
    """The worst cell against the best free way, and mean differences."""
    free = [way for way, about in WAYS.items() if about.free]
    gaps: dict[str, float] = {}
    over: dict[str, list[float]] = {way: [] for way in WAYS if way != PLAIT}
    for name in SETS:
        for size in SIZES:
            ours = mean_of(cells, name, size, PLAIT)
            if ours is None:
                continue
            known = [value for way in free if (value := mean_of(cells, name, size, way)) is not None]
            if known:
                gaps[f"{name}, {size:,} rows"] = ours - max(known)
            for way, found in over.items():
                if (theirs := mean_of(cells, name, size, way)) is not None:
                    found.append(ours - theirs)
    if not gaps:
        return []
    worst = min(gaps, key=gaps.__getitem__)
    lines = [f"- plait minus the best free way: at worst {gaps[worst]:+.3f} ({worst})."]
    lines += [
        f"- plait minus {way}: {statistics.mean(found):+.3f} over {len(found)} cells."
        for way, found in over.items()
        if found
    ]
    return ["\n".join(lines)]


def main() -> None:
    global MINILM
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sets", nargs="+", default=list(SETS), choices=SETS)
    parser.add_argument("--sizes", nargs="+", type=int, default=SIZES, choices=SIZES)
    parser.add_argument("--ways", nargs="+", default=list(WAYS), choices=WAYS)
    parser.add_argument("--table", action="store_true", help="only print the tables")
    parser.add_argument("--work", help=argparse.SUPPRESS)
    parser.add_argument("--minilm", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.work:
        MINILM = arguments.minilm
        work(*json.loads(arguments.work))
        return
    from plait.encoder.find import find_checkpoint

    MINILM = str(find_checkpoint("minilm").folder)
    path = store_folder("small-data") / "cells.jsonl"
    for draw in range(0 if arguments.table else DRAWS):
        for size in arguments.sizes:
            for name in arguments.sets:
                for way in arguments.ways:
                    if (name, size, draw, way) in stored(path):
                        continue
                    try:
                        found = measure(name, size, draw, way)
                    except (InstallError, RuntimeError) as error:
                        print(f"{name}, {size} rows, draw {draw}, {way}: {error}", file=sys.stderr, flush=True)
                        continue
                    with path.open("a", encoding="utf-8") as file:
                        file.write(json.dumps(found) + "\n")
                    print(f"{name}, {size} rows, draw {draw}, {way}: {found['score']}", file=sys.stderr, flush=True)
    print(tables(stored(path)))


if __name__ == "__main__":
    main()
