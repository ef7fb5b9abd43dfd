"""A suite: a folder of recipes that make one table, and the figures that the paper has for it."""

from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from plait.errors import RecipeError, did_you_mean
from plait.experiments.tune import Search
from plait.recipe.options import explain
from plait.recipe.read import BUNDLED
from plait.recipe.tree import Tree, dotted, read_yaml

__all__ = ["ONLY", "Row", "Suite", "read_suite"]

FILE = "suite.yaml"
ONLY = "only"  # the column of the one task of a row, whatever its name
Positive = Annotated[int, Field(gt=0)]


class Frozen(BaseModel):
    """No unknown key, no change after reading."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True, allow_inf_nan=False)


class Row(Frozen):
    """One row of the table."""

    model_config = ConfigDict(strict=False)  # a strict one takes no keys for a Search

    paper: dict[str, float] = Field(default_factory=dict)  # column or mean → the paper's figure
    recipe: str | None = None  # a file beside suite.yaml; None: ROW.yaml
    against: str | None = None  # the row that it is tested against, or none; not given: the suite's baseline
    paper_rows: dict[str, Positive] | None = None  # as in the suite
    ensemble: str | None = None  # the row whose models it averages, in place of a recipe
    runs: Positive = 2  # of that row for one cell
    models: Positive = 5  # the best of those runs
    shown: str | None = None  # why it has the paper's figures only
    grid: dict[str, Annotated[list[Any], Field(min_length=1)]] = Field(default_factory=dict)
    search: Search | None = None  # which points of the grid are tried; None: all

    @property
    def runs_by(self) -> dict[str, Any]:
        """What else than its recipe decides how it is run, if anything does."""
        keys = {"ensemble", "runs", "models"} if self.ensemble else {"grid", "search"}
        found: dict[str, Any] = self.model_dump(mode="json", include=keys)
        return found if self.ensemble or self.grid else {}


class Suite(Frozen):
    """A table to fill."""

    title: str
    about: str = ""
    seeds: Annotated[list[int], Field(min_length=1)]
    folds: Annotated[int, Field(ge=2)] | None = None
    scores: Annotated[dict[str, str], Field(min_length=1)]  # task → heading
    means: dict[str, Literal["plain", "shifted"]] = Field(default_factory=dict)  # heading → how
    mean_of: list[str] = Field(default_factory=list)  # the tasks of the means; empty: all
    baseline: str | None = None
    paper_rows: dict[str, Positive] = Field(default_factory=dict)  # task → the paper's training rows
    rows: Annotated[dict[str, Row], Field(min_length=1)]
    folder: Path = Path()

    def recipe_of(self, row: str) -> Path:
        """The recipe of a row, of an ensemble that of its members."""
        found = self.rows[row]
        return self.recipe_of(found.ensemble) if found.ensemble else self.folder / (found.recipe or f"{row}.yaml")

    def opponent_of(self, row: str) -> str | None:
        """The row that a row is tested against."""
        found = self.rows[row]
        opponent = found.against if "against" in found.model_fields_set else self.baseline
        return None if opponent == row else opponent

    def tasks_of(self, column: str) -> list[str]:
        """The scores that a column shows: its own, or those that its mean is of."""
        return (self.mean_of or list(self.scores)) if column in self.means else [column]

    @property
    def split(self) -> str:
        """The data that the scores are of."""
        return "test" if self.folds else "dev"

    @property
    def trained(self) -> list[str]:
        """The rows that are not only shown."""
        return [name for name, row in self.rows.items() if row.shown is None]


def read_suite(folder: Path, folds: int | None = None) -> Suite:
    """The suite in a folder, or the bundled one of that name; raises one RecipeError with every mistake in it."""
    if not folder.exists() and (BUNDLED / folder / FILE).is_file():
        folder = BUNDLED / folder
    file = folder / FILE
    if not file.is_file():
        names = ", ".join(sorted(path.parent.name for path in BUNDLED.glob(f"*/{FILE}")))
        raise RecipeError(f"{folder}: no {FILE} there; give a folder of recipes with one, or a bundled name: {names}")
    tree = read_yaml(file)
    own = {"folder": folder, **({"folds": folds} if folds else {})}
    try:
        suite = Suite.model_validate({**tree.values, **own})
    except ValidationError as error:
        raise RecipeError(*(shape_mistake(tree, dict(finding)) for finding in error.errors())) from None
    if mistakes := list(check_names(suite, tree)):
        raise RecipeError(*mistakes)
    return suite


def shape_mistake(tree: Tree, finding: dict[str, Any]) -> str:
    """One finding, as file:line: key: what."""
    path = finding["loc"]
    if finding["type"] in ("extra_forbidden", "unexpected_keyword_argument"):
        keys = {1: Suite.model_fields, 3: Row.model_fields}.get(len(path), Search.__dataclass_fields__)
        allowed = [name for name in keys if name != "folder"]
        return f"{tree.origin(path)}: {dotted(path[:-1])}unknown key {path[-1]!r}; {did_you_mean(path[-1], allowed)}"
    if finding["type"] == "missing":
        return f"{tree.origin(path[:-1])}: {dotted(path[:-1])}missing key {path[-1]!r}"
    return f"{tree.where(path)}{explain(finding)}"


def check_names(suite: Suite, tree: Tree) -> Iterator[str]:
    """Names of rows, columns and recipes that are not there."""
    columns = [*suite.scores, *suite.means]
    if len(set(suite.seeds)) < len(suite.seeds):
        yield f"{tree.where(('seeds',))}a seed stands there twice; its cells would be the same"
    if ONLY in suite.scores and len(suite.scores) > 1:
        yield f"{tree.where(('scores',))}{ONLY!r} stands for the one task of a row and cannot be beside other tasks"
    for task in suite.mean_of:
        if task not in suite.scores:
            yield f"{tree.where(('mean_of',))}no score {task!r}; {did_you_mean(task, suite.scores)}"
    if suite.baseline is not None and suite.baseline not in suite.trained:
        yield f"{tree.where(('baseline',))}no row {suite.baseline!r}; {did_you_mean(suite.baseline, suite.trained)}"
    for name, row in suite.rows.items():
        path = ("rows", name)
        for key, other in (("against", row.against), ("ensemble", row.ensemble)):
            if other is not None and (other not in suite.trained or other == name or suite.rows[other].ensemble):
                others = [one for one in suite.trained if one != name and not suite.rows[one].ensemble]
                yield f"{tree.where((*path, key))}no row {other!r} to take; {did_you_mean(other, others)}"
        for column in row.paper:
            if column not in columns:
                yield f"{tree.where((*path, 'paper', column))}no such column; {did_you_mean(column, columns)}"
        if row.ensemble and suite.folds:
            yield f"{tree.where((*path, 'ensemble'))}its runs have seeds of their own, and so other folds; drop one"
        if row.ensemble and (given := row.model_fields_set & {"recipe", "grid", "search"}):
            yield f"{tree.where((*path, min(given)))}an ensemble is of another row's runs and has none itself"
        if row.ensemble in suite.rows and suite.rows[row.ensemble].grid:
            yield f"{tree.where((*path, 'ensemble'))}{row.ensemble} has a grid; an ensemble is of a row with one recipe"
        if row.search and not row.grid:
            yield f"{tree.where((*path, 'search'))}there is no grid to search; give one"
        if row.shown is None and row.ensemble is None and not suite.recipe_of(name).is_file():
            yield f"{tree.where(path)}no recipe {suite.recipe_of(name)}"
