"""Rows of a suite as recipes: plait experiment --show, plait train SUITE#ROW, plait check SUITE#ROW."""

import json
import subprocess
import sys
from pathlib import Path

import pytest
from ruamel.yaml import YAML

import plait as package
from plait.recipe.read import read_recipe
from plait.resolve.variants import VARIANTS
from tiny import write_tasks

SUITE = """\
title: Two rows
seeds: [1]
scores: {mood: mood}
recipe: base.yaml
rows:
  plain: {title: unchanged}
  faster:
    title: with a higher learning rate
    extends: plain
    set: {lr: 3e-3, tasks.mood.train: own.csv}
"""


@pytest.fixture
def suite(tiny_bert, tmp_path):
    """A suite with data files and an encoder that are relative to it."""
    keys = write_tasks(tmp_path / "data", tiny_bert)
    folder = tmp_path / "suite"
    folder.mkdir()
    (folder / "encoder").symlink_to(tiny_bert)
    for task in keys["tasks"].values():
        task |= {split: f"../data/{Path(task[split]).name}" for split in ("train", "dev")}
    with (folder / "base.yaml").open("w", encoding="utf-8") as file:
        YAML().dump({**keys, "encoder": "encoder", "profiles": {"short": {"epochs": 1}}}, file)
    (folder / "own.csv").write_bytes((tmp_path / "data/mood-train.csv").read_bytes())
    (folder / "suite.yaml").write_text(SUITE, encoding="utf-8")
    return folder


@pytest.mark.parametrize("options", [[], ["--profile", "short", "--set", "lr=1e-4"]], ids=["plain", "changed"])
def test_shown_row_is_a_complete_recipe(plait, suite, tmp_path, options):
    text, _ = plait("experiment", suite, "--show", "faster", *options)
    assert text.splitlines()[1] == "# with a higher learning rate"
    moved = tmp_path / "elsewhere" / "row.yaml"
    moved.parent.mkdir()
    moved.write_text(text, encoding="utf-8")
    changes = {"profile": "short", "overrides": ["lr=1e-4"]} if options else {}
    row = read_recipe(f"{suite}#faster", VARIANTS, **changes)
    assert read_recipe(moved, VARIANTS) == row
    assert Path(row.tasks["mood"].train[0].file) == suite / "own.csv"
    assert row.encoder == str((suite / "encoder").resolve())


def test_shown_row_trains(plait, suite, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "row.yaml").write_text(plait("experiment", suite, "--show", "plain", "--profile", "short")[0])
    plait("train", "row.yaml", "--no-baselines", "--no-report")
    assert (tmp_path / "runs/row/best").is_dir()


def test_stages_are_shown_with_their_files(plait, suite):
    stages = (
        "--set=stages=[{tasks: {new: {train: ../data/mood-train.csv, text: sentence, label: mood}}}, {tasks: [mood]}]"
    )
    shown = YAML(typ="safe").load(plait("experiment", suite, "--show", "plain", stages)[0])
    assert shown["stages"][1] == {"tasks": ["mood"]} and "new" in shown["stages"][0]["tasks"]
    exp15 = YAML(typ="safe").load(plait("experiment", "robust-embeddings", "--show", "exp15")[0])
    assert exp15["stages"][0]["tasks"]["nli"]["train"] == "../nli/triplets.csv"  # stays as it is where it is missing


def test_unknown_row_is_reported(plait, suite):
    _, error = plait("experiment", suite, "--show", "fastr", code=2)
    assert f"{suite}#fastr: no row 'fastr'; did you mean 'faster'?" in error


def test_showing_a_row_does_not_import_torch():
    code = (
        "import sys\nfrom plait.cli.main import main\n"
        "sys.argv = ['plait', 'experiment', 'triple-entropy', '--show', 'trec-1k-te', '--profile', 'laptop']\n"
        "try: main()\nexcept SystemExit as end: assert not end.code\n"
        "assert 'torch' not in sys.modules and 'numpy' not in sys.modules"
    )
    shown = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert shown.splitlines()[:3] == [
        "# plait experiment triple-entropy --show trec-1k-te --profile laptop",
        "# TREC (questions, six types of answer), 1,000 rows, cross-entropy and SoftTriple on all tokens",
        "encoder: minilm",
    ]


def test_row_is_checked(plait, suite):
    text, _ = plait("check", f"{suite}#faster", "--no-trial", "--json")
    assert [task["task"] for task in json.loads(text)["tasks"]] == ["mood", "same", "near"]
    _, error = plait("check", f"{suite}#faster", "--set", "tasks.moo.weight=2", "--no-trial", code=2)
    assert "no task 'moo'; did you mean 'mood'?" in error


def test_row_is_trained_alone(plait, suite, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    plait("train", "suite#faster", "--profile", "short", "--no-baselines", "--no-report")
    run = json.loads((tmp_path / "runs/suite-faster/run.json").read_text())
    assert (run["recipe"]["lr"], run["recipe"]["epochs"]) == (3e-3, 1)


def test_row_is_trained_from_python(suite, tmp_path):
    result = package.train(f"{suite}#plain", tmp_path / "run", profile="short", baselines=False)
    assert result.scores.keys() == {"mood", "same", "near"}
