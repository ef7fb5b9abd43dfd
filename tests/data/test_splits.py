"""Splits of a task: from files, or as a share of the training data."""

from pathlib import Path

import numpy as np
import pytest

import plait
from plait.data.examples import Examples
from plait.data.partition import normal_form
from plait.data.splits import divide, limit_rows, read_splits
from plait.errors import DataError, PlaitError
from plait.model.directory.record import open_directory
from plait.recipe.task import Task
from plait.runs.origins import find_split
from reading import resolve
from tiny import sentences, write_csv


def task_of(folder: Path, header: list[str], rows: list[tuple], **keys) -> Task:
    write_csv(folder / "all.csv", header, rows)
    return Task.model_validate({"train": str(folder / "all.csv"), **keys})


def split(task: Task, kind: str):
    return divide(read_splits(task), task, kind, "seed")


@pytest.mark.parametrize(
    ("rows", "share"),
    [
        ([("a dog", "x"), ("A dog", "y"), ("a  dog", "x"), ("a dog ", "y")], 0.5),  # one text
        ([("a dog", "x"), ("a cat", "y"), ("a bird", "x"), ("a fish", "y")], 0.1),  # less than one row
        ([("a dog", "x"), ("a cat", "y")], 0.5),  # each class has one row
    ],
)
def test_an_impossible_split_is_reported(tmp_path, rows, share):
    task = task_of(tmp_path, ["text", "label"], rows, dev=share, text="text", label="label")
    with pytest.raises(DataError) as caught:
        split(task, "classes")
    assert caught.value.mistakes == (
        f"dev: {share} of {len(rows)} training rows cannot be split off without the same text on both sides; "
        "give dev a file of its own, or a larger share",
    )


def test_distinct_scores_are_split_off(tmp_path):
    rows = [(f"one {number}", f"two {number}", number / 10) for number in range(40)]
    keys = {"text": ["one", "two"], "label": "score", "dev": 0.25}
    parts = split(task_of(tmp_path, ["one", "two", "score"], rows, **keys), "score")
    assert {split: len(part.origins) for split, part in parts.items()} == {"train": 30, "dev": 10, "test": 0}


def test_dev_covers_the_range_of_scores_even_if_one_score_is_common(tmp_path):
    rows = [(f"one {number}", f"two {number}", max(0, number - 20) / 10) for number in range(50)]
    for label in ("score", {"column": "score", "range": [0, 5]}, {"column": "score", "kind": "score"}):
        task = task_of(tmp_path, ["one", "two", "score"], rows, text=["one", "two"], label=label, dev=0.4)
        dev = split(task, "score")["dev"]
        assert len(dev.origins) == 20 and len(set(dev.columns["score"])) > 5


def test_bad_rows_stay_with_the_training_rows(tmp_path):
    (tmp_path / "all.csv").write_text("text,label\n" + "".join(f"text {n},{n % 2}\n" for n in range(20)) + "short\n")
    task = Task.model_validate({"train": str(tmp_path / "all.csv"), "text": "text", "label": "label", "dev": 0.2})
    parts = split(task, "classes")
    assert [row.where for row in parts["train"].bad] == ["all.csv:22"]
    assert not parts["dev"].bad and not parts["test"].bad


def test_shares_that_leave_no_training_data_are_rejected(tiny_recipe, tmp_path):
    recipe = tiny_recipe()
    recipe["tasks"]["mood"] |= {"dev": 0.5, "test": 0.5}
    with pytest.raises(PlaitError) as caught:
        plait.train(recipe, tmp_path / "run")
    assert list(caught.value.mistakes) == ["recipe: tasks.mood.test: dev and test leave no training data"]


def test_a_run_splits_off_dev_and_test_and_finds_them_again(tiny_recipe, tmp_path):
    recipe = tiny_recipe(epochs=1)
    sentence = sentences(30, seed=5)
    pairs = [(a, b, n % 2) for n, (a, b) in enumerate(zip(sentence, [*sentence[10:], *sentences(10, 6)], strict=True))]
    write_csv(Path(recipe["tasks"]["same"]["train"]), ["one", "two", "same"], pairs)
    for task in recipe["tasks"].values():
        task |= {"dev": 0.25, "test": 0.2}
    result = plait.train(recipe, tmp_path / "run", baselines=False)
    record = open_directory(result.model).record
    parts = {split: find_split(record, result.model, split, None) for split in ("train", "dev", "test")}
    for task in recipe["tasks"]:
        seen = [{normal_form(t) for column in parts[split][task].texts for t in column} for split in parts]
        assert all(seen) and not (seen[0] & seen[1] | seen[0] & seen[2] | seen[1] & seen[2])
        lines = sorted(int(where.split(":")[1]) for split in parts for where in parts[split][task].origins)
        assert lines == list(range(2, 2 + len(lines))) and len(lines) == (30 if task == "same" else 24)
        for split in parts:
            (file,) = record.provenance.data[task][split]
            assert (file["name"], file["rows"]) == (f"{task}-train.csv", len(parts[split][task]))


@pytest.mark.parametrize(
    ("text", "loss"), [(["one"], "mse"), (["one"], "cross_entropy"), (["one", "two"], "cross_entropy")]
)
def test_a_resolved_recipe_holds_out_the_same_rows(tmp_path, text, loss):
    rows = [(f"one {number}", f"two {number}", number % 5 + 1) for number in range(200)]
    write_csv(tmp_path / "all.csv", ["one", "two", "stars"], rows)
    task = {"train": str(tmp_path / "all.csv"), "dev": 0.2, "text": text, "label": "stars", "loss": loss}
    given = resolve({"encoder": "minilm", "tasks": {"x": task}})
    resolved = resolve(given.recipe.model_dump(mode="json"))
    assert given.tasks["x"].splits["dev"].origins == resolved.tasks["x"].splits["dev"].origins


def test_the_range_of_scores_includes_the_rows_that_are_split_off(tmp_path):
    rows = [(f"one {number}", f"two {number}", number / 7) for number in range(30)]
    write_csv(tmp_path / "all.csv", ["one", "two", "score"], rows)
    task = {"train": str(tmp_path / "all.csv"), "dev": 0.5, "text": ["one", "two"], "label": "score"}
    for seed in range(5):
        resolved = resolve({"encoder": "minilm", "seed": seed, "tasks": {"x": task}})
        assert (resolved.tasks["x"].spec.labels.low, resolved.tasks["x"].spec.labels.high) == (0.0, 29 / 7)


@pytest.mark.parametrize(("split", "key"), [("train", "rows"), ("dev", "dev_rows")])
def test_a_cut_keeps_rare_classes(split, key, tmp_path):
    labels = np.array([1] * 3 + [0] * 297)
    examples = Examples(([f"text {number}" for number in range(300)],), labels, [f"x.csv:{n}" for n in range(300)])
    task = Task.model_validate({"train": "x.csv", "text": "a", "label": "b", key: 20})
    for seed in map(str, range(30)):
        cut = limit_rows(examples, task, "classes", split, seed)
        assert len(cut) == 20 and set(cut.labels.tolist()) == {0, 1}
