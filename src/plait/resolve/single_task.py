"""Recipes with some of their tasks: to train each task alone under the same settings."""

from collections.abc import Collection

from plait.recipe.schema import Recipe

__all__ = ["restrict_to_tasks", "single_task_recipe"]


def single_task_recipe(recipe: Recipe, task: str) -> Recipe:
    """The recipe with one task of its last stage; earlier stages stay the same."""
    *before, last = recipe.stage_recipes()
    return Recipe.of_stages([*before, restrict_to_tasks(last, [task])])


def restrict_to_tasks(recipe: Recipe, tasks: Collection[str]) -> Recipe:
    """A stage with some of its tasks; its schedule no longer mentions the others."""
    options = dict(recipe.schedule.options)
    if options.get("order"):
        options["order"] = tuple(name for name in options["order"] if name in tasks)
    if options.get("weights"):
        options["weights"] = {name: weight for name, weight in options["weights"].items() if name in tasks} or None
    if options.get("epoch") in recipe.tasks.keys() - set(tasks):
        options["epoch"] = "longest"
    return recipe.model_copy(
        update={
            "tasks": {name: task for name, task in recipe.tasks.items() if name in tasks},
            "schedule": recipe.schedule.model_copy(update={"options": options}),
            "best_by": recipe.best_by if recipe.best_by in tasks else "mean",
            "refit": False,
        }
    )
