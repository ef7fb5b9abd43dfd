"""One fold held out as test data, and dev data split off the others."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from plait.data.examples import Examples
from plait.data.folds import hold_out_fold
from plait.data.labels import Labels
from plait.data.partition import normal_form
from plait.errors import DataError
from plait.recipe.task import Task


def texts(count: int) -> list[list[str]]:
    """One column of distinct texts."""
    return [[f"text {number}" for number in range(count)]]


def examples(columns, labels) -> Examples:
    return Examples(tuple(columns), np.array(labels), [f"all.csv:{row + 2}" for row in range(len(labels))])


def hold_out(data: Examples, fold: str, **keys):
    task = Task.model_validate({"train": "all.csv", "text": "text", "label": "label", **keys})
    return hold_out_fold({"train": data}, task, "classes", fold, "7/it")


def test_the_test_data_of_all_folds_together_is_every_row():
    data = examples(texts(100), [row % 2 for row in range(100)])
    drawn = [hold_out(data, f"{number}/4", rows=60).splits for number in range(1, 5)]
    found = [where for splits in drawn for where in splits["test"].origins]
    assert len(found) == len(set(found)) == 60
    for splits in drawn:
        assert {split: len(part) for split, part in splits.items()} == {"train": 45, "test": 15}
        assert set(splits["train"].origins) == set(found) - set(splits["test"].origins)
        assert splits["test"].labels.sum() in (7, 8)


TEXT = st.sampled_from([f"{letter}{number}" for letter in "abAB" for number in range(9)])
PAIRS = st.lists(st.tuples(TEXT, TEXT), min_size=12, max_size=40)


@settings(deadline=None)
@given(pairs=PAIRS, number=st.integers(1, 3))
def test_dev_shares_no_text_with_test_or_train_even_if_a_group_was_split(pairs, number):
    columns = [list(column) for column in zip(*pairs, strict=True)]
    data = examples(columns, [row % 2 for row in range(len(pairs))])
    try:
        found = hold_out(data, f"{number}/3", dev=0.3, text=["one", "two"])
    except DataError as error:
        assert "cannot be split off" in str(error)
        return
    parts = found.splits
    assert list(parts) == ["train", "dev", "test"]
    lines = [where for part in parts.values() for where in part.origins]
    assert sorted(lines) == sorted(data.origins)
    seen = {split: {normal_form(t) for column in part.texts for t in column} for split, part in parts.items()}
    assert not seen["dev"] & (seen["test"] | seen["train"])
    assert found.broken or not seen["test"] & seen["train"]


def test_the_dev_share_is_taken_from_the_other_folds():
    data = examples(texts(100), [0, 1] * 50)
    parts = hold_out(data, "5/5", dev=0.1).splits
    assert {split: len(part) for split, part in parts.items()} == {"train": 72, "dev": 8, "test": 20}
    assert parts["dev"].labels.sum() == 4


def test_a_dev_file_is_left_unchanged():
    dev = examples([["a dog"]], [1])
    task = Task.model_validate({"train": "all.csv", "dev": "dev.csv", "text": "text", "label": "label"})
    found = hold_out_fold({"train": examples(texts(10), [0, 1] * 5), "dev": dev}, task, "classes", "1/2", "7/it")
    assert found.splits["dev"] is dev and [len(part) for part in found.splits.values()] == [5, 1, 5]


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (examples(texts(3), [0, 1, 0]), "fold: 3 training rows cannot be divided into 5 folds; give more rows"),
        (
            examples(texts(10), list(range(10))),
            "dev: 0.1 of 8 training rows cannot be split off without the same text on both sides; "
            "give dev a file of its own, or a larger share",
        ),
    ],
)
def test_impossible_folds_are_reported(data, message):
    with pytest.raises(DataError) as caught:
        hold_out(data, "5/5", dev=0.1)
    assert str(caught.value) == message


def test_broken_groups_and_unseen_classes_are_noted():
    data = examples([["same"] * 6 + ["also"] * 4 + ["x", "y"]], [0, 1] * 5 + [1, 2])
    labels = Labels("classes", ("0", "1", "2"), ("no", "yes", "odd"))
    notes = [hold_out(data, f"{number}/4").notes(labels) for number in range(1, 5)]
    groups = "2 groups of up to 6 rows with shared texts are larger than a fold and were split"
    assert sorted(notes) == sorted([[groups]] * 3 + [[groups, "the class 'odd' occurs in test but not in train"]])
    one = hold_out(examples([["same"] * 6 + ["x", "y", "z"]], [0] * 9), "1/3").notes(labels)
    assert one == ["1 group of 6 rows with shared texts is larger than a fold and was split"]
    assert hold_out(examples(texts(9), [0] * 9), "1/3").notes(labels) == []
