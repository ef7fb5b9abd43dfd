"""The recipe that a caller gives, or that a run began with, resolved."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from plait.errors import RunError
from plait.recipe.read import read_recipe, recipe_from
from plait.recipe.schema import Recipe
from plait.recipe.tree import Tree, load_tree, plain, use_profile
from plait.recipe.upgrade import upgrade_recipe
from plait.resolve.run import ResolvedRun, resolve_run
from plait.resolve.saved import differences, recipe_differences
from plait.resolve.variants import VARIANTS, pin_versions
from plait.runs.directory import RunDirectory
from plait.runs.records import RunRecord

__all__ = ["as_recipe", "check_unchanged", "resolve_again", "saved_recipe"]


def resolve_again(
    run: RunDirectory,
    *,
    recipe: str | Path | Recipe | None = None,
    data: str | Path | None = None,
    profile: str | None = None,
    overrides: Sequence[str] = (),
) -> ResolvedRun:
    """The recipe of a run, resolved as when it began; refused if something has changed since."""
    tables = run.tables if run.tables.is_dir() else None  # tables of the run move with it
    folder = data or tables
    if recipe is None:
        given = saved_recipe(run, folder, profile, overrides)
    else:
        given = as_recipe(recipe, folder, profile, overrides)
    resolved = _resolve_as_begun(given, run.record, Path(data) if data else None)
    check_unchanged(run, resolved)
    return resolved


def as_recipe(
    source: str | Path | Mapping[str, Any] | Recipe,
    data: str | Path | None,
    profile: str | None,
    overrides: Sequence[str],
) -> Recipe:
    """The recipe of a file, a bundled name, a row of a suite (SUITE#ROW), a mapping or a Recipe, with overrides."""
    folder = Path(data) if data else None
    if isinstance(source, Recipe):
        source = source.model_dump(mode="json")
    if isinstance(source, Mapping):
        tree = use_profile(Tree(plain(source)), profile)
        return recipe_from(tree, VARIANTS, data=folder, overrides=_as_list(overrides))
    return read_recipe(source, VARIANTS, data=folder, profile=profile, overrides=_as_list(overrides))


def saved_recipe(run: RunDirectory, data: str | Path | None, profile: str | None, overrides: Sequence[str]) -> Recipe:
    """The recipe in a run directory, which an older plait may have written."""
    tree = load_tree(run.recipe, profile)
    upgraded = Tree(upgrade_recipe(tree.values), tree.origins)
    folder = Path(data) if data else None
    return recipe_from(upgraded, VARIANTS, data=folder, overrides=_as_list(overrides))


def _as_list(overrides: str | Sequence[str]) -> Sequence[str]:
    """A single override in Python may be a bare string."""
    return [overrides] if isinstance(overrides, str) else overrides


def _resolve_as_begun(given: Recipe, record: RunRecord, data: Path | None) -> ResolvedRun:
    """Resolve a recipe with the versions of its variants that the run began with."""
    resolved = resolve_run(pin_versions(given, record.variants), data)
    pinned = pin_versions(resolved.recipe, record.variants)  # heads and losses that the recipe left to the defaults
    return resolved if pinned == resolved.recipe else resolve_run(pinned, data)


def check_unchanged(run: RunDirectory, resolved: ResolvedRun) -> None:
    """Refuse to resume with another recipe, encoder or data, and show the difference."""
    record = run.record
    now = resolved.recipe.model_dump(mode="json")  # files may have moved, their content may not have changed
    changes = {
        "recipe": recipe_differences(record.recipe, now, record.variants),
        "encoder": differences(record.encoder, resolved.checkpoint.digests()),
        "data": differences(record.data, resolved.stage_fingerprints),
    }
    changed = [f"{run.folder}: the {what} has changed: {line}" for what, lines in changes.items() for line in lines]
    if changed:
        what_to_do = "undo the change, or start a new run with another `out`"
        raise RunError(*changed, f"a run can only be resumed unchanged; {what_to_do}")
