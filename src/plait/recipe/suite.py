"""suite.yaml: the rows of one table, each with its recipe and the paper's figures.

Suites are read here, below everything that trains, so that `SUITE#ROW` names a recipe wherever a recipe is read.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal

from annotated_types import Gt
from pydantic import BaseModel, ConfigDict, Field, PrivateAttr, ValidationError

from plait.errors import RecipeError, did_you_mean
from plait.recipe.bundled import BUNDLED
from plait.recipe.matrix import expand_matrix
from plait.recipe.options import explain
from plait.recipe.sizes import expand_sizes
from plait.recipe.suite_names import name_mistakes
from plait.recipe.tree import KeyPath, Origin, Tree, dotted, load_tree, read_yaml, set_key, use_profile

__all__ = ["Row", "Search", "Suite", "is_suite", "read_row", "read_suite"]

_FILE = "suite.yaml"
_Positive = Annotated[int, Field(gt=0)]


@dataclass(frozen=True)
class Search:
    """Which points of a grid are tried, and which trials are pruned.

    No point is tried twice. `grid` takes the points in order, `random` in an order drawn from the seed, `tpe` where the
    trials so far promise good scores. `median` prunes a trial that is below the median of the others at the same epoch,
    once five are complete; `halving` lets the better half continue after 1, 2, 4, … epochs.
    """

    __pydantic_config__ = ConfigDict(extra="forbid")  # when a suite is read

    trials: Annotated[int, Gt(0)] | None = None  # None: as many as the grid has points
    sampler: Literal["grid", "random", "tpe"] = "tpe"
    pruner: Literal["none", "median", "halving"] = "none"
    seed: int = 0


class _Frozen(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", strict=True, allow_inf_nan=False)


class Row(_Frozen):
    """One row of the table."""

    model_config = ConfigDict(strict=False)  # in strict mode pydantic does not build a Search from keys

    title: str = ""  # one line
    recipe: str | None = None  # a file beside suite.yaml; None: the suite's, or ROW.yaml
    extends: str | None = None  # the row whose recipe it starts from, instead of a file
    set: dict[str, Any] = Field(default_factory=dict)  # dotted key of the recipe → its value in this row
    against: str | None = None  # the row that it is tested against, or None; if not given: the suite's baseline
    train_rows: _Positive | None = (
        None  # of every task, drawn anew for each draw of the suite; None: as the recipe says
    )
    paper: dict[str, float] = Field(default_factory=dict)  # column or mean → the paper's figure
    paper_train: dict[str, float] = Field(default_factory=dict)  # task → the paper's figure on the training rows
    group: str | None = None  # of the suite's groups that its data belongs to
    method: str | None = None  # what its gain is pooled with in a group; None: only its own columns
    paper_rows: dict[str, _Positive] | None = None  # task → the paper's training rows; None: the suite's
    ensemble: str | None = None  # the row whose models it averages, instead of a recipe
    runs: _Positive = 2  # of that row for one cell
    models: _Positive = 5  # the best of those runs
    shown: str | None = None  # why only the paper's figures are shown
    grid: dict[str, Annotated[list[Any], Field(min_length=1)]] = Field(default_factory=dict)
    search: Search | None = None  # which points of the grid are tried; None: all

    def run_keys(self) -> dict[str, Any]:
        """The keys, apart from the recipe, that determine how the row is run."""
        if not (self.ensemble or self.grid):
            return {}
        keys = {"ensemble", "runs", "models"} if self.ensemble else {"grid", "search"}
        return self.model_dump(mode="json", include=keys)


class Suite(_Frozen):
    """A table to fill."""

    title: str
    about: str = ""
    seeds: Annotated[list[int], Field(min_length=1)]
    folds: Annotated[int, Field(ge=2)] | None = None
    train_rows: list[_Positive | Literal["all"]] = Field(default_factory=list)  # sizes that every row is trained on
    draws: _Positive = 1  # of each size
    scores: Annotated[dict[str, str], Field(min_length=1)]  # task → heading
    means: dict[str, Literal["plain", "shifted"]] = Field(default_factory=dict)  # heading → how correlations enter
    mean_of: list[str] = Field(default_factory=list)  # the tasks of the means; empty: all
    groups: dict[str, str] = Field(default_factory=dict)  # group of data sets, such as those of one size → heading
    score_groups: dict[str, str] = Field(default_factory=dict)  # column → its group, if columns are data sets
    train_scores: bool = False  # whether models are also scored on all rows that they were trained on
    baseline: str | None = None
    free_rows: bool = True  # whether cells also measure what costs no training of the encoder
    paper_rows: dict[str, _Positive] = Field(default_factory=dict)  # task → the paper's training rows
    recipe: str | None = None  # the recipe of every row that names none
    rows: Annotated[dict[str, Row], Field(min_length=1)]
    folder: Path = Path()

    _tree: Tree = PrivateAttr(default_factory=lambda: Tree({}))  # where each key was written

    @property
    def has_paper(self) -> bool:
        """Whether the table compares with the figures or the training rows of a paper."""
        own = (row.paper or row.paper_train or row.paper_rows for row in self.rows.values())
        return bool(self.paper_rows) or any(own)

    def source(self, row: str) -> str:
        """What `read_recipe` takes for the row's recipe."""
        return f"{self.folder}#{self._trained_row(row)}"

    def recipe_file(self, row: str) -> Path:
        """The file that the row's recipe starts from."""
        keys = self.rows[self._trained_row(row)]
        if keys.extends:
            return self.recipe_file(keys.extends)
        return self.folder / (keys.recipe or self.recipe or f"{self._trained_row(row)}.yaml")

    def recipe_tree(self, row: str, profile: str | None = None) -> Tree:
        """The row's recipe: its file, then `set` of the rows that it extends, then its own, then the profile."""
        return use_profile(self._unprofiled(self._trained_row(row)), profile)

    def _unprofiled(self, row: str) -> Tree:
        keys = self.rows[row]
        if keys.extends:
            tree = self._unprofiled(keys.extends)
        else:
            tree = load_tree(self.recipe_file(row), None, (self.folder / _FILE,))  # extended, so it keeps its profiles
        if keys.train_rows:
            tree = set_key(tree, "train_rows", keys.train_rows, self._tree.origin(("rows", row, "train_rows")))
        mistakes: list[str] = []
        for name in sorted(keys.set, key=lambda name: name.count(".")):  # a task before its keys
            path: KeyPath = ("rows", row, "set", name)
            try:
                tree = set_key(tree, name, keys.set[name], self._tree.origin(path), _origins_below(self._tree, path))
            except RecipeError as error:
                mistakes += error.mistakes
        if mistakes:
            raise RecipeError(*mistakes)
        return tree

    def _trained_row(self, row: str) -> str:
        """The row itself, or for an ensemble the one whose models it averages."""
        return self.rows[row].ensemble or row

    def opponent(self, row: str) -> str | None:
        """The row that a row is tested against."""
        keys = self.rows[row]
        opponent = keys.against if "against" in keys.model_fields_set else self.baseline
        return None if opponent == row else opponent

    def train_rows_of(self, row: str) -> int | None:
        """The number of rows that a row of the table is trained on, if it has draws."""
        keys = self.rows[self._trained_row(row)]
        return keys.train_rows or (self.train_rows_of(keys.extends) if keys.extends else None)

    def tasks_of(self, column: str) -> list[str]:
        """The scores that a column shows: its own, or those that its mean is taken over."""
        return (self.mean_of or list(self.scores)) if column in self.means else [column]

    @property
    def split(self) -> str:
        """The split that is scored."""
        return "test" if self.folds else "dev"

    @property
    def trained(self) -> list[str]:
        """The rows that are run, not only shown."""
        return [name for name, row in self.rows.items() if row.shown is None]


def is_suite(folder: Path) -> bool:
    """Whether a folder, or the bundled one of that name, holds a suite."""
    return (folder / _FILE).is_file() or (not folder.exists() and (BUNDLED / folder / _FILE).is_file())


def read_suite(folder: Path, folds: int | None = None) -> Suite:
    """The suite in a folder, or the bundled one of that name; raises one RecipeError with all its mistakes.

    `folds` overrides the number of folds in the file.
    """
    if not folder.exists() and (BUNDLED / folder / _FILE).is_file():
        folder = BUNDLED / folder
    file = folder / _FILE
    if not file.is_file():
        names = ", ".join(sorted(path.parent.name for path in BUNDLED.glob(f"*/{_FILE}")))
        raise RecipeError(f"{folder}: contains no {_FILE}; give the folder of a suite, or a bundled name: {names}")
    tree, mistakes = expand_matrix(read_yaml(file), list(Row.model_fields))
    tree, clashes = expand_sizes(tree)
    mistakes += clashes
    own = {"folder": folder, **({"folds": folds} if folds else {})}
    try:
        suite = Suite.model_validate({**tree.values, **own})
    except ValidationError as error:
        findings = [dict(finding) for finding in error.errors()]
        if mistakes:  # rows of a broken matrix are missing
            findings = [finding for finding in findings if finding["loc"] != ("rows",)]
        mistakes += [_shape_mistake(tree, finding) for finding in findings]
    if mistakes:
        raise RecipeError(*dict.fromkeys(mistakes))
    suite._tree = tree
    if mistakes := list(dict.fromkeys(name_mistakes(suite, tree))):
        raise RecipeError(*mistakes)
    return suite


def read_row(source: str, profile: str | None = None) -> Tree:
    """The recipe that SUITE#ROW names; a suite is a folder or a bundled name."""
    folder, _, row = source.rpartition("#")
    suite = read_suite(Path(folder))
    if row not in suite.rows:
        raise RecipeError(f"{source}: no row {row!r}; {did_you_mean(row, suite.trained)}")
    keys = suite.rows[row]
    if keys.shown is not None:
        raise RecipeError(f"{source}: has no recipe, only the paper's figures: {keys.shown}")
    if keys.ensemble:
        command = f"plait experiment {folder} --rows {row}"
        raise RecipeError(f"{source}: an ensemble of runs of {keys.ensemble}, not one recipe; run it with: {command}")
    return suite.recipe_tree(row, profile)


def _shape_mistake(tree: Tree, finding: Mapping[str, Any]) -> str:
    """A finding of pydantic, as file:line: key: what is wrong."""
    path: KeyPath = finding["loc"]
    if finding["type"] in ("extra_forbidden", "unexpected_keyword_argument"):
        keys = {1: [*Suite.model_fields, "axes", "matrix"], 3: Row.model_fields}.get(
            len(path), Search.__dataclass_fields__
        )
        allowed = [name for name in keys if name != "folder"]
        *above, key = tree.as_written(path)
        return f"{tree.origin(path)}: {dotted(tuple(above))}unknown key {key!r}; {did_you_mean(str(key), allowed)}"
    if finding["type"] == "missing":
        return f"{tree.origin(path[:-1])}: {dotted(tree.as_written(path[:-1]))}missing key {path[-1]!r}"
    return f"{tree.where(path)}{explain(finding)}"


def _origins_below(tree: Tree, path: KeyPath) -> dict[KeyPath, Origin]:
    """Where the values inside the one at a path were written."""
    start = tree.as_written(path)
    size = len(start)
    return {key[size:]: origin for key, origin in tree.origins.items() if key[:size] == start and len(key) > size}
