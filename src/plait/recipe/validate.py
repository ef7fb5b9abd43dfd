"""The names in a recipe against what exists: variants, their options, tasks and columns."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from plait.errors import RecipeError, did_you_mean
from plait.names import excerpt, name_problem
from plait.recipe.choices import Choice, LossChoice
from plait.recipe.options import complete_options, options_of
from plait.recipe.schema import Recipe
from plait.recipe.task import SPLITS, Task
from plait.recipe.tree import KeyPath, Tree, dotted
from plait.registry import Registry

__all__ = ["VariantTable", "VariantTables", "complete_choices", "validate_names"]

_TAKEN = ("mean", "longest", "shortest")  # words that stand beside the names of tasks


@dataclass(frozen=True)
class VariantTable:
    """The variants of one thing, and the function or class of each whose keyword-only parameters are its options."""

    variants: Mapping[str, Any]
    function: Callable[[Any], Callable[..., Any]] = lambda variant: variant

    def __contains__(self, name: str) -> bool:
        return name in self.variants

    def __iter__(self) -> Iterator[str]:
        return iter(self.variants)

    def __getitem__(self, name: str) -> Callable[..., Any]:
        return self.function(self.variants[name])

    def unknown(self, name: str) -> str:
        """A message about a name that is not there."""
        if isinstance(self.variants, Registry):
            return self.variants.unknown(name)
        return f"unknown name {name!r}; {did_you_mean(name, self.variants)}"


@dataclass(frozen=True)
class VariantTables:
    """Everything that a recipe may name, passed in by the caller."""

    heads: VariantTable
    losses: VariantTable
    shorthands: VariantTable  # names for several weighted losses
    schedules: VariantTable
    lr_schedules: VariantTable
    optimizers: VariantTable
    shared_layers: VariantTable
    adapters: VariantTable
    combiners: VariantTable
    find_combiner: Callable[[str], object]  # including those of other packages; raises RecipeError
    poolings: VariantTable
    derivations: VariantTable
    metrics: Mapping[str, Any]
    reads: Mapping[str, int]  # way of reading → number of text columns


def complete_choices(recipe: Recipe, tree: Tree, tables: VariantTables) -> tuple[list[str], Recipe]:
    """Mistakes in the named variants and their options, and the recipe with every option filled in."""
    mistakes: list[str] = []

    def complete(choice: Choice, table: VariantTable, path: KeyPath) -> Choice:
        if choice.name not in table:
            mistakes.append(f"{tree.where(path)}{table.unknown(choice.name)}")
            return choice
        options, found = complete_options(table[choice.name], choice.options)
        for mistake in found:
            key = next((key for key in choice.options if f"{key!r}" in mistake or mistake.startswith(f".{key}:")), "")
            name = dotted((*tree.as_written(path), choice.name)).removesuffix(": ")
            mistakes.append(f"{tree.origin((*path, key))}: {name}{mistake}")
        return choice.model_copy(update={"options": options})

    def expand(loss: LossChoice, path: KeyPath) -> list[LossChoice]:
        """The losses that a shorthand stands for."""
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
        weights = shorthand(**complete(loss.model_copy(update={"options": own}), tables.shorthands, path).options)
        *firsts, last = ((name, loss.weight * weight) for name, weight in weights.items())
        rest = loss.model_copy(update={"name": last[0], "weight": last[1], "options": others})
        return [*(LossChoice(name=name, weight=weight) for name, weight in firsts), rest]

    tasks = {}
    for name, task in recipe.tasks.items():
        path: KeyPath = ("tasks", name)
        changes: dict[str, Any] = {}
        if task.derive:
            changes["derive"] = complete(task.derive, tables.derivations, (*path, "derive"))
        if task.head and not task.head.same_as:
            changes["head"] = complete(task.head, tables.heads, (*path, "head"))
        if task.loss:
            listed = isinstance(tree.values["tasks"][name].get("loss"), list)
            changes["loss"] = tuple(
                complete(part, tables.losses, place)
                for index, loss in enumerate(task.loss)
                for place in [(*path, "loss", index) if listed else (*path, "loss")]
                for part in expand(loss, place)
            )
        tasks[name] = task.model_copy(update=changes)
    shared, adapt, schedule = recipe.shared_layer, recipe.adapt, recipe.schedule
    if "combine" in schedule.options and not _combines(schedule, tables):
        why = f"{schedule.name} trains one task per step, so there is nothing to combine; remove it, or use together"
        mistakes.append(f"{tree.where(('schedule', 'combine'))}{why}")
        kept = {key: value for key, value in schedule.options.items() if key != "combine"}
        schedule = schedule.model_copy(update={"options": kept})
    completed = recipe.model_copy(
        update={
            "tasks": tasks,
            "schedule": complete(schedule, tables.schedules, ("schedule",)),
            "lr_schedule": complete(recipe.lr_schedule, tables.lr_schedules, ("lr_schedule",)),
            "pooling": complete(recipe.pooling, tables.poolings, ("pooling",)),
            "optimizer": complete(recipe.optimizer, tables.optimizers, ("optimizer",)),
            **({"shared_layer": complete(shared, tables.shared_layers, ("shared_layer",))} if shared else {}),
            **({"adapt": complete(adapt, tables.adapters, ("adapt",))} if adapt else {}),
        }
    )
    return mistakes, completed


def _combines(schedule: Choice, tables: VariantTables) -> bool:
    """Whether a schedule has gradients to combine, as far as it is known."""
    return schedule.name not in tables.schedules or "combine" in options_of(tables.schedules[schedule.name])


def validate_names(recipe: Recipe, tree: Tree, tables: VariantTables) -> Iterator[str]:
    """Names that must be tasks, ways of reading that must match the text columns, keys that exclude each other."""
    tasks = list(recipe.tasks)
    if recipe.best_by not in ("mean", *tasks):
        yield f"{tree.where(('best_by',))}{_unknown(recipe.best_by, ['mean', *tasks])}"
    if recipe.refit and tree.values.get("stages"):
        yield f"{tree.where(('refit',))}a recipe with stages cannot be refitted; drop refit"
    elif recipe.refit and not any(task.share("dev") for task in recipe.tasks.values()):
        yield f"{tree.where(('refit',))}no task has a share of train as dev, so there are no more rows to train on"
    cut = recipe.train_rows or any(task.train_rows for task in recipe.tasks.values())
    if recipe.draw is not None and not cut and not tree.values.get("stages"):
        yield f"{tree.where(('draw',))}there is nothing to draw; add train_rows, or drop draw"
    for key in ("adapt", "chunk"):
        if getattr(recipe, key) is not None and not recipe.train_encoder:
            yield f"{tree.where((key,))}is about training the encoder; drop it, or drop train_encoder: false"
    if recipe.epochs and recipe.steps:
        yield f"{tree.origin(('steps',))}: give epochs or steps, not both; null removes one"
    for name in tasks:
        problem = name_problem(name)
        if problem or "." in name or name in _TAKEN:
            *above, _ = tree.as_written(("tasks", name))
            where = f"{tree.origin(('tasks', name))}: {dotted(tuple(above))}"
            why = f"; it {problem}" if problem else ""
            yield f"{where}{excerpt(name)!r} cannot be the name of a task{why}; choose another"
    if tasks and not recipe.learning:
        yield f"{tree.where(('tasks',))}every task has learn: false; there is nothing to train"
    yield from _validate_schedule(recipe, tree, tables)
    for name, task in recipe.tasks.items():
        yield from _validate_task(name, task, recipe, tree, tables)


def _validate_schedule(recipe: Recipe, tree: Tree, tables: VariantTables) -> Iterator[str]:
    options, tasks = recipe.schedule.options, list(recipe.tasks)
    combine = options.get("combine")
    if isinstance(combine, str):
        try:
            tables.find_combiner(combine)
        except RecipeError as error:
            yield f"{tree.where(('schedule', 'combine'))}{error}"
    if options.get("t") is not None and options.get("by") != "temperature":
        yield f"{tree.where(('schedule', 't'))}belongs to by: temperature"
    for key, special in (("order", ()), ("weights", ()), ("epoch", ("longest", "shortest"))):
        value = options.get(key) or ()
        names = [value] if isinstance(value, str) else value if isinstance(value, list | tuple | dict) else ()
        for name in names:
            if name not in (*tasks, *special):
                yield f"{tree.where(('schedule', key))}{_unknown(name, [*tasks, *special])}"
            elif name in tasks and not recipe.tasks[name].learn:
                yield f"{tree.where(('schedule', key))}the task {name!r} is not trained, it has learn: false"
    order = options.get("order") or tasks
    for name in recipe.learning:
        if isinstance(order, list | tuple) and name not in order:
            yield f"{tree.where(('schedule', 'order'))}the task {name!r} is missing"
    variants = tables.schedules.variants
    if recipe.steps and recipe.schedule.name in variants and variants[recipe.schedule.name].task_by_task:
        yield f"{tree.where(('steps',))}{recipe.schedule.name} trains each task for its own epochs; give epochs instead"


def _validate_task(name: str, task: Task, recipe: Recipe, tree: Tree, tables: VariantTables) -> Iterator[str]:
    """What is invalid about a task, as far as can be seen without its data."""
    path: KeyPath = ("tasks", name)
    if not task.text and tree.values["tasks"][name].get("text") not in ([], ()):
        return  # already reported as missing or not a column
    where = tree.where((*path, "text"))
    if len(task.text) not in (1, 2, 3):
        yield f"{where}expected one column, two for a pair, or three for a triplet, found {len(task.text)}"
        return
    if len(set(task.text)) < len(task.text):
        yield f"{where}the same column twice: {', '.join(task.text)}"
    if task.derive and (len(task.text) != 2 or task.label is None or len(task.label.column) != 1):
        where = tree.where((*path, "derive"))
        yield f"{where}needs two text columns, premise and hypothesis, and one label column"
    texts = 3 if task.derive else len(task.text)
    if len(task.text) == 3 and task.label:
        yield f"{tree.where((*path, 'label'))}triplets have no label; remove it"
    elif len(task.text) < 3 and task.label is None and task.loss is None:
        yield f"{tree.where(path)}missing key 'label'"
    if recipe.fold and task.test:
        yield f"{tree.where((*path, 'test'))}with fold, the test data is a fold of train; remove test or fold"
    if sum(task.share(split) or 0 for split in SPLITS) >= 1:
        yield f"{tree.where((*path, 'test'))}dev and test leave no training data"
    if task.head and task.head.name in tables.heads:
        head = tables.heads.variants[task.head.name]
        where = tree.where((*path, "head"))
        needed = tables.reads[head.reads]
        if needed != texts:
            reads = ("one text", "two texts", "three texts")[needed - 1]
            fitting = [
                other for other, variant in tables.heads.variants.items() if tables.reads[variant.reads] == texts
            ]
            yield f"{where}{task.head.name} reads {reads}, the task has {texts}; suitable: {', '.join(fitting)}"
        if recipe.shared_layer and not head.after_shared_layer:
            yield f"{where}{task.head.name} compares embeddings and cannot follow a shared_layer; remove one of them"
    if task.head and task.head.same_as:
        yield from _validate_shared_head(name, task.head.same_as, recipe, tree)
    if task.metric and task.metric not in tables.metrics:
        yield f"{tree.where((*path, 'metric'))}{_unknown(task.metric, tables.metrics)}"


def _validate_shared_head(name: str, other: str, recipe: Recipe, tree: Tree) -> Iterator[str]:
    """A head that belongs to the task itself, or to one that has it from another; other stages are not known here."""
    where = tree.where(("tasks", name, "head", "same_as"))
    if other == name:
        yield f"{where}{name!r} is this task; name another, or give the head itself"
    elif other in recipe.tasks and (head := recipe.tasks[other].head) and head.same_as:
        whose = "a head" if head.same_as in (name, other) else f"the head of {head.same_as!r}"
        hint = "give one of them a head" if head.same_as in (name, other) else f"write same_as: {head.same_as}"
        yield f"{where}the task {other!r} itself uses {whose} by same_as; {hint}"


def _unknown(name: str, allowed: Sequence[str] | Iterable[str]) -> str:
    return f"unknown name {name!r}; {did_you_mean(name, allowed)}"
