"""The tree of a recipe → one tree a stage, so that a stage is read as a recipe without stages is."""

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from plait.errors import did_you_mean
from plait.recipe.schema import WholeRun
from plait.recipe.tree import KeyPath, Tree

__all__ = ["stage_trees", "told_once"]

EITHER = {"epochs": "steps", "steps": "epochs"}  # a stage that gives one of them takes no default of the other


def stage_trees(tree: Tree) -> tuple[list[Tree], list[str]]:
    """The tree of each stage, complete with what the top gives, and what is wrong with the stages as such."""
    if (stages := tree.values.get("stages")) is None:
        return [Tree({key: value for key, value in tree.values.items() if key != "stages"}, tree.origins)], []
    if not isinstance(stages, list) or not stages:
        found = "keys and values" if isinstance(stages, Mapping) else "an empty list" if stages == [] else repr(stages)
        return [], [f"{tree.where(('stages',))}expected a list of stages, each with its keys, found {found}"]
    trees: list[Tree] = []
    mistakes: list[str] = []
    for number, block in enumerate(stages):
        if not isinstance(block, Mapping):
            mistakes.append(f"{tree.where(('stages', number))}expected keys and values, found {block!r}")
            continue
        mistakes += check_block(tree, number, block)
        trees.append(stage_tree(tree, number, block))
    if len(trees) == len(stages):
        trained = {name for stage in trees for name in as_mapping(stage.values.get("tasks"))}
        idle = [name for name in as_mapping(tree.values.get("tasks")) if name not in trained]
        mistakes += [f"{tree.where(('tasks', name))}no stage trains this task" for name in idle]
    return trees, mistakes


def told_once(found: Sequence[Sequence[str]]) -> list[str]:
    """The mistakes of all stages, each once; what stands at the top and is wrong for some stages names these."""
    told: dict[str, None] = {}
    for mistake in dict.fromkeys(mistake for stage in found for mistake in stage):
        places = [f"stages.{number}" for number, stage in enumerate(found) if mistake in stage]
        everywhere = len(places) == len(found) or re.search(r"(^|: )stages\.\d", mistake)
        told[mistake if everywhere else f"{mistake} (in {', '.join(places)})"] = None
    return list(told)


def check_block(tree: Tree, number: int, block: Mapping[str, Any]) -> Iterator[str]:
    """Keys that no stage has of its own, and names of tasks that the top does not have."""
    path: KeyPath = ("stages", number)
    for key in block:
        if of_run(key):
            yield f"{tree.where((*path, key))}concerns the whole run; write it at the top"
    if isinstance(names := block.get("tasks"), list):
        there = as_mapping(tree.values.get("tasks"))
        for place, name in enumerate(names):
            if name in names[:place]:
                yield f"{tree.where((*path, 'tasks', place))}the task {name!r} stands here twice"
            elif not isinstance(name, str) or name not in there:
                hint = did_you_mean(str(name), there) if there else "the recipe has no tasks at the top"
                yield f"{tree.where((*path, 'tasks', place))}unknown name {name!r}; {hint}"


def stage_tree(tree: Tree, number: int, block: Mapping[str, Any]) -> Tree:
    """The top's values with those of a stage over them, and where each of them was written."""
    own = {key: value for key, value in block.items() if not of_run(key) and (key, value) != ("tasks", None)}
    top = {key: value for key, value in tree.values.items() if key != "stages" and own.get(EITHER.get(key, "")) is None}
    values = {**top, **own}
    replaced: set[KeyPath] = {(key,) for key in own if key != "tasks"}
    if "tasks" in own:
        values["tasks"] = stage_tasks(as_mapping(top.get("tasks")), own["tasks"])
        replaced |= {path[:3] for path in paths_of({"tasks": own["tasks"]}) if len(path) > 2}
    kept = [path for path in paths_of(top) if not replaced & {path[:1], path[:3]}]
    written: dict[KeyPath, KeyPath] = {
        (): ("stages", number),
        **{(key,): (key,) for key in WholeRun.model_fields},
        **{path: path for path in kept},
        **{path: ("stages", number, *path) for path in paths_of(own)},
    }
    return Tree(values, tree.origins, written)


def of_run(key: str) -> bool:
    """Whether a key concerns the whole run, so that no stage has it."""
    return key in WholeRun.model_fields or key == "stages"


def stage_tasks(top: Mapping[str, Any], own: Any) -> Any:
    """The tasks of a stage: those of the top that it names, or its own, each over the one of that name at the top."""
    if isinstance(own, list):
        known = {name: top[name] for name in own if isinstance(name, str) and name in top}
        return known if known or not own else top  # names that are unknown have been told
    if not isinstance(own, Mapping):
        return own
    return {
        name: {**as_mapping(top.get(name)), **keys} if isinstance(keys, Mapping) else keys for name, keys in own.items()
    }


def as_mapping(value: Any) -> Mapping[str, Any]:
    """A mapping, or none where something else stands."""
    return value if isinstance(value, Mapping) else {}


def paths_of(values: Any, above: KeyPath = ()) -> Iterator[KeyPath]:
    """The path of every value below."""
    items = values.items() if isinstance(values, Mapping) else enumerate(values) if isinstance(values, list) else ()
    for key, value in items:
        yield (*above, key)
        yield from paths_of(value, (*above, key))
