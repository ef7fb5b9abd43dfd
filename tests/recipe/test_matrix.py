"""The matrix of a suite: which rows it expands to, and every mistake in it with its line."""

from pathlib import Path

import pytest

from plait.errors import RecipeError
from plait.recipe.suite import Suite, read_suite

HEAD = """\
title: A matrix
seeds: [1]
scores: {only: accuracy}
recipe: base.yaml
"""  # 4 lines: the rest of a suite starts on line 5
AXES = """\
axes:
  data:
    cr: {title: reviews, set: {tasks.cr: {train: cr.csv, text: sentence, label: label}}, paper_rows: {cr: 3775}}
    trec: {title: questions, set: {tasks.trec: {train: trec.csv, text: sentence, label: label}}}
  size:
    1k: {title: "1,000 rows", set: {"tasks.{data}.rows": 1000}, paper_rows: {"{data}": 1000}}
  loss:
    ce: {title: cross-entropy, grid: {dropout: [0.1, 0.3]}}
    te:
      title: SoftTriple
      set: {"tasks.{data}.loss": triple_entropy}
      grid: {"tasks.{data}.loss.beta": [0.7, 0.9]}
      against: {loss: ce}
"""  # 13 lines: the matrix starts on line 18
MATRIX = """\
matrix:
  - name: "{data}-{loss}"
    over: {data: [cr, trec], loss: [ce, te]}
    figures: {cr: {ce: 0.93, te: 0.94}, trec: {te: 0.97}}
"""
BIG = """\
  - name: "{data}-{size}-{loss}"
    over: {data: [cr], size: 1k, loss: [ce, te]}
    figures: {cr: {ce: 0.91}}
"""


@pytest.fixture
def make_suite(tmp_path):
    def make(rest: str, head: str = HEAD) -> Path:
        (tmp_path / "base.yaml").write_text("encoder: tiny\nlr: 1e-4\n")
        (tmp_path / "suite.yaml").write_text(head + rest)
        return tmp_path

    return make


def mistakes(suite: Path) -> list[str]:
    with pytest.raises(RecipeError) as caught:
        read_suite(suite)
    return [mistake.replace(f"{suite}/", "") for mistake in caught.value.mistakes]


def task(suite: Suite, row: str) -> dict:
    (found,) = suite.recipe_tree(row).values["tasks"].values()
    return found


# Rows


def test_matrix_expands_to_the_product_of_its_axes(make_suite):
    suite = read_suite(make_suite(AXES + MATRIX + BIG))
    assert list(suite.rows) == ["cr-ce", "cr-te", "trec-ce", "trec-te", "cr-1k-ce", "cr-1k-te"]
    rows = suite.rows
    assert rows["cr-te"].grid == {"tasks.cr.loss.beta": [0.7, 0.9]} and rows["cr-ce"].grid == {"dropout": [0.1, 0.3]}
    assert rows["trec-te"].set.keys() == {"tasks.trec", "tasks.trec.loss"}
    assert task(suite, "trec-te") == {
        "train": "trec.csv",
        "text": "sentence",
        "label": "label",
        "loss": "triple_entropy",
    }
    assert task(suite, "cr-1k-te")["rows"] == 1000 and "rows" not in task(suite, "cr-te")
    assert rows["cr-ce"].paper_rows == {"cr": 3775} and rows["trec-ce"].paper_rows is None
    assert rows["cr-1k-ce"].paper_rows == {"cr": 1000}  # a later axis wins


def test_figures_are_nested_by_the_axes_that_have_lists(make_suite):
    rows = read_suite(make_suite(AXES + MATRIX + BIG)).rows
    assert {name: row.paper for name, row in rows.items()} == {
        "cr-ce": {"only": 0.93},
        "cr-te": {"only": 0.94},
        "trec-ce": {},
        "trec-te": {"only": 0.97},
        "cr-1k-ce": {"only": 0.91},
        "cr-1k-te": {},
    }


def test_figures_of_several_columns_are_given_by_name(make_suite):
    head = HEAD.replace("scores: {only: accuracy}", "scores: {a: A, b: B}\nmeans: {mean: plain}")
    rest = 'matrix:\n  - {name: "{lr}", over: {lr: [1, 2]}, paper: {a: 0.5}, figures: {1: {b: 0.6, mean: 0.7}}}\n'
    rows = read_suite(make_suite(rest, head)).rows
    assert rows["1"].paper == {"a": 0.5, "b": 0.6, "mean": 0.7} and rows["2"].paper == {"a": 0.5}


def test_row_names_may_be_given_by_axis(make_suite):
    suite = read_suite(make_suite(AXES + MATRIX))
    assert [suite.opponent(row) for row in suite.rows] == [None, "cr-ce", None, "trec-ce"]
    block = MATRIX.replace("    figures", "    against: {data: cr}\n    extends: {loss: ce}\n    figures")
    rows = read_suite(make_suite(AXES.replace("      against: {loss: ce}\n", "") + block)).rows
    assert [row.extends for row in rows.values()] == [None, "cr-ce", None, "trec-ce"]
    assert [row.against for row in rows.values()] == [None, None, "cr-ce", "cr-te"]
    assert "against" not in rows["cr-ce"].model_fields_set  # a row does not name itself


def test_row_names_may_be_templates(make_suite):
    block = MATRIX.replace("    figures", '    against: "{data}-ce"\n    figures')
    rows = read_suite(make_suite(AXES.replace("ce: {title", "ce: {against: null, title") + block)).rows
    assert [row.against for row in rows.values()] == [None, "cr-ce", None, "trec-ce"]


def test_titles_of_the_values_are_joined_unless_the_block_has_one(make_suite):
    rows = read_suite(make_suite(AXES + MATRIX + BIG)).rows
    assert rows["trec-te"].title == "questions, SoftTriple"
    assert rows["cr-1k-ce"].title == "reviews, 1,000 rows, cross-entropy"
    titled = MATRIX.replace("    figures", '    title: "{loss} on {data}"\n    figures')
    assert read_suite(make_suite(AXES + titled)).rows["cr-te"].title == "te on cr"


def test_value_that_is_a_placeholder_keeps_its_type(make_suite):
    keys = 'set: {lr: "{lr}", encoder: "e{lr}"}, grid: {a: ["{lr}"]}'
    suite = read_suite(make_suite(f'matrix:\n  - {{name: "lr-{{lr}}", over: {{lr: [0.01, 3]}}, {keys}}}\n'))
    assert list(suite.rows) == ["lr-0.01", "lr-3"]
    assert [row.set for row in suite.rows.values()] == [{"lr": 0.01, "encoder": "e0.01"}, {"lr": 3, "encoder": "e3"}]
    assert suite.rows["lr-3"].grid == {"a": [3]}


def test_keys_of_a_value_win_over_those_of_the_block(make_suite):
    block = MATRIX.replace("    figures", "    set: {lr: 1, dropout: 0.5}\n    grid: {lr: [1]}\n    figures")
    rows = read_suite(make_suite(AXES.replace("ce: {title", "ce: {set: {lr: 2}, title") + block)).rows
    assert rows["cr-ce"].set == {"lr": 2, "dropout": 0.5, "tasks.cr": rows["cr-ce"].set["tasks.cr"]}
    assert rows["cr-te"].set["lr"] == 1
    assert rows["cr-ce"].grid == {"lr": [1], "dropout": [0.1, 0.3]}


@pytest.mark.parametrize("first", ["rows", "matrix"])
def test_rows_are_in_the_order_of_the_file(make_suite, first):
    own = "rows:\n  own: {extends: cr-te, set: {lr: 5}}\n"
    suite = read_suite(make_suite(AXES + (own + MATRIX if first == "rows" else MATRIX + own)))
    expanded = ["cr-ce", "cr-te", "trec-ce", "trec-te"]
    assert list(suite.rows) == (["own", *expanded] if first == "rows" else [*expanded, "own"])
    assert suite.recipe_tree("own").values["lr"] == 5 and task(suite, "own")["loss"] == "triple_entropy"


def test_profile_overrides_what_the_matrix_sets(make_suite):
    suite = make_suite(AXES + MATRIX.replace("    figures", "    set: {lr: 1}\n    figures"))
    (suite / "base.yaml").write_text("encoder: tiny\nprofiles: {small: {lr: 9}}\n")
    assert read_suite(suite).recipe_tree("cr-ce", "small").values["lr"] == 9


# Mistakes


def test_all_mistakes_in_a_matrix_are_reported_at_once(make_suite):
    axes = AXES.replace("ce: {title", "ce: {titel").replace("tasks.{data}.rows", "tasks.{dta}.rows")
    block = """\
matrix:
  - name: "{data}-{los}"
    over: {data: [cr, trec], loss: [ce, te]}
  - name: "{data}-{size}-{loss}"
    over: {data: [cr, tree], size: 1k, loss: [ce]}
  - name: "{data}"
    over: {data: cr, size: 1k}
    figure: {}
    title: "{dat}"
  - over: {data: []}
  - all
"""
    assert mistakes(make_suite(axes + block)) == [
        "suite.yaml:12: axes.loss.ce: unknown key 'titel'; did you mean 'title'?",
        "suite.yaml:19: matrix.0.name: no axis 'los'; did you mean 'loss'?",
        "suite.yaml:22: matrix.1.over.data: no value 'tree' of data in axes; did you mean 'trec'?",
        "suite.yaml:25: matrix.2: unknown key 'figure'; did you mean 'figures'?",
        "suite.yaml:10: axes.size.1k.set.tasks.{dta}.rows: no axis 'dta'; did you mean 'data'?",
        "suite.yaml:26: matrix.2.title: no axis 'dat'; did you mean 'data'?",
        "suite.yaml:27: matrix.3: missing key 'name'",
        "suite.yaml:27: matrix.3.over.data: expected one value or a list of values",
        "suite.yaml:28: matrix.4: expected a block with name and over, found 'all'",
    ]


def test_figures_that_belong_to_no_row_are_reported(make_suite):
    block = MATRIX.replace("trec: {te: 0.97}}", "tree: {te: 0.97}}").replace("te: 0.94", "tee: 0.94")
    assert mistakes(make_suite(AXES + block)) == [
        "suite.yaml:21: matrix.0.figures.cr.tee: no value 'tee' of loss; did you mean 'te'?",
        "suite.yaml:21: matrix.0.figures.tree: no value 'tree' of data; did you mean 'trec'?",
    ]
    assert mistakes(make_suite(AXES + MATRIX.replace("{ce: 0.93, te: 0.94}", "0.93"))) == [
        "suite.yaml:21: matrix.0.figures.cr: expected figures by loss, found 0.93"
    ]
    several = HEAD.replace("scores: {only: accuracy}", "scores: {a: A, b: B}")
    assert mistakes(make_suite(AXES + MATRIX, several))[0] == (
        "suite.yaml:21: matrix.0.figures.cr.ce: there are several scores; name the one of this figure, such as {a: 0.5}"
    )


def test_rows_that_do_not_exist_are_reported(make_suite):
    axes = AXES.replace("against: {loss: ce}", "against: {loss: cee}").replace(
        "ce: {title", "ce: {extends: {los: te}, title"
    )
    assert mistakes(make_suite(axes + MATRIX)) == [
        "suite.yaml:12: axes.loss.ce.extends: no axis 'los'; did you mean 'loss'?",
        "suite.yaml:17: axes.loss.te.against: no value 'cee' of loss; did you mean 'ce'?",
    ]
    named = MATRIX.replace("    figures", "    against: cr-ces\n    figures")
    assert mistakes(make_suite(AXES.replace("      against: {loss: ce}\n", "") + named)) == [
        "suite.yaml:20: matrix.0.against: no row 'cr-ces' to use here; did you mean 'cr-ce'?"
    ]


def test_mistake_in_the_keys_of_a_value_is_reported_once_with_its_line(make_suite):
    found = mistakes(make_suite(AXES.replace("[0.7, 0.9]", "0.7").replace("{cr: 3775}", "{cr: many}") + MATRIX))
    assert len(found) == 2
    assert found[0].startswith("suite.yaml:7: axes.data.cr.paper_rows.cr: expected an integer")
    assert found[1] == "suite.yaml:16: axes.loss.te.grid.tasks.{data}.loss.beta: expected a list, found 0.7"


def test_rows_of_the_same_name_are_reported(make_suite):
    assert mistakes(make_suite(AXES + MATRIX.replace('"{data}-{loss}"', '"{data}"'))) == [
        "suite.yaml:19: matrix.0.name: this block has a row 'cr' already; use every axis in the name: data, loss",
    ]
    twice = AXES + MATRIX + MATRIX.removeprefix("matrix:\n") + "rows:\n  trec-te: {}\n"
    assert mistakes(make_suite(twice)) == [
        "suite.yaml:22: matrix.1.name: matrix.0 has a row 'cr-ce' already; use every axis in the name: data, loss",
        "suite.yaml:26: rows.trec-te: matrix.0 has a row of this name already",
    ]


def test_misspelled_axis_is_reported(make_suite):
    assert mistakes(
        make_suite(AXES + MATRIX.replace("{data: [cr, trec]", "{dat: [cr, trec]").replace("{data}-", "{dat}-"))
    ) == [
        "suite.yaml:15: axes.loss.te.set.tasks.{data}.loss: no axis 'data'; did you mean 'dat'?",
        "suite.yaml:16: axes.loss.te.grid.tasks.{data}.loss.beta: no axis 'data'; did you mean 'dat'?",
        "suite.yaml:20: matrix.0.over.dat: no such axis in axes; did you mean 'data'?",
    ]


@pytest.mark.parametrize(
    ("rest", "message"),
    [
        ("axes: [loss]\n" + MATRIX, "suite.yaml:5: axes: expected the axes of the matrix, each with its values"),
        ("axes: {loss: [ce]}\n" + MATRIX, "suite.yaml:5: axes.loss: expected values, each with the keys that it adds"),
        ("axes: {loss: {ce: 1, te: }}\n" + MATRIX, "suite.yaml:5: axes.loss.ce: expected keys of a row, found 1"),
        ("matrix: {name: x}\n", "suite.yaml:5: matrix: expected a list of blocks, each with name and over"),
        (
            "matrix:\n  - {name: 1, over: {a: 1}}\n",
            "suite.yaml:6: matrix.0.name: expected a name such as '{data}-{loss}'",
        ),
        (
            "matrix:\n  - {name: x, over: 1}\n",
            "suite.yaml:6: matrix.0.over: expected axes, each with one value or a list",
        ),
        ("matrix:\n  - {name: x, over: {a: [1, 1]}}\n", "suite.yaml:6: matrix.0.over.a: a value is listed twice"),
    ],
)
def test_invalid_shapes_are_reported(make_suite, rest, message):
    found = mistakes(make_suite(rest))
    assert len(found) == 1 and found[0].startswith(message)
