"""A recipe file as a tree of plain values that knows the file and line of each."""

import textwrap
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from ruamel.yaml.comments import CommentedMap, CommentedSeq

from plait.errors import RecipeError, did_you_mean
from plait.names import name_problem, path_problem
from plait.recipe.parse_yaml import MOST_CHARACTERS, InvalidYaml, parse_yaml
from plait.recipe.quick import QUICK, quick_keys

__all__ = [
    "KeyPath",
    "Origin",
    "Tree",
    "dotted",
    "load_tree",
    "path_as_written",
    "plain",
    "read_yaml",
    "set_key",
    "set_keys",
    "try_keys",
    "use_profile",
]

KeyPath = tuple[str | int, ...]
_MOST_EXTENDED = 20  # recipes, one after the other


@dataclass(frozen=True)
class Origin:
    """The file and line of a value; no file for values from the command line or from Python."""

    file: Path | None
    line: int
    shown: str  # the file as messages name it

    def __str__(self) -> str:
        return f"{self.shown}:{self.line}" if self.line else self.shown


@dataclass(frozen=True)
class Tree:
    """Plain values, and the origin of each by path."""

    values: dict[str, Any]
    origins: dict[KeyPath, Origin] = field(default_factory=dict)
    written: dict[KeyPath, KeyPath] = field(default_factory=dict)  # in a stage: path → its path in the recipe
    profiles: tuple[str, ...] = ()  # that could be laid over it

    def as_written(self, path: KeyPath) -> KeyPath:
        """The path of a value in the recipe."""
        return path_as_written(path, self.written)

    def origin(self, path: KeyPath) -> Origin:
        """Where the value at a path, or its closest ancestor, was written."""
        return self.origin_of(self.as_written(path))

    def origin_of(self, written: KeyPath) -> Origin:
        """The same for a path in the recipe."""
        for end in range(len(written), -1, -1):
            if written[:end] in self.origins:
                return self.origins[written[:end]]
        return Origin(None, 0, "recipe")

    def where(self, path: KeyPath) -> str:
        """The start of a message about a value: file, line and path."""
        return f"{self.origin(path)}: {dotted(self.as_written(path))}"


def path_as_written(path: KeyPath, written: Mapping[KeyPath, KeyPath]) -> KeyPath:
    """A path with its longest known prefix replaced by the one in the recipe."""
    for end in range(len(path), -1, -1):
        if path[:end] in written:
            return (*written[path[:end]], *path[end:])
    return path


def dotted(path: KeyPath) -> str:
    """tasks.similarity.loss: as the start of a message."""
    return ".".join(map(str, path)) + ": " if path else ""


def load_tree(path: Path, profile: str | None = None, extended_by: tuple[Path, ...] = ()) -> Tree:
    """The file's tree laid over the one that it `extends`, and the chosen profile over both."""
    own = read_yaml(path)
    tree = Tree({}, {(): Origin(path, 0, str(path))})
    if (parent := own.values.pop("extends", None)) is not None:
        where = own.origin(("extends",))
        if not isinstance(parent, str) or path_problem(parent) or not (target := path.parent / parent).is_file():
            raise RecipeError(f"{where}: extends: expected the path of a recipe, found {parent!r}")
        if target.resolve() in (*extended_by, path):
            raise RecipeError(f"{where}: extends: {parent} extends itself")
        if len(extended_by) == _MOST_EXTENDED:
            raise RecipeError(f"{where}: extends: a chain of more than {_MOST_EXTENDED} recipes; shorten it")
        tree = load_tree(target.resolve(), extended_by=(*extended_by, path))
    tree = _lay_over(tree, own)
    return use_profile(tree, profile) if not extended_by else tree


def use_profile(tree: Tree, profile: str | None) -> Tree:
    """The tree with the profile's keys laid over its own; `quick` need not be among its profiles."""
    values = dict(tree.values)
    profiles = values.pop("profiles", {})
    if not isinstance(profiles, Mapping) or not all(isinstance(keys, Mapping) for keys in profiles.values()):
        raise RecipeError(f"{tree.origin(('profiles',))}: profiles: expected names, each with keys")
    if profile is None:
        return Tree(values, tree.origins, profiles=tuple({**profiles, QUICK: {}}))
    if profile == QUICK and QUICK not in profiles:
        small = use_profile(tree, "laptop") if "laptop" in profiles else Tree(values, tree.origins)
        return replace(small, values=_merge(small.values, quick_keys(small.values)))
    if profile not in profiles:
        where = tree.origin(("profiles",))
        raise RecipeError(f"{where}: no profile {profile!r}; {did_you_mean(profile, [*profiles, QUICK])}")
    if problem := name_problem(profile):  # runs of suites are named after it
        raise RecipeError(f"{tree.origin(('profiles',))}: the name {profile!r} of a profile {problem}; choose another")
    start = ("profiles", profile)
    origins = {path[2:]: origin for path, origin in tree.origins.items() if path[:2] == start and len(path) > 2}
    return _lay_over(Tree(values, tree.origins), Tree(dict(profiles[profile]), origins))


def _lay_over(below: Tree, above: Tree) -> Tree:
    """Keys of `above` win; tasks and profiles merge by name, then by key."""
    origins = dict(below.origins)
    for key, value in above.values.items():
        merges = key in ("tasks", "profiles") and isinstance(below.values.get(key), Mapping)
        if not (merges and isinstance(value, Mapping)):
            origins = {path: origin for path, origin in origins.items() if path[:1] != (key,)}
    return Tree(_merge(below.values, above.values), {**origins, **above.origins})


def _merge(below: Mapping[str, Any], above: Mapping[str, Any]) -> dict[str, Any]:
    merged = dict(below)
    for key, value in above.items():
        old = merged.get(key)
        if key in ("tasks", "profiles") and isinstance(old, Mapping) and isinstance(value, Mapping):
            merged[key] = {**old, **{name: _merge_block(old.get(name), keys) for name, keys in value.items()}}
        else:
            merged[key] = value
    return merged


def _merge_block(old: object, new: object) -> object:
    """The keys of a task or profile over those of the one with the same name."""
    return _merge(old, new) if isinstance(old, Mapping) and isinstance(new, Mapping) else new


def set_keys(tree: Tree, overrides: Sequence[str]) -> Tree:
    """The tree with changes from the command line, such as `tasks.sentiment.head=linear`; reports all mistakes."""
    tree, mistakes = try_keys(tree, overrides)
    if mistakes:
        raise RecipeError(*mistakes)
    return tree


def try_keys(tree: Tree, overrides: Sequence[str]) -> tuple[Tree, list[str]]:
    """The tree with the changes that can be made, and what is wrong with the others."""
    mistakes: list[str] = []
    for override in overrides:
        try:
            tree = _set_from_text(tree, override)
        except RecipeError as error:
            mistakes += error.mistakes
    return tree, mistakes


def _set_from_text(tree: Tree, override: str) -> Tree:
    """The tree with one change."""
    name, equals, text = override.partition("=")
    origin = Origin(None, 0, f"`overrides` {override}")
    if not equals or not name.strip():
        raise RecipeError(f"{origin}: expected key=value, such as lr=1e-4 or tasks.sentiment.head=linear")
    try:
        value = plain(parse_yaml(text)) if text.strip() else None
    except InvalidYaml as error:
        raise RecipeError(f"{origin}: the value is {error}") from None
    return set_key(tree, name.strip(), value, origin)


def set_key(
    tree: Tree, name: str, value: object, origin: Origin, below: Mapping[KeyPath, Origin] | None = None
) -> Tree:
    """The tree with the key of this dotted name replaced; `below` are the origins inside the value, by path."""
    path = _known_path(tree.values, name.split("."), origin)
    origins = {old: where for old, where in tree.origins.items() if old[: len(path)] != path}
    new: dict[KeyPath, Origin] = {path[:end]: origin for end in range(1, len(path)) if path[:end] not in origins}
    inside = {(*path, *rest): where for rest, where in (below or {}).items()}
    return Tree(_put(tree.values, path, value, origin), {**origins, **new, path: origin, **inside})


def _known_path(values: Mapping[str, Any], parts: Sequence[str], origin: Origin) -> KeyPath:
    """The path that the command line names; stages and tasks on the way must exist."""
    if parts[0] == "stages" and len(parts) > 1:
        number = _stage_number(values.get("stages"), parts[1], origin)
        own = values["stages"][number].get("tasks")
        if parts[2:3] == ["tasks"] and len(parts) > 4 and not (isinstance(own, Mapping) and parts[3] in own):
            hint = f"set tasks.{parts[3]} at the top level"
            raise RecipeError(f"{origin}: stages.{number} has no task {parts[3]!r} of its own; {hint}")
        return ("stages", number, *parts[2:])
    tasks = values.get("tasks")
    if parts[0] == "tasks" and len(parts) > 2 and isinstance(tasks, Mapping) and parts[1] not in tasks:
        raise RecipeError(f"{origin}: no task {parts[1]!r}; {did_you_mean(parts[1], tasks)}")
    return tuple(parts)


def _stage_number(stages: object, text: str, origin: Origin) -> int:
    there = stages if isinstance(stages, list) else []
    if not text.isdecimal() or int(text) >= len(there) or not isinstance(there[int(text)], Mapping):
        counted = f"there are {len(there)}, counted from 0" if there else "the recipe has none"
        raise RecipeError(f"{origin}: no stage {text!r}; {counted}")
    return int(text)


def _put(values: Any, path: KeyPath, value: object, origin: Origin) -> Any:
    """A copy of nested values with one replaced; `head: linear` becomes a mapping if the path goes below it."""
    key, rest = path[0], path[1:]
    if isinstance(values, list):
        if not str(key).isdecimal() or int(key) >= len(values):
            raise RecipeError(f"{origin}: no item {key!r}; there are {len(values)}, counted from 0")
        place = int(key)
        item = {"name": values[place]} if isinstance(values[place], str) else values[place]
        inner = _put(item, rest, value, origin) if rest else value
        return [*values[:place], inner, *values[place + 1 :]]
    if not rest:
        return {**values, key: value}
    inner = values.get(key, {})
    if isinstance(inner, str):
        inner = {"name": inner} if key != "label" else {"column": inner}
    if not isinstance(inner, Mapping | list) and not isinstance(rest[0], int):
        raise RecipeError(f"{origin}: {key!r} is {inner!r} and has no keys")
    return {**values, key: _put(inner, rest, value, origin)}


def read_yaml(path: Path) -> Tree:
    try:
        with path.open(encoding="utf-8-sig") as file:
            text = file.read(MOST_CHARACTERS + 1)
    except OSError as error:
        raise RecipeError(f"{path}: cannot be read: {error.strerror}") from None
    except UnicodeDecodeError as error:
        raise RecipeError(f"{path}: not UTF-8 text (byte {error.start})") from None
    try:
        document = parse_yaml(text)
    except InvalidYaml as error:
        raise RecipeError(f"{path}{f':{error.line}' if error.line else ''}: {error}") from None
    if not isinstance(document, CommentedMap):
        found = "a list" if isinstance(document, CommentedSeq) else _shorten(document)
        raise RecipeError(f"{path}:1: expected keys and values, found {found}")
    origins: dict[KeyPath, Origin] = {(): Origin(path, 0, str(path))}
    _note_lines(document, (), path, origins)
    return Tree(plain(document), origins)


def _shorten(value: object) -> str:
    """The beginning of a value, which may be a whole file of data."""
    return "nothing" if value is None else repr(textwrap.shorten(str(value), 60, placeholder=" ..."))


def _note_lines(node: object, path: KeyPath, file: Path, origins: dict[KeyPath, Origin]) -> None:
    """Record the line of every key and list item below a node."""
    if isinstance(node, CommentedMap):
        for key, value in node.items():
            if place := (node.lc.data or {}).get(key):  # keys merged in by `<<:` are written elsewhere
                origins[(*path, _as_key(key))] = Origin(file, place[0] + 1, str(file))
            _note_lines(value, (*path, _as_key(key)), file, origins)
    elif isinstance(node, CommentedSeq):
        for index, value in enumerate(node):
            if place := (node.lc.data or {}).get(index):  # a list with a tag has none
                origins[(*path, index)] = Origin(file, place[0] + 1, str(file))
            _note_lines(value, (*path, index), file, origins)


def _as_key(key: object) -> str:
    """A key as YAML writes it: true, not True."""
    return str(key).lower() if isinstance(key, bool) else str(key)


def plain(node: object) -> Any:
    """ruamel's number, text and container types as Python's own."""
    if isinstance(node, Mapping):
        return {_as_key(key): plain(value) for key, value in node.items()}
    if isinstance(node, list | tuple):
        return [plain(value) for value in node]
    for kind in (bool, int, float, str):
        if isinstance(node, kind):
            return kind(node)
    return None if node is None else str(node)
