"""Rows of natural language inference become triplets."""

import pytest

import plait
from plait.data.make import triplets
from plait.data.read import Rows
from plait.errors import DataError, RecipeError
from plait.evaluation.find import find_split
from plait.model.about import read_about
from plait.model.load import load_model
from plait.recipe.read import recipe_from
from plait.recipe.tree import Tree
from plait.training.settle import settle
from plait.training.tables import TABLES
from tiny import sentences, write_csv


def rows(*cells: tuple[str, str, str]) -> Rows:
    premise, hypothesis, label = (list(column) for column in zip(*cells, strict=True))
    origins = [f"nli.csv:{number}" for number in range(2, 2 + len(cells))]
    return Rows({"p": premise, "h": hypothesis, "l": label}, origins)


def made(given: Rows, **options: str) -> tuple[list[tuple[str, ...]], int]:
    found = triplets(given, ("p", "h"), "l", **options)
    return list(zip(*found.columns.values(), strict=True)), found.lonely


def test_an_entailed_and_a_contradicting_hypothesis_of_one_premise_make_a_triplet():
    given = rows(("A", "yes", "entailment"), ("A", "perhaps", "neutral"), ("A", "no", "contradiction"))
    assert made(given) == ([("A", "yes", "no")], 0)


def test_rows_without_a_partner_are_counted():
    given = rows(
        ("A", "yes", "entailment"), ("B", "no", "contradiction"), ("C", "x", "neutral"), ("B", "n", "contradiction")
    )
    assert made(given) == ([], 3)


def test_where_there_are_fewer_of_one_they_come_again():
    given = rows(
        ("A", "yes 1", "entailment"),
        ("A", "no 1", "contradiction"),
        ("A", "yes 2", "entailment"),
        ("A", "yes 3", "entailment"),
        ("A", "no 2", "contradiction"),
    )
    assert made(given) == ([("A", "yes 1", "no 1"), ("A", "yes 2", "no 2"), ("A", "yes 3", "no 1")], 0)


def test_the_words_of_the_labels_can_be_given():
    given = rows(("A", "yes", "0"), ("A", "no", "2"))
    assert made(given, entailed="0", contradicting="2") == ([("A", "yes", "no")], 0)


def test_a_triplet_is_where_its_positive_was_written():
    given = rows(("A", "no", "contradiction"), ("A", "yes", "entailment"))
    assert triplets(given, ("p", "h"), "l").origins == ["nli.csv:3"]


def test_a_row_that_cannot_be_read_is_bad_where_it_was_written_and_makes_no_triplet():
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
    ("options", "told"),
    [
        ({"entailed": "0"}, "no row has the label '0', the commonest are 'entailment', 'contradiction'; give entailed"),
        ({"contradicting": "no"}, "no row has the label 'no', .*; give contradicting"),
        ({"entailed": "contradiction"}, "entailed and contradicting are both 'contradiction'"),
    ],
)
def test_labels_that_no_triplet_can_come_of_are_refused(options, told):
    given = rows(("A", "yes", "entailment"), ("A", "no", "contradiction"))
    with pytest.raises(DataError, match=told):
        triplets(given, ("p", "h"), "l", **options)


@pytest.fixture
def nli(tmp_path):
    """Twenty premises with a hypothesis of each label, and two without a partner."""
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


def test_a_task_of_made_triplets_trains_is_evaluated_and_goes_on(nli, tiny_bert, tmp_path):
    recipe = {"encoder": str(tiny_bert), "tasks": {"nli": {**nli, "make": "triplets"}}, "epochs": 1}
    settled = settle(recipe_from(Tree(recipe), TABLES), 40)
    task = settled.tasks["nli"]
    assert {split: len(part) for split, part in task.splits.items()} == {"train": 16, "dev": 4}
    assert sum(task.lonely.values()) == 2
    assert (task.spec.head, task.spec.labels.kind) == ("nearer", "triplets")
    assert any("rows have no partner and make no triplet" in sentence for sentence in settled.sentences())
    result = plait.train(recipe, tmp_path / "run", baselines=False)
    model = load_model(result.model)
    examples = find_split(model, result.model, read_about(result.model), "dev", None)
    assert examples["nli"].texts == task.splits["dev"].texts
    again = plait.train(tmp_path / "run/recipe.yaml", tmp_path / "again", baselines=False)
    assert again.scores == result.scores


def test_making_needs_a_premise_a_hypothesis_and_a_label(nli, tiny_bert):
    for change in ({"text": "premise"}, {"text": ["premise", "hypothesis", "label"], "label": None}):
        recipe = {"encoder": str(tiny_bert), "tasks": {"nli": {**nli, "make": "triplets", **change}}}
        with pytest.raises(
            RecipeError, match="make: needs two text columns, premise and hypothesis, and one of labels"
        ):
            recipe_from(Tree(recipe), TABLES)


def test_real_sentences_make_triplets(real_data, tiny_bert):
    nli = {"train": str(real_data / "nli/snli-dev.csv"), "text": ["premise", "hypothesis"], "label": "label"}
    recipe = {"encoder": str(tiny_bert), "tasks": {"nli": {**nli, "make": "triplets"}}}
    task = settle(recipe_from(Tree(recipe), TABLES), 40).tasks["nli"]
    assert len(task.train) > 3000
    assert len(set(task.train.texts[0])) <= len(task.train)
