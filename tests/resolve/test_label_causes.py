"""Labels that are ids or typos, and files in another encoding, in the data of a recipe."""

import pytest

from drafts import texts
from plait.errors import DataError, RecipeError
from reading import resolve
from tiny import write_csv


def recipe(folder, words: list[str], **keys) -> dict:
    """A recipe with one task whose labels are these words."""
    rows = list(zip(texts(len(words)), words, strict=True))
    write_csv(folder / "a.csv", ["text", "label"], rows)
    task = {"train": str(folder / "a.csv"), "text": "text", "label": "label", **keys}
    return {"encoder": "minilm", "tasks": {"a": task}}


@pytest.mark.parametrize("form", ["t{}", "{}", "2024-01-{}"])
def test_labels_that_all_differ_are_refused(tmp_path, form):
    words = [form.format(number) for number in range(10, 40)]
    with pytest.raises(DataError) as caught:
        resolve(recipe(tmp_path, words))
    assert caught.value.mistakes[-1].endswith(
        "'label' has 30 different values in 30 rows: an id, a date, a score? name another column, or write "
        "kind: score, or kind: classes if each is a class"
    )


def test_labels_that_all_differ_are_read_as_the_recipe_says(tmp_path):
    words = [str(number) for number in range(10, 40)]
    for kind in ("score", "classes"):
        found = resolve(recipe(tmp_path, words, label={"column": "label", "kind": kind}))
        assert found.tasks["a"].spec.kind == kind


def test_a_few_rows_with_a_class_each_are_trained(tmp_path):
    found = resolve(recipe(tmp_path, [f"t{number}" for number in range(20)]))
    assert len(found.tasks["a"].spec.labels.classes) == 20


def test_probable_typos_are_noted_until_a_map_puts_them_together(tmp_path):
    words = ["billing", "refund"] * 18 + ["Billing", "refnud"]
    found = resolve(recipe(tmp_path, words))
    assert found.data_notes() == [
        "a: 4 classes, 2 if these are typos; to put them together, write map: {Billing: billing, refnud: refund} in "
        "the label",
        "a: fewer than 8 training rows of 'Billing', 'refnud'",
    ]
    label = {"column": "label", "map": {"Billing": "billing", "refnud": "refund"}}
    found = resolve(recipe(tmp_path, words, label=label))
    assert found.data_notes() == [] and found.tasks["a"].spec.labels.classes == ("billing", "refund")


def test_probable_typos_among_several_labels_are_noted(tmp_path):
    words = ["billing|refund", "refund", "billing"] * 6 + ["Billing|refund"]
    found = resolve(recipe(tmp_path, words, label={"column": "label", "separator": "|"}))
    assert found.data_notes()[0].startswith("a: 3 classes, 2 if these are typos; ")


@pytest.mark.parametrize(
    ("encoding", "message"),
    [
        ("latin-99", "unknown encoding 'latin-99'; use one such as utf-8, latin-1 or cp1252"),
        ("hex", "unknown encoding 'hex'; use one such as utf-8, latin-1 or cp1252"),
        ("utf-16", "'utf-16' is not read line by line; save the file as UTF-8"),
    ],
)
def test_an_encoding_that_cannot_be_read_is_refused(tmp_path, encoding, message):
    with pytest.raises(RecipeError) as caught:
        resolve(recipe(tmp_path, ["a", "b"] * 9, encoding=encoding))
    assert caught.value.mistakes[0].endswith(f"tasks.a.encoding: {message}")


@pytest.mark.parametrize(("encoding", "name"), [("ISO-8859-1", "latin-1"), ("utf-8-sig", "utf-8"), ("UTF8", "utf-8")])
def test_an_encoding_has_one_name(tmp_path, encoding, name):
    found = resolve(recipe(tmp_path, ["a", "b"] * 9, encoding=encoding))
    assert found.tasks["a"].settings.encoding == name
