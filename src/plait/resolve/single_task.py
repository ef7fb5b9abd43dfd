"""Recipes with some of their tasks: to train them without the others under the same settings."""

from collections.abc import Collection

from plait.recipe.schema import Recipe
from plait.recipe.task import Task
from plait.resolve.teacher import learns_from_teacher

__all__ = ["recipe_of_tasks", "restrict_to_tasks"]


def recipe_of_tasks(recipe: Recipe, tasks: Collection[str]) -> Recipe:
    """The recipe with some tasks of its last stage; earlier stages stay the same."""
    *before, last = recipe.stage_recipes()
    earlier = {name for stage in before for name in stage.tasks}
    return Recipe.of_stages([*before, restrict_to_tasks(last, tasks, earlier)])


def restrict_to_tasks(recipe: Recipe, tasks: Collection[str], earlier: Collection[str] = ()) -> Recipe:
    """A stage with some of its tasks; its schedule no longer mentions the others.

    A head that was shared with one of the others becomes the task's own, unless `earlier` stages have that task.
    """
    options = dict(recipe.schedule.options)
    if options.get("order"):
        options["order"] = tuple(name for name in options["order"] if name in tasks)
    if options.get("weights"):
        options["weights"] = {name: weight for name, weight in options["weights"].items() if name in tasks} or None
    if options.get("epoch") in recipe.tasks.keys() - set(tasks):
        options["epoch"] = "longest"
    own = {name: task for name, task in recipe.tasks.items() if name in tasks}
    return recipe.model_copy(
        update={
            "teacher": recipe.teacher if any(map(learns_from_teacher, own.values())) else None,
            "tasks": {name: _with_own_head(recipe, name, tasks, earlier) for name in recipe.tasks if name in tasks},
            "schedule": recipe.schedule.model_copy(update={"options": options}),
            "best_by": recipe.best_by if recipe.best_by in tasks else "mean",
            "refit": False,
        }
    )


def _with_own_head(recipe: Recipe, name: str, tasks: Collection[str], earlier: Collection[str]) -> Task:
    """A task with a head of its own if the task that it shared one with is left out."""
    task = recipe.tasks[name]
    owner = task.head.same_as if task.head else None
    if owner is None or owner in tasks or owner in earlier or owner not in recipe.tasks:
        return task
    return task.model_copy(update={"head": recipe.tasks[owner].head})
