"""Draft a recipe for small files, as `plait init` does."""

from pathlib import Path

from plait.drafting.draft import Draft, draft_recipe
from plait.drafting.yaml_text import write_draft
from plait.recipe.read import read_recipe
from plait.recipe.schema import Recipe
from plait.resolve.variants import VARIANTS
from tiny import sentences, write_csv


def draft_of(folder: Path, files: dict[str, tuple[list[str], list]], encoder: str = "minilm") -> tuple[Draft, Recipe]:
    """Write files, given as header and rows, and the recipe for them."""
    for name, (header, rows) in files.items():
        write_csv(folder / name, header, rows)
    return draft_for(folder, *files, encoder=encoder)


def draft_for(folder: Path, *names: str, encoder: str = "minilm") -> tuple[Draft, Recipe]:
    """Write a recipe for existing files."""
    draft = draft_recipe([folder / name for name in names])
    write_draft(draft, folder / "recipe.yaml", encoder)
    return draft, read_recipe(folder / "recipe.yaml", VARIANTS)


def texts(count: int = 40, seed: int = 0) -> list[str]:
    """Distinct texts."""
    return [f"{text} {number}" for number, text in enumerate(sentences(count, seed, 9))]
