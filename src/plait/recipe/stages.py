"""The tree of a recipe → one tree per stage, so that a stage is read like a recipe without stages."""

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from plait.errors import did_you_mean
from plait.recipe.schema import RunSettings
from plait.recipe.tree import KeyPath, Tree

__all__ = ["merge_mistakes", "stage_trees"]

_EITHER = {"epochs": "steps", "steps": "epochs"}  # a stage that gives one does not inherit the other


def stage_trees(tree: Tree) -> tuple[list[Tree], list[str]]:
    """The tree of each stage with the defaults from the top level, and mistakes in the list of stages itself."""
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
        mistakes += _validate_block(tree, number, block)
        trees.append(_stage_tree(tree, number, block))
    if len(trees) == len(stages):
        trained = {name for stage in trees for name in _as_mapping(stage.values.get("tasks"))}
        idle = [name for name in _as_mapping(tree.values.get("tasks")) if name not in trained]
        mistakes += [f"{tree.where(('tasks', name))}no stage trains this task" for name in idle]
    return trees, mistakes


def merge_mistakes(found: Sequence[Sequence[str]]) -> list[str]:
    """The mistakes of all stages, each once; a top-level key that is wrong for some stages only names them."""
    merged: dict[str, None] = {}
    for mistake in dict.fromkeys(mistake for stage in found for mistake in stage):
        places = [f"stages.{number}" for number, stage in enumerate(found) if mistake in stage]
        everywhere = len(places) == len(found) or re.search(r"(^|: )stages\.\d", mistake)
        merged[mistake if everywhere else f"{mistake} (in {', '.join(places)})"] = None
    return list(merged)


def _validate_block(tree: Tree, number: int, block: Mapping[str, Any]) -> Iterator[str]:
    """Keys that do not belong in a stage, and names of tasks that the top level does not have."""
    path: KeyPath = ("stages", number)
    for key in block:
        if _is_run_key(key):
            yield f"{tree.where((*path, key))}applies to the whole run; move it to the top level"
    if isinstance(names := block.get("tasks"), list):
        there = _as_mapping(tree.values.get("tasks"))
        for place, name in enumerate(names):
            if name in names[:place]:
                yield f"{tree.where((*path, 'tasks', place))}the task {name!r} is listed twice"
            elif not isinstance(name, str) or name not in there:
                hint = did_you_mean(str(name), there) if there else "the recipe has no tasks at the top level"
                yield f"{tree.where((*path, 'tasks', place))}unknown name {name!r}; {hint}"


def _stage_tree(tree: Tree, number: int, block: Mapping[str, Any]) -> Tree:
    """The top-level values overridden by those of a stage, and where each was written."""
    own = {key: value for key, value in block.items() if not _is_run_key(key) and (key, value) != ("tasks", None)}
    top = {
        key: value for key, value in tree.values.items() if key != "stages" and own.get(_EITHER.get(key, "")) is None
    }
    values = {**top, **own}
    replaced: set[KeyPath] = {(key,) for key in own if key != "tasks"}
    if "tasks" in own:
        values["tasks"] = _stage_tasks(_as_mapping(top.get("tasks")), own["tasks"])
        replaced |= {path[:3] for path in _paths_of({"tasks": own["tasks"]}) if len(path) > 2}
    kept = [path for path in _paths_of(top) if not replaced & {path[:1], path[:3]}]
    written: dict[KeyPath, KeyPath] = {
        (): ("stages", number),
        **{(key,): (key,) for key in RunSettings.model_fields},
        **{path: path for path in kept},
        **{path: ("stages", number, *path) for path in _paths_of(own)},
    }
    return Tree(values, tree.origins, written)


def _is_run_key(key: str) -> bool:
    """Whether a key applies to the whole run, so that a stage cannot have it."""
    return key in RunSettings.model_fields or key == "stages"


def _stage_tasks(top: Mapping[str, Any], own: Any) -> Any:
    """The tasks of a stage: top-level tasks that it lists, or its own laid over those of the same name."""
    if isinstance(own, list):
        known = {name: top[name] for name in own if isinstance(name, str) and name in top}
        return known if known or not own else top  # unknown names were reported
    if not isinstance(own, Mapping):
        return own
    return {
        name: {**_as_mapping(top.get(name)), **keys} if isinstance(keys, Mapping) else keys
        for name, keys in own.items()
    }


def _as_mapping(value: Any) -> Mapping[str, Any]:
    """The mapping, or an empty one for anything else."""
    return value if isinstance(value, Mapping) else {}


def _paths_of(values: Any, above: KeyPath = ()) -> Iterator[KeyPath]:
    """The path of every nested value."""
    items = values.items() if isinstance(values, Mapping) else enumerate(values) if isinstance(values, list) else ()
    for key, value in items:
        yield (*above, key)
        yield from _paths_of(value, (*above, key))
