"""The names in a suite against what exists, and keys that exclude each other."""

from collections.abc import Iterator
from typing import TYPE_CHECKING

from plait.errors import did_you_mean
from plait.names import excerpt, name_problem
from plait.recipe.tree import Tree

if TYPE_CHECKING:
    from plait.recipe.suite import Suite

__all__ = ["ONLY", "name_mistakes"]

ONLY = "only"  # the column of a row's single task, whatever its name


def name_mistakes(suite: "Suite", tree: Tree) -> Iterator[str]:
    """Names of rows, columns and recipes that do not exist, and keys that exclude each other."""
    if len(set(suite.seeds)) < len(suite.seeds):
        yield f"{tree.where(('seeds',))}a seed is listed twice; its cells would be identical"
    if "draws" in suite.model_fields_set and not any(suite.rows[name].train_rows for name in suite.trained):
        yield f"{tree.where(('draws',))}there is nothing to draw; add train_rows, or drop draws"
    if ONLY in suite.scores and len(suite.scores) > 1:
        yield f"{tree.where(('scores',))}{ONLY!r} means the single task of a row; remove it or the other tasks"
    for task in suite.mean_of:
        if task not in suite.scores:
            yield f"{tree.where(('mean_of',))}no score {task!r}; {did_you_mean(task, suite.scores)}"
    for column, group in suite.score_groups.items():
        if column not in suite.scores:
            yield f"{tree.where(('score_groups', column))}no such score; {did_you_mean(column, suite.scores)}"
        if group not in suite.groups:
            yield f"{tree.where(('score_groups', column))}no group {group!r}; {_known_groups(suite, group)}"
    if suite.baseline is not None and suite.baseline not in suite.trained:
        yield f"{tree.where(('baseline',))}no row {suite.baseline!r}; {did_you_mean(suite.baseline, suite.trained)}"
    for name in suite.rows:
        yield from _row_mistakes(suite, tree, name)


def _row_mistakes(suite: "Suite", tree: Tree, name: str) -> Iterator[str]:
    row, path = suite.rows[name], ("rows", name)
    columns = [*suite.scores, *suite.means]
    single = [other for other in suite.trained if not suite.rows[other].ensemble]
    if problem := name_problem(name):
        yield f"{tree.where(path[:1])}the name {excerpt(name)!r} of a row {problem}; choose another"
    if "#" in name:
        yield f"{tree.where(path)}the name of a row cannot contain '#', which separates suite and row"
    for key, other in (("against", row.against), ("ensemble", row.ensemble), ("extends", row.extends)):
        if other is not None and (other not in single or other == name):
            choices = [choice for choice in single if choice != other]
            yield f"{tree.where((*path, key))}no row {other!r} to use here; {did_you_mean(other, choices)}"
    if row.group is not None and row.group not in suite.groups:
        yield f"{tree.where((*path, 'group'))}no group {row.group!r}; {_known_groups(suite, row.group)}"
    for column in row.paper:
        if column not in columns:
            yield f"{tree.where((*path, 'paper', column))}no such column; {did_you_mean(column, columns)}"
    for column in row.paper_train:
        if column not in suite.scores:
            yield f"{tree.where((*path, 'paper_train', column))}no such score; {did_you_mean(column, suite.scores)}"
    if row.ensemble:
        yield from _ensemble_mistakes(suite, tree, name)
    if row.search and not row.grid:
        yield f"{tree.where((*path, 'search'))}there is no grid to search; add one"
    if row.extends and row.recipe:
        yield f"{tree.where((*path, 'recipe'))}the row starts from {row.extends} already; remove recipe or extends"
    ancestors = _ancestors(suite, name)
    if name in ancestors:
        yield f"{tree.where((*path, 'extends'))}{name} extends itself"
    elif not ancestors and row.shown is None and not row.ensemble and not suite.recipe_file(name).is_file():
        yield f"{tree.where(path)}no recipe {suite.recipe_file(name)}"


def _known_groups(suite: "Suite", group: str) -> str:
    return did_you_mean(group, suite.groups) if suite.groups else "the suite has no groups"


def _ensemble_mistakes(suite: "Suite", tree: Tree, name: str) -> Iterator[str]:
    row, path = suite.rows[name], ("rows", name)
    assert row.ensemble is not None
    if suite.folds:
        where = tree.where((*path, "ensemble"))
        yield f"{where}the runs of an ensemble have their own seeds, and so other folds; remove ensemble or folds"
    if given := row.model_fields_set & {"recipe", "extends", "set", "grid", "search"}:
        yield f"{tree.where((*path, min(given)))}an ensemble averages runs of another row; remove {min(given)}"
    if row.ensemble in suite.rows and suite.rows[row.ensemble].grid:
        where = tree.where((*path, "ensemble"))
        yield f"{where}{row.ensemble} has a grid; an ensemble needs a row with one recipe"


def _ancestors(suite: "Suite", name: str) -> list[str]:
    """The rows that a row extends, closest first; ends at a cycle or at an unknown row."""
    found: list[str] = []
    parent = suite.rows[name].extends
    while parent is not None and parent not in found:
        found.append(parent)
        parent = suite.rows[parent].extends if parent in suite.rows else None
    return found
