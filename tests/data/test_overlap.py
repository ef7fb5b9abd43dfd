"""What splits and tasks share, counted by hand, and the sentences about it."""

import numpy as np
import pytest

import plait
from plait.data.examples import Examples
from plait.data.overlap import Between, Overlaps, Within, count_overlaps


def examples(*rows: tuple) -> Examples:
    """Rows of texts, each followed by its label."""
    *texts, labels = zip(*rows, strict=True)
    return Examples(tuple(map(list, texts)), np.array(labels), [f"a.csv:{line}" for line in range(2, 2 + len(rows))])


def within(symmetric: bool = False, **splits: Examples) -> Within:
    (found,) = count_overlaps({"it": splits}, {"it": symmetric}).within
    return found


def test_nothing_shared_gives_no_sentences():
    parts = {"train": examples(("a dog", 0), ("a cat", 1)), "dev": examples(("a bird", 0))}
    found = count_overlaps({"mood": parts}, {"mood": False})
    assert found == Overlaps([Within("mood", 0, {"dev": 0}, {"dev": 0})], [])
    assert found.sentences() == []


def test_rows_that_occur_in_train_are_counted_per_split():
    train = examples(("a dog", 0), ("a cat", 1), ("a cow", 1))
    dev = examples(("A  Dog", 0), ("a cat ", 0), ("a dog", 1), ("a bird", 0))  # three of four, whatever their label
    test = examples(("a fish", 0), ("A COW", 1))
    assert within(train=train, dev=dev, test=test) == Within("it", 0, {"dev": 3, "test": 1}, {"dev": 3, "test": 1})


def test_each_training_input_with_different_labels_is_counted_once():
    train = examples(("a dog", 0), ("A dog", 1), ("a dog", 2), ("a cat", 1), ("a cat ", 1), ("a cow", 0), ("a cow", 1))
    assert within(train=train).contradictory == 2  # the dog and the cow; the cat has one label


def test_pairs_are_counted_if_one_text_or_both_occur_in_train():
    train = examples(("a", "b", 1), ("c", "d", 0))
    dev = examples(("a", "b", 1), ("a", "x", 0), ("x", "D", 0), ("y", "z", 1), ("b", "a", 1))
    assert within(train=train, dev=dev) == Within("it", 0, {"dev": 1}, {"dev": 4})


def test_in_a_symmetric_task_the_order_of_a_pair_does_not_matter():
    train = examples(("a", "b", 1), ("B", "A", 0), ("c", "d", 0))
    dev = examples(("b", "a", 1), ("d", "c", 0), ("a", "c", 1))
    assert within(True, train=train, dev=dev) == Within("it", 1, {"dev": 2}, {"dev": 3})
    assert within(False, train=train, dev=dev) == Within("it", 0, {"dev": 1}, {"dev": 3})


def test_multilabel_rows_are_contradictory_if_any_label_differs():
    labels = np.array([[1, 0], [1, 0], [0, 1], [1, 1]])
    train = Examples((["a", "a", "b", "b"],), labels, ["a.csv:2"] * 4)
    assert within(train=train).contradictory == 1


def test_distinct_texts_shared_by_two_tasks_are_counted():
    first = {
        "train": examples(("a", 0), ("b", 1), ("b", 1), ("c", 0)),
        "dev": examples(("d", 0), ("e", 1)),
    }
    second = {
        "train": examples(("A", "d", 0), ("x", "y", 1)),  # a: trained on by both; d: held out by the first
        "dev": examples(("b", "z", 0)),  # b: held out by the second
        "test": examples(("c", "e", 0)),  # c: held out by the second; e: held out by both
    }
    third = {"train": examples(("q", 0), ("r", 1))}
    found = count_overlaps({"one": first, "two": second, "three": third}, dict.fromkeys(("one", "two", "three"), False))
    assert found.between == [Between(("one", "two"), 5, 3)]


def test_each_finding_is_one_sentence():
    overlaps = Overlaps(
        [
            Within("mood", 1_200, {"dev": 1_001, "test": 0}, {"dev": 1_001, "test": 0}),
            Within("same", 0, {"dev": 2}, {"dev": 7}),
        ],
        [Between(("mood", "same"), 9, 0), Between(("same", "near"), 30, 4)],
    )
    assert overlaps.sentences() == [
        "mood: 1,001 dev rows also occur in train; scores are optimistic",
        "mood: 1,200 training inputs have contradictory labels",
        "same: 2 dev rows also occur in train; scores are optimistic",
        "same: 7 dev rows share a text with train",
        "mood and same share 9 texts",
        "same and near share 30 texts, 4 of which one trains on and the other holds out",
    ]


@pytest.mark.parametrize("same", [False, True])
def test_a_run_reports_what_its_splits_share(tiny_recipe, tmp_path, recorded, same):
    recipe = tiny_recipe(epochs=1)
    recipe["tasks"] = {"near": recipe["tasks"]["near"]}
    if same:
        recipe["tasks"]["near"]["dev"] = recipe["tasks"]["near"]["train"]
    plait.train(recipe, tmp_path / "run", baselines=False, progress=recorded)
    note = "near: 24 dev rows also occur in train; scores are optimistic"
    assert (note in recorded.notes) is same
