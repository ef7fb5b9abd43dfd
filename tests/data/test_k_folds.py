"""Folds: a partition, alike in size and classes, no text in two of them, the same for the same seed."""

from collections import Counter

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from plait.data.examples import Examples
from plait.data.folds import components, k_folds, normal_form
from plait.data.held_out import hold_out, strata
from plait.data.labels import Labels
from plait.errors import DataError
from plait.recipe.schema import Task


def texts(count: int) -> list[list[str]]:
    """One column of texts that all differ."""
    return [[f"text {number}" for number in range(count)]]


def known(columns, rows) -> set[str]:
    return {normal_form(column[row]) for column in columns for row in rows}


WORD = st.sampled_from([f"{letter}{number}" for letter in "abAB" for number in range(9)])


@settings(deadline=None)
@given(
    labels=st.lists(st.sampled_from("xyz"), min_size=1, max_size=60),
    count=st.integers(2, 7),
    seed=st.text("ab", max_size=2),
)
def test_single_rows_are_spread_to_within_one_row_by_class_and_in_all(labels, count, seed):
    folds = k_folds(texts(len(labels)), labels, count, seed)
    assert sorted(row for part in folds.parts for row in part) == list(range(len(labels)))
    assert len(folds.parts) == count and not folds.broken
    for label in (*"xyz", None):
        sizes = [sum(label in (None, labels[row]) for row in part) for part in folds.parts]
        assert max(sizes) - min(sizes) <= 1, (label, sizes)


@settings(deadline=None)
@given(
    rows=st.lists(st.tuples(WORD, WORD, st.sampled_from("xy")), min_size=1, max_size=40),
    count=st.integers(2, 5),
    seed=st.text("ab", max_size=2),
)
def test_no_text_is_in_two_folds_unless_its_group_is_larger_than_a_fold(rows, count, seed):
    first, second, labels = (list(column) for column in zip(*rows, strict=True))
    folds = k_folds([first, second], labels, count, seed)
    assert sorted(row for part in folds.parts for row in part) == list(range(len(rows)))
    assert all(part == sorted(part) for part in folds.parts)
    most = -(-len(rows) // count)
    groups = components([first, second])
    assert folds.broken == sorted((len(group) for group in groups if len(group) > most), reverse=True)
    whole = {row for group in groups if len(group) <= most for row in group}
    seen = [known([first, second], whole.intersection(part)) for part in folds.parts]
    assert sum(map(len, seen)) == len(set().union(*seen))


def test_groups_of_rows_that_share_a_text_are_spread_as_well():
    column = [f"text {number // 3}" for number in range(900)]  # every text three times
    labels = ["a" if number // 3 % 3 else "b" for number in range(900)]
    folds = k_folds([column], labels, 5, "seed")
    assert [dict(Counter(labels[row] for row in part)) for part in folds.parts] == [{"a": 120, "b": 60}] * 5


def test_single_rows_fill_up_what_groups_leave_uneven():
    column = ["one"] * 7 + ["two"] * 3 + [f"text {number}" for number in range(30)]
    folds = k_folds([column], ["x"] * 40, 4, "seed")
    assert [len(part) for part in folds.parts] == [10, 10, 10, 10]


def test_a_group_that_no_fold_holds_is_split_but_rows_of_the_same_texts_stay_together():
    first = ["hub"] * 60 + [f"text {number}" for number in range(40)]
    second = [f"spoke {number // 2}" for number in range(60)] + [f"other {number}" for number in range(40)]
    first[1], second[1] = second[1], "HUB "  # the same two texts the other way round
    folds = k_folds([first, second], [""] * 100, 5, "seed")
    assert folds.broken == [60]
    assert [len(part) for part in folds.parts] == [20] * 5
    place = {row: number for number, part in enumerate(folds.parts) for row in part}
    assert all(place[row] == place[row + 1] for row in range(0, 60, 2))
    assert len({place[row] for row in range(60)}) == 5


def test_a_text_that_fills_more_than_a_fold_is_split_row_by_row():
    folds = k_folds([["the same"] * 9 + ["another"]], [""] * 10, 5, "seed")
    assert folds.broken == [9] and [len(part) for part in folds.parts] == [2] * 5


def test_the_same_seed_gives_the_same_folds_and_another_seed_others():
    labels = ["x", "y"] * 50
    once = k_folds(texts(100), labels, 5, "seed")
    assert once == k_folds(texts(100), labels, 5, "seed")
    assert once != k_folds(texts(100), labels, 5, "other")


# ---------------------------------------------------------------- what is spread


def test_scores_are_spread_by_fifths():
    scores = np.arange(50) / 10
    assert strata(scores, "score") == [str(row // 10) for row in range(50)]
    folds = k_folds(texts(50), strata(scores, "score"), 5, "seed")
    assert [Counter(row // 10 for row in part) for part in folds.parts] == [dict.fromkeys(range(5), 2)] * 5


def test_equal_scores_are_in_one_bin():
    assert strata(np.array([0.0] * 8 + [1.0, 2.0]), "score") == ["3"] * 8 + ["4", "4"]
    assert len(set(strata(np.full(9, 3.0), "score"))) == 1


def test_of_several_labels_the_rarest_is_spread():
    labels = np.array([[1, 0, 0], [1, 1, 0], [1, 1, 1], [0, 0, 0]])
    assert strata(labels, "several") == ["0", "1", "2", ""]


def test_classes_are_spread_and_triplets_have_none():
    assert strata(np.array([2, 0, 2]), "classes") == ["2", "0", "2"]
    assert strata(np.zeros(2), "triplets") == ["", ""]


# ---------------------------------------------------------------- one of them held out


def examples(columns, labels) -> Examples:
    return Examples(tuple(columns), np.array(labels), [f"all.csv:{row + 2}" for row in range(len(labels))])


def held(data: Examples, fold: str, **keys):
    task = Task.model_validate({"train": "all.csv", "text": "text", "label": "label", **keys})
    return hold_out({"train": data}, task, "classes", fold, "7/it")


def test_the_test_parts_of_all_folds_are_the_rows_that_were_drawn():
    data = examples(texts(100), [row % 2 for row in range(100)])
    drawn = [held(data, f"{number}/4", rows=60).splits for number in range(1, 5)]
    found = [where for splits in drawn for where in splits["test"].origins]
    assert len(found) == len(set(found)) == 60
    for splits in drawn:
        assert {split: len(part) for split, part in splits.items()} == {"train": 45, "test": 15}
        assert set(splits["train"].origins) == set(found) - set(splits["test"].origins)
        assert splits["test"].labels.sum() in (7, 8)


PAIRS = st.lists(st.tuples(WORD, WORD), min_size=12, max_size=40)


@settings(deadline=None)
@given(pairs=PAIRS, number=st.integers(1, 3))
def test_dev_shares_no_text_with_test_or_train_even_where_a_group_was_split(pairs, number):
    columns = [list(column) for column in zip(*pairs, strict=True)]
    data = examples(columns, [row % 2 for row in range(len(pairs))])
    try:
        found = held(data, f"{number}/3", dev=0.3, text=["one", "two"])
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


def test_a_share_of_dev_is_one_of_the_rows_that_are_left():
    data = examples(texts(100), [0, 1] * 50)
    parts = held(data, "5/5", dev=0.1).splits
    assert {split: len(part) for split, part in parts.items()} == {"train": 72, "dev": 8, "test": 20}
    assert parts["dev"].labels.sum() == 4


def test_dev_data_of_its_own_stays_as_it_is():
    dev = examples([["a dog"]], [1])
    task = Task.model_validate({"train": "all.csv", "dev": "dev.csv", "text": "text", "label": "label"})
    found = hold_out({"train": examples(texts(10), [0, 1] * 5), "dev": dev}, task, "classes", "1/2", "7/it")
    assert found.splits["dev"] is dev and [len(part) for part in found.splits.values()] == [5, 1, 5]


@pytest.mark.parametrize(
    ("data", "told"),
    [
        (examples(texts(3), [0, 1, 0]), "fold: 3 training rows cannot be parted into 5 folds; give more rows"),
        (
            examples(texts(10), list(range(10))),
            "dev: 0.1 of 8 training rows cannot be split off without a text on both sides; "
            "give dev a file of its own, or a larger share",
        ),
    ],
)
def test_folds_that_cannot_be_made_say_so(data, told):
    with pytest.raises(DataError) as caught:
        held(data, "5/5", dev=0.1)
    assert str(caught.value) == told


def test_what_a_user_should_know_of_the_folds_is_told():
    data = examples([["same"] * 6 + ["also"] * 4 + ["x", "y"]], [0, 1] * 5 + [1, 2])
    labels = Labels("classes", ("0", "1", "2"), ("no", "yes", "odd"))
    told = [held(data, f"{number}/4").notes(labels) for number in range(1, 5)]
    groups = "2 groups of up to 6 rows that share texts are larger than a fold and were split"
    assert sorted(told) == sorted([[groups]] * 3 + [[groups, "the class 'odd' is in test and not in train"]])
    one = held(examples([["same"] * 6 + ["x", "y", "z"]], [0] * 9), "1/3").notes(labels)
    assert one == ["1 group of 6 rows that share texts is larger than a fold and was split"]
    assert held(examples(texts(9), [0] * 9), "1/3").notes(labels) == []
