"""`plait clean`."""

import json
import random

import pytest

import plait as package
from tiny import write_csv


@pytest.fixture(scope="module")
def run(tiny_bert, tmp_path_factory):
    """A run whose training data has three wrong labels; its texts hold markup."""
    folder = tmp_path_factory.mktemp("clean")
    generator = random.Random(5)
    words = ("good", "great", "warm"), ("storm", "river", "train")
    rows = []
    for row in range(60):
        label = ("high", "low")[(row % 2) ^ (row in (4, 9, 30))]  # three are wrong
        rows.append((" ".join(generator.choices(words[row % 2], k=10)) + " <b>", label))
    write_csv(folder / "mood.csv", ["sentence", "mood"], rows)
    write_csv(folder / "dev.csv", ["sentence", "mood"], rows[40:])
    task = {"train": str(folder / "mood.csv"), "dev": str(folder / "dev.csv"), "text": "sentence", "label": "mood"}
    recipe = {"encoder": str(tiny_bert), "tasks": {"mood": task}, "epochs": 1}
    return package.train(recipe, folder / "run", baselines=False).run


def test_the_rows_of_a_run_go_to_its_folder_and_into_its_report(run, plait):
    out, _ = plait("clean", run, "mood", "--folds", 3)
    file = run / "label-errors.csv"
    assert "of 60 labels are doubtful" in out and out.endswith(f"the rows: {file}\n")
    found = file.read_text(encoding="utf-8").splitlines()
    assert f"mood: {len(found) - 1} of 60" in out and "mood.csv:" in out
    page = package.report(run, out=run.parent / "report.html").read_text(encoding="utf-8")
    assert "found by plait clean" in page and "&lt;b&gt;" in page
    text, _ = plait("report", run, "--text")
    assert "found by plait clean" in text


def test_json_and_another_file(run, plait, tmp_path):
    out, _ = plait("clean", run, "--out", tmp_path / "rows.jsonl", "--folds", 3, "--json")
    found = json.loads(out.splitlines()[-1])
    (task,) = found["tasks"]
    assert found["out"] == str(tmp_path / "rows.jsonl") and task["rows"] == 60
    assert len((tmp_path / "rows.jsonl").read_text(encoding="utf-8").splitlines()) == len(task["errors"])


def test_mistakes_are_one_line(run, plait, tmp_path):
    _, err = plait("clean", run, "mod", code=2)
    assert err == "plait: the recipe has no task 'mod'; did you mean 'mood'?\n"
    _, err = plait("clean", run, "--out", tmp_path / "rows.txt", code=2)
    assert err == f"plait: --out {tmp_path}/rows.txt: unknown file format; use .csv or .jsonl\n"
