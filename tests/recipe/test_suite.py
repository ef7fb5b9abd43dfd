"""Reading a suite: rows that set keys or extend others, and every mistake at once with its line."""

from pathlib import Path

import pytest

from plait.errors import RecipeError
from plait.recipe.read import read_recipe
from plait.recipe.suite import Search, Suite, read_row, read_suite
from plait.resolve.variants import VARIANTS
from recipe_files import PLAIN

HEAD = """\
title: Two rows
seeds: [1, 2]
scores: {mood: mood accuracy, near: near Pearson}
baseline: plain
"""  # 4 lines: the rest of a suite starts on line 5
ROWS = """\
rows:
  plain: {}
  faster: {}
"""


@pytest.fixture
def make_suite(folder):
    """Writes a suite with two recipes; returns its folder."""

    def make(rows: str = ROWS, head: str = HEAD) -> Path:
        suite = folder / "suite"
        suite.mkdir(exist_ok=True)
        (suite / "base.yaml").write_text(f"{PLAIN}dropout: 0.2\nprofiles: {{short: {{epochs: 1, lr: 1e-2}}}}\n")
        (suite / "plain.yaml").write_text("extends: base.yaml\n")
        (suite / "faster.yaml").write_text("extends: base.yaml\nlr: 3e-3\n")
        (suite / "suite.yaml").write_text(head + rows)
        return suite

    return make


def mistakes(suite: Path, **options) -> list[str]:
    """The messages about an invalid suite, without its folder."""
    with pytest.raises(RecipeError) as caught:
        read_suite(suite, **options)
    return [mistake.replace(f"{suite}/", "") for mistake in caught.value.mistakes]


def values(suite: Suite, row: str, profile: str | None = None) -> dict:
    return suite.recipe_tree(row, profile).values


# Rows


def test_suite_is_read(make_suite):
    suite = read_suite(make_suite(ROWS + "  test: {shown: nobody has the labels, paper: {mood: 0.9}}\n"))
    assert suite.trained == ["plain", "faster"]
    assert suite.recipe_file("faster").name == "faster.yaml"
    assert (suite.opponent("faster"), suite.opponent("plain")) == ("plain", None)
    assert suite.split == "dev"
    assert suite.model_copy(update={"folds": 5}).split == "test"


def test_row_may_be_tested_against_nothing(make_suite):
    suite = read_suite(make_suite("rows:\n  plain: {}\n  faster: {against: null}\n"))
    assert suite.opponent("faster") is None


def test_row_sets_keys_of_a_shared_recipe(make_suite):
    rows = """\
recipe: base.yaml
rows:
  plain: {}
  other: {set: {tasks.mood.head.hidden: 8, tasks.mood.head: linear, lr: 1e-4}}
  named: {recipe: faster.yaml, set: {dropout: 0.3}}
"""
    suite = read_suite(make_suite(rows))
    assert values(suite, "plain") == {**values(suite, "plain"), "dropout": 0.2}
    assert values(suite, "other")["tasks"]["mood"]["head"] == {"name": "linear", "hidden": 8}  # the shorter key first
    assert values(suite, "other")["lr"] == 1e-4
    assert {key: values(suite, "named")[key] for key in ("dropout", "lr")} == {"dropout": 0.3, "lr": 3e-3}


def test_row_extends_another_row(make_suite):
    rows = """\
rows:
  plain: {set: {lr: 1e-4, dropout: 0.5}}
  second: {extends: plain, set: {dropout: 0.6, tasks.near.weight: 2}}
  third: {extends: second, set: {lr: 1e-5}}
"""
    suite = read_suite(make_suite(rows))
    third = values(suite, "third")
    assert (third["lr"], third["dropout"], third["tasks"]["near"]["weight"]) == (1e-5, 0.6, 2)
    assert (values(suite, "plain")["lr"], values(suite, "plain")["dropout"]) == (1e-4, 0.5)
    assert suite.recipe_file("third").name == "plain.yaml"


def test_profile_overrides_what_a_row_sets(make_suite):
    rows = "rows:\n  plain: {set: {lr: 1e-4, dropout: 0.5, profiles.short.epochs: 7}}\n"
    suite = read_suite(make_suite(rows))
    short = values(suite, "plain", "short")
    assert (short["lr"], short["dropout"], short["epochs"]) == (1e-2, 0.5, 7)
    assert "epochs" not in values(suite, "plain")


def test_files_that_a_row_sets_are_beside_the_suite(make_suite, folder):
    suite = make_suite(
        "recipe: base.yaml\nrows:\n  plain: {set: {tasks.mood.train: own.csv, tasks.near.train: ../near.csv}}\n"
    )
    (suite / "own.csv").write_text("sentence,mood\na,b\n")
    recipe = read_recipe(f"{suite}#plain", VARIANTS)
    assert [Path(recipe.tasks[task].train[0].file) for task in ("mood", "near")] == [
        suite / "own.csv",
        folder / "near.csv",
    ]


# SUITE#ROW


def test_row_of_a_suite_is_read_as_a_recipe(make_suite, folder):
    suite = make_suite("rows:\n  plain: {set: {dropout: 0.4}}\n")
    recipe = read_recipe(f"{suite}#plain", VARIANTS, data=folder, profile="short", overrides=["batch_size=3"])
    assert (recipe.dropout, recipe.lr, recipe.epochs, recipe.batch_size) == (0.4, 1e-2, 1, 3)


def test_row_of_a_bundled_suite_is_found_by_name(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert read_row("best-of-bert#cosine", "laptop").values["encoder"] == "minilm"


@pytest.mark.parametrize(
    ("row", "message"),
    [
        ("plan", "no row 'plan'; did you mean 'plain'?"),
        ("test", "has no recipe, only the paper's figures: nobody has the labels"),
        ("both", "an ensemble of runs of plain, not one recipe; run it with: plait experiment {suite} --rows both"),
    ],
)
def test_row_without_a_recipe_is_refused(make_suite, row, message):
    suite = make_suite(ROWS + "  test: {shown: nobody has the labels}\n  both: {ensemble: plain}\n")
    with pytest.raises(RecipeError) as caught:
        read_recipe(f"{suite}#{row}", VARIANTS)
    assert str(caught.value) == f"{suite}#{row}: {message.format(suite=suite)}"


def test_file_with_a_hash_in_its_name_is_a_recipe(folder):
    (folder / "a#b.yaml").write_text(PLAIN)
    assert list(read_recipe(folder / "a#b.yaml", VARIANTS).tasks) == ["mood", "near"]


def test_suite_that_does_not_exist_is_reported(tmp_path):
    for read in (lambda: read_suite(tmp_path), lambda: read_recipe(f"{tmp_path}#row", VARIANTS)):
        with pytest.raises(
            RecipeError, match=r"contains no suite.yaml; give the folder of a suite, or a bundled name: "
        ):
            read()


# Mistakes


def test_all_mistakes_are_reported_at_once(make_suite):
    head = HEAD.replace("seeds: [1, 2]", "seeds: []") + "scors: {}\n"
    assert mistakes(make_suite("rows:\n  plain: {papr: {}}\n  faster: {paper: {mood: high}}\n", head)) == [
        "suite.yaml:2: seeds: expected at least one, found an empty list",
        "suite.yaml:7: rows.plain: unknown key 'papr'; did you mean 'paper'?",
        "suite.yaml:8: rows.faster.paper.mood: expected a number, found 'high'",
        "suite.yaml:5: unknown key 'scors'; did you mean 'scores'?",
    ]


def test_unknown_names_are_reported(make_suite):
    rows = """\
rows:
  plain: {against: nobody, paper: {mod: 0.5}}
  absent: {}
  em: {ensemble: em}
  faster: {search: {trials: 3}}
  child: {extends: plan}
"""
    assert mistakes(make_suite(rows, HEAD.replace("baseline: plain", "baseline: plan"))) == [
        "suite.yaml:4: baseline: no row 'plan'; did you mean 'plain'?",
        "suite.yaml:6: rows.plain.against: no row 'nobody' to use here; allowed: absent, child, faster, plain",
        "suite.yaml:6: rows.plain.paper.mod: no such column; did you mean 'mood'?",
        "suite.yaml:7: rows.absent: no recipe absent.yaml",
        "suite.yaml:8: rows.em.ensemble: no row 'em' to use here; allowed: absent, child, faster, plain",
        "suite.yaml:9: rows.faster.search: there is no grid to search; add one",
        "suite.yaml:10: rows.child.extends: no row 'plan' to use here; did you mean 'plain'?",
    ]


def test_rows_that_extend_each_other_are_reported(make_suite):
    rows = "rows:\n  plain: {extends: b}\n  a: {extends: b}\n  b: {extends: a}\n  c: {extends: a, recipe: base.yaml}\n"
    assert mistakes(make_suite(rows)) == [
        "suite.yaml:7: rows.a.extends: a extends itself",
        "suite.yaml:8: rows.b.extends: b extends itself",
        "suite.yaml:9: rows.c.recipe: the row starts from a already; remove recipe or extends",
    ]


def test_keys_that_a_row_cannot_set_are_reported_with_their_line(make_suite):
    rows = """\
rows:
  plain:
    set:
      tasks.moo.head: linear
      dropout.rate: 1
"""
    suite = read_suite(make_suite(rows))
    with pytest.raises(RecipeError) as caught:
        suite.recipe_tree("plain")
    where = suite.folder / "suite.yaml"
    assert caught.value.mistakes == (
        f"{where}:9: 'dropout' is 0.2 and has no keys",
        f"{where}:8: no task 'moo'; did you mean 'mood'?",
    )


def test_mistakes_in_what_a_row_sets_name_the_suite_and_its_line(make_suite, folder):
    rows = """\
rows:
  plain:
    set:
      lr: fast
      stages:
        - epochs: 1
        - epoch: 2
          tasks: [mood]
"""
    suite = make_suite(rows)
    with pytest.raises(RecipeError) as caught:
        read_recipe(f"{suite}#plain", VARIANTS, data=folder)
    found = "\n".join(caught.value.mistakes)
    assert f"{suite}/suite.yaml:8: lr: expected a number" in found
    assert f"{suite}/suite.yaml:11: stages.1: unknown key 'epoch'; did you mean 'epochs'?" in found


def test_search_is_read_and_its_mistakes_are_reported(make_suite):
    rows = "rows:\n  plain: {{grid: {{lr: [1e-4, 1e-3]}}, search: {{{keys}}}}}\n"
    suite = read_suite(make_suite(rows.format(keys="trials: 3, pruner: median")))
    assert suite.rows["plain"].search == Search(trials=3, pruner="median")
    found = "\n".join(mistakes(make_suite(rows.format(keys="trials: 0, prune: median"))))
    assert "suite.yaml:6: rows.plain.search.trials: " in found
    assert "rows.plain.search: unknown key 'prune'; did you mean 'pruner'?" in found


def test_invalid_ensembles_are_reported(make_suite):
    rows = """\
rows:
  plain: {grid: {lr: [1e-3]}}
  faster: {}
  one: {ensemble: plain}
  two: {ensemble: faster, recipe: plain.yaml}
"""
    assert mistakes(make_suite(rows, HEAD.replace("[1, 2]", "[1, 1]"))) == [
        "suite.yaml:2: seeds: a seed is listed twice; its cells would be identical",
        "suite.yaml:8: rows.one.ensemble: plain has a grid; an ensemble needs a row with one recipe",
        "suite.yaml:9: rows.two.recipe: an ensemble averages runs of another row; remove recipe",
    ]
    assert "the runs of an ensemble have their own seeds, and so other folds" in "\n".join(
        mistakes(make_suite(ROWS + "  one: {ensemble: plain}\n"), folds=3)
    )


def test_names_with_a_hash_are_refused(make_suite):
    assert mistakes(make_suite("rows:\n  plain: {}\n  a#b: {recipe: base.yaml}\n")) == [
        "suite.yaml:7: rows.a#b: the name of a row cannot contain '#', which separates suite and row"
    ]


# Sizes


def test_sizes_make_a_row_each_with_the_opponents_of_their_size(make_suite):
    rows = """\
train_rows: [20, 100, all]
draws: 3
rows:
  plain: {paper: {mood: 0.5}}
  faster: {set: {lr: 0.5}}
  third: {extends: faster, against: faster}
  em: {ensemble: plain}
  test: {shown: nobody has the labels}
"""
    suite = read_suite(make_suite(rows))
    sizes = ("-20", "-100", "")
    assert suite.trained == [f"{row}{size}" for size in sizes for row in ("plain", "faster", "third", "em")]
    assert [suite.opponent(f"third{size}") for size in sizes] == ["faster-20", "faster-100", "faster"]
    assert [suite.opponent(f"faster{size}") for size in sizes] == ["plain-20", "plain-100", "plain"]
    assert suite.opponent("plain-20") is None
    assert [suite.train_rows_of(f"em{size}") for size in sizes] == [20, 100, None]
    assert values(suite, "third-100")["train_rows"] == 100 and values(suite, "third-100")["lr"] == 0.5
    assert "train_rows" not in values(suite, "third")
    assert (suite.rows["plain"].paper, suite.rows["plain-20"].paper) == ({"mood": 0.5}, {})
    assert suite.recipe_file("faster-20").name == "faster.yaml"


def test_sizes_and_a_row_of_its_own_size(make_suite):
    suite = read_suite(make_suite("train_rows: [20]\nrows: {plain: {}, faster: {train_rows: 7}}\n"))
    assert suite.trained == ["plain-20", "faster"] and suite.train_rows_of("faster") == 7


def test_sizes_of_a_matrix_report_mistakes_where_they_are_written(make_suite):
    rows = """\
train_rows: [20]
recipe: base.yaml
matrix:
  - name: "row-{x}"
    over: {x: [1, 2]}
    set: {"tasks.moood.rows": "{x}"}
"""
    suite = read_suite(make_suite(rows, HEAD.replace("baseline: plain\n", "\n")))
    with pytest.raises(RecipeError, match=r"suite.yaml:10: no task 'moood'"):
        suite.recipe_tree("row-1-20")


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("draws: 3\n" + ROWS, "suite.yaml:5: draws: there is nothing to draw; add train_rows, or drop draws"),
        (
            "train_rows: [20]\n" + ROWS + "  plain-20: {recipe: plain.yaml}\n",
            "suite.yaml:5: train_rows: makes a row 'plain-20', and there is one already",
        ),
    ],
)
def test_sizes_that_make_no_sense(make_suite, text, expected):
    assert expected in mistakes(make_suite(text))


def test_size_must_be_a_number_or_all(make_suite):
    assert any("suite.yaml:5: train_rows.0" in line for line in mistakes(make_suite("train_rows: [0]\n" + ROWS)))
