"""`plait.check`: what a recipe would train, or every mistake in it."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from plait.data.overlap import Overlaps
from plait.data.read import BadRow
from plait.recipe.schema import Recipe
from plait.resolve.run import resolve_run
from plait.runs.directory import RunDirectory
from plait.training.estimate import CostEstimate, StagePreview, preview_run, total_cost
from plait.training.given_recipe import as_recipe

__all__ = ["Check", "check"]


@dataclass(frozen=True)
class Check:
    """What a recipe would train."""

    stages: list[StagePreview]  # with the tasks of each
    overlaps: Overlaps  # texts that occur in two splits or tasks
    notes: list[str]  # what to know about the data before training
    bad_rows: list[BadRow]  # with bad_rows: skip

    @property
    def steps(self) -> int:
        """Of all stages."""
        return sum(stage.steps for stage in self.stages)

    @property
    def cost(self) -> CostEstimate | None:
        """The time and memory of the whole run; None without a trial."""
        return total_cost(self.stages)


def check(
    recipe: str | Path | Mapping[str, Any] | Recipe,
    *,
    data: str | Path | None = None,
    profile: str | None = None,
    overrides: Sequence[str] = (),
    trial: bool = True,
) -> Check:
    """What a recipe would train; raises one error with every mistake in the recipe and its data.

    The arguments are those of `plait.train`. With `trial`, a few steps are trained to estimate time and memory; nothing
    is written.
    """
    with TemporaryDirectory() as folder:
        run = RunDirectory(Path(folder))
        with run.errors_in_rows():
            given = as_recipe(run.store_tables(recipe), data, profile, overrides)
            resolved = resolve_run(given, Path(data) if data else None)
        stages = preview_run(resolved, trial=trial)
    found = resolved.data
    bad = [row for task in found.tasks.values() for row in task.bad]
    return Check(stages, found.overlaps(), found.data_notes(), run.rows_of_tables(bad))
