"""`plait.clean`: labels that were flipped on purpose are found."""

import csv
import random
from pathlib import Path

import pytest

import plait
from plait.errors import RequestError
from tiny import write_csv

HIGH, LOW = ("good", "great", "warm"), ("storm", "river", "train")


def rows_with_flips(count: int, flipped: int) -> tuple[list[tuple[str, str]], set[str]]:
    """Texts whose words give away their class, some with the wrong label, and those texts."""
    generator = random.Random(3)
    rows = []
    for number in range(count):
        words = (HIGH, LOW)[number % 2]
        rows.append((" ".join(generator.choices(words, k=10)), ("high", "low")[number % 2]))
    wrong = set(generator.sample(range(count), flipped))
    other = {"high": "low", "low": "high"}
    return (
        [(text, other[label] if number in wrong else label) for number, (text, label) in enumerate(rows)],
        {rows[number][0] for number in wrong},
    )


@pytest.fixture
def flipped(tiny_bert, tmp_path):
    """A recipe of 120 rows with 6 wrong labels, and the texts of these."""
    rows, wrong = rows_with_flips(120, 6)
    write_csv(tmp_path / "mood.csv", ["sentence", "mood"], rows)
    task = {"train": str(tmp_path / "mood.csv"), "dev": 0.2, "text": "sentence", "label": "mood"}
    return {"encoder": str(tiny_bert), "tasks": {"mood": task}, "epochs": 1}, wrong


def test_flipped_labels_are_found(flipped, tmp_path):
    recipe, wrong = flipped
    found = plait.clean(recipe, folds=3, out=tmp_path / "errors.csv")["mood"]
    assert found.rows == 120  # dev rows that are split off train are checked too
    first = {error.texts[0] for error in found.errors[:6]}
    assert len(first & wrong) >= 4 and len(first - wrong) <= 1  # chance would find none of the six
    with (tmp_path / "errors.csv").open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    assert [row["text"] for row in rows] == [error.texts[0] for error in found.errors]
    assert list(rows[0]) == ["task", "where", "label", "predicted", "probability", "label_probability", "text"]
    worst = found.errors[0]
    assert worst.label != worst.predicted and worst.probability > worst.label_probability
    place, _, line = worst.where.rpartition(":")
    assert (tmp_path / "mood.csv").read_text().splitlines()[int(line) - 1].startswith(worst.texts[0]) and place


def test_the_same_recipe_finds_the_same_rows(flipped):
    recipe, _ = flipped
    assert plait.clean(recipe, folds=2) == plait.clean(recipe, "mood", folds=2)


def test_training_for_every_fold_covers_every_row(flipped, tmp_path):
    recipe, wrong = flipped
    found = plait.clean(recipe, train=True, folds=2, out=tmp_path / "errors.jsonl", overrides=["epochs=2", "lr=1e-3"])
    assert found["mood"].rows == 120 and not (tmp_path / "errors-folds").exists()
    assert {error.texts[0] for error in found["mood"].errors} & wrong


def test_a_data_frame_names_its_rows(flipped):
    recipe, _ = flipped
    with Path(recipe["tasks"]["mood"]["train"]).open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    table = {**recipe, "tasks": {"mood": {**recipe["tasks"]["mood"], "train": rows}}}
    errors = plait.clean(table, folds=2)["mood"].errors
    assert errors[0].where.startswith("tasks.mood.train: row ")
    assert rows[int(errors[0].where.split()[-1])]["sentence"] == errors[0].texts[0]


def test_mistakes(flipped, tmp_path):
    recipe, _ = flipped
    with pytest.raises(RequestError, match=r"the recipe has no task 'mod'; did you mean 'mood'\?"):
        plait.clean(recipe, "mod")
    with pytest.raises(RequestError, match="`folds`: expected a number from 2, found 1"):
        plait.clean(recipe, folds=1)
    with pytest.raises(RequestError, match="`train` needs `out`"):
        plait.clean(recipe, train=True)
    with pytest.raises(RequestError, match=r"`out` .*rows\.txt: unknown file format; use \.csv or \.jsonl"):
        plait.clean(recipe, out=tmp_path / "rows.txt")


def test_every_kind_of_label_can_be_checked(trained_run):
    found = plait.clean(trained_run, out=trained_run.parent / "all.csv", folds=2)
    assert set(found) == {"mood", "same", "near", "tags"}  # triplets have no labels
    with pytest.raises(RequestError, match="the task 'far' has no labels to check"):
        plait.clean(trained_run, ["far"])
