"""The matrix of a suite: rows that differ along axes, written once instead of row by row.

axes:
  loss:                                      what a value adds to the rows that have it
    ce: {title: cross-entropy}
    te: {title: SoftTriple, set: {"tasks.{data}.loss": triple_entropy}, against: {loss: ce}}
matrix:
  - name: "{data}-{loss}"
    over: {data: [cr, trec], loss: [ce, te]}
    figures: {cr: {ce: 0.93, te: 0.94}, trec: {ce: 0.96, te: 0.97}}

expands to the rows cr-ce, cr-te, trec-ce and trec-te. docs/papers.md explains every key.
"""

import difflib
import itertools
import re
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from plait.errors import did_you_mean
from plait.recipe.tree import KeyPath, Tree

__all__ = ["expand_matrix"]

_BLOCK_KEYS = ("name", "over", "figures")
_MERGED = ("set", "grid", "paper", "paper_train", "paper_rows")  # by key; of all other keys the last one counts
_ROW_NAMES = ("against", "extends", "ensemble")
_PLACEHOLDER = re.compile(r"\{(\w+)\}")
_Values = dict[str, Any]  # axis → its value in one row


def expand_matrix(tree: Tree, row_keys: Collection[str]) -> tuple[Tree, list[str]]:
    """The tree of a suite with all rows under `rows`, in the order of the file, and every mistake in the matrix.

    `row_keys` are the keys that a row may have. The result knows where each key of a row was written.
    """
    if not {"axes", "matrix"} & tree.values.keys():
        return tree, []
    expansion = _Expansion(tree, row_keys)
    rows: dict[str, Any] = {}
    for key, value in tree.values.items():
        if key == "matrix":
            rows.update(expansion.rows_of(value))
        elif key == "rows" and isinstance(value, Mapping):
            rows.update(value)
    expansion.report_misspelled_axes()
    if isinstance(given := tree.values.get("rows"), Mapping):
        for name in [name for name in given if name in expansion.names]:
            expansion.report(("rows", name), f"{_place(expansion.names[name])} has a row of this name already")
    elif given is not None:
        rows = given
    values = {key: value for key, value in tree.values.items() if key not in ("axes", "matrix")}
    return Tree({**values, "rows": rows}, tree.origins, expansion.written), expansion.mistakes


@dataclass
class _Expansion:
    tree: Tree
    row_keys: Collection[str]
    mistakes: list[str] = field(default_factory=list)
    written: dict[KeyPath, KeyPath] = field(default_factory=dict)  # path of a row's key → its path in the file
    names: dict[str, KeyPath] = field(default_factory=dict)  # row → the block that it comes from
    used: dict[str, KeyPath] = field(default_factory=dict)  # axis → where a block runs over it

    def __post_init__(self) -> None:
        self.axes: dict[str, dict[str, Any]] = dict(self.read_axes())

    def report(self, path: KeyPath, mistake: str) -> None:
        self.mistakes.append(f"{self.tree.where(path)}{mistake}")

    def read_axes(self) -> Iterator[tuple[str, dict[str, Any]]]:
        """Each axis with its values and the row keys that each adds."""
        axes = self.tree.values.get("axes") or {}
        if not isinstance(axes, Mapping):
            self.report(("axes",), "expected the axes of the matrix, each with its values")
            return
        for axis, values in axes.items():
            if not isinstance(values, Mapping):
                self.report(("axes", axis), "expected values, each with the keys that it adds to a row")
                continue
            for value, keys in values.items():
                self.check_keys(("axes", axis, value), keys, self.row_keys)
            yield axis, {value: keys if isinstance(keys, Mapping) else {} for value, keys in values.items()}

    def check_keys(self, path: KeyPath, keys: object, allowed: Collection[str]) -> None:
        if not isinstance(keys, Mapping):
            if keys is not None:
                self.report(path, f"expected keys of a row, found {keys!r}")
            return
        for key in keys:
            if key not in allowed:
                where = f"{self.tree.origin((*path, key))}: {_place(path)}"
                self.mistakes.append(f"{where}: unknown key {key!r}; {did_you_mean(key, allowed)}")

    def report_misspelled_axes(self) -> None:
        """An axis does not need an entry in `axes`, unless one that no block uses has almost the same name."""
        unused = self.axes.keys() - self.used.keys()
        for axis, path in self.used.items():
            if axis not in self.axes and difflib.get_close_matches(axis, unused, n=1):
                self.report(path, f"no such axis in axes; {did_you_mean(axis, unused)}")

    def rows_of(self, blocks: object) -> Iterator[tuple[str, dict[str, Any]]]:
        """The rows of all blocks."""
        if not isinstance(blocks, list):
            self.report(("matrix",), "expected a list of blocks, each with name and over")
            return
        for number, keys in enumerate(blocks):
            path = ("matrix", number)
            if not isinstance(keys, Mapping):
                self.report(path, f"expected a block with name and over, found {keys!r}")
                continue
            self.check_keys(path, keys, [*_BLOCK_KEYS, *self.row_keys])
            if over := self.read_over(path, keys):
                yield from _Block(self, path, keys, over).rows()

    def read_over(self, path: KeyPath, keys: Mapping[str, Any]) -> dict[str, list[Any]]:
        """The values of each axis of a block; none if the block cannot be expanded."""
        missing = [key for key in ("name", "over") if key not in keys]
        for key in missing:
            self.mistakes.append(f"{self.tree.origin(path)}: {_place(path)}: missing key {key!r}")
        over, name = keys.get("over"), keys.get("name", "")
        self.used |= {axis: (*path, "over", axis) for axis in (over if isinstance(over, Mapping) else ())}
        if not isinstance(name, str):
            self.report((*path, "name"), f"expected a name such as '{{data}}-{{loss}}', found {name!r}")
            return {}
        if not isinstance(over, Mapping) or not over:
            if "over" in keys:
                self.report((*path, "over"), "expected axes, each with one value or a list")
            return {}
        found = {axis: self.read_values((*path, "over", axis), axis, values) for axis, values in over.items()}
        return found if all(found.values()) and not missing else {}

    def read_values(self, path: KeyPath, axis: str, given: object) -> list[Any]:
        """The values that a block gives an axis; none if they are invalid."""
        values = given if isinstance(given, list) else [given]
        if not values or not all(isinstance(value, str | int | float) for value in values):
            self.report(path, "expected one value or a list of values")
            return []
        if len(set(map(str, values))) < len(values):
            self.report(path, "a value is listed twice")
            return []
        known = self.axes.get(axis)
        unknown = [value for value in values if known is not None and str(value) not in known]
        for value in unknown:
            self.report(path, f"no value {value!r} of {axis} in axes; {did_you_mean(str(value), known or ())}")
        return [] if unknown else values


@dataclass
class _Block:
    """One block of the matrix while it is expanded."""

    expansion: _Expansion
    path: KeyPath
    keys: Mapping[str, Any]
    over: dict[str, list[Any]]

    def rows(self) -> Iterator[tuple[str, dict[str, Any]]]:
        for axis in _PLACEHOLDER.findall(self.keys["name"]):
            if axis not in self.over:
                self.expansion.report((*self.path, "name"), f"no axis {axis!r}; {did_you_mean(axis, self.over)}")
                return
        self.check_figures(self.keys.get("figures"), (*self.path, "figures"), self.listed_axes())
        for point in itertools.product(*self.over.values()):
            values: _Values = dict(zip(self.over, point, strict=True))
            name = self.name_of(values)
            if name in self.expansion.names:
                other = self.expansion.names[name]
                where = "this block" if other == self.path else _place(other)
                hint = f"use every axis in the name: {', '.join(self.over)}"
                self.expansion.report((*self.path, "name"), f"{where} has a row {name!r} already; {hint}")
                return
            self.expansion.names[name] = self.path
            yield name, self.row(name, values)

    def name_of(self, values: _Values) -> str:
        return str(self.fill(self.keys["name"], values, (*self.path, "name"), as_text=True))

    def row(self, name: str, values: _Values) -> dict[str, Any]:
        """The keys of the block, then those of each axis's value: later ones win."""
        sources: list[tuple[KeyPath, Mapping[str, Any]]] = [(self.path, self.keys)]
        sources += [
            (("axes", axis, str(value)), self.expansion.axes[axis].get(str(value), {}))
            for axis, value in values.items()
            if axis in self.expansion.axes
        ]
        written, start = self.expansion.written, ("rows", name)
        written[start] = self.path
        row: dict[str, Any] = {}
        for source, keys in sources:
            for key, value in keys.items():
                if key in _BLOCK_KEYS or key == "title" or key not in self.expansion.row_keys:
                    continue
                place = (*source, key)
                if key in _MERGED and isinstance(value, Mapping):
                    filled = {self.fill(inner, values, (*place, inner), as_text=True): inner for inner in value}
                    row[key] = {
                        **row.get(key, {}),
                        **{word: self.fill(value[inner], values, (*place, inner)) for word, inner in filled.items()},
                    }
                    written.update({(*start, key, word): (*place, inner) for word, inner in filled.items()})
                else:
                    row[key] = self.fill(value, values, place)
                written[(*start, key)] = place
        row["title"] = self.title(values, sources)
        return self.with_row_names(self.with_figures(row, name, values), name, values)

    def title(self, values: _Values, sources: list[tuple[KeyPath, Mapping[str, Any]]]) -> Any:
        """The block's title, or those of the axes' values in a row."""
        if "title" in self.keys:
            return self.fill(self.keys["title"], values, (*self.path, "title"))
        return ", ".join(str(keys["title"]) for _, keys in sources if "title" in keys)

    def with_row_names(self, row: dict[str, Any], name: str, values: _Values) -> dict[str, Any]:
        """`against: {loss: ce}` names the row of this block that has loss ce and is otherwise the same."""
        for key in _ROW_NAMES:
            if isinstance(changed := row.get(key), Mapping):
                path = self.expansion.written["rows", name, key]
                if not all(self.check_value(axis, value, path) for axis, value in changed.items()):
                    row = {**row, key: None}
                    continue
                other = self.name_of({**values, **changed})
                row = {other_key: value for other_key, value in row.items() if other_key != key}
                if other != name:
                    row[key] = other
        return row

    def check_value(self, axis: str, value: object, path: KeyPath) -> bool:
        """Whether the block has this value of an axis."""
        if axis not in self.over:
            self.expansion.report(path, f"no axis {axis!r}; {did_you_mean(axis, self.over)}")
            return False
        words = list(map(str, self.over[axis]))
        if str(value) not in words:
            self.expansion.report(path, f"no value {value!r} of {axis}; {did_you_mean(str(value), words)}")
        return str(value) in words

    def listed_axes(self) -> list[str]:
        """The axes whose values are a list; the figures are nested by them."""
        return [axis for axis in self.over if isinstance(self.keys["over"][axis], list)]

    def check_figures(self, figures: object, path: KeyPath, axes: list[str]) -> None:
        """Keys of the figures that are no value of their axis, and figures of more or fewer axes than there are."""
        if figures is None:
            return
        if not axes:
            columns = self.expansion.tree.values.get("scores")
            if not isinstance(figures, Mapping) and isinstance(columns, Mapping) and len(columns) > 1:
                example = f"{{{next(iter(columns))}: 0.5}}"
                self.expansion.report(path, f"there are several scores; name the one of this figure, such as {example}")
            return
        if not isinstance(figures, Mapping):
            self.expansion.report(path, f"expected figures by {axes[0]}, found {figures!r}")
            return
        for value, below in figures.items():
            if self.check_value(axes[0], value, (*path, value)):
                self.check_figures(below, (*path, value), axes[1:])

    def with_figures(self, row: dict[str, Any], name: str, values: _Values) -> dict[str, Any]:
        """The row with its figures of the paper; a number is that of the only score."""
        found, path = self.keys.get("figures"), (*self.path, "figures")
        for axis in self.listed_axes():
            found = found.get(str(values[axis])) if isinstance(found, Mapping) else None
            path = (*path, str(values[axis]))
        columns = self.expansion.tree.values.get("scores")
        if found is None or not isinstance(columns, Mapping) or not columns:
            return row
        figures = found if isinstance(found, Mapping) else {next(iter(columns)): found}
        self.expansion.written["rows", name, "paper"] = path
        for column in figures:
            self.expansion.written["rows", name, "paper", column] = (*path, column) if found is figures else path
        return {**row, "paper": {**row.get("paper", {}), **figures}}

    def fill(self, value: Any, values: _Values, path: KeyPath, *, as_text: bool = False) -> Any:
        """The value with {axis} replaced in all its strings and keys; a string that is one {axis} keeps its type."""
        if isinstance(value, Mapping):
            return {
                self.fill(key, values, path, as_text=True): self.fill(inner, values, path)
                for key, inner in value.items()
            }
        if isinstance(value, list):
            return [self.fill(inner, values, path) for inner in value]
        if not isinstance(value, str):
            return value
        for axis in _PLACEHOLDER.findall(value):
            if axis not in values:
                self.expansion.report(path, f"no axis {axis!r}; {did_you_mean(axis, values)}")
        whole = _PLACEHOLDER.fullmatch(value)
        if whole and not as_text:
            return values.get(whole[1], value)
        return _PLACEHOLDER.sub(lambda found: str(values.get(found[1], found[0])), value)


def _place(path: KeyPath) -> str:
    return ".".join(map(str, path))
