"""Shell completion knows the tasks of the model, and the profiles and keys of the recipe, on the line."""

import subprocess
import sys

import pytest
from click.shell_completion import ShellComplete

from plait.cli.main import cli


def complete(*words: object) -> list[str]:
    """What a shell offers for the last word."""
    *arguments, incomplete = map(str, words)
    found = ShellComplete(cli, {}, "plait", "_PLAIT_COMPLETE").get_completions(arguments, incomplete)
    return [item.value for item in found if item.type == "plain"]


@pytest.fixture
def recipe(tmp_path):
    file = tmp_path / "recipe.yaml"
    file.write_text(
        "encoder: minilm\ntasks:\n  mood: {train: a.csv}\n  near: {train: b.csv}\nprofiles:\n  long: {epochs: 9}\n"
    )
    return file


def test_tasks_of_a_model_or_a_run(trained_run):
    tasks = ["mood", "same", "near", "tags", "far"]
    assert complete("predict", trained_run, "") == tasks
    assert complete("predict", trained_run / "best", "") == tasks
    assert complete("predict", trained_run, "s") == ["same"]
    assert complete("predict", trained_run, "--every", "m") == ["mood="]
    assert complete("evaluate", trained_run, "--on", "") == [f"{task}=" for task in tasks]
    assert complete("evaluate", trained_run, "--word-weights", "ta") == ["tags"]


@pytest.mark.parametrize("command", ["train", "check"])
def test_profiles_of_a_recipe(recipe, command):
    assert complete(command, recipe, "--profile", "") == ["long", "quick"]
    assert complete(command, "starter", "--profile", "q") == ["quick"]
    assert complete(command, "best-of-bert#cosine", "--profile", "") == ["laptop", "desktop", "quick"]


def test_profiles_of_a_suite():
    assert complete("experiment", "best-of-bert", "--profile", "") == ["laptop", "desktop", "quick"]


def test_keys(recipe):
    assert complete("train", recipe, "--set", "head_") == ["head_start=", "head_lr="]
    assert complete("train", "--set", "lr") == ["lr=", "lr_schedule="]
    found = ["teacher=", "tracker=", "train_rows=", "train_encoder=", "tasks.mood.", "tasks.near."]
    assert complete("train", recipe, "--set", "t") == found
    assert complete("check", recipe, "--set", "tasks.near.head") == ["tasks.near.head="]
    assert complete("check", "cs224n", "--set", "lr=1e-4", "--set", "epo") == ["epochs="]


def test_keys_of_stages(tmp_path):
    (tmp_path / "staged.yaml").write_text("tasks: {a: {train: a.csv}}\nstages: [{epochs: 1}, {epochs: 2}]\n")
    assert complete("train", tmp_path / "staged.yaml", "--set", "stages.1.epo") == ["stages.1.epochs="]


def test_what_cannot_be_read_has_no_completions(tmp_path):
    (tmp_path / "broken.yaml").write_text("a: [")
    (tmp_path / "list.yaml").write_text("tasks: 3\nstages: 4\n")
    assert complete("predict", tmp_path / "nowhere", "") == complete("predict", "") == []
    assert complete("train", tmp_path / "broken.yaml", "--profile", "") == []
    assert "lr=" in complete("train", tmp_path / "list.yaml", "--set", "")
    assert "lr=" in complete("train", tmp_path / "nowhere.yaml", "--set", "")
    assert complete("experiment", tmp_path, "--profile", "") == []


def test_completing_imports_no_torch(recipe):
    code = (
        "import sys; from click.shell_completion import ShellComplete; from plait.cli.main import cli; "
        f"found = ShellComplete(cli, {{}}, 'plait', 'X').get_completions(['train', {str(recipe)!r}, '--profile'], ''); "
        "print(len(found), 'torch' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "2 False\n"


def test_the_suite_of_a_report():
    assert complete("report", "results.jsonl", "--suite", "best") == ["best-of-bert"]
