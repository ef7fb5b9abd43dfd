"""The sizes of a suite: every row is also trained on few rows, written once as `train_rows: [20, 100, all]`.

A row `ce` becomes `ce-20`, `ce-100` and, for `all`, `ce` itself. Rows of one size are adjacent and tested against each
other. docs/papers.md explains the keys.
"""

from collections.abc import Mapping
from typing import Any

from plait.recipe.tree import KeyPath, Tree

__all__ = ["ALL", "expand_sizes", "sized_name"]

ALL = "all"
_ROW_NAMES = ("against", "extends", "ensemble")


def sized_name(row: str, size: int) -> str:
    """The name of a row on this many training rows."""
    return f"{row}-{size}"


def expand_sizes(tree: Tree) -> tuple[Tree, list[str]]:
    """The tree of a suite with a row per size, and the mistakes in that; values of a wrong type are left as they are.

    Rows that have a size of their own, or only the paper's figures, stay as they are.
    """
    sizes, rows = tree.values.get("train_rows"), tree.values.get("rows")
    sound = isinstance(sizes, list) and all(size == ALL or (isinstance(size, int) and size > 0) for size in sizes)
    if not sizes or not sound or not isinstance(rows, Mapping):
        return tree, []
    assert isinstance(sizes, list)
    own = {name: {} if keys is None else keys for name, keys in rows.items()}
    if not all(isinstance(keys, Mapping) for keys in own.values()):
        return tree, []
    sized = [name for name, keys in own.items() if "train_rows" not in keys and "shown" not in keys]
    baseline, recipe = tree.values.get("baseline"), tree.values.get("recipe")
    made: dict[str, Any] = {}
    written: dict[KeyPath, KeyPath] = dict(tree.written)
    mistakes: list[str] = []
    for size in dict.fromkeys(sizes):
        for name in sized:
            if size == ALL:
                made[name] = own[name]
                continue
            new = sized_name(name, size)
            if new in own:
                mistakes.append(f"{tree.where(('train_rows',))}makes a row {new!r}, and there is one already")
            made[new] = _sized_row(name, own[name], size, sized, baseline, recipe)
            written |= _written_paths(tree, name, new)
    made |= {name: keys for name, keys in own.items() if name not in sized}
    values = {**tree.values, "rows": made}
    if baseline in sized and ALL not in sizes:
        del values["baseline"]  # every row names its own opponent
    return Tree(values, tree.origins, written), mistakes


def _sized_row(
    name: str, keys: Mapping[str, Any], size: int, sized: list[str], baseline: object, recipe: object
) -> dict[str, Any]:
    """The keys of a row on this many training rows; the paper's figures are for all of its rows."""
    row: dict[str, Any] = {
        key: value for key, value in keys.items() if key not in ("paper", "paper_train", "paper_rows")
    }
    if "against" not in row and baseline is not None:
        row["against"] = None if baseline == name else baseline
    for key in _ROW_NAMES:
        if row.get(key) in sized:
            row[key] = sized_name(row[key], size)
    if not {"extends", "ensemble", "recipe"} & row.keys():
        row["recipe"] = recipe or f"{name}.yaml"
    if "ensemble" not in row:
        row["train_rows"] = size
    return {**row, "paper_rows": {}}


def _written_paths(tree: Tree, name: str, new: str) -> dict[KeyPath, KeyPath]:
    """Where the keys of a new row are written: in the row that it was made from."""
    start: KeyPath = ("rows", name)
    known = {("rows", new, *path[2:]): where for path, where in tree.written.items() if path[:2] == start}
    return {("rows", new): tree.as_written(start), ("rows", new, "train_rows"): ("train_rows",), **known}
