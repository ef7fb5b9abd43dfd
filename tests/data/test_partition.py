"""Parts of a dataset: no text is in two, classes keep their proportions, and the seed determines them."""

from collections import Counter

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from plait.data.partition import components, k_folds, normal_form, split_off, stratified_sample


def texts(count: int) -> list[list[str]]:
    """One column of distinct texts."""
    return [[f"text {number}" for number in range(count)]]


def counts(labels: list[str], part: list[int]) -> dict[str, int]:
    return dict(Counter(labels[row] for row in part))


# ---------------------------------------------------------------- rows that share texts


@pytest.mark.parametrize(
    ("text", "form"),
    [
        ("A  Dog", "a dog"),
        (" a\tdog\n", "a dog"),
        ("a\u00a0dog", "a dog"),
        ("STRASSE", "strasse"),
        ("Straße", "strasse"),
        ("a dog.", "a dog."),
        ("", ""),
    ],
)
def test_case_and_white_space_do_not_distinguish_texts(text, form):
    assert normal_form(text) == form


def test_rows_with_the_same_text_are_one_component():
    column = ["a dog", "a cat", "A  DOG", "a cat ", "a bird"]
    assert sorted(components([column])) == [[0, 2], [1, 3], [4]]


def test_pairs_linked_by_a_chain_of_texts_are_one_component():
    first = ["a", "b", "x", "D ", "e"]
    second = ["b", "c", "y", "c", "f"]  # a-b, b-c, d-c; x-y; e-f
    assert sorted(components([first, second])) == [[0, 1, 3], [2], [4]]


def test_a_chain_that_closes_late_is_one_component():
    first, second = ["a", "c", "e", "b", "d"], ["b", "d", "f", "c", "e"]
    assert components([first, second]) == [[0, 1, 2, 3, 4]]


def test_a_text_on_different_sides_of_two_pairs_links_them():
    assert components([["a", "c"], ["b", "A"]]) == [[0, 1]]


def test_triplets_are_linked_by_any_of_their_texts():
    assert sorted(components([["a", "d", "g"], ["b", "e", "h"], ["c", "B", "i"]])) == [[0, 1], [2]]


def test_a_very_long_chain_is_found():
    count = 50_000  # deeper than any recursion
    names = [f"t{number}" for number in range(count + 1)]
    assert components([names[:-1], names[1:]]) == [list(range(count))]
    assert components([names[:-1][::-1], names[1:][::-1]]) == [list(range(count))]


# ---------------------------------------------------------------- split_off

WORD = st.sampled_from(["a", "A", "b ", " b", "c", "d", "e  f", "E F", "g", "h", "i", "j"])


@settings(deadline=None)
@given(
    rows=st.lists(st.tuples(WORD, WORD, st.sampled_from("xyz")), min_size=1, max_size=40),
    shares=st.lists(st.sampled_from([0.1, 0.25, 0.4]), min_size=1, max_size=2),
    seed=st.text("ab", max_size=2),
)
def test_every_row_is_in_one_part_and_no_text_is_in_two(rows, shares, seed):
    first, second, labels = (list(column) for column in zip(*rows, strict=True))
    parts = split_off([first, second], labels, shares, seed)
    assert len(parts) == len(shares) + 1
    assert sorted(row for part in parts for row in part) == list(range(len(rows)))
    assert all(part == sorted(part) for part in parts)
    seen = [{normal_form(text) for row in part for text in (first[row], second[row])} for part in parts]
    for place, found in enumerate(seen):
        assert not any(found & other for other in seen[place + 1 :])
    for part, share in zip(parts, shares, strict=False):
        assert len(part) <= round(share * len(rows))


def test_classes_keep_their_proportions():
    labels = ["a"] * 600 + ["b"] * 300 + ["c"] * 100
    dev, test, train = split_off(texts(1_000), labels, [0.2, 0.1], "seed")
    assert counts(labels, dev) == {"a": 120, "b": 60, "c": 20}
    assert counts(labels, test) == {"a": 60, "b": 30, "c": 10}
    assert counts(labels, train) == {"a": 420, "b": 210, "c": 70}


def test_classes_keep_their_proportions_if_texts_repeat():
    column = [f"text {number // 3}" for number in range(900)]  # every text three times
    labels = ["a" if number // 3 % 3 else "b" for number in range(900)]
    dev, train = split_off([column], labels, [0.2], "seed")
    assert counts(labels, dev) == {"a": 120, "b": 60}
    assert not {column[row] for row in dev} & {column[row] for row in train}


def test_rows_without_classes_are_split_by_count():
    dev, train = split_off(texts(50), [""] * 50, [0.3], "seed")
    assert (len(dev), len(train)) == (15, 35)


def test_many_rare_classes_stay_in_train():
    labels = [str(number % 60) for number in range(120)]
    dev, train = split_off(texts(120), labels, [0.25], "seed")
    assert (len(dev), len(train)) == (30, 90)
    assert len(counts(labels, train)) == 60


def test_classes_too_rare_for_a_share_do_not_make_the_part_smaller():
    labels = ["common"] * 500 + [str(number // 2) for number in range(50)]
    dev, _ = split_off(texts(550), labels, [0.2], "seed")
    assert len(dev) == 110


def test_parts_depend_only_on_the_seed():
    labels = ["x", "y"] * 50
    once = split_off(texts(100), labels, [0.2, 0.2], "seed")
    assert once == split_off(texts(100), labels, [0.2, 0.2], "seed")
    assert once != split_off(texts(100), labels, [0.2, 0.2], "other")


def test_every_row_is_equally_likely_to_be_drawn():
    drawn = Counter(row for seed in range(100) for row in split_off(texts(50), ["x", "y"] * 25, [0.2], str(seed))[0])
    # 10 of 50 rows in 100 draws: 20 times each on average, with standard deviation √(100·0.2·0.8) = 4; allow 5 of them
    assert all(abs(drawn[row] - 20) <= 20 for row in range(50)), drawn


@pytest.mark.parametrize("share", [0.1, 0.2, 0.5, 0.6, 0.9])
def test_train_keeps_some_rows_of_every_class(share):
    labels = ["a"] * 50 + ["b"] * 5 + ["c"] * 2 + ["d"]
    for seed in range(20):
        dev, train = split_off(texts(58), labels, [share], str(seed))
        assert set(counts(labels, train)) == {"a", "b", "c", "d"}
        assert dev and "d" not in counts(labels, dev)


def test_train_keeps_some_rows_of_every_class_with_two_parts():
    labels = ["a"] * 20 + ["b"] * 2
    for seed in range(20):
        *_, train = split_off(texts(22), labels, [0.45, 0.45], str(seed))
        assert set(counts(labels, train)) == {"a", "b"}


def test_a_part_is_not_empty_if_every_class_is_too_rare_for_its_share():
    labels = [label for label in "abcdefghij" for _ in range(2)]  # 0.2 of 2 rows rounds to none
    dev, train = split_off(texts(20), labels, [0.2], "seed")
    assert len(dev) == 4 and max(counts(labels, dev).values()) == 1
    assert len(counts(labels, train)) == 10


def test_a_group_that_is_too_large_stays_in_train():
    column = ["the same"] * 80 + [f"text {number}" for number in range(20)]
    dev, train = split_off([column], [""] * 100, [0.1], "seed")
    assert len(dev) == 10 and min(dev) >= 80
    assert set(range(80)) <= set(train)


# ---------------------------------------------------------------- k_folds

TEXT = st.sampled_from([f"{letter}{number}" for letter in "abAB" for number in range(9)])


def normal_texts(columns, rows) -> set[str]:
    return {normal_form(column[row]) for column in columns for row in rows}


@settings(deadline=None)
@given(
    labels=st.lists(st.sampled_from("xyz"), min_size=1, max_size=60),
    count=st.integers(2, 7),
    seed=st.text("ab", max_size=2),
)
def test_folds_of_distinct_texts_differ_by_at_most_one_row_in_total_and_per_class(labels, count, seed):
    folds = k_folds(texts(len(labels)), labels, count, seed)
    assert sorted(row for part in folds.parts for row in part) == list(range(len(labels)))
    assert len(folds.parts) == count and not folds.broken
    for label in (*"xyz", None):
        sizes = [sum(label in (None, labels[row]) for row in part) for part in folds.parts]
        assert max(sizes) - min(sizes) <= 1, (label, sizes)


@settings(deadline=None)
@given(
    rows=st.lists(st.tuples(TEXT, TEXT, st.sampled_from("xy")), min_size=1, max_size=40),
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
    seen = [normal_texts([first, second], whole.intersection(part)) for part in folds.parts]
    assert sum(map(len, seen)) == len(set().union(*seen))


def test_groups_of_rows_with_one_text_are_stratified():
    column = [f"text {number // 3}" for number in range(900)]  # every text three times
    labels = ["a" if number // 3 % 3 else "b" for number in range(900)]
    folds = k_folds([column], labels, 5, "seed")
    assert [dict(Counter(labels[row] for row in part)) for part in folds.parts] == [{"a": 120, "b": 60}] * 5


def test_single_rows_even_out_the_folds():
    column = ["one"] * 7 + ["two"] * 3 + [f"text {number}" for number in range(30)]
    folds = k_folds([column], ["x"] * 40, 4, "seed")
    assert [len(part) for part in folds.parts] == [10, 10, 10, 10]


def test_a_group_larger_than_a_fold_is_split_but_rows_with_identical_texts_stay_together():
    first = ["hub"] * 60 + [f"text {number}" for number in range(40)]
    second = [f"spoke {number // 2}" for number in range(60)] + [f"other {number}" for number in range(40)]
    first[1], second[1] = second[1], "HUB "  # the same two texts, swapped
    folds = k_folds([first, second], [""] * 100, 5, "seed")
    assert folds.broken == [60]
    assert [len(part) for part in folds.parts] == [20] * 5
    place = {row: number for number, part in enumerate(folds.parts) for row in part}
    assert all(place[row] == place[row + 1] for row in range(0, 60, 2))
    assert len({place[row] for row in range(60)}) == 5


def test_a_text_with_more_rows_than_a_fold_is_split_row_by_row():
    folds = k_folds([["the same"] * 9 + ["another"]], [""] * 10, 5, "seed")
    assert folds.broken == [9] and [len(part) for part in folds.parts] == [2] * 5


def test_folds_depend_only_on_the_seed():
    labels = ["x", "y"] * 50
    once = k_folds(texts(100), labels, 5, "seed")
    assert once == k_folds(texts(100), labels, 5, "seed")
    assert once != k_folds(texts(100), labels, 5, "other")


# ---------------------------------------------------------------- samples


def test_sample_by_hand():
    labels = list("aaaaaabbbc")  # 6, 3 and 1
    assert counts(labels, stratified_sample(labels, 1, "s")) == {"a": 1}  # the most common class
    assert counts(labels, stratified_sample(labels, 3, "s")) == {"a": 1, "b": 1, "c": 1}
    assert counts(labels, stratified_sample(labels, 5, "s")) == {"a": 3, "b": 1, "c": 1}
    assert counts(labels, stratified_sample(labels, 6, "s")) == {"a": 3, "b": 2, "c": 1}
    assert stratified_sample(labels, 10, "s") == stratified_sample(labels, 99, "s") == list(range(10))


def test_seed_draws_the_sample():
    labels = ["a", "b"] * 50
    assert stratified_sample(labels, 20, "one") == stratified_sample(labels, 20, "one")
    assert stratified_sample(labels, 20, "one") != stratified_sample(labels, 20, "two")


@settings(max_examples=50, deadline=None)
@given(st.lists(st.sampled_from("abcd"), min_size=1, max_size=60), st.integers(1, 60), st.integers(1, 60))
def test_smaller_samples_are_part_of_larger_ones_and_keep_the_proportions(labels, one, other):
    small, large = sorted((min(one, len(labels)), min(other, len(labels))))
    few, many = stratified_sample(labels, small, "s"), stratified_sample(labels, large, "s")
    assert set(few) <= set(many) and (len(few), len(many)) == (small, large)
    assert len(counts(labels, many)) == min(large, len(set(labels)))
    for label, count in counts(labels, many).items():
        assert count <= max(1, large * labels.count(label) / len(labels) + 1)


@pytest.mark.parametrize("rare", [2, 3, 4])
def test_a_class_too_rare_for_its_share_is_on_both_sides(rare):
    labels = ["common"] * 200 + ["rare"] * rare
    texts = [[f"text {number}" for number in range(len(labels))]]
    for seed in map(str, range(20)):
        part, rest = split_off(texts, labels, [0.1], seed)
        assert Counter(labels[row] for row in part)["rare"] == 1
        assert Counter(labels[row] for row in rest)["rare"] == rare - 1
        assert len(part) == round(0.1 * len(labels))


def test_three_rows_of_a_class_go_to_three_parts():
    labels = ["common"] * 200 + ["rare"] * 3
    parts = split_off([[f"text {number}" for number in range(203)]], labels, [0.1, 0.2], "7")
    assert [Counter(labels[row] for row in part)["rare"] for part in parts] == [1, 1, 1]
