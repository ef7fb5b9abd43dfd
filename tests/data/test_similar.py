"""Classes that are probably typos of others."""

import pytest

from plait.data.similar import similar_classes, similar_note


@pytest.mark.parametrize(
    ("counts", "typos"),
    [
        ({"billing": 9, "Billing": 2, "refund": 9}, {"Billing": "billing"}),  # case
        ({"e-mail": 5, "E mail": 6, "email": 1}, {"e-mail": "E mail", "email": "E mail"}),  # spaces and hyphens
        ({"billing": 9, "biling": 1, "billling": 2, "billimg": 3, "bililng": 1}, dict.fromkeys(
            ("biling", "billling", "billimg", "bililng"), "billing")),
        ({"billing": 9, "biling": 4}, {}),  # too common for a typo
        ({"bug": 9, "bag": 1, "cats": 9, "cat": 1}, {}),  # too short
        ({"class1": 90, "class2": 1, "level 10": 9, "level 1": 1}, {}),  # digits differ
        ({"1": 9, "1.5": 1, "": 3, "?!": 1}, {}),
        ({"positive": 90, "negative": 5}, {}),
        ({"Refnd": 1, "refund": 9, "refnd": 2}, {"Refnd": "refund", "refnd": "refund"}),  # both
    ],
)  # fmt: skip
def test_typos_are_found_and_other_classes_left_alone(counts, typos):
    assert similar_classes(counts) == typos


def test_a_note_has_both_numbers_and_the_map():
    counts = {"billing": 9, "Billing": 2, "refund": 9, "no": 3, "No": 1}
    assert similar_note(counts) == (
        '5 classes, 3 if these are typos; to put them together, write map: {Billing: billing, "No": "no"} in the label'
    )
    assert similar_note({"a": 1, "b": 2}) is None


def test_many_classes_take_no_time():
    counts = {f"{'abcdefghij'[n % 10] * 5}{chr(97 + n % 26) * 9}{n}": 3 for n in range(20_000)}
    assert similar_classes(counts) == {}
