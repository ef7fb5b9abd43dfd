"""Every method has a recipe here, every recipe learns, and docs/methods.md tells of each."""

import importlib.util
import re
import shutil
import sys
from pathlib import Path
from types import ModuleType

import pytest

from plait.errors import PlaitError
from plait.recipe.read import read_recipe
from plait.recipe.tree import load_tree
from plait.training.settle import settle
from plait.training.tables import TABLES
from tiny import make_checkpoint

REPO = Path(__file__).parent.parent.parent
HERE = REPO / "tests/methods"
PAGE = REPO / "docs/methods.md"
STARTER = REPO / "src/plait/data/starter"
LIMIT = 256  # tokens of the encoder that the page's recipes name

IDS = [
    *(f"E{number}" for number in range(1, 7)),
    *(f"H{number}" for number in range(1, 12)),
    *(f"L{number}" for number in range(1, 11)),
    *("S1", "S2", "S3", "S4", "S4b", "S5", "S6"),
    *("G1", "G2"),
    *(f"A{number}" for number in range(1, 10)),
]
NO_RECIPE = {
    "A2": "every run keeps its best model and scores train and dev in every epoch",
    "A3": "metrics are no training; every run has them",
    "A5": "k-fold and seeds are several runs, not a recipe",
    "A6": "a grid search is several runs, not a recipe",
}
PENDING = [  # recipes and sections of the page whose features are not there yet; take a name away when they are
    "a01-stages",
    "l04-info_nce_head",
    "l05-simcse_unlabelled",
    "l07-multiple_negatives_cached",
    "l07-multiple_negatives_inference",
    "l07-multiple_negatives_pairs",
    "l07-multiple_negatives_triplets",
    "l08-soft_triple",
    "l09-triple_entropy",
    "l10-proxy_nca",
    "l10-supervised_contrastive_joined",
]


def table_script() -> ModuleType:
    place = importlib.util.spec_from_file_location("methods_table", REPO / "scripts/methods_table.py")
    assert place is not None and place.loader is not None
    script = importlib.util.module_from_spec(place)
    sys.modules[place.name] = script  # dataclasses look their module up
    place.loader.exec_module(script)
    return script


SCRIPT = table_script()
RECIPES = SCRIPT.recipe_names()


def marked(names: list[str]) -> list[object]:
    """The names; those that wait for something are expected to fail, and to tell when they no longer do."""
    waits = pytest.mark.xfail(raises=PlaitError, reason="its feature is not there yet: see PENDING")
    return [pytest.param(name, marks=[waits] if name in PENDING else []) for name in names]


def reduced(name: str, encoder: Path) -> list[str]:
    """Changes that leave of a recipe what a second or two can train: few rows, which come again and again."""
    values = load_tree(HERE / f"{name}.yaml").values
    changes = [f"encoder={encoder}", "checkpoint_every=1000", "lr=1e-3"]
    if "stages" in values:
        return changes
    scored = name in SCRIPT.AFTER
    epochs = 2 if scored else 8 if len(values["tasks"]) == 1 else 5
    changes += ["batch_size=8", f"epochs={epochs}"]
    for task in values["tasks"]:
        changes += [f"tasks.{task}.rows={32 if scored else 16}", *([] if scored else [f"tasks.{task}.dev=null"])]
    return changes


@pytest.mark.parametrize("name", marked(RECIPES))
def test_the_loss_of_a_recipe_goes_down(name, small_minilm, tmp_path):
    changes = reduced(name, small_minilm)
    if name == SCRIPT.RANDOM_ROBERTA:
        changes += [f"encoder={make_checkpoint(tmp_path / 'roberta', 'roberta')}", "lr=3e-3"]
    found = SCRIPT.measure(name, tmp_path, changes)
    assert found.last < found.first - 0.05 * abs(found.first), found  # by more than luck of the rows
    assert bool(found.note) == (name in SCRIPT.AFTER)
    with (Path("/tmp/md/falls.txt")).open("a") as f:
        print(name, round(found.first, 3), round(found.last, 3), {k: (round(a, 3), round(b, 3)) for k, (a, b) in found.falls.items()}, found.scores, found.note, round(found.seconds, 1), file=f)
