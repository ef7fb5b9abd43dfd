"""Reading a suite: every mistake at once, with its line."""

import pytest

from plait.errors import RecipeError
from plait.experiments.suite import read_suite
from plait.experiments.tune import Search


def test_a_suite_is_read(make_suite):
    suite = read_suite(make_suite())
    assert suite.trained == ["plain", "faster"]
    assert suite.recipe_of("faster").name == "faster.yaml"
    assert (suite.opponent_of("faster"), suite.opponent_of("plain")) == ("plain", None)
    assert suite.split == "dev"
    assert suite.model_copy(update={"folds": 5}).split == "test"


def test_a_row_may_be_tested_against_nothing(make_suite):
    suite = read_suite(make_suite(rows={"plain": {}, "faster": {"against": None}}))
    assert suite.opponent_of("faster") is None


def test_every_mistake_is_told_at_once(make_suite):
    with pytest.raises(RecipeError) as error:
        read_suite(make_suite(seeds=[], scors={}, rows={"plain": {"papr": {}}}))
    told = "\n".join(error.value.mistakes)
    assert "unknown key 'scors'; did you mean 'scores'?" in told
    assert "rows.plain: unknown key 'papr'; did you mean 'paper'?" in told
    assert "seeds: " in told
    assert all(mistake.split(": ")[0].rpartition(":")[2].isdecimal() for mistake in error.value.mistakes)


def test_names_that_are_not_there_are_told(make_suite):
    rows = {
        "plain": {"against": "nobody", "paper": {"mod": 0.5}},
        "absent": {},
        "em": {"ensemble": "em"},
        "faster": {"search": {"trials": 3}},
    }
    with pytest.raises(RecipeError) as error:
        read_suite(make_suite(rows=rows, baseline="plan"))
    told = "\n".join(error.value.mistakes)
    assert "no row 'plan'; did you mean 'plain'?" in told
    assert "no row 'nobody' to take" in told
    assert "no such column; did you mean 'mood'?" in told
    assert "absent.yaml" in told
    assert "no row 'em' to take" in told
    assert "there is no grid to search" in told


def test_a_search_is_read_and_its_mistakes_told(make_suite):
    grid = {"lr": [1e-4, 1e-3]}
    suite = read_suite(make_suite(rows={"plain": {"grid": grid, "search": {"trials": 3, "pruner": "median"}}}))
    assert suite.rows["plain"].search == Search(trials=3, pruner="median")
    with pytest.raises(RecipeError) as error:
        read_suite(make_suite(rows={"plain": {"grid": grid, "search": {"trials": 0, "prune": "median"}}}))
    assert "rows.plain.search.trials: " in str(error.value) and "unknown key 'prune'; did you mean 'pruner'?" in str(
        error.value
    )


def test_a_folder_without_a_suite_is_refused(tmp_path):
    with pytest.raises(RecipeError, match=r"no suite.yaml there"):
        read_suite(tmp_path)


def test_what_an_ensemble_cannot_have_is_refused(make_suite):
    rows = {
        "plain": {"grid": {"lr": [1e-3]}},
        "faster": {},
        "one": {"ensemble": "plain"},
        "two": {"ensemble": "faster", "recipe": "plain.yaml"},
    }
    with pytest.raises(RecipeError) as error:
        read_suite(make_suite(rows=rows, seeds=[1, 1]))
    told = "\n".join(error.value.mistakes)
    assert "seeds: a seed stands there twice" in told
    assert "rows.one.ensemble: plain has a grid" in told
    assert "rows.two.recipe: an ensemble is of another row's runs" in told
