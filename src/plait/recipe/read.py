"""YAML → Recipe: every mistake at once, each with its line."""

import difflib
import sys
from collections.abc import Mapping, Sequence
from io import StringIO
from pathlib import Path
from typing import Any, Literal

from pydantic import BaseModel, ValidationError
from ruamel.yaml import YAML

from plait.errors import RecipeError, did_you_mean
from plait.recipe.bundled import bundled_recipes
from plait.recipe.options import explain
from plait.recipe.schema import FOLDERS, Recipe, Stage
from plait.recipe.stages import merge_mistakes, stage_trees
from plait.recipe.suite import is_suite, read_row
from plait.recipe.task import SPLITS, Label, Source, Task
from plait.recipe.tree import KeyPath, Origin, Tree, dotted, load_tree, try_keys
from plait.recipe.upgrade import FORMER_KEYS
from plait.recipe.validate import VariantTables, complete_choices, validate_names

__all__ = ["find_tree", "read_recipe", "recipe_from", "recipe_text", "standalone_text", "write_recipe"]


def read_recipe(
    source: str | Path,
    tables: VariantTables,
    *,
    data: Path | None = None,
    profile: str | None = None,
    overrides: Sequence[str] = (),
) -> Recipe:
    """The recipe in a file, the bundled one of that name, or a row of a suite (SUITE#ROW), with overrides."""
    return recipe_from(find_tree(source, profile), tables, data=data, overrides=overrides)


def find_tree(source: str | Path, profile: str | None = None) -> Tree:
    """The tree of a recipe before it is validated; the source is the same as for `read_recipe`."""
    path = Path(source)
    bundled = bundled_recipes()
    if not path.is_file():
        path = bundled.get(str(source), path)
    if path.is_file():
        return load_tree(path, profile)
    if "#" in str(source):
        return read_row(str(source), profile)
    if is_suite(path):
        raise RecipeError(
            f"{source}: a suite, not a recipe; train all of it with plait experiment {source}, "
            f"or one row with plait train '{source}#ROW'"
        )
    if path.is_dir():
        raise RecipeError(f"{source}: a folder, not a recipe; give a YAML file")
    names = ", ".join(bundled)
    raise RecipeError(f"{source}: no such recipe; give a YAML file, SUITE#ROW, or a bundled name: {names}")


def recipe_from(
    tree: Tree,
    tables: VariantTables,
    *,
    data: Path | None = None,
    overrides: Sequence[str] = (),
    missing_files: Literal["refuse", "keep"] = "refuse",
) -> Recipe:
    """The recipe of a tree with overrides; raises one RecipeError with all mistakes of both.

    With `missing_files="keep"`, data files that cannot be found keep the names that the recipe gives them.
    """
    tree, mistakes = try_keys(tree, overrides)
    trees, found = stage_trees(tree)
    mistakes += found
    read = [_read_stage(stage, tables, data, missing_files) for stage in trees]
    mistakes += merge_mistakes([found for _, found in read])
    recipes = [recipe for recipe, _ in read if recipe is not None]
    if mistakes or len(recipes) < len(trees):
        raise RecipeError(*dict.fromkeys(mistakes))
    return Recipe.of_stages(recipes)


def _read_stage(
    tree: Tree, tables: VariantTables, data: Path | None, missing_files: str
) -> tuple[Recipe | None, list[str]]:
    """The recipe of a tree without stages, and its mistakes."""
    mistakes: list[str] = []
    recipe: Recipe | None = None
    try:
        recipe = Recipe.model_validate(tree.values)
    except ValidationError as error:
        mistakes += [_schema_mistake(tree, dict(finding)) for finding in error.errors()]
        recipe = _without_mistakes(tree.values, error)
    if recipe is not None:
        found, recipe = complete_choices(recipe, tree, tables)
        mistakes += found
        found, recipe = _find_files(recipe, tree, data)
        mistakes += found if missing_files == "refuse" else []
        mistakes += validate_names(recipe, tree, tables)
        recipe._origins = {path: str(origin) for path, origin in tree.origins.items() if origin.line or not origin.file}
        recipe._written = (tree.written,) if tree.written else ()
    return recipe, mistakes


_PLACEHOLDERS = {"train": (), "text": (), "label": "?"}  # for required keys of a task that are missing


def _without_mistakes(values: dict[str, Any], error: ValidationError) -> Recipe | None:
    """The recipe without its invalid keys, so that the other checks can run."""
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
            keys.update({key: value for key, value in _PLACEHOLDERS.items() if key == location[2]})
        elif location and location[0] != "tasks":
            kept.pop(str(location[0]), None)
    try:
        return Recipe.model_validate({"encoder": "?", **kept})
    except ValidationError:
        return None


def _schema_mistake(tree: Tree, finding: Mapping[str, Any]) -> str:
    """One finding of the schema, as file:line: key: what is wrong."""
    path = _written_path(tree.values, finding["loc"])
    *above, key = tree.as_written(path) or ("",)
    if finding["type"] == "extra_forbidden":
        allowed = _schema_at(path[:-1], in_stage=above[:1] == ["stages"]).model_fields
        where, current = f"{tree.origin(path)}: {dotted(tuple(above))}", FORMER_KEYS.get(str(key))
        if current in allowed:
            return f"{where}{key!r} is now called {current!r}"
        return f"{where}unknown key {key!r}; {did_you_mean(str(key), allowed)}"
    if finding["type"] == "missing":
        return f"{tree.origin_of(tuple(above))}: {dotted(tuple(above))}missing key {key!r}"
    return f"{tree.where(path)}{explain(finding)}"


_UNWRITTEN = ("options", "sources", "share")  # levels of the schema that a recipe does not write


def _written_path(values: Any, location: KeyPath) -> KeyPath:
    """pydantic's location without the levels that a recipe does not write: `0` for a single loss, `options`."""
    path: KeyPath = ()
    for part in location:
        if (isinstance(part, int) and not isinstance(values, list)) or (
            part in _UNWRITTEN and not (isinstance(values, Mapping) and part in values)
        ):
            continue
        path = (*path, part)
        if isinstance(values, list) and isinstance(part, int):
            values = values[part]
        else:
            values = values.get(part) if isinstance(values, Mapping) else None
    return path


def _schema_at(path: KeyPath, *, in_stage: bool) -> type[BaseModel]:
    """The part of the schema whose keys belong at a path."""
    if len(path) == 2 and path[0] == "tasks":
        return Task
    if len(path) > 2 and path[2] in SPLITS:
        return Source
    return Label if path and path[-1] == "label" else Stage if in_stage else Recipe


def _find_files(recipe: Recipe, tree: Tree, data: Path | None) -> tuple[list[str], Recipe]:
    """The recipe with absolute paths: in the folder of --data, or beside the file that names them."""
    mistakes: list[str] = []

    def find(source: Source, path: KeyPath) -> Source:
        if source.on_hub:
            return source
        name, beside = source.file, _folder_of(tree.origin(path))
        if file := _find_file(name, beside, data):
            return source.model_copy(update={"file": file})
        looked = f"{data} and {beside}" if data else str(beside)
        hint = _closest_file(name, beside, data)
        mistakes.append(f"{tree.where(path)}no file {name!r} in {looked}; {hint}")
        return source

    tasks = {}
    for task_name, task in recipe.tasks.items():
        changes = {}
        for split in SPLITS:
            path = ("tasks", task_name, split)
            if task.share(split) is None:
                changes[split] = tuple(find(source, path) for source in getattr(task, split))
        tasks[task_name] = task.model_copy(update=changes)
    folders = {key: _find_folder(tree, key, name) for key in FOLDERS if (name := getattr(recipe, key))}
    return mistakes, recipe.model_copy(update={"tasks": tasks, **folders})


def _find_folder(tree: Tree, key: str, name: str) -> str:
    """The absolute path of a folder beside the recipe; otherwise the name as it is."""
    folder = _folder_of(tree.origin((key,))) / name
    return str(folder.resolve()) if folder.is_dir() else name


def _find_file(name: str, beside: Path, data: Path | None) -> str | None:
    """The absolute path of a data file, if it exists."""
    places = [beside / name] if data is None else [data / name, data / Path(name).name, beside / name]
    return next((str(place.resolve()) for place in places if place.is_file()), None)


def _closest_file(name: str, beside: Path, data: Path | None) -> str:
    """What to do about a missing file: take one with a similar name, or look elsewhere."""
    places = [(folder / name).parent for folder in (data, beside) if folder]
    there = [file.name for place in places if place.is_dir() for file in place.iterdir() if file.is_file()]
    elsewhere = "give its folder with `data`"
    if close := difflib.get_close_matches(Path(name).name, there, n=1, cutoff=0.8):
        meant = f"did you mean {str(Path(name).with_name(close[0]))!r}?"
        return meant if data else f"{meant} If not, {elsewhere}"
    return f"check the name, or {elsewhere}"


def _folder_of(origin: Origin) -> Path:
    """The folder that relative names refer to: that of the file that contains them."""
    return origin.file.resolve().parent if origin.file else Path.cwd()


def write_recipe(recipe: Recipe, path: Path) -> None:
    """Write the complete recipe, with every default, as YAML."""
    path.write_text(recipe_text(recipe.model_dump(mode="json")), encoding="utf-8")


def standalone_text(tree: Tree, data: Path | None = None) -> str:
    """The recipe of a tree as YAML that any folder can hold: files and encoders that exist get absolute paths."""
    values = _with_absolute_files(tree, (), data)
    for key in FOLDERS:
        if isinstance(name := values.get(key), str):
            values[key] = _find_folder(tree, key, name)
    if isinstance(stages := values.get("stages"), list):
        values["stages"] = [_with_absolute_files(tree, ("stages", number), data) for number in range(len(stages))]
    return recipe_text(values)


def _with_absolute_files(tree: Tree, path: KeyPath, data: Path | None) -> Any:
    """The keys of the recipe, or of a stage, with the data files of their tasks that exist as absolute paths."""

    def absolute(value: Any, beside: Path) -> Any:
        if isinstance(value, list):
            return [absolute(item, beside) for item in value]
        if isinstance(value, Mapping):
            return {key: absolute(item, beside) if key == "file" else item for key, item in value.items()}
        return (_find_file(value, beside, data) or value) if isinstance(value, str) else value

    keys: Any = tree.values
    for part in path:
        keys = keys[part]
    if not isinstance(keys, Mapping) or not isinstance(tasks := keys.get("tasks"), Mapping):
        return keys
    new = {}
    for name, task in tasks.items():
        new[name] = task
        if isinstance(task, Mapping):
            folders = {key: _folder_of(tree.origin((*path, "tasks", name, key))) for key in SPLITS}
            new[name] = {key: absolute(value, folders[key]) if key in SPLITS else value for key, value in task.items()}
    return {**keys, "tasks": new}


def recipe_text(keys: Mapping[str, Any]) -> str:
    """The keys of a recipe as YAML."""
    yaml = YAML()
    yaml.default_flow_style = False
    yaml.width = sys.maxsize  # folding a long text would insert a space
    yaml.allow_unicode = False  # some Unicode characters count as line breaks in YAML
    text = StringIO()
    yaml.dump(dict(keys), text)
    return text.getvalue()
