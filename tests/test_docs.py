"""Every command, recipe and code block of README and docs works, and the recipe reference is what the code has."""

import csv
import gzip
import importlib.util
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest

from plait.data.read import FORMATS
from plait.gradients.combine import COMBINERS
from plait.heads import HEADS, SHARED_LAYERS
from plait.losses import LOSSES
from plait.model.about import find_model, read_about
from plait.recipe.options import options_of
from plait.recipe.read import read_recipe
from plait.recipe.schema import Label, Recipe, Source, Task
from plait.schedules import LR_SCHEDULES, SCHEDULES
from plait.training.loop import train
from plait.training.settle import settle, settle_recipe
from plait.training.tables import TABLES
from tiny import sentences

REPO = Path(__file__).parent.parent
STARTER = REPO / "src/plait/data/starter"
BLOCK = re.compile(r"^```(\w*)\n(.*?)^```", re.MULTILINE | re.DOTALL)
LIMIT = 512  # tokens of the encoders that the recipes name
COLUMNS = "sentence body essay left right topic tags billing urgent is_spam points rating split language".split()


def blocks(document: str, language: str) -> list[str]:
    return [code for found, code in BLOCK.findall((REPO / document).read_text(encoding="utf-8")) if found == language]


def run_command(command: str | list[str], folder: Path) -> str:
    """Its output; `plait` and `python` are those of the tests."""
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    environment = {**os.environ, "PATH": path}
    shell = isinstance(command, str)
    done = subprocess.run(command, shell=shell, cwd=folder, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, f"{command}\n{done.stderr}"
    return done.stdout


@pytest.fixture(scope="module")
def folder(tiny_bert, tmp_path_factory) -> Path:
    """Every file that the recipes of the docs name, and a run of the first of them on the tiny encoder."""
    folder = tmp_path_factory.mktemp("docs")
    for path in STARTER.glob("*.csv"):
        shutil.copy(path, folder)
    for name in ("tickets", "mails", "ratings", "essays", "all", "reviews"):
        write_rows(folder / f"{name}.csv")
    write_relations(folder / "nli.csv")
    (folder / "reviews.csv.gz").write_bytes(gzip.compress((folder / "reviews.csv").read_bytes()))
    write_rows(folder / "messy.csv")
    with (folder / "messy.csv").open("ab") as file:
        file.write(b"too,few,fields\n" + b"caf\xe9" + b"," * len(COLUMNS[1:]) + b"\n")
    recipe = blocks("docs/situations.md", "yaml")[0].replace("minilm", str(tiny_bert)).replace("epochs: 3", "epochs: 1")
    (folder / "recipe.yaml").write_text(recipe, encoding="utf-8")
    train(folder / "recipe.yaml", folder / "runs/first", baselines=False)
    return folder


def write_rows(path: Path) -> None:
    """A table that has whatever a task may ask for."""
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow(COLUMNS)
        for row, text in enumerate(sentences(60, seed=5, longest=30)):
            tags = "|".join(tag for tag, every in (("late", 2), ("rude", 3), ("broken", 5)) if row % every == 0)
            split = ("train", "train", "dev", "test")[row % 4]
            labels = (("bill", "bug", "praise")[row % 3], tags, row % 2, int(row % 3 == 0), int(row % 10 == 0))
            writer.writerow((text, text, text, text, f"not {text}", *labels, row, row / 0.6, split, "en"))


def write_relations(path: Path) -> None:
    """Premises, each with a hypothesis of either kind."""
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow(("premise", "hypothesis", "label"))
        for text in sentences(20, seed=6):
            writer.writerows([(text, f"{text} indeed", "entailment"), (text, f"not {text}", "contradiction")])


def test_the_commands_and_code_of_the_readme_run(tiny_bert, tmp_path):
    for path in STARTER.glob("*.csv"):
        shutil.copy(path, tmp_path)
    (recipe,) = blocks("README.md", "yaml")
    (tmp_path / "recipe.yaml").write_text(recipe.replace("minilm", str(tiny_bert)).replace("epochs: 3", "epochs: 1"))
    (commands,) = blocks("README.md", "sh")
    for command in commands.splitlines():
        run_command(command, tmp_path)
    (code,) = blocks("README.md", "python")
    lines = run_command([sys.executable, "-c", code], tmp_path).splitlines()
    assert lines[0] == "['sentiment', 'duplicate', 'similarity']" and "(2, 16)" in lines


@pytest.mark.parametrize("code", blocks("docs/extending.md", "python"))
def test_the_examples_of_extending_run(code):
    exec(compile(code, "docs/extending.md", "exec"), {"__name__": "example"})


@pytest.mark.parametrize(
    ("document", "number"),
    [
        (document, number)
        for document in ("docs/recipe.md", "docs/situations.md")
        for number, _ in enumerate(blocks(document, "yaml"))
    ],
)
def test_the_recipes_of_the_docs_can_be_trained(document, number, folder):
    own = folder / Path(document).stem  # each page has its own recipe.yaml
    own.mkdir(exist_ok=True)
    recipes = blocks(document, "yaml")
    (own / "recipe.yaml").write_text(recipes[0], encoding="utf-8")
    (own / "tried.yaml").write_text(recipes[number], encoding="utf-8")
    changes = [f"encoder={folder / 'runs/first/best'}"] if "encoder: runs/first/best" in recipes[number] else []
    recipe = read_recipe(own / "tried.yaml", TABLES, data=folder, assignments=changes)
    if any(source.on_hub for task in recipe.tasks.values() for source in task.train):
        return  # there is no network in a test
    for stage in recipe.stage_recipes():
        settled = settle_recipe(stage) if find_model(stage.encoder) else settle(stage, LIMIT)
        assert list(settled.tasks) == list(stage.tasks)
        for name, task in stage.tasks.items():
            given = {split for split in ("train", "dev", "test") if task.sources(split)}
            assert settled.tasks[name].splits.keys() == given
        assert {name: len(rows) for name, rows in settled.bad.items()} == (
            {"topic": 2} if stage.bad_rows == "skip" else {}
        )


def test_the_commands_of_the_situations_run(folder):
    for command in "".join(blocks("docs/situations.md", "sh")).splitlines():
        run_command(command, folder)
    with (folder / "predicted.csv").open(encoding="utf-8") as file:
        assert [row["sentence"] for row in csv.DictReader(file)] == sentences(60, seed=5, longest=30)
    assert len((folder / "predicted.jsonl").read_text(encoding="utf-8").splitlines()) == 60
    assert not (folder / "predicted.jsonl.errors.jsonl").exists()
    assert find_tasks(folder / "runs/both") == find_tasks(folder / "runs/soup") == find_tasks(folder / "runs/first")


def test_the_code_of_the_situations_runs(folder, tiny_bert):
    (code,) = blocks("docs/situations.md", "python")
    assert '"minilm"' in code
    shown = 'print(set(reviews["predicted"]) <= {"0", "1", "2", "3", "4"})'
    lines = run_command([sys.executable, "-c", f"{code}\n{shown}".replace("minilm", str(tiny_bert))], folder)
    accuracy, known = lines.splitlines()
    assert 0 <= float(accuracy) <= 1 and known == "True"


def test_the_commands_and_the_code_of_export_run(folder):
    for command in "".join(blocks("docs/export.md", "sh")).splitlines():
        run_command(command, folder)
    assert (folder / "exported.npy").is_file()
    (code,) = blocks("docs/export.md", "python")
    assert run_command([sys.executable, "-c", code], folder) == "onnx (1, 16)\n"


@pytest.mark.parametrize(
    "names",
    [
        Recipe.model_fields,
        Task.model_fields,
        Label.model_fields,
        Source.model_fields,
        HEADS,
        SHARED_LAYERS,
        LOSSES,
        SCHEDULES,
        LR_SCHEDULES,
        COMBINERS,
        TABLES.optimizers,
        TABLES.poolings,
        TABLES.reads,
        TABLES.metrics,
        {metric for metrics in TABLES.metrics.values() for metric in metrics},
        FORMATS,
    ],
    ids=(
        "recipe,task,label,source,heads,shared layers,losses,schedules,lr schedules,combiners,optimizers,poolings,"
        "ways of reading,kinds of label,metrics,kinds of file"
    ).split(","),
)
def test_the_recipe_reference_names_everything(names):
    reference = (REPO / "docs/recipe.md").read_text(encoding="utf-8")
    assert [name for name in names if f"`{name}`" not in reference] == []


def test_the_recipe_reference_names_every_option():
    reference = (REPO / "docs/recipe.md").read_text(encoding="utf-8")
    tables = (TABLES.heads, TABLES.losses, TABLES.schedules, TABLES.lr_schedules, TABLES.optimizers)
    for variants in (*tables, TABLES.shared_layers):
        for name, variant in variants.items():
            lacking = [option for option in options_of(variant) if f"| `{name}` | `{option}` |" not in reference]
            assert lacking == [], name


def reference_script() -> ModuleType:
    place = importlib.util.spec_from_file_location("recipe_reference", REPO / "scripts/recipe_reference.py")
    assert place is not None and place.loader is not None
    script = importlib.util.module_from_spec(place)
    place.loader.exec_module(script)
    return script


def test_the_recipe_reference_is_current():
    written = (REPO / "docs/recipe.md").read_text(encoding="utf-8")
    assert written == reference_script().reference(), "docs/recipe.md is not what the code has; run make docs"


def test_a_type_without_words_stops_the_recipe_reference():
    with pytest.raises(TypeError, match="has no words for this type"):
        reference_script().alternatives(complex)


@pytest.mark.parametrize("document", ["README.md", *(f"docs/{path.name}" for path in (REPO / "docs").glob("*.md"))])
def test_the_links_of_the_docs_lead_somewhere(document):
    text = BLOCK.sub("", (REPO / document).read_text(encoding="utf-8"))
    for file, anchor in re.findall(r"\]\(([^)#:]*)(?:#([^)]*))?\)", text):
        target = (REPO / document).parent / file if file else REPO / document
        if document == "docs/recipe.head.md" and not file:
            target = REPO / "docs/recipe.md"  # which it is the head of
        assert target.is_file(), f"{document} links to {file}"
        titles = re.findall(r"^#+ (.*)$", BLOCK.sub("", target.read_text(encoding="utf-8")), re.MULTILINE)
        assert not anchor or anchor in [title.lower().replace(" ", "-") for title in titles], f"{file}#{anchor}"


def test_the_files_that_architecture_names_are_there():
    table = (REPO / "docs/architecture.md").read_text(encoding="utf-8")
    for row in re.findall(r"^\| (`[a-z_]+/[^|]*|`[a-z_]+\.py`[^|]*)\|", table, re.MULTILINE):
        for name in re.findall(r"`([a-z_/]+(?:\.py|/))`", row):
            found = [path for path in (REPO / "src/plait").rglob("*") if path.as_posix().endswith(name.rstrip("/"))]
            assert found, f"docs/architecture.md names {name}"


def test_the_tutorial_runs_as_it_stands(tiny_bert, tmp_path):
    """Every block in its order; only the encoder is a small one. What `plait init` prints is compared."""
    found = BLOCK.findall((REPO / "docs/tutorial.md").read_text(encoding="utf-8"))
    said = ""
    for language, code in found:
        if language == "sh":
            said = run_command(["bash", "-ec", code], tmp_path)
        elif language == "python":
            run_command([sys.executable, "-c", code], tmp_path)
        elif language == "yaml":
            (tmp_path / code.splitlines()[0].removeprefix("# ")).write_text(code, encoding="utf-8")
        elif code.lstrip().startswith("task") and "Wrote mine.yaml" in code:
            assert [line.strip() for line in said.strip().splitlines()] == [
                line.strip() for line in code.strip().splitlines()
            ]
        recipe = tmp_path / "mine.yaml"
        if recipe.is_file():
            recipe.write_text(recipe.read_text().replace("encoder: minilm", f"encoder: {tiny_bert}"), encoding="utf-8")
    assert (tmp_path / "first-two.csv").read_text().count("\n") == 3
    assert (tmp_path / "predictions.csv").is_file() and (tmp_path / "vectors.npy").is_file()
    assert set(find_tasks(tmp_path / "runs/more")) == {"pairs", "questions", "reviews", "mail"}


def find_tasks(run: Path) -> list[str]:
    """The tasks of a run's best model."""
    return [task["name"] for task in read_about(run)["tasks"]]
