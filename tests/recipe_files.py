"""Recipes of two tasks as text, and what reading them gives."""

import re
from pathlib import Path

import pytest

from plait.errors import RecipeError
from plait.recipe.read import read_recipe
from plait.recipe.schema import Recipe
from plait.resolve.variants import VARIANTS

MOOD = "sentence,mood\na fine day,high\na dull day,low\n"
NEAR = "one,two,near\na dog,a hound,4.5\na dog,a tax,0.5\n"
PLAIN = """\
encoder: tiny
tasks:
  mood:
    train: mood.csv
    text: sentence
    label: mood
  near:
    train: near.csv
    text: [one, two]
    label: near
"""  # 10 lines: whatever a test appends starts on line 11
# What a message must not contain: words of Python and of the libraries that read a recipe.
PYTHON_WORDS = re.compile(
    r"instance of|should (have|be)|dictionary|Commented|NoneType|\btuple\b|\[key\]|literal\[|dict\[|missing key '\d'"
)


def read(folder: Path, text: str, **options) -> Recipe:
    path = folder / "recipe.yaml"
    path.write_text(text, encoding="utf-8")
    return read_recipe(path, VARIANTS, **options)


def files(recipe: Recipe, task: str, split: str) -> list[Path]:
    return [Path(source.file) for source in recipe.tasks[task].sources(split)]


def mistakes(folder: Path, text: str, **options) -> list[str]:
    """The messages about an invalid recipe, without the folder of its file."""
    with pytest.raises(RecipeError) as caught:
        read(folder, text, **options)
    return [mistake.replace(f"{folder}/", "") for mistake in caught.value.mistakes]
