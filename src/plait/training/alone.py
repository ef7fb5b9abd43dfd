"""Each task of a run trained alone under the same settings: what the other tasks give to it, or take from it."""

from collections.abc import Collection

from plait.recipe.schema import Recipe

__all__ = ["ALONE", "alone_recipe", "with_tasks"]

ALONE = "alone"  # the baseline, and the folder of the runs


def alone_recipe(recipe: Recipe, task: str) -> Recipe:
    """The recipe with one task of its last stage; the stages before it are as they were."""
    *before, last = recipe.stage_recipes()
    return Recipe.of_stages([*before, with_tasks(last, [task])])


def with_tasks(recipe: Recipe, tasks: Collection[str]) -> Recipe:
    """A stage with some of its tasks; what its schedule says of the others falls away."""
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
        }
    )
