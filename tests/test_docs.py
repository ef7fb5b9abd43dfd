"""Every command and code block of README and docs runs, and the recipe reference names everything there is."""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from plait.gradients.combine import COMBINERS
from plait.heads import HEADS, SHARED_LAYERS
from plait.losses import LOSSES
from plait.recipe.options import options_of
from plait.recipe.schema import Recipe, Task
from plait.schedules import LR_SCHEDULES, SCHEDULES

REPO = Path(__file__).parent.parent
STARTER = REPO / "src/plait/data/starter"
BLOCK = re.compile(r"^```(\w*)\n(.*?)^```", re.MULTILINE | re.DOTALL)


def blocks(document: str, language: str) -> list[str]:
    return [code for found, code in BLOCK.findall((REPO / document).read_text(encoding="utf-8")) if found == language]


def test_the_commands_and_code_of_the_readme_run(tiny_bert, tmp_path):
    for path in STARTER.glob("*.csv"):
        shutil.copy(path, tmp_path)
    (recipe,) = blocks("README.md", "yaml")
    (tmp_path / "recipe.yaml").write_text(recipe.replace("minilm", str(tiny_bert)).replace("epochs: 3", "epochs: 1"))
    (commands,) = blocks("README.md", "sh")
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    for command in commands.splitlines():
        done = subprocess.run(command, shell=True, cwd=tmp_path, env={**os.environ, "PATH": path}, capture_output=True)
        assert done.returncode == 0, f"{command}\n{done.stderr.decode()}"
    (code,) = blocks("README.md", "python")
    done = subprocess.run([sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    assert lines[0] == "['sentiment', 'duplicate', 'similarity']" and "(2, 16)" in lines


@pytest.mark.parametrize("code", blocks("docs/extending.md", "python"))
def test_the_examples_of_extending_run(code):
    exec(compile(code, "docs/extending.md", "exec"), {"__name__": "example"})


@pytest.mark.parametrize(
    "names",
    [Recipe.model_fields, Task.model_fields, HEADS, SHARED_LAYERS, LOSSES, SCHEDULES, LR_SCHEDULES, COMBINERS],
    ids=["recipe", "task", "heads", "shared layers", "losses", "schedules", "lr schedules", "combiners"],
)
def test_the_recipe_reference_names_everything(names):
    reference = (REPO / "docs/recipe.md").read_text(encoding="utf-8")
    assert [name for name in names if f"`{name}`" not in reference] == []


def test_the_recipe_reference_names_every_option():
    reference = (REPO / "docs/recipe.md").read_text(encoding="utf-8")
    variants = [
        *HEADS.values(),
        *SHARED_LAYERS.values(),
        *(loss.function for loss in LOSSES.values()),
        *SCHEDULES.values(),
    ]
    for variant in [*variants, *LR_SCHEDULES.values()]:
        assert [option for option in options_of(variant) if option not in reference] == [], variant.__name__


def test_the_files_that_architecture_names_are_there():
    table = (REPO / "docs/architecture.md").read_text(encoding="utf-8")
    for row in re.findall(r"^\| (`[a-z_]+/[^|]*|`[a-z_]+\.py`[^|]*)\|", table, re.MULTILINE):
        for name in re.findall(r"`([a-z_/]+(?:\.py|/))`", row):
            found = [path for path in (REPO / "src/plait").rglob("*") if path.as_posix().endswith(name.rstrip("/"))]
            assert found, f"docs/architecture.md names {name}"
