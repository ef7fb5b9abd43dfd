"""The recipe that trains once more on all rows, after dev has shown how well it works."""

from plait.recipe.schema import Recipe

__all__ = ["refit_recipe"]


def refit_recipe(recipe: Recipe) -> Recipe:
    """The same recipe without dev data: rows that were split off train are back in train, dev files are not used."""
    tasks = {name: task.model_copy(update={"dev": (), "choose_rows": None}) for name, task in recipe.tasks.items()}
    changes = {"tasks": tasks, "best_by": "mean", "early_stopping": None, "choose_rows": None, "refit": False}
    return recipe.model_copy(update=changes)
