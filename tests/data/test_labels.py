"""What labels mean: kinds, spellings, classes, ranges, and invalid labels."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from plait.data.kinds import Kind
from plait.data.labels import Labels, encode_labels, guess_kind, labels_from, map_labels, unused_in_map
from plait.errors import DataError


def labels_of(values: list[str], kind: Kind, **given) -> Labels:
    """The labels of one column."""
    return labels_from({"label": values}, kind, **given)


def encode(values: list[str], labels: Labels) -> tuple[np.ndarray, dict[int, str]]:
    return encode_labels([values], labels, len(values))


YES_NO = labels_of(["0", "1"], "yes_no")


@pytest.mark.parametrize(
    ("values", "single", "pair"),
    [
        (["0", "1"], "classes", "yes_no"),
        (["0.0", "1.0", "1"], "classes", "yes_no"),
        (["True", " false "], "classes", "yes_no"),
        (["YES", "no"], "classes", "yes_no"),
        (["1"], "classes", "yes_no"),
        (["0", "1", "2"], "classes", "score"),
        (["0", "5"], "classes", "score"),
        (["-1", "1"], "classes", "score"),
        (["0.5", "1"], "score", "score"),
        (["3.0", "4.0"], "classes", "score"),
        (["low", "high"], "classes", "classes"),
        (["entailment", "0"], "classes", "classes"),
        (["1", "nan"], "classes", "yes_no"),  # nan is how tables write a missing value
        (["1", "inf"], "classes", "classes"),
    ],
)
def test_the_kind_of_label_is_guessed_from_its_values(values, single, pair):
    assert (guess_kind(values, pair=False), guess_kind(values, pair=True)) == (single, pair)


@given(st.lists(st.sampled_from(["0", "1", "true", "2", "0.5", "low"]), min_size=1))
def test_the_guess_depends_on_neither_order_nor_repetition(values):
    for pair in (False, True):
        assert guess_kind(values, pair) == guess_kind(sorted(values) * 2, pair)


# ---------------------------------------------------------------- yes or no


def test_yes_and_no_have_many_spellings():
    spelled = ["1", "1.0", "true", "TRUE", "Yes", " yes ", "0", "0.0", "False", "no", "NO"]
    encoded, bad = encode(spelled, YES_NO)
    assert encoded.tolist() == [1] * 6 + [0] * 5
    assert encoded.dtype == np.int64 and not bad


def test_a_value_that_is_neither_yes_nor_no_is_reported():
    _, bad = encode(["1", "2", "maybe", "", "y"], YES_NO)
    assert bad == {
        1: "the label '2' is neither yes (1, true) nor no (0, false)",
        2: "the label 'maybe' is neither yes (1, true) nor no (0, false)",
        3: "the label is empty",
        4: "the label 'y' is neither yes (1, true) nor no (0, false)",
    }


@pytest.mark.parametrize(
    ("values", "positive", "classes", "encoded"),
    [
        (["spam", "ham", "spam"], "spam", ("ham", "spam"), [1, 0, 1]),
        (["0", "1", "0"], "0", ("1", "0"), [1, 0, 1]),
        (["0", "1.0", "1"], "1", ("0", "1"), [0, 1, 1]),
        (["2.0", "3", "2"], "2", ("3", "2"), [1, 0, 1]),
        (["spam"], "spam", ("not spam", "spam"), [1]),
    ],
)
def test_the_positive_value_means_yes_and_the_other_no(values, positive, classes, encoded):
    labels = labels_of(values, "yes_no", positive=positive)
    assert (labels.classes, labels.names, labels.outputs) == (classes, classes, 1)
    found, bad = encode(values, labels)
    assert found.tolist() == encoded and not bad


def test_a_positive_value_with_two_others_is_refused():
    with pytest.raises(DataError, match="positive: 'spam' leaves more than one other value: eggs, ham"):
        labels_of(["spam", "ham", "eggs"], "yes_no", positive="spam")


def test_an_empty_label_is_a_bad_row_and_not_the_other_value_of_positive():
    labels = labels_of(["spam", "", "ham", " "], "yes_no", positive="spam")
    assert labels.classes == ("ham", "spam")
    assert encode(["spam", "", "ham"], labels)[1] == {1: "the label is empty"}


# ---------------------------------------------------------------- classes


@pytest.mark.parametrize(
    ("values", "classes"),
    [
        (["b", "a", "c", "a"], ("a", "b", "c")),
        (["10", "9", "-1", "2"], ("-1", "2", "9", "10")),  # by size, not by spelling
        (["2.0", "1", " 2 ", "1.0"], ("1", "2")),
        (["1.5", "1.50", "x", "1"], ("1", "1.5", "1.50", "x")),
        (["word", "3", ""], ("3", "word")),  # empty ones are bad rows, not a class
    ],
)
def test_classes_are_found_and_sorted(values, classes):
    labels = labels_of(values, "classes")
    assert (labels.classes, labels.names, labels.outputs) == (classes, classes, len(classes))


WORD = st.text("abXYé -").map(str.strip).filter(bool)


@given(st.lists(WORD, min_size=2).filter(lambda words: len(set(words)) > 1))
def test_every_label_becomes_the_number_of_its_class(words):
    labels = labels_of(words, "classes")
    assert labels.classes == tuple(sorted(set(words)))
    encoded, bad = encode(words, labels)
    assert [labels.classes[place] for place in encoded] == words and not bad


@pytest.mark.parametrize("values", [["1_0", "10"], ["٣", "3"]])
def test_spellings_that_only_python_reads_as_the_same_number_are_two_classes(values):
    assert labels_of(values, "classes").outputs == 2


def test_two_point_zero_is_class_two():
    labels = labels_of(["0", "1", "2"], "classes")
    encoded, bad = encode(["2.0", " 2", "2", "1.0"], labels)
    assert encoded.tolist() == [2, 2, 2, 1] and not bad


def test_given_classes_keep_their_order_and_names():
    labels = labels_of(["1"], "classes", classes={"2": "fine", "1.0": "poor", "0": "awful"})
    assert (labels.classes, labels.names) == (("2", "1", "0"), ("fine", "poor", "awful"))
    encoded, bad = encode(["0", "1", "2.0", "3"], labels)
    assert encoded[:3].tolist() == [2, 1, 0]
    assert bad == {3: "the label '3' is not one of the classes of the training data: 2, 1, 0"}


@pytest.mark.parametrize("values", [[], ["a"], ["a", "a", ""], ["2", "2.0"]])
def test_fewer_than_two_classes_are_refused(values):
    with pytest.raises(DataError, match=r"a task needs at least two classes, the training data has [01]"):
        labels_of(values, "classes")


@pytest.mark.parametrize("classes", [{}, {"a": "a"}, {"2": "two", "2.0": "also two"}])
def test_fewer_than_two_given_classes_are_refused(classes):
    with pytest.raises(DataError, match="at least two classes"):
        labels_of(["a", "b"], "classes", classes=classes)


def test_classes_are_case_sensitive():
    assert labels_of(["Good", "good"], "classes").classes == ("Good", "good")


# ---------------------------------------------------------------- scores


def test_scores_keep_their_value():
    labels = labels_of(["1", "2"], "score", range=(0, 5))
    assert (labels.low, labels.high, labels.outputs) == (0.0, 5.0, 1)
    encoded, bad = encode(["0", "5", " 2.5 ", "1e-1"], labels)
    assert encoded.dtype == np.float32 and not bad
    assert encoded.tolist() == [0.0, 5.0, 2.5, np.float32(0.1)]


def test_the_range_is_read_from_the_training_data_unless_given():
    labels = labels_of(["1.5", "-2", "4", "", "x", "nan", "inf"], "score")
    assert (labels.low, labels.high) == (-2.0, 4.0)


@pytest.mark.parametrize("values", [[], ["3", "3.0"]])
def test_scores_that_do_not_vary_need_a_range(values):
    with pytest.raises(DataError, match=r"the scores do not vary; give their range, such as range: \[0, 5\]"):
        labels_of(values, "score")
    assert labels_of(values, "score", range=(0, 5)).high == 5.0


def test_bad_scores_are_reported():
    _, bad = encode(["5.1", "-0.1", "nan", "inf", "-inf", "", "high", "3"], Labels("score", low=0, high=5))
    assert bad == {
        0: "the label 5.1 is outside the range 0 to 5; the label's `range` sets it",
        1: "the label -0.1 is outside the range 0 to 5; the label's `range` sets it",
        2: "the label is nan, not a number",
        3: "the label 'inf' is not a number",
        4: "the label '-inf' is not a number",
        5: "the label is empty",
        6: "the label 'high' is not a number",
    }


@given(st.floats(allow_nan=True, allow_infinity=True))
def test_a_score_is_either_in_its_range_or_a_bad_row(number):
    encoded, bad = encode([repr(number)], Labels("score", low=-2.0, high=3.0))
    assert (0 in bad) != (-2.0 <= number <= 3.0)
    assert bad or encoded[0] == np.float32(number)


@pytest.mark.parametrize(
    ("labels", "shown"),
    [
        (Labels("score", low=0, high=5), "0 to 5"),
        (labels_of(["a", "b"], "classes", classes={"0": "bad", "1": "good"}), "bad, good"),
        (YES_NO, "no, yes"),
        (labels_of([str(number) for number in range(9)], "classes"), "9 classes"),
    ],
)
def test_labels_describe_themselves(labels, shown):
    assert labels.describe() == shown


# Maps


def test_a_map_replaces_labels_however_they_are_written():
    assert map_labels(["0", "1.0", " 1 ", "2", ""], {"0": "0.5", "1": "4.5"}) == ["0.5", "4.5", "4.5", "2", ""]
    values = ["x", "y"]
    assert map_labels(values, {}) is values


def test_mapped_labels_are_encoded_as_what_they_become():
    score = Labels("score", low=0.0, high=5.0, map={"0": "1", "1": "4.5"})
    encoded, bad = encode(["0", "1.0", "3", "word"], score)
    assert encoded[:3].tolist() == [1.0, 4.5, 3.0] and bad == {3: "the label 'word' is not a number"}
    classes = Labels("classes", ("bad", "good"), ("bad", "good"), map={"very good": "good", "0": "bad"})
    assert encode(["very good", "good", "0", "bad"], classes)[0].tolist() == [1, 1, 0, 0]


@pytest.mark.parametrize("separator", [None, ","])
def test_in_lists_every_label_is_mapped(separator):
    labels = Labels("multilabel", ("a", "b"), ("a", "b"), separator=separator, map={"c": "b", "d": "b"})
    cells = ["a,c", "c,d", "b"] if separator else ['["a", "c"]', '["c", "d"]', '["b"]']
    assert encode(cells, labels)[0].tolist() == [[1, 1], [0, 1], [0, 1]]
    unused = unused_in_map(cells, {"c": "b", "dd": "b"}, separator=separator, multilabel=True)
    assert unused == ["map: no row has the label 'dd'; did you mean 'd'?"]


def test_labels_of_a_map_that_no_row_has_are_reported():
    mapping = {"very good": "good", "vary bad": "bad", "1": "good"}
    assert unused_in_map(["very good", "very bad", "1.0"], mapping) == [
        "map: no row has the label 'vary bad'; did you mean 'very bad'?"
    ]
