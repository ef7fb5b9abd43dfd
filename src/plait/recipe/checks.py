"""What a recipe names, checked against what there is: variants, their options, tasks and columns."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from plait.errors import RecipeError, did_you_mean
from plait.recipe.options import complete_options, options_of
from plait.recipe.schema import SPLITS, Choice, LossChoice, Recipe, Task
from plait.recipe.tree import KeyPath, Tree, dotted

__all__ = ["Tables", "check_choices", "check_names"]

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
