"""YAML → Recipe: every mistake at once, each with its line."""

import sys
from collections.abc import Mapping, Sequence
from io import StringIO
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ValidationError
from ruamel.yaml import YAML

from plait.errors import RecipeError, did_you_mean
from plait.recipe.checks import Tables, check_choices, check_names
from plait.recipe.options import explain
from plait.recipe.schema import SPLITS, Label, Recipe, Source, Stage, Task
from plait.recipe.stages import stage_trees, told_once
from plait.recipe.tree import KeyPath, Origin, Tree, dotted, load_tree, set_keys

__all__ = ["read_recipe", "recipe_from", "recipe_text", "write_recipe"]

BUNDLED = Path(__file__).parent.parent / "recipes"


def read_recipe(
    source: str | Path,
    tables: Tables,
    *,
    data: Path | None = None,
    profile: str | None = None,
    assignments: Sequence[str] = (),
) -> Recipe:
    """The recipe in a file, or the bundled one of that name, with the command line's changes."""
    path = Path(source)
    if not path.is_file() and (bundled := BUNDLED / f"{source}.yaml").is_file():
        path = bundled
    if not path.is_file():
        names = sorted(file.stem for file in BUNDLED.glob("*.yaml"))
        raise RecipeError(f"{source}: no such recipe; give a YAML file, or a bundled name: {', '.join(names)}")
    return recipe_from(set_keys(load_tree(path, profile), assignments), tables, data=data)


def recipe_from(tree: Tree, tables: Tables, *, data: Path | None = None) -> Recipe:
    """The recipe of a tree; raises one RecipeError with every mistake in it."""
    trees, mistakes = stage_trees(tree)
    read = [read_stage(stage, tables, data) for stage in trees]
    mistakes += told_once([found for _, found in read])
    recipes = [recipe for recipe, _ in read if recipe is not None]
    if mistakes or len(recipes) < len(trees):
        raise RecipeError(*dict.fromkeys(mistakes))
    return Recipe.of_stages(recipes)


def read_stage(tree: Tree, tables: Tables, data: Path | None) -> tuple[Recipe | None, list[str]]:
    """The recipe of a tree without stages, and its mistakes."""
    mistakes: list[str] = []
    recipe: Recipe | None = None
    try:
        recipe = Recipe.model_validate(tree.values)
    except ValidationError as error:
        mistakes += [shape_mistake(tree, dict(finding)) for finding in error.errors()]
        recipe = without_mistakes(tree.values, error)
    if recipe is not None:
        found, recipe = check_choices(recipe, tree, tables)
        mistakes += found
        found, recipe = find_files(recipe, tree, data)
        mistakes += found
        mistakes += check_names(recipe, tree, tables)
        recipe._origins = {path: str(origin) for path, origin in tree.origins.items() if origin.line or not origin.file}
        recipe._written = (tree.written,) if tree.written else ()
    return recipe, mistakes


UNKNOWN = {"train": (), "text": (), "label": "?"}  # stand-ins for what a task needs and does not say


def without_mistakes(values: dict[str, Any], error: ValidationError) -> Recipe | None:
    """What is left of a recipe when the keys with mistakes are taken out, so that the other checks can go on."""
    kept: dict[str, Any] = {
        key: {name: dict(keys) if isinstance(keys, dict) else keys for name, keys in value.items()}
        if key == "tasks" and isinstance(value, dict)
        else value
        for key, value in values.items()
    }
    for finding in error.errors():
        location = finding["loc"]
        if len(location) == 2 and location[0] == "tasks":
            kept["tasks"].pop(location[1], None)
        elif len(location) >= 3 and location[0] == "tasks":
            keys = kept["tasks"][location[1]]
            keys.pop(location[2], None)
            keys.update({key: value for key, value in UNKNOWN.items() if key == location[2]})
        elif location and location[0] != "tasks":
            kept.pop(str(location[0]), None)
    try:
        return Recipe.model_validate({"encoder": "?", **kept})
    except ValidationError:
        return None


def shape_mistake(tree: Tree, finding: Mapping[str, Any]) -> str:
    """One finding of the schema, as file:line: key: what."""
    path = spelled(tree.values, finding["loc"])
    *above, key = tree.as_written(path) or ("",)
    if finding["type"] == "extra_forbidden":
        allowed = model_at(path[:-1], in_stage=above[:1] == ["stages"]).model_fields
        return f"{tree.origin(path)}: {dotted(tuple(above))}unknown key {key!r}; {did_you_mean(str(key), allowed)}"
    if finding["type"] == "missing":
        return f"{tree.origin_of(tuple(above))}: {dotted(tuple(above))}missing key {key!r}"
    return f"{tree.where(path)}{explain(finding)}"


UNSPELLED = ("options", "sources", "share")  # steps of the schema that a recipe does not write


def spelled(values: Any, location: KeyPath) -> KeyPath:
    """pydantic's location without the steps that the recipe does not spell: `0` of a single loss, `options`."""
    path: KeyPath = ()
    for part in location:
        if (isinstance(part, int) and not isinstance(values, list)) or (
            part in UNSPELLED and not (isinstance(values, Mapping) and part in values)
        ):
            continue
        path = (*path, part)
        if isinstance(values, list) and isinstance(part, int):
            values = values[part]
        else:
            values = values.get(part) if isinstance(values, Mapping) else None
    return path


def model_at(path: KeyPath, *, in_stage: bool) -> type[BaseModel]:
    """The part of the schema whose keys stand at a path."""
    if len(path) == 2 and path[0] == "tasks":
        return Task
    if len(path) > 2 and path[2] in SPLITS:
        return Source
    return Label if path and path[-1] == "label" else Stage if in_stage else Recipe


def find_files(recipe: Recipe, tree: Tree, data: Path | None) -> tuple[list[str], Recipe]:
    """The recipe with absolute paths: below --data, or beside the file that names them."""
    mistakes: list[str] = []

    def find(source: Source, path: KeyPath) -> Source:
        if source.on_hub:
            return source
        name, beside = source.file, folder_of(tree.origin(path))
        places = [beside / name] if data is None else [data / name, data / Path(name).name, beside / name]
        for place in places:
            if place.is_file():
                return source.model_copy(update={"file": str(place.resolve())})
        looked = f"{data} and {beside}" if data else str(beside)
        mistakes.append(f"{tree.where(path)}no file {name!r} in {looked}")
        return source

    tasks = {}
    for task_name, task in recipe.tasks.items():
        changes = {}
        for split in SPLITS:
            path = ("tasks", task_name, split)
            if task.share(split) is None:
                changes[split] = tuple(find(source, path) for source in getattr(task, split))
        tasks[task_name] = task.model_copy(update=changes)
    encoder = folder_of(tree.origin(("encoder",))) / recipe.encoder
    name = str(encoder.resolve()) if encoder.is_dir() else recipe.encoder
    return mistakes, recipe.model_copy(update={"tasks": tasks, "encoder": name})


def folder_of(origin: Origin) -> Path:
    """The folder that relative names are looked for in: that of the file which has them."""
    return origin.file.resolve().parent if origin.file else Path.cwd()


def write_recipe(recipe: Recipe, path: Path) -> None:
    """The complete recipe, with no default left out, as YAML."""
    path.write_text(recipe_text(recipe.model_dump(mode="json")), encoding="utf-8")


def recipe_text(keys: Mapping[str, Any]) -> str:
    """The keys of a recipe as YAML."""
    yaml = YAML()
    yaml.default_flow_style = False
    yaml.width = sys.maxsize  # where a long text is folded, a blank comes into it
    yaml.allow_unicode = False  # some characters of Unicode end a line there
    text = StringIO()
    yaml.dump(dict(keys), text)
    return text.getvalue()
