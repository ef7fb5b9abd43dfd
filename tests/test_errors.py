"""The tree of errors, their exit codes, and "did you mean"."""

import inspect
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from plait import errors
from plait.errors import ExecutionError, NotFiniteError, PlaitError, did_you_mean


def classes() -> list[type[Exception]]:
    return [thing for thing in vars(errors).values() if inspect.isclass(thing) and issubclass(thing, Exception)]


def tree(root: type[Exception], before: str = "") -> list[str]:
    """The subclasses of a class as the docstring draws them, in the order of their definition."""
    lines = []
    children = [child for child in root.__subclasses__() if not child.__name__.startswith("_")]
    for child in children:
        last = child is children[-1]
        lines.append(f"{before}{'└── ' if last else '├── '}{child.__name__}")
        lines += tree(child, before + ("    " if last else "│   "))
    return lines


def test_the_docstring_draws_the_tree_of_classes():
    drawn = errors.__doc__.split("\n\n", 1)[1].splitlines()
    assert [re.match(r"\W*\w+", line)[0] for line in drawn] == ["PlaitError", *tree(PlaitError)]


def test_the_tree_describes_each_class_like_its_docstring():
    for name, words in re.findall(r"── (\w+)\s+(.+)", errors.__doc__):
        own = getattr(errors, name).__doc__
        assert own[0].lower() + own[1:] == words + own[len(words) :], name
        assert own[len(words)] in ".;", name


def test_all_lists_every_error():
    others = ["OUT_OF_MEMORY", "did_you_mean", "is_out_of_memory"]
    assert errors.__all__ == sorted([*(error.__name__ for error in classes()), *others], key=sort_key)


def sort_key(name: str) -> tuple[bool, bool, str]:
    """Constants, classes, functions."""
    return not name.isupper(), name.islower(), name


@pytest.mark.parametrize("error", classes(), ids=lambda error: error.__name__)
def test_only_failures_at_run_time_exit_with_1(error):
    assert error.exit_code == (1 if error in (NotFiniteError, ExecutionError) else 2)


def test_an_error_shows_one_mistake_per_line():
    error = errors.DataError("a.csv:2: no", "a.csv:3: no")
    assert error.mistakes == ("a.csv:2: no", "a.csv:3: no")
    assert str(error) == "a.csv:2: no\na.csv:3: no"


@pytest.mark.parametrize(
    ("word", "allowed", "hint"),
    [
        ("temprature", ["temperature", "weight"], "did you mean 'temperature'?"),
        ("lable", {"label": 1, "text": 2}, "did you mean 'label'?"),
        ("colour", ["weight", "label", "text"], "allowed: label, text, weight"),
        ("", ["b", "a"], "allowed: a, b"),
        ("label", [], "allowed: none"),
    ],
)
def test_an_unknown_word_suggests_the_closest_or_lists_all(word, allowed, hint):
    assert did_you_mean(word, allowed) == hint


@given(st.sets(st.text(min_size=1), min_size=1), st.data())
def test_an_allowed_word_suggests_itself(allowed, data):
    word = data.draw(st.sampled_from(sorted(allowed)))
    assert did_you_mean(word, allowed) == f"did you mean {word!r}?"
    assert did_you_mean(word, sorted(allowed, reverse=True)) == did_you_mean(word, allowed)


@given(st.lists(st.sampled_from("abcdefgh"), min_size=4, unique=True).map("".join), st.data())
def test_a_word_with_one_extra_letter_is_found(word, data):
    place = data.draw(st.integers(0, len(word)))
    assert did_you_mean(word[:place] + "z" + word[place:], [word, "0123456789"]) == f"did you mean {word!r}?"


def test_a_long_list_of_allowed_words_is_cut():
    assert did_you_mean("x", [f"word{number:02}" for number in range(23)]).endswith("word18, word19 and 3 others")
    assert did_you_mean("x", ["b", "a"]) == "allowed: a, b"
