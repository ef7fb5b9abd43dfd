"""The recipes that `plait init` writes: they are read back, and train unchanged."""

from itertools import pairwise

import pytest
from ruamel.yaml import YAML

import plait
from drafts import draft_of, texts
from plait.drafting.draft import draft_recipe
from plait.drafting.files import data_files
from plait.drafting.yaml_text import write_draft
from plait.errors import DataError
from plait.recipe.read import read_recipe
from plait.recipe.yaml_quote import quoted
from plait.resolve.run import resolve_tasks
from plait.resolve.variants import VARIANTS
from tiny import write_csv


def test_rare_classes_get_a_suitable_metric(tmp_path):
    rows = [[text, "rare" if n % 20 == 0 else "common"] for n, text in enumerate(texts(100))]
    _, recipe = draft_of(tmp_path, {"a.csv": (["text", "label"], rows)})
    assert recipe.tasks["a"].metric == "macro_f1"
    assert "# class_weights: balanced" in (tmp_path / "recipe.yaml").read_text()


def test_bad_rows_are_skipped_and_counted(tmp_path):
    rows = [[text, "ab"[n % 2]] for n, text in enumerate(texts())]
    write_csv(tmp_path / "a.csv", ["text", "label"], rows)
    with (tmp_path / "a.csv").open("a") as file:
        file.write("ragged,a,b\n,a\n")
    draft = draft_recipe([tmp_path / "a.csv"])
    assert write_draft(draft, tmp_path / "recipe.yaml", "minilm") == 2
    assert "# 2 rows are unusable; stop reports them instead" in (tmp_path / "recipe.yaml").read_text()
    resolved = resolve_tasks(read_recipe(tmp_path / "recipe.yaml", VARIANTS), limit=40, width=16)
    assert [row.where for row in resolved.tasks["a"].bad] == ["a.csv:42", "a.csv:43"]


def test_names_that_yaml_would_misread_are_quoted(tmp_path):
    rows = [[text, ["yes: sure", "no", "#3", "1.50"][n % 4]] for n, text in enumerate(texts())]
    _, recipe = draft_of(tmp_path, {"a b.csv": (["the: text", "is it, really?"], rows)})
    (task,) = recipe.tasks.values()
    assert task.text == ("the: text",)
    assert task.label.column == ("is it, really?",)
    assert set(task.label.classes) == {"yes: sure", "no", "#3", "1.50"}


@pytest.mark.parametrize("word", ["no", "a: b", "'", '"', "\\", "1.0", "", " a", "a#b", "é", "null", "-", "10", "a\nb"])
def test_a_quoted_word_is_read_back_unchanged(word):
    assert str(YAML(typ="safe").load(f"key: {quoted(word)}")["key"]) == word


def test_a_recipe_that_cannot_be_trained_is_written_and_its_problems_reported(tmp_path):
    chain = texts()
    rows = [[*pair, n % 2] for n, pair in enumerate(pairwise(chain))]
    write_csv(tmp_path / "a.csv", ["text1", "text2", "label"], rows)
    draft = draft_recipe(data_files([tmp_path]))
    with pytest.raises(DataError) as caught:
        write_draft(draft, tmp_path / "recipe.yaml", "minilm")
    assert caught.value.mistakes == (
        f"{tmp_path}/recipe.yaml: written, but it needs these corrections before it can be trained:",
        f"{tmp_path}/recipe.yaml:5: tasks.a: dev: 0.2 of 39 training rows cannot be split off without the same text on "
        "both sides; give dev a file of its own, or a larger share",
    )
    assert (tmp_path / "recipe.yaml").is_file()


def test_a_recipe_with_every_kind_of_task_trains_unchanged(tmp_path, tiny_bert):
    flags = [[text, n % 2, int(n % 3 == 0)] for n, text in enumerate(texts())]
    pairs = list(zip(texts(seed=1), texts(seed=2), strict=True))
    files = {
        "one.csv": (["text", "label"], [[text, "ab"[n % 2]] for n, text in enumerate(texts(seed=3))]),
        "flags.csv": (["text", "hot", "wet"], flags),
        "same.csv": (["text1", "text2", "same"], [[*pair, n % 2] for n, pair in enumerate(pairs)]),
        "near.csv": (["text1", "text2", "score"], [[*pair, n % 7 / 2] for n, pair in enumerate(pairs)]),
        "three.csv": (
            ["anchor", "positive", "negative"],
            list(zip(texts(seed=4), texts(seed=5), texts(seed=6), strict=True)),
        ),
    }
    draft_of(tmp_path, files, str(tiny_bert))
    result = plait.train(tmp_path / "recipe.yaml", tmp_path / "run", profile="quick")
    assert list(result.scores) == ["one", "flags", "same", "near", "three"]
    assert set(plait.load(result.model).tasks) == set(result.scores)
