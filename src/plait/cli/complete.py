"""What shells complete: recipes, and the tasks, profiles and keys of the model or recipe on the line.

Nothing here imports torch, and what cannot be read has no completions.
"""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click
from click.shell_completion import CompletionItem

from plait.recipe.bundled import BUNDLED, bundled_recipes

if TYPE_CHECKING:
    from plait.recipe.tree import Tree

__all__ = [
    "complete_key",
    "complete_profile",
    "complete_recipe",
    "complete_suite",
    "complete_task",
    "complete_task_file",
    "complete_task_of_option",
]


def complete_recipe(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Bundled recipes and files."""
    bundled = [CompletionItem(name) for name in bundled_recipes() if name.startswith(incomplete)]
    return [*bundled, CompletionItem(incomplete, type="file")]


def complete_suite(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Bundled suites and folders."""
    names = sorted(path.parent.name for path in BUNDLED.glob("*/suite.yaml"))
    bundled = [CompletionItem(name) for name in names if name.startswith(incomplete)]
    return [*bundled, CompletionItem(incomplete, type="dir")]


def complete_task(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """The tasks of the model."""
    return [CompletionItem(name) for name in _model_tasks(ctx) if name.startswith(incomplete)]


def complete_task_of_option(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """The tasks of the model that --model names, and cosine."""
    names = (*_tasks_of(Path(str(ctx.params.get("model") or ""))), "cosine")
    return [CompletionItem(name) for name in names if name.startswith(incomplete)]


def complete_task_file(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """TASK= for the tasks of the model."""
    return [CompletionItem(f"{name}=") for name in _model_tasks(ctx) if f"{name}=".startswith(incomplete)]


def complete_profile(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """The profiles of the recipe or suite."""
    tree = _tree(ctx)
    return [CompletionItem(name) for name in (tree.profiles if tree else ()) if name.startswith(incomplete)]


def complete_key(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """KEY= for the keys of a recipe; those of its tasks once `tasks.` is written."""
    from pydantic import BaseModel

    from plait.recipe.schema import Recipe, Stage
    from plait.recipe.task import Task

    tree = _tree(ctx)
    tasks, stages = (tree.values.get(key) if tree else None for key in ("tasks", "stages"))
    blocks: dict[str, type[BaseModel]] = {f"tasks.{name}": Task for name in tasks} if isinstance(tasks, dict) else {}
    blocks |= {f"stages.{number}": Stage for number in range(len(stages) if isinstance(stages, list) else 0)}
    if "." in incomplete:
        keys = [f"{block}.{key}=" for block, schema in blocks.items() for key in schema.model_fields]
    else:
        keys = [f"{key}=" for key in Recipe.model_fields if key != "tasks"] + [f"{block}." for block in blocks]
    return [CompletionItem(key) for key in keys if key.startswith(incomplete)]


def _first_argument(ctx: click.Context, name: str) -> str:
    """The first argument of the command; click leaves it unparsed while the value of an option is missing."""
    given = ctx.params.get(name) or ctx.params.get(f"{name}s") or ctx.args or ("",)
    return str(given[0] if isinstance(given, list | tuple) else given)


def _model_tasks(ctx: click.Context) -> Sequence[str]:
    """The tasks of the model that is the first argument."""
    return _tasks_of(Path(_first_argument(ctx, "model")))


def _tasks_of(model: Path) -> Sequence[str]:
    """The names of the tasks in plait.json of a model directory or a run."""
    for folder in (model, model / "best"):
        try:
            return [task["name"] for task in json.loads((folder / "plait.json").read_text(encoding="utf-8"))["tasks"]]
        except (OSError, ValueError, KeyError, TypeError):
            continue
    return []


def _tree(ctx: click.Context) -> "Tree | None":
    """The recipe, or that of the first row of the suite, on the command line."""
    from plait.errors import PlaitError
    from plait.recipe.read import find_tree
    from plait.recipe.suite import read_suite

    try:
        if "suite" not in ctx.params:
            return find_tree(_first_argument(ctx, "recipe"))
        suite = read_suite(Path(_first_argument(ctx, "suite")))
        return suite.recipe_tree(suite.trained[0])
    except (PlaitError, OSError):
        pass
    return None
