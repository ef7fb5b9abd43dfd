"""Every method has a recipe here, every recipe reduces its loss, and docs/methods.md describes each."""

import importlib.util
import json
import re
import shutil
import sys
from dataclasses import asdict
from pathlib import Path
from types import ModuleType

import pytest

from plait.recipe.read import read_recipe
from plait.recipe.tree import load_tree
from plait.resolve.run import resolve_tasks
from plait.resolve.variants import VARIANTS
from tiny import make_checkpoint

REPO = Path(__file__).parent.parent.parent
HERE = REPO / "tests/methods"
PAGE = REPO / "docs/methods.md"
STARTER = REPO / "src/plait/data/starter"
LIMIT, WIDTH = 256, 384  # of the encoder that the recipes of the page name
BLOCK = re.compile(r"^```yaml\n# ([^\n]*)\n(.*?)^```", re.MULTILINE | re.DOTALL)

IDS = [
    *(f"E{number}" for number in range(1, 7)),
    *(f"H{number}" for number in range(1, 13)),
    *(f"L{number}" for number in range(1, 11)),
    *("S1", "S2", "S3", "S4", "S4b", "S5", "S6"),
    *("G1", "G2"),
    *(f"A{number}" for number in range(1, 10)),
]
NO_RECIPE = {
    "A2": "every run saves its best model and scores train and dev in every epoch",
    "A3": "metrics are not part of training; every run has them",
    "A5": "k-fold and seeds are several runs, not a recipe",
    "A6": "a grid search is several runs, not a recipe",
}


def load_table_script() -> ModuleType:
    place = importlib.util.spec_from_file_location("methods_table", REPO / "scripts/methods_table.py")
    assert place is not None and place.loader is not None
    script = importlib.util.module_from_spec(place)
    sys.modules[place.name] = script  # dataclasses look their module up
    place.loader.exec_module(script)
    return script


SCRIPT = load_table_script()
RECIPES = SCRIPT.recipe_names()


def reduced(name: str, encoder: Path) -> list[str]:
    """Overrides that make a recipe small enough to train in a second or two: few rows, many epochs."""
    values = load_tree(HERE / f"{name}.yaml").values
    changes = [f"encoder={encoder}", "checkpoint_every=1000", "lr=1e-3"]
    if "stages" in values:
        return changes
    scored = name in SCRIPT.AFTER
    epochs = 2 if scored else 6 if len(values["tasks"]) == 1 else 4
    changes += ["batch_size=8", f"epochs={epochs}"]
    for task in values["tasks"]:
        changes += [f"tasks.{task}.rows={32 if scored else 16}", *([] if scored else [f"tasks.{task}.dev=null"])]
    return changes


@pytest.mark.parametrize("name", RECIPES)
def test_a_recipe_reduces_its_loss(name, small_minilm, tmp_path):
    changes = reduced(name, small_minilm)
    if name == SCRIPT.RANDOM_ROBERTA:
        changes += [f"encoder={make_checkpoint(tmp_path / 'roberta', 'roberta')}", "lr=3e-3"]
    found = SCRIPT.measure(name, tmp_path, changes)
    assert found.last < found.first - 0.05 * abs(found.first), found  # by more than sampling variance
    assert bool(found.note) == (name in SCRIPT.AFTER)


@pytest.mark.parametrize("name", RECIPES)
def test_an_unchanged_recipe_can_be_resolved(name):
    for stage in read_recipe(HERE / f"{name}.yaml", VARIANTS).stage_recipes():
        assert list(resolve_tasks(stage, LIMIT, WIDTH).tasks) == list(stage.tasks)


def page_blocks() -> dict[str, str]:
    """The recipes on the page, by the name in their first line."""
    found = BLOCK.findall(PAGE.read_text(encoding="utf-8"))
    assert len(found) == len(dict(found)), "two blocks have the same name"
    return dict(found)


def test_every_method_has_a_recipe_or_a_reason():
    with_recipe = {name.partition("-")[0].upper().replace("B", "b") for name in RECIPES}
    assert all(re.fullmatch(r"[EHLSGA][0-9]{2}b?", found) for found in with_recipe)
    wanted = {re.sub(r"[0-9]+", lambda number: number[0].zfill(2), name): name for name in IDS}
    assert with_recipe <= wanted.keys()
    assert {wanted[found] for found in wanted.keys() - with_recipe} == NO_RECIPE.keys()


def test_the_page_describes_every_method_and_every_recipe():
    page = PAGE.read_text(encoding="utf-8")
    described = {word for title in re.findall(r"^### (.*)$", page, re.MULTILINE) for word in re.findall(r"\w+", title)}
    assert [name for name in IDS if name not in described] == []
    assert sorted(page_blocks()) == sorted(["recipe.yaml", *RECIPES])


def test_every_variant_that_a_recipe_may_name_has_a_recipe():
    texts = "\n".join(path.read_text(encoding="utf-8") for path in HERE.rglob("*.yaml"))
    defaults = {"nearer", "together"}  # of triplets and of several tasks
    taught = {"distil"}  # needs a teacher: tests/training/test_teacher.py
    words = set(re.findall(r"[\w]+", texts)) | defaults | taught
    for variants in (VARIANTS.heads, VARIANTS.losses, VARIANTS.schedules, VARIANTS.lr_schedules, VARIANTS.combiners):
        assert [name for name in variants if name not in words] == []
    for variants in (VARIANTS.optimizers, VARIANTS.shared_layers, VARIANTS.poolings, VARIANTS.derivations):
        assert [name for name in variants if name not in words] == []


@pytest.mark.parametrize("name", list(page_blocks()))
def test_the_recipes_on_the_page_can_be_resolved(name, tmp_path):
    found = page_blocks()
    for path in (*STARTER.glob("*.csv"), HERE / "nli.csv"):
        shutil.copy(path, tmp_path)
    (tmp_path / "recipe.yaml").write_text(found["recipe.yaml"], encoding="utf-8")
    complete = name == "recipe.yaml" or "\nstages:" in found[name]
    (tmp_path / "extended.yaml").write_text(
        ("" if complete else "extends: recipe.yaml\n") + found[name], encoding="utf-8"
    )
    recipe = read_recipe(tmp_path / "extended.yaml", VARIANTS)
    assert list(resolve_tasks(recipe, LIMIT, WIDTH).tasks) == list(recipe.tasks)


def table_rows() -> dict[str, list[str]]:
    """The cells of the table of scores, by recipe."""
    _, _, rest = PAGE.read_text(encoding="utf-8").partition(SCRIPT.BEGIN)
    rows = [
        re.split(r"(?<!\\)\|", line) for line in rest.partition(SCRIPT.END)[0].splitlines() if line.startswith("| ")
    ]
    return {row[2].strip(" `"): [cell.strip() for cell in row] for row in rows[1:]}


def test_the_table_of_scores_has_every_recipe():
    assert list(table_rows()) == RECIPES


def test_the_table_is_described_as_the_script_would_write_it():
    assert SCRIPT.HEAD in PAGE.read_text(encoding="utf-8")
    for name, cells in table_rows().items():
        assert cells[1].startswith(SCRIPT.escape(SCRIPT.about_of(name).rstrip("."))), name


@pytest.mark.parametrize("last", [0.5, 1.5])
def test_a_recipe_that_does_not_reduce_its_loss_stops_the_table(last, monkeypatch, tmp_path):
    page = tmp_path / "methods.md"
    page.write_text(f"before\n{SCRIPT.BEGIN}\nold\n{SCRIPT.END}\nafter\n", encoding="utf-8")
    name = "h09-cosine"
    found = SCRIPT.Measured(name, "H9.", 1.0, last, {"near": ("pearson", 0.7)}, 3.0, "", SCRIPT.fingerprint_of(name))
    (tmp_path / f"{name}.json").write_text(json.dumps(asdict(found)), encoding="utf-8")
    monkeypatch.setattr(SCRIPT, "STORE", tmp_path)
    monkeypatch.setattr(SCRIPT, "PAGE", page)
    monkeypatch.setattr(sys, "argv", ["methods_table.py", "--table"])
    if last > 1:
        with pytest.raises(
            SystemExit, match="the table was not written, because the loss does not decrease: h09-cosine"
        ):
            SCRIPT.main()
        assert "old" in page.read_text(encoding="utf-8")
    else:
        SCRIPT.main()
        row = "| H9 | `h09-cosine` | 1.000 → 0.500 | near pearson 0.700 | 3 |"
        written = page.read_text(encoding="utf-8")
        assert row in written and "old" not in written
        assert written.startswith("before\n") and written.endswith("\nafter\n")


@pytest.mark.slow
@pytest.mark.parametrize("name", ["e01-bert", "h09-cosine"])
def test_a_recipe_reproduces_the_scores_of_the_table(name, minilm, tmp_path):
    """To the last digit on the same processor; another rounds differently, which may change a few of 80 predictions."""
    found = SCRIPT.measure(name, tmp_path)
    cells = table_rows()[name]
    scores = [float(value) for value in re.findall(r"[0-9]\.[0-9]{3}", cells[4])]
    assert scores == pytest.approx([value for _, value in found.scores.values()], abs=0.05)
    losses = [float(value) for value in cells[3].split(" → ")]
    assert losses == pytest.approx([found.first, found.last], rel=0.05)
