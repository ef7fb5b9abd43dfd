"""YAML → Recipe: every mistake at once, each with its line."""

import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from io import StringIO
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ValidationError
from ruamel.yaml import YAML

from plait.errors import RecipeError, did_you_mean
from plait.recipe.options import complete_options, explain, options_of
from plait.recipe.schema import Choice, Label, LossChoice, Recipe, Source, Stage, Task
from plait.recipe.stages import stage_trees, told_once
from plait.recipe.tree import KeyPath, Origin, Tree, dotted, load_tree, set_keys

__all__ = ["Tables", "read_recipe", "recipe_from", "recipe_text", "write_recipe"]

SPLITS = ("train", "dev", "test")
BUNDLED = Path(__file__).parent.parent / "recipes"
Variants = Mapping[str, Callable[..., Any]]


@dataclass(frozen=True)
class Tables:
    """The variants that a recipe may name, handed in by the caller."""

    heads: Mapping[str, Any]
    losses: Variants
    shorthands: Variants  # names for several weighted losses
    schedules: Variants
    lr_schedules: Variants
    optimizers: Variants
    shared_layers: Variants
    combiners: Variants
    find_combiner: Callable[[str], object]  # also of those that another package has; raises RecipeError
    poolings: Variants
    makes: Variants
    metrics: Mapping[str, Sequence[str]]  # by kind of label
    reads: Mapping[str, int]  # way of reading → number of text columns


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


def check_choices(recipe: Recipe, tree: Tree, tables: Tables) -> tuple[list[str], Recipe]:
    """Mistakes in the named variants and their options; the recipe with every option filled in."""
    mistakes: list[str] = []

    def settle(choice: Choice, variants: Variants, path: KeyPath) -> Choice:
        if choice.name not in variants:
            mistakes.append(f"{tree.where(path)}unknown name {choice.name!r}; {did_you_mean(choice.name, variants)}")
            return choice
        options, found = complete_options(variants[choice.name], choice.options)
        for mistake in found:
            key = next((key for key in choice.options if f"{key!r}" in mistake or mistake.startswith(f".{key}:")), "")
            name = dotted((*tree.as_written(path), choice.name)).removesuffix(": ")
            mistakes.append(f"{tree.origin((*path, key))}: {name}{mistake}")
        return choice.model_copy(update={"options": options})

    def parts(loss: LossChoice, path: KeyPath) -> list[LossChoice]:
        if loss.name not in tables.shorthands:
            return [loss]
        shorthand = tables.shorthands[loss.name]
        allowed = [*options_of(shorthand), *options_of(tables.losses[[*shorthand()][-1]])]
        if unknown := [key for key in loss.options if key not in allowed]:
            name = dotted((*tree.as_written(path), loss.name))
            mistakes.extend(
                f"{tree.origin((*path, key))}: {name}unknown key {key!r}; {did_you_mean(str(key), allowed)}"
                for key in unknown
            )
            known = {key: value for key, value in loss.options.items() if key in allowed}
            loss = loss.model_copy(update={"options": known})
        own = {key: value for key, value in loss.options.items() if key in options_of(shorthand)}
        others = {key: value for key, value in loss.options.items() if key not in own}
        weights = shorthand(**settle(loss.model_copy(update={"options": own}), tables.shorthands, path).options)
        *firsts, last = ((name, loss.weight * weight) for name, weight in weights.items())
        rest = loss.model_copy(update={"name": last[0], "weight": last[1], "options": others})
        return [*(LossChoice(name=name, weight=weight) for name, weight in firsts), rest]

    tasks = {}
    for name, task in recipe.tasks.items():
        path: KeyPath = ("tasks", name)
        changes: dict[str, Any] = {}
        if task.make:
            changes["make"] = settle(task.make, tables.makes, (*path, "make"))
        if task.head:
            changes["head"] = settle(task.head, tables.heads, (*path, "head"))
        if task.loss:
            listed = isinstance(tree.values["tasks"][name].get("loss"), list)
            changes["loss"] = tuple(
                settle(part, tables.losses, place)
                for index, loss in enumerate(task.loss)
                for place in [(*path, "loss", index) if listed else (*path, "loss")]
                for part in parts(loss, place)
            )
        tasks[name] = task.model_copy(update=changes)
    shared, schedule = recipe.shared_layer, recipe.schedule
    if "combine" in schedule.options and not combines(schedule, tables):
        why = f"{schedule.name} trains one task a step, so there is nothing to combine; take it away, or take together"
        mistakes.append(f"{tree.where(('schedule', 'combine'))}{why}")
        kept = {key: value for key, value in schedule.options.items() if key != "combine"}
        schedule = schedule.model_copy(update={"options": kept})
    complete = recipe.model_copy(
        update={
            "tasks": tasks,
            "schedule": settle(schedule, tables.schedules, ("schedule",)),
            "lr_schedule": settle(recipe.lr_schedule, tables.lr_schedules, ("lr_schedule",)),
            "optimizer": settle(recipe.optimizer, tables.optimizers, ("optimizer",)),
            **({"shared_layer": settle(shared, tables.shared_layers, ("shared_layer",))} if shared else {}),
        }
    )
    return mistakes, complete


def combines(schedule: Choice, tables: Tables) -> bool:
    """Whether a schedule has gradients to combine, as far as it is known."""
    return schedule.name not in tables.schedules or "combine" in options_of(tables.schedules[schedule.name])


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


def check_names(recipe: Recipe, tree: Tree, tables: Tables) -> Iterator[str]:
    """Names that must be tasks, ways of reading that must fit the text columns, choices that exclude each other."""

    def unknown(path: KeyPath, name: str, allowed: Sequence[str]) -> str:
        return f"{tree.where(path)}unknown name {name!r}; {did_you_mean(name, allowed)}"

    tasks = list(recipe.tasks)
    for path, name, allowed in (
        (("pooling",), recipe.pooling, list(tables.poolings)),
        (("best_by",), recipe.best_by, ["mean", *tasks]),
    ):
        if isinstance(name, str) and name not in allowed:
            yield unknown(path, name, allowed)
    combine = recipe.schedule.options.get("combine")
    if isinstance(combine, str):
        try:
            tables.find_combiner(combine)
        except RecipeError as error:
            yield f"{tree.where(('schedule', 'combine'))}{error}"
    if recipe.epochs and recipe.steps:
        yield f"{tree.origin(('steps',))}: give epochs or steps, not both; null takes one away"
    for name in tasks:
        if not name or "." in name or name in ("mean", "longest", "shortest"):
            *above, _ = tree.as_written(("tasks", name))
            where = f"{tree.origin(('tasks', name))}: {dotted(tuple(above))}"
            yield f"{where}{name!r} cannot be the name of a task; choose another"
    if recipe.schedule.options.get("t") is not None and recipe.schedule.options.get("by") != "temperature":
        yield f"{tree.where(('schedule', 't'))}belongs to by: temperature"
    for key, special in (("order", ()), ("weights", ()), ("epoch", ("longest", "shortest"))):
        value = recipe.schedule.options.get(key) or ()
        names = [value] if isinstance(value, str) else value if isinstance(value, list | tuple | dict) else ()
        for name in names:
            if name not in (*tasks, *special):
                yield unknown(("schedule", key), name, [*tasks, *special])
            elif name in tasks and not recipe.tasks[name].learn:
                yield f"{tree.where(('schedule', key))}no step trains the task {name!r}, it has learn: false"
    order = recipe.schedule.options.get("order") or tasks
    if tasks and not recipe.learning:
        yield f"{tree.where(('tasks',))}every task has learn: false; there is nothing to train"
    for name in recipe.learning:
        if isinstance(order, list | tuple) and name not in order:
            yield f"{tree.where(('schedule', 'order'))}leaves out the task {name!r}"
    if recipe.steps and recipe.schedule.name == "sequential":
        yield f"{tree.where(('steps',))}sequential trains each task for its epochs; give epochs"
    for name, task in recipe.tasks.items():
        yield from check_task(name, task, recipe, tree, tables)


def check_task(name: str, task: Task, recipe: Recipe, tree: Tree, tables: Tables) -> Iterator[str]:
    """What one task says that cannot be meant, as far as it shows without its data."""
    path: KeyPath = ("tasks", name)
    if not task.text and tree.values["tasks"][name].get("text") not in ([], ()):
        return  # already told that it is missing or not a column
    where = tree.where((*path, "text"))
    if len(task.text) not in (1, 2, 3):
        yield f"{where}expected one column, two for a pair, or three for a triplet, found {len(task.text)}"
        return
    if len(set(task.text)) < len(task.text):
        yield f"{where}the same column twice: {', '.join(task.text)}"
    if task.make and (len(task.text) != 2 or task.label is None or len(task.label.column) != 1):
        where = tree.where((*path, "make"))
        yield f"{where}needs two text columns, premise and hypothesis, and one of labels"
    texts = 3 if task.make else len(task.text)
    if len(task.text) == 3 and task.label:
        yield f"{tree.where((*path, 'label'))}triplets have no label; take it away"
    elif len(task.text) < 3 and task.label is None and task.loss is None:
        yield f"{tree.where(path)}missing key 'label'"
    if recipe.fold and task.test:
        yield f"{tree.where((*path, 'test'))}with fold the test data is a fold of train; take it away, or the fold"
    if sum(task.share(split) or 0 for split in SPLITS) >= 1:
        yield f"{tree.where((*path, 'test'))}dev and test leave no training data"
    if task.head and task.head.name in tables.heads:
        head = tables.heads[task.head.name]
        where = tree.where((*path, "head"))
        needed = tables.reads[head.reads]
        if needed != texts:
            kind = ("one text", "two texts", "three texts")[needed - 1]
            fitting = [other for other, variant in tables.heads.items() if tables.reads[variant.reads] == texts]
            yield f"{where}{task.head.name} reads {kind}, the task has {texts}; fitting: {', '.join(fitting)}"
        if recipe.shared_layer and not head.after_shared_layer:
            yield f"{where}{task.head.name} compares embeddings and cannot stand behind a shared_layer; drop one"
    metrics = {metric for metrics in tables.metrics.values() for metric in metrics}
    if task.metric and task.metric not in metrics:
        where = tree.where((*path, "metric"))
        yield f"{where}unknown name {task.metric!r}; {did_you_mean(task.metric, metrics)}"


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
