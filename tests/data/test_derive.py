"""Triplets derived from rows of natural language inference."""

import pytest

import plait
from plait.data.derive import triplets
from plait.data.read import Rows
from plait.errors import DataError, RecipeError
from plait.model.directory.record import open_directory
from plait.recipe.read import recipe_from
from plait.recipe.tree import Tree
from plait.resolve.variants import VARIANTS
from plait.runs.origins import find_split
from reading import resolve
from tiny import sentences, write_csv


def rows(*cells: tuple[str, str, str]) -> Rows:
    premise, hypothesis, label = (list(column) for column in zip(*cells, strict=True))
    origins = [f"nli.csv:{number}" for number in range(2, 2 + len(cells))]
    return Rows({"p": premise, "h": hypothesis, "l": label}, origins)


def derived(given: Rows, **options: str) -> tuple[list[tuple[str, ...]], int]:
    found = triplets(given, ("p", "h"), "l", **options)
    return list(zip(*found.columns.values(), strict=True)), found.unpaired


def test_entailed_and_contradicting_hypotheses_of_one_premise_make_a_triplet():
    given = rows(("A", "yes", "entailment"), ("A", "perhaps", "neutral"), ("A", "no", "contradiction"))
    assert derived(given) == ([("A", "yes", "no")], 0)


def test_rows_without_a_partner_are_counted():
    given = rows(
        ("A", "yes", "entailment"), ("B", "no", "contradiction"), ("C", "x", "neutral"), ("B", "n", "contradiction")
    )
    assert derived(given) == ([], 3)


def test_the_side_with_fewer_hypotheses_is_repeated():
    given = rows(
        ("A", "yes 1", "entailment"),
        ("A", "no 1", "contradiction"),
        ("A", "yes 2", "entailment"),
        ("A", "yes 3", "entailment"),
        ("A", "no 2", "contradiction"),
    )
    assert derived(given) == ([("A", "yes 1", "no 1"), ("A", "yes 2", "no 2"), ("A", "yes 3", "no 1")], 0)


def test_the_labels_can_be_given():
    given = rows(("A", "yes", "0"), ("A", "no", "2"))
    assert derived(given, entailed="0", contradicting="2") == ([("A", "yes", "no")], 0)


def test_the_origin_of_a_triplet_is_that_of_its_positive():
    given = rows(("A", "no", "contradiction"), ("A", "yes", "entailment"))
    assert triplets(given, ("p", "h"), "l").origins == ["nli.csv:3"]


def test_a_row_with_an_empty_text_is_bad_and_makes_no_triplet():
    given = rows(
        ("A", "yes", "entailment"),
        ("A", " ", "contradiction"),
        ("A", "no", "contradiction"),
        ("", "x", "entailment"),
        ("", "", "neutral"),
    )
    found = triplets(given, ("p", "h"), "l")
    assert list(zip(*found.columns.values(), strict=True)) == [("A", "yes", "no")]
    assert [(row.where, row.problem) for row in found.bad] == [
        ("nli.csv:3", "the text in column 'h' is empty"),
        ("nli.csv:5", "the text in column 'p' is empty"),
    ]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (
            {"entailed": "0"},
            "no row has the label '0', the most common are 'entailment', 'contradiction'; set entailed",
        ),
        ({"contradicting": "no"}, "no row has the label 'no', .*; set contradicting"),
        ({"entailed": "contradiction"}, "entailed and contradicting are both 'contradiction'"),
    ],
)
def test_labels_that_yield_no_triplet_are_rejected(options, message):
    given = rows(("A", "yes", "entailment"), ("A", "no", "contradiction"))
    with pytest.raises(DataError, match=message):
        triplets(given, ("p", "h"), "l", **options)


@pytest.fixture
def nli(tmp_path):
    """Twenty premises with one hypothesis per label, and two rows without a partner."""
    texts = iter(sentences(100, seed=8, longest=9))
    cells = []
    for number in range(20):
        premise = f"{next(texts)} {number}"
        cells += [
            (premise, f"{next(texts)} {number} {label}", label) for label in ("entailment", "neutral", "contradiction")
        ]
    cells += [("a dog slept", "a dog", "entailment"), ("a cat ran", "no cat ran", "contradiction")]
    write_csv(tmp_path / "nli.csv", ["premise", "hypothesis", "label"], cells)
    return {"train": str(tmp_path / "nli.csv"), "dev": 0.2, "text": ["premise", "hypothesis"], "label": "label"}


def test_a_task_with_derived_triplets_can_be_trained_and_evaluated_and_trained_again(nli, tiny_bert, tmp_path):
    recipe = {"encoder": str(tiny_bert), "tasks": {"nli": {**nli, "derive": "triplets"}}, "epochs": 1}
    resolved = resolve(recipe)
    task = resolved.tasks["nli"]
    assert {split: len(part) for split, part in task.splits.items()} == {"train": 16, "dev": 4}
    assert sum(task.unpaired.values()) == 2
    assert (task.spec.head_name, task.spec.labels.kind) == ("nearer", "triplets")
    assert any("rows have no partner to form a triplet with" in note for note in resolved.data_notes())
    result = plait.train(recipe, tmp_path / "run", baselines=False)
    examples = find_split(open_directory(result.model).record, result.model, "dev", None)
    assert examples["nli"].texts == task.splits["dev"].texts
    again = plait.train(tmp_path / "run/recipe.yaml", tmp_path / "again", baselines=False)
    assert again.scores == result.scores


def test_derive_needs_a_premise_a_hypothesis_and_a_label(nli, tiny_bert):
    for change in ({"text": "premise"}, {"text": ["premise", "hypothesis", "label"], "label": None}):
        recipe = {"encoder": str(tiny_bert), "tasks": {"nli": {**nli, "derive": "triplets", **change}}}
        needs = "derive: needs two text columns, premise and hypothesis, and one label column"
        with pytest.raises(RecipeError, match=needs):
            recipe_from(Tree(recipe), VARIANTS)


def test_triplets_are_derived_from_real_data(real_data, tiny_bert):
    nli = {"train": str(real_data / "nli/snli-dev.csv"), "text": ["premise", "hypothesis"], "label": "label"}
    recipe = {"encoder": str(tiny_bert), "tasks": {"nli": {**nli, "derive": "triplets"}}}
    task = resolve(recipe).tasks["nli"]
    assert len(task.splits["train"]) > 3000
    assert len(set(task.splits["train"].texts[0])) <= len(task.splits["train"])
