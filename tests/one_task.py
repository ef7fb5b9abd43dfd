"""Recipes of one task `it`, resolved without an encoder."""

from pathlib import Path

import pytest

from plait.errors import PlaitError
from plait.recipe.read import recipe_from
from plait.recipe.tree import Tree
from plait.resolve.run import ResolvedStage, resolve_tasks
from plait.resolve.task import ResolvedTask
from plait.resolve.variants import VARIANTS

LIMIT, WIDTH = 40, 16  # of the encoder
LABELS = {
    "classes": ["low", "high", "mid"],
    "yes_no": ["0", "1", "1"],
    "score": ["0.5", "4.5", "2"],
}


def write(path: Path, labels: list[str]) -> None:
    rows = [f"first {number},second {number},{label}\n" for number, label in enumerate(labels)]
    path.write_text("one,two,label\n" + "".join(rows))


def resolve_one(folder: Path, labels: list[str], texts: int = 2, top: dict | None = None, **task) -> ResolvedStage:
    """A recipe of one task `it` on these training labels, resolved."""
    write(folder / "train.csv", labels)
    keys = {"train": str(folder / "train.csv"), "text": ["one", "two"][:texts], "label": "label", **task}
    return resolve_tasks(
        recipe_from(Tree({"encoder": "tiny", "tasks": {"it": keys}, **(top or {})}), VARIANTS), LIMIT, WIDTH
    )


def task_of(folder: Path, labels: list[str], texts: int = 2, **task) -> ResolvedTask:
    return resolve_one(folder, labels, texts, **task).tasks["it"]


def mistakes_of(folder: Path, labels: list[str], texts: int = 2, **task) -> list[str]:
    with pytest.raises(PlaitError) as caught:
        resolve_one(folder, labels, texts, **task)
    return [mistake.replace(f"{folder}/", "") for mistake in caught.value.mistakes]


def losses(data: ResolvedTask) -> list[str]:
    return [loss.name for loss in data.settings.loss]
