"""Every command, recipe and code block of README and docs works, and the recipe reference matches the code."""

import csv
import gzip
import importlib.util
import json
import os
import re
import shlex
import shutil
import subprocess
import sys
import tomllib
from abc import ABC
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import pytest

from plait.cli.main import cli
from plait.data.kinds import KINDS
from plait.data.read import FORMATS
from plait.encoder.architectures import ARCHITECTURES
from plait.gradients.combine import COMBINERS
from plait.heads import HEADS, SHARED_LAYERS
from plait.losses import LOSSES
from plait.metrics import METRICS
from plait.model.directory.find import find_model
from plait.model.directory.record import open_directory
from plait.recipe.options import options_of
from plait.recipe.read import read_recipe
from plait.recipe.schema import Recipe
from plait.recipe.task import Label, Source, Task
from plait.resolve.run import resolve_run, resolve_tasks
from plait.resolve.variants import VARIANTS
from plait.schedules import LR_SCHEDULES, SCHEDULES
from plait.serving.settings import Limits
from plait.training.train import train
from real_server import running
from tiny import sentences
from warm_commands import run_code, run_plait

REPO = Path(__file__).parent.parent
STARTER = REPO / "src/plait/data/starter"
BLOCK = re.compile(r"^```(\w*)\n(.*?)^```", re.MULTILINE | re.DOTALL)
LIMIT, WIDTH = 512, 384  # of the encoders that the recipes name
SHELL = set("|<>&;$*`\n")  # what only a shell understands
COLUMNS = "sentence body essay left right topic tags billing urgent is_spam points rating split language".split()


def blocks(document: str, language: str) -> list[str]:
    return [code for found, code in BLOCK.findall((REPO / document).read_text(encoding="utf-8")) if found == language]


def start_command(
    command: str | list[str], folder: Path, modules: Path | None = None
) -> subprocess.CompletedProcess[str]:
    """Run a command with the `plait` and `python` of the tests; Python also finds the modules in that folder."""
    words = shlex.split(command, comments=True) if isinstance(command, str) else command
    if modules is None and words[0] == "plait" and not SHELL & set("".join(words)):
        return run_plait(words[1:], folder)
    if modules is None and words[:2] == [sys.executable, "-c"]:
        return run_code(words[2], folder)
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    python_path = filter(None, [str(modules or ""), os.environ.get("PYTHONPATH")])
    environment = {**os.environ, "PATH": path, "PYTHONPATH": os.pathsep.join(python_path)}
    shell = isinstance(command, str)
    return subprocess.run(command, shell=shell, cwd=folder, env=environment, capture_output=True, text=True)


def run_command(command: str | list[str], folder: Path, modules: Path | None = None) -> str:
    """The output of a command that succeeds."""
    done = start_command(command, folder, modules)
    assert done.returncode == 0, f"{command}\n{done.stderr}"
    return done.stdout


def run_python(code: str, folder: Path, modules: Path | None = None) -> str:
    return run_command([sys.executable, "-c", code], folder, modules)


def copy_starter(folder: Path) -> None:
    for path in STARTER.glob("*.csv"):
        shutil.copy(path, folder)


def write_tiny_recipe(folder: Path, recipe: str, encoder: Path) -> None:
    """A page's recipe as recipe.yaml, with the tiny encoder, few rows and one epoch."""
    assert "encoder: minilm" in recipe and "epochs: 3" in recipe
    recipe = recipe.replace("encoder: minilm", f"encoder: {encoder}").replace("epochs: 3", "epochs: 1")
    (folder / "recipe.yaml").write_text(f"{recipe}rows: 60\ndev_rows: 40\n", encoding="utf-8")


@pytest.fixture(scope="module")
def folder(tiny_bert, tmp_path_factory) -> Path:
    """Every file that the recipes of the docs name, and a run of the first recipe on the tiny encoder."""
    folder = tmp_path_factory.mktemp("docs")
    copy_starter(folder)
    for name in ("tickets", "mails", "ratings", "essays", "all", "reviews"):
        write_rows(folder / f"{name}.csv")
    write_relations(folder / "nli.csv")
    (folder / "reviews.csv.gz").write_bytes(gzip.compress((folder / "reviews.csv").read_bytes()))
    write_rows(folder / "messy.csv")
    with (folder / "messy.csv").open("ab") as file:
        file.write(b"too,few,fields\n" + b"caf\xe9" + b"," * len(COLUMNS[1:]) + b"\n")
    write_tiny_recipe(folder, blocks("docs/situations.md", "yaml")[0], tiny_bert)
    train(folder / "recipe.yaml", folder / "runs/first", baselines=False)
    return folder


def write_rows(path: Path) -> None:
    """A table with every column that a task may ask for."""
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow(COLUMNS)
        for row, text in enumerate(sentences(60, seed=5, longest=30)):
            tags = "|".join(tag for tag, every in (("late", 2), ("rude", 3), ("broken", 5)) if row % every == 0)
            split = ("train", "train", "dev", "test")[row % 4]
            labels = (("bill", "bug", "praise")[row % 3], tags, row % 2, int(row % 3 == 0), int(row % 10 == 0))
            writer.writerow((text, text, text, text, f"not {text}", *labels, row, row / 0.6, split, "en"))


def write_relations(path: Path) -> None:
    """Premises, each with an entailed and a contradicting hypothesis."""
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow(("premise", "hypothesis", "label"))
        for text in sentences(20, seed=6):
            writer.writerows([(text, f"{text} indeed", "entailment"), (text, f"not {text}", "contradiction")])


def task_names(run: Path) -> list[str]:
    """The tasks of a run's best model."""
    return list(open_directory(run).record.tasks)


def test_readme_commands_and_code_run(tiny_bert, tmp_path):
    copy_starter(tmp_path)
    (recipe,) = blocks("README.md", "yaml")
    write_tiny_recipe(tmp_path, recipe, tiny_bert)
    (commands,) = blocks("README.md", "sh")
    for command in commands.splitlines():
        run_command(command, tmp_path)
    (code,) = blocks("README.md", "python")
    lines = run_python(code, tmp_path).splitlines()
    assert lines[0] == "['sentiment', 'duplicate', 'similarity']" and "(2, 16)" in lines


@pytest.mark.parametrize(
    ("document", "number"),
    [
        (document, number)
        for document in ("docs/recipe.md", "docs/situations.md")
        for number, _ in enumerate(blocks(document, "yaml"))
    ],
)
def test_recipes_of_the_docs_resolve(document, number, folder):
    own = folder / Path(document).stem  # each page has its own recipe.yaml
    own.mkdir(exist_ok=True)
    recipes = blocks(document, "yaml")
    (own / "recipe.yaml").write_text(recipes[0], encoding="utf-8")
    (own / "tried.yaml").write_text(recipes[number], encoding="utf-8")
    changes = [f"encoder={folder / 'runs/first/best'}"] if "encoder: runs/first/best" in recipes[number] else []
    recipe = read_recipe(own / "tried.yaml", VARIANTS, data=folder, overrides=changes)
    if any(source.on_hub for task in recipe.tasks.values() for source in task.train):
        return  # tests have no network
    for stage in recipe.stage_recipes():
        resolved = resolve_run(stage).stages[-1] if find_model(stage.encoder) else resolve_tasks(stage, LIMIT, WIDTH)
        assert list(resolved.tasks) == list(stage.tasks)
        for name, task in stage.tasks.items():
            given = {split for split in ("train", "dev", "test") if task.sources(split)}
            assert resolved.tasks[name].splits.keys() == given
        bad = {name: len(task.bad) for name, task in resolved.tasks.items() if task.bad}
        assert bad == ({"topic": 2} if stage.bad_rows == "skip" else {})


def test_commands_of_situations_run(folder, tiny_bert, tiny_roberta, monkeypatch):
    """Commands without a pipe run in this process, on the tiny encoders."""
    encoders = {"encoder: minilm": tiny_bert, "encoder: xlm-roberta-base": tiny_roberta}
    for recipe in blocks("docs/situations.md", "yaml")[1:]:
        if name := re.match(r"# (\S+\.yaml)\n", recipe):
            recipe = re.sub("epochs: \\d+", "epochs: 1", recipe).replace("max_length: 512", "max_length: 32")
            for written, encoder in encoders.items():
                recipe = recipe.replace(written, f"encoder: {encoder}")
            (folder / name[1]).write_text(recipe, encoding="utf-8")
    monkeypatch.chdir(folder)
    bundled = "plait train abbreviations"  # a recipe whose encoder is minilm
    for command in "".join(blocks("docs/situations.md", "sh")).splitlines():
        command = command.replace(bundled, f"{bundled} --set encoder={tiny_bert} --set epochs=1")
        if set(command) & set("|<>"):
            run_command(command, folder)
        else:
            cli(shlex.split(command)[1:], standalone_mode=False)
    assert task_names(folder / "runs/abbreviations") == ["similarity"]
    assert task_names(folder / "runs/more") == [*task_names(folder / "runs/first"), "topic"]
    with (folder / "predicted.csv").open(encoding="utf-8") as file:
        assert [row["sentence"] for row in csv.DictReader(file)] == sentences(60, seed=5, longest=30)
    assert len((folder / "predicted.jsonl").read_text(encoding="utf-8").splitlines()) == 60
    assert not (folder / "predicted.jsonl.errors.jsonl").exists()
    assert task_names(folder / "runs/both") == task_names(folder / "runs/soup") == task_names(folder / "runs/first")


SITUATIONS = dict(
    zip(("search", "duplicates", "langchain", "frames"), blocks("docs/situations.md", "python"), strict=True)
)


def run_situation(name: str, folder: Path, monkeypatch, capsys) -> str:
    """What a Python block prints; it runs in this process."""
    monkeypatch.chdir(folder)
    exec(compile(SITUATIONS[name], f"docs/situations.md, {name}", "exec"), {})
    return capsys.readouterr().out


def test_search_of_situations_finds_the_closest(folder, monkeypatch, capsys):
    lines = [line.partition("  ") for line in run_situation("search", folder, monkeypatch, capsys).splitlines()]
    scores = [float(score) for score, _, _ in lines]
    texts = [text for _, _, text in lines]
    assert scores == sorted(scores, reverse=True) and len(texts) == 3
    assert set(texts) <= set(sentences(60, seed=5, longest=30))


def test_duplicates_of_situations_are_found(folder, monkeypatch, capsys):
    shown = run_situation("duplicates", folder, monkeypatch, capsys)
    found = re.fullmatch(r"60 texts, (\d+) different\n", shown)
    assert found and 1 <= int(found[1]) <= len(set(sentences(60, seed=5, longest=30)))


def test_langchain_of_situations_embeds(folder, monkeypatch, capsys):
    try:
        import langchain_core.embeddings  # noqa: F401
    except ImportError:  # its base class, which has no code of its own
        base = ModuleType("langchain_core.embeddings")
        base.Embeddings = ABC
        monkeypatch.setitem(sys.modules, "langchain_core", ModuleType("langchain_core"))
        monkeypatch.setitem(sys.modules, "langchain_core.embeddings", base)
    assert run_situation("langchain", folder, monkeypatch, capsys) == "16\n"


def test_data_frames_of_situations_train(folder, tiny_bert):
    code = SITUATIONS["frames"]
    assert '"minilm"' in code
    check = 'print(set(reviews["predicted"]) <= {"0", "1", "2", "3", "4"})'
    lines = run_python(f"{code}\n{check}".replace("minilm", str(tiny_bert)), folder)
    accuracy, known = lines.splitlines()
    assert 0 <= float(accuracy) <= 1 and known == "True"


@pytest.mark.parametrize("number", range(len(blocks("docs/python.md", "python"))))
def test_code_of_the_python_page_runs(folder, number, tiny_bert):
    run_python(blocks("docs/python.md", "python")[number].replace('"minilm"', f'"{tiny_bert}"'), folder)


@pytest.fixture
def corpus(folder) -> Iterator[Path]:
    """The folder with the one that docs/scale.md calls `corpus`."""
    (folder / "corpus").mkdir()
    for number in range(2):
        shutil.copy(folder / "reviews.csv", folder / f"corpus/{number}.csv")
    yield folder
    shutil.rmtree(folder / "corpus")


def test_commands_and_code_of_scale_run(corpus, monkeypatch, capsys):
    """All but those on Ray, which the slow tests run; a command without a pipe runs in this process."""
    monkeypatch.chdir(corpus)
    for block in blocks("docs/scale.md", "sh"):
        if "--engine ray" in block or "torchrun" in block:
            continue
        for command in block.splitlines():
            if "|" in command:
                run_command(command, corpus)
            else:
                cli(shlex.split(command)[1:], standalone_mode=False)
    assert capsys.readouterr().out.splitlines()[-1] == "120 rows in embedded.parquet"
    with (corpus / "sentiment.csv").open(encoding="utf-8") as file:
        assert [row["sentence"] for row in csv.DictReader(file)] == sentences(60, seed=5, longest=30) * 2
    named = {
        path.name.replace("00000-of", "{}-of") for path in (corpus / "embedded").iterdir() if "00000-of" in path.name
    }
    page = (REPO / "docs/scale.md").read_text(encoding="utf-8")
    assert all(f"`{name.format('00000')}`" in page for name in (*named, "_corpus.json"))
    (code,) = blocks("docs/scale.md", "python")
    exec(compile(code, "docs/scale.md", "exec"), {})
    assert capsys.readouterr().out.splitlines()[0] == "16"


def test_every_block_of_coming_from_runs(folder, tiny_bert, monkeypatch):
    """In order, on the tiny encoder; blocks of other tools are marked py or text."""
    monkeypatch.chdir(folder)
    for language, code in BLOCK.findall((REPO / "docs/coming-from.md").read_text(encoding="utf-8")):
        if language == "yaml":
            name = code.splitlines()[0].removeprefix("# ")
            recipe = code.replace("encoder: minilm", f"encoder: {tiny_bert}").replace("epochs: 3", "epochs: 1")
            assert str(tiny_bert) in recipe and "epochs: 1" in recipe
            (folder / name).write_text(recipe, encoding="utf-8")
        elif language == "sh":
            for command in code.splitlines():
                if command.startswith("plait init"):
                    command += f" --encoder {tiny_bert}"
                cli(shlex.split(command)[1:], standalone_mode=False)
        elif language == "python":
            exec(compile(code.replace('"minilm"', f'"{tiny_bert}"'), "docs/coming-from.md", "exec"), {})
    assert task_names(folder / "runs/embeddings") == ["pairs"]
    assert task_names(folder / "runs/tickets") == ["topic", "points"]
    assert task_names(folder / "runs/reviews") == ["reviews"]
    assert task_names(folder / "runs/classify") == ["sentiment"]


def test_losses_and_heads_of_coming_from_exist():
    page = (REPO / "docs/coming-from.md").read_text(encoding="utf-8")
    table = page.partition("| sentence-transformers | plait |")[2].partition("\n\n")[0]
    ours = " ".join(row.split("|")[2] for row in table.splitlines()[2:])
    named = set(re.findall(r"`(?:head: |loss: )?([a-z_]+)`", ours))
    assert {"cosine", "mse", "multiple_negatives", "class_triplet"} <= named
    assert named <= {*HEADS, *LOSSES, "hardest", "semi_hard"}


def test_notebook_runs_and_shows_tables(tiny_bert, tmp_path, monkeypatch):
    script = script_of("run_notebook")
    notebook = json.loads(script.NOTEBOOK.read_text(encoding="utf-8"))
    assert notebook["nbformat"] == 4
    for cell in notebook["cells"]:
        cell["source"] = [line.replace('"minilm"', f'"{tiny_bert}"') for line in cell["source"]]
    monkeypatch.chdir(tmp_path)
    done = script.run_cells(notebook)
    outputs = [output for cell in done["cells"] for output in cell.get("outputs", ())]
    shown = ["".join(output["data"]["text/html"]) for output in outputs if output["output_type"] == "execute_result"]
    for start in ("runs/notebook: dev scores", "reviews: 3 predictions", "questions: 2 predictions"):
        assert any(start in html and "<table" in html for html in shown), start
    assert len(shown) == 8
    assert "".join(outputs[-1]["text"]) == "runs/notebook/report.html\n"
    assert (tmp_path / "runs/notebook/report.html").stat().st_size > 100_000


def test_links_of_the_notebook_lead_somewhere():
    notebook = open_json(REPO / "docs/from-csv-to-report.ipynb")
    text = "\n".join("".join(cell["source"]) for cell in notebook["cells"] if cell["cell_type"] == "markdown")
    links = re.findall(r"\]\(([^)]*)\)", text)
    assert links and all((REPO / "docs" / link).is_file() for link in links)


def test_commands_and_code_of_export_run(folder):
    for command in "".join(blocks("docs/export.md", "sh")).splitlines():
        run_command(command, folder)
    assert (folder / "exported.npy").is_file()
    (code,) = blocks("docs/export.md", "python")
    assert run_python(code, folder) == "onnx (1, 16)\n"


# The Python blocks of docs/search.md; those of databases run in tests/slow/test_databases.py.
INDEX, QDRANT, POSTGRES, DUPLICATES, CLUSTERS = range(5)


def test_commands_and_code_of_search_run(folder, monkeypatch, capsys):
    monkeypatch.chdir(folder)
    for command in "".join(blocks("docs/search.md", "sh")).splitlines():
        cli(shlex.split(command)[1:], standalone_mode=False)
    with (folder / "found.csv").open(encoding="utf-8") as file:
        assert [row["id_1"] != "" for row in csv.DictReader(file)] == [True] * 60
    code = blocks("docs/search.md", "python")
    assert "qdrant_client" in code[QDRANT] and "psycopg" in code[POSTGRES]
    shown = {}
    for number in (INDEX, DUPLICATES, CLUSTERS):
        capsys.readouterr()
        exec(compile(code[number], f"docs/search.md, block {number}", "exec"), {})
        shown[number] = capsys.readouterr().out.splitlines()
    assert [line.split()[0] for line in shown[INDEX]] == ["a", "1"] and shown[INDEX][1] == "1 1.0"
    assert shown[DUPLICATES][0].startswith("60 ") and len(shown[CLUSTERS]) == 3


@pytest.mark.skipif(shutil.which("curl") is None, reason="curl is not installed")
def test_commands_and_code_of_serving_run(folder):
    address = "http://127.0.0.1:8000"
    with running(str(folder / "runs/first/best"), "--workers", "1") as server:
        for command in "".join(blocks("docs/serving.md", "sh")).splitlines():
            assert json.loads(run_command(command.replace(address, server.address), folder))["model"] == "first"
        ours, theirs = blocks("docs/serving.md", "python")
        label, shape, _ = run_python(ours.replace(address, server.address), folder).splitlines()
        assert label in {"0", "1", "2", "3", "4"} and shape == "(2, 16)"
        assert run_python(theirs.replace(address, server.address), folder) == "2\n"


def test_limits_of_serving_are_documented():
    page = (REPO / "docs/serving.md").read_text(encoding="utf-8")
    limits = Limits()
    for number in (
        limits.texts,
        limits.characters,
        limits.tokens,
        limits.queue_tokens,
        limits.cells,
        limits.hits,
        limits.connections,
    ):
        assert f"| {number:,} |" in page
    assert f"{limits.bytes // 2**20} MiB" in page and f"| {limits.seconds:g} s |" in page
    assert f"{limits.header_seconds:g} s, {limits.body_seconds:g} s" in page and f"{limits.read_seconds:g} s" in page


def test_commands_and_code_of_report_run(folder):
    shutil.copy(REPO / "results/best-of-bert-laptop.jsonl", folder)
    for command in "".join(blocks("docs/report.md", "sh")).splitlines():
        run_command(command, folder)
    assert (folder / "both.html").is_file() and (folder / "best-of-bert-laptop.html").is_file()
    (code,) = blocks("docs/report.md", "python")
    assert run_python(code, folder).splitlines()[0] == "runs/from-python/report.html"


def test_tutorial_runs_from_start_to_end(tiny_bert, tmp_path):
    """Every block in order, on the tiny encoder. The output of `plait init` must be the one that the page shows."""
    output = ""
    for language, code in BLOCK.findall((REPO / "docs/tutorial.md").read_text(encoding="utf-8")):
        if language == "sh":
            output = run_command(["bash", "-ec", code], tmp_path)
        elif language == "python":
            run_python(code, tmp_path)
        elif language == "yaml":
            (tmp_path / code.splitlines()[0].removeprefix("# ")).write_text(code, encoding="utf-8")
        elif code.lstrip().startswith("task") and "Wrote mine.yaml" in code:
            assert [line.strip() for line in output.strip().splitlines()] == [
                line.strip() for line in code.strip().splitlines()
            ]
        recipe = tmp_path / "mine.yaml"
        if recipe.is_file():
            recipe.write_text(recipe.read_text().replace("encoder: minilm", f"encoder: {tiny_bert}"), encoding="utf-8")
    assert (tmp_path / "first-two.csv").read_text().count("\n") == 3
    assert (tmp_path / "predictions.csv").is_file() and (tmp_path / "vectors.npy").is_file()
    assert set(task_names(tmp_path / "runs/more")) == {"pairs", "questions", "reviews", "mail"}


# The Python blocks of docs/extending.md: four that make up plait_product.py, its tests, its use, and a new version.
EXTENSION = "docs/extending.md"
MODULE, TESTS, USE, NEW_VERSION = slice(4), 4, 5, 6
PREDICT = ["plait", "predict", "runs/packaged/best", "similarity", "a cat sleeps", "a cat is asleep"]


@pytest.fixture(scope="module")
def extension(tiny_bert, tmp_path_factory) -> Path:
    """A folder with the recipe of docs/extending.md and its data; plait_product.py is in its folder `module`."""
    folder = tmp_path_factory.mktemp("extending")
    copy_starter(folder)
    (recipe,) = blocks(EXTENSION, "yaml")
    write_tiny_recipe(folder, recipe, tiny_bert)
    (folder / "module").mkdir()
    (folder / "module/plait_product.py").write_text("\n".join(blocks(EXTENSION, "python")[MODULE]), encoding="utf-8")
    return folder


@pytest.fixture(scope="module")
def packaged(extension) -> Path:
    """A folder in which the package of docs/extending.md is installed; its commands have run."""
    (project,) = blocks(EXTENSION, "toml")
    installed = install(tomllib.loads(project)["project"], extension / "module", extension / "installed")
    (commands,) = blocks(EXTENSION, "sh")
    for command in commands.splitlines():
        run_command(command, extension, installed)
    return installed


def install(project: dict, modules: Path, folder: Path) -> Path:
    """What pip would write: the modules, and the metadata of the package."""
    shutil.copytree(modules, folder, dirs_exist_ok=True)
    about = folder / f"{project['name'].replace('-', '_')}-{project['version']}.dist-info"
    about.mkdir(exist_ok=True)
    metadata = f"Metadata-Version: 2.1\nName: {project['name']}\nVersion: {project['version']}\n"
    (about / "METADATA").write_text(metadata, encoding="utf-8")
    groups = {
        group: "\n".join(f"{name} = {value}" for name, value in points.items())
        for group, points in project["entry-points"].items()
    }
    lines = "\n".join(f"[{group}]\n{points}\n" for group, points in groups.items())
    (about / "entry_points.txt").write_text(lines, encoding="utf-8")
    return folder


def test_examples_of_extending_pass_their_tests(extension):
    run_python(blocks(EXTENSION, "python")[TESTS], extension, extension / "module")


def test_registered_variants_train_and_load_from_python(extension):
    code = blocks(EXTENSION, "python")[USE]
    within_one, score = run_python(code, extension, extension / "module").splitlines()
    assert 0 <= float(within_one) <= 1 and 0 <= float(score) <= 5
    record = open_json(extension / "runs/product/best/plait.json")
    assert record["packages"] == {"product.v1": {"name": "plait_product", "version": None}}
    load = 'import plait; plait.load("runs/product/best")'
    run_python(f"import plait_product; {load}", extension, extension / "module")
    done = start_command([sys.executable, "-c", load], extension, extension / "module")
    assert done.returncode and "the head 'product.v1' comes from plait_product" in done.stderr.splitlines()[-1]


def test_packaged_variants_work_on_the_command_line(extension, packaged):
    (excerpt,) = blocks(EXTENSION, "json")
    packages = open_json(extension / "runs/packaged/best/plait.json")["packages"]
    assert packages == json.loads(f"{{{excerpt}}}")["packages"]
    variants = open_json(extension / "runs/packaged/run.json")["variants"]
    assert variants == {
        "schedule there_and_back": "there_and_back.v1",
        "head unit_linear": "unit_linear.v1",
        "loss cross_entropy": "cross_entropy.v1",
        "metric accuracy": "accuracy.v1",
        "head product": "product.v1",
        "loss huber": "huber.v1",
        "metric within_one": "within_one.v1",
    }
    loss = "from plait.losses import LOSSES; print(LOSSES['huber'].links, LOSSES.package('huber'))"
    assert run_python(loss, extension, packaged) == "{'score': 'identity'} plait-product 0.1.0\n"
    assert "within_one" in run_command("plait evaluate runs/packaged", extension, packaged)
    assert (extension / "exported/onnx/apart.onnx").is_file()
    shown = run_command(["plait", *PREDICT[1:], "--json"], extension, packaged)
    exported = [word.replace("runs/packaged/best", "exported") for word in PREDICT[1:]]
    by_graph = run_command(["plait", *exported, "--engine", "onnx", "--json"], extension, packaged)
    assert json.loads(by_graph)["score"] == pytest.approx(json.loads(shown)["score"], abs=1e-4)


def test_model_without_the_package_of_its_head_is_refused(extension, packaged):
    (quoted,) = blocks(EXTENSION, "")
    done = start_command(PREDICT, extension)
    assert done.returncode == 2 and done.stderr == quoted


def test_model_with_a_registered_metric_only_needs_it_for_evaluation(extension, packaged):
    own = ["tasks.similarity.head=cosine", "tasks.similarity.loss=mse", "schedule=together"]
    changes = " ".join(f"--set {change}" for change in own)
    run_command(f"plait train recipe.yaml --out runs/metric --no-baselines {changes}", extension, packaged)
    run_command('plait predict runs/metric/best similarity "a cat sleeps" "a cat is asleep"', extension)
    done = start_command("plait evaluate runs/metric", extension)
    assert done.returncode == 2
    assert done.stderr.splitlines()[-1] == (
        "plait: task 'similarity': its metric 'within_one' is not registered; install the package that provides it, "
        "or import the module that registers it"
    )


def test_new_version_of_a_head_leaves_saved_models_unchanged(extension, packaged, tmp_path):
    (project,) = blocks(EXTENSION, "toml")
    about = tomllib.loads(project)["project"]
    about["entry-points"]["plait.heads"]["product.v2"] = "plait_product:ProductV2"
    python = blocks(EXTENSION, "python")
    (tmp_path / "module").mkdir()
    code = "\n".join([*python[MODULE], python[NEW_VERSION]])
    (tmp_path / "module/plait_product.py").write_text(code, encoding="utf-8")
    installed = install(about, tmp_path / "module", tmp_path / "installed")
    versions = "from plait.heads import HEADS; print(HEADS.versioned('product'), HEADS['product.v1'].__name__)"
    assert run_python(versions, extension, installed) == "product.v2 Product\n"
    assert run_command(PREDICT, extension, installed) == run_command(PREDICT, extension, packaged)
    run_command("plait train recipe.yaml --out runs/newer --no-baselines", extension, installed)
    newer = open_json(extension / "runs/newer/best/plait.json")
    assert [task["head"] for task in newer["tasks"]] == ["unit_linear.v1", "product.v2"]


def open_json(path: Path) -> dict:
    return json.loads(path.read_text(encoding="utf-8"))


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
        VARIANTS.optimizers,
        VARIANTS.poolings,
        VARIANTS.adapters,
        ARCHITECTURES,
        VARIANTS.reads,
        VARIANTS.derivations,
        KINDS,
        METRICS,
        FORMATS,
    ],
    ids=(
        "recipe,task,label,source,heads,shared layers,losses,schedules,lr schedules,combiners,optimizers,poolings,"
        "adapters,encoders,ways of reading,derivations,kinds of label,metrics,file formats"
    ).split(","),
)
def test_recipe_reference_names_everything(names):
    reference = (REPO / "docs/recipe.md").read_text(encoding="utf-8")
    assert [name for name in names if f"`{name}`" not in reference] == []


def test_recipe_reference_names_every_option():
    reference = (REPO / "docs/recipe.md").read_text(encoding="utf-8")
    tables = (VARIANTS.heads, VARIANTS.losses, VARIANTS.schedules, VARIANTS.lr_schedules, VARIANTS.optimizers)
    for variants in (*tables, VARIANTS.shared_layers, VARIANTS.adapters, VARIANTS.derivations):
        for name in variants:
            missing = [option for option in options_of(variants[name]) if f"| `{name}` | `{option}` |" not in reference]
            assert missing == [], name


def reference_script() -> ModuleType:
    return script_of("recipe_reference")


def script_of(name: str) -> ModuleType:
    place = importlib.util.spec_from_file_location(name, REPO / f"scripts/{name}.py")
    assert place is not None and place.loader is not None
    script = importlib.util.module_from_spec(place)
    place.loader.exec_module(script)
    return script


def test_recipe_reference_is_current():
    written = (REPO / "docs/recipe.md").read_text(encoding="utf-8")
    assert written == reference_script().reference(), "docs/recipe.md does not match the code; run make docs"


def test_recipe_reference_refuses_a_type_without_words():
    with pytest.raises(TypeError, match="has no words for this type"):
        reference_script().alternatives(complex)


@pytest.mark.parametrize("document", ["README.md", *(f"docs/{path.name}" for path in (REPO / "docs").glob("*.md"))])
def test_links_of_the_docs_lead_somewhere(document):
    text = BLOCK.sub("", (REPO / document).read_text(encoding="utf-8"))
    for file, anchor in re.findall(r"\]\(([^)#:]*)(?:#([^)]*))?\)", text):
        target = (REPO / document).parent / file if file else REPO / document
        if document == "docs/recipe.head.md" and not file:
            target = REPO / "docs/recipe.md"  # of which it is the head
        assert target.is_file(), f"{document} links to {file}"
        if not anchor:
            continue
        titles = re.findall(r"^#+ (.*)$", BLOCK.sub("", target.read_text(encoding="utf-8")), re.MULTILINE)
        assert anchor in [title.lower().replace(" ", "-") for title in titles], f"{file}#{anchor}"


def test_files_that_architecture_names_exist():
    table = (REPO / "docs/architecture.md").read_text(encoding="utf-8")
    for row in re.findall(r"^\| (`[a-z_]+/[^|]*|`[a-z_]+\.py`[^|]*)\|", table, re.MULTILINE):
        for name in re.findall(r"`([a-z_/]+(?:\.py|/))`", row):
            found = [path for path in (REPO / "src/plait").rglob("*") if path.as_posix().endswith(name.rstrip("/"))]
            assert found, f"docs/architecture.md names {name}"
