"""The ways of benchmarks/small_data.py from training rows to answers for test rows."""

import csv
import os
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from small_data_sets import Cell, Row
from trainers import QUIET

Answers = Sequence[Any] | None  # one for each test row; None where the way does not apply

MINILM = "PLAIT_BENCHMARK_MINILM"  # the environment variable with the folder of its weights, for peers


def minilm() -> str:
    return os.environ[MINILM]


# Free ways


def majority(cell: Cell) -> Answers:
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


def answers_of(cell: Cell, train: np.ndarray, test: np.ndarray) -> Answers:
    """The cosines of test themselves, or the sides of the threshold that is right most often on train."""
    if cell.kind == "score":
        return test.tolist()
    labels = sorted({label for _, label in cell.train})
    known = np.array([label == labels[1] for _, label in cell.train])
    best = max(train.tolist(), key=lambda threshold: float(np.mean((train >= threshold) == known)))
    return [labels[int(value >= best)] for value in test]


def cosine(cell: Cell) -> Answers:
    if not has_cosine(cell):
        return None
    return answers_of(cell, *(np.sum(u * v, axis=1) for u, v in embed(cell)))


def regression(cell: Cell) -> Answers:
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


def with_plait(cells: Sequence[Cell]) -> Sequence[Answers]:
    """As a user would: `plait init` on a folder with a file for each task, `plait train`, and the model's answers."""
    import plait

    command = [sys.executable, "-m", "plait"]
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        (folder / "data").mkdir()
        for number, cell in enumerate(cells):
            write_csv(folder / f"data/task{number}.csv", cell.train)
        for arguments in (
            ["init", "data", "--out", "recipe.yaml"],
            ["train", "recipe.yaml", "--out", "run", "--set", f"seed={cells[0].draw}"],
        ):
            subprocess.run([*command, *arguments], cwd=folder, check=True, capture_output=True)
        model = plait.load(folder / "run")
        return [answers_by(model, f"task{number}", cell) for number, cell in enumerate(cells)]


def answers_by(model: Any, task: str, cell: Cell) -> Answers:
    answers = model.predict(task, [texts if cell.pairs else texts[0] for texts, _ in cell.test])
    if cell.kind == "score":
        return [answer.score for answer in answers]
    raw = {"no": "0", "yes": "1"} if {label for _, label in cell.train} == {"0", "1"} else {}
    return [raw.get(str(answer.label), str(answer.label)) for answer in answers]


# Peers, in an environment of their own


def with_setfit(cell: Cell) -> Answers:
    """SetFit as its documentation trains it; single texts with classes only."""
    if cell.pairs or cell.kind == "score":
        return None
    from datasets import Dataset
    from setfit import SetFitModel, Trainer, TrainingArguments

    labels = sorted({label for _, label in cell.train})
    model = SetFitModel.from_pretrained(minilm(), labels=labels)
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


def with_transformers(cell: Cell) -> Answers:
    """AutoModelForSequenceClassification and the Trainer, with the settings of its documentation."""
    import torch
    from transformers import AutoModelForSequenceClassification, AutoTokenizer, Trainer, TrainingArguments

    labels = sorted({label for _, label in cell.train})
    scores = cell.kind == "score"
    tokenizer = AutoTokenizer.from_pretrained(minilm())
    torch.manual_seed(cell.draw)
    model = AutoModelForSequenceClassification.from_pretrained(minilm(), num_labels=1 if scores else len(labels))

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


def with_sentence_transformers(cell: Cell) -> Answers:
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

    model = SentenceTransformer(minilm(), device="cpu")
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


def alone(predict: Callable[[Cell], Answers]) -> Callable[[Sequence[Cell]], Sequence[Answers]]:
    """A way that knows one task at a time."""
    return lambda cells: [predict(cell) for cell in cells]


@dataclass(frozen=True)
class Way:
    """One way to get answers for the test rows of one or more tasks from their training rows."""

    predict: Callable[[Sequence[Cell]], Sequence[Answers]]
    free: bool = False
    peer: bool = False
    together: bool = False  # trains the sets of a group as tasks of one model


PLAIT, TOGETHER, REGRESSION, SETFIT = "plait", "plait, three tasks", "regression on frozen embeddings", "SetFit"
WAYS = {
    "majority": Way(alone(majority), free=True),
    "cosine": Way(alone(cosine), free=True),
    REGRESSION: Way(alone(regression), free=True),
    SETFIT: Way(alone(with_setfit), peer=True),
    "sentence-transformers": Way(alone(with_sentence_transformers), peer=True),
    "transformers": Way(alone(with_transformers), peer=True),
    PLAIT: Way(with_plait),
    TOGETHER: Way(with_plait, together=True),
}
