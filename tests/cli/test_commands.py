"""The command line as a user runs it, in a separate process."""

import csv
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
from ruamel.yaml import YAML

from warm_commands import run_plait

PLAIT = [sys.executable, "-m", "plait"]


def plait(*arguments: object, code: int = 0, folder: Path | None = None) -> subprocess.CompletedProcess:
    out = run_plait(list(map(str, arguments)), folder or Path.cwd())
    assert out.returncode == code, out.stdout + out.stderr
    assert "Traceback" not in out.stderr
    return out


@pytest.fixture
def recipe_file(tiny_recipe, tmp_path) -> Path:
    path = tmp_path / "recipe.yaml"
    YAML().dump(tiny_recipe(), path)
    return path


@pytest.fixture(scope="module")
def run(tiny_bert, tmp_path_factory) -> Path:
    """A finished run, made by the command line."""
    from tiny import write_tasks

    folder = tmp_path_factory.mktemp("cli")
    YAML().dump(write_tasks(folder / "data", tiny_bert), folder / "recipe.yaml")
    out = plait("train", folder / "recipe.yaml", "--out", folder / "run")
    assert "frozen encoder" in out.stdout and "mood" in out.stdout
    return folder / "run"


def test_help_imports_nothing_slow():
    command = [sys.executable, "-X", "importtime", "-m", "plait", "--help"]
    out = subprocess.run(command, capture_output=True, text=True, check=True, timeout=60)
    imported = {line.rpartition("|")[2].strip().partition(".")[0] for line in out.stderr.splitlines()}
    assert "train" in out.stdout and {"plait", "click"} <= imported
    assert not imported & {"torch", "numpy", "rich", "pydantic", "ruamel", "tokenizers", "safetensors"}


def test_the_version_is_printed():
    assert plait("--version").stdout.startswith("plait, version ")


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_completion_prints_a_script(shell):
    assert "_PLAIT_COMPLETE" in plait("completion", shell).stdout


def test_train_shows_the_cosines_between_gradients(recipe_file, tmp_path):
    measured = ("--set", "conflict_every=2", "--no-baselines")
    shown = plait("train", recipe_file, "--out", tmp_path / "shown", "--no-report", *measured).stdout
    last = plait(
        "train", recipe_file, "--out", tmp_path / "json", "--no-report", *measured, "--json"
    ).stdout.splitlines()[-1]
    conflicts = json.loads(last)["conflicts"]
    assert list(conflicts) == ["mood/same", "mood/near", "same/near"]
    lines = [line.split() for line in shown.splitlines()]
    for pair, found in conflicts.items():
        assert found["count"] == 3
        assert [pair, f"{found['mean']:+.3f}", f"{found['negative']:.0%}", "3"] in lines
    plain = plait("train", recipe_file, "--out", tmp_path / "plain", "--no-baselines", "--no-report").stdout
    assert "mean cosine" in shown and "mean cosine" not in plain


def test_check_shows_what_would_be_trained(recipe_file):
    facts = json.loads(plait("check", recipe_file, "--json").stdout)
    assert facts["steps"] == 6
    mood = facts["tasks"][0]
    assert mood["rows"] == {"train": 24, "dev": 24} and mood["seen"] == 2.0 and mood["samples_per_epoch"] == 24
    assert 0.5 <= mood["majority"] < 1 and mood["tokens_median"] > 3
    assert facts["cost"]["peak_memory"] > 50e6 and facts["cost"]["seconds"] > 0
    assert "each row is seen" in plait("check", recipe_file, "--no-trial").stdout


def test_check_lists_every_mistake_and_exits_with_2(recipe_file):
    out = plait("check", recipe_file, "--set", "lr=fast", "--set", "tasks.mood.head=linaer", code=2)
    assert "--set lr=fast: lr: expected a number, found 'fast'" in out.stderr
    assert "did you mean 'linear'?" in out.stderr


def test_a_second_run_into_the_same_directory_is_refused(run):
    out = plait("train", run.parent / "recipe.yaml", "--out", run, code=2)
    assert "already holds a finished run" in out.stderr


def test_resuming_a_finished_run_is_refused(run):
    assert "already finished" in plait("train", "--resume", run, code=2).stderr


def test_evaluate_shows_intervals_and_baselines(run):
    found = json.loads(plait("evaluate", run, "--json").stdout.splitlines()[-1])
    for scores in found["scores"].values():
        low, high = scores["interval"]
        assert low <= scores["values"][scores["metric"]] <= high
    assert set(found["baselines"]) == {"majority or mean", "zero-shot cosine", "frozen encoder"}
    table = plait("evaluate", run).stdout
    assert "95 % interval" in table and "zero-shot cosine" in table
    other = json.loads(
        plait("evaluate", run / "best", "--on", f"mood={run.parent}/data/mood-train.csv", "--json").stdout.splitlines()[
            -1
        ]
    )
    assert other["scores"]["mood"]["rows"] == 24


def test_evaluating_a_copied_model_asks_for_the_data(run, tmp_path):
    import shutil

    shutil.copytree(run / "best", tmp_path / "model")
    assert "--data" in plait("evaluate", tmp_path / "model", code=2).stderr
    assert "mood" in plait("evaluate", tmp_path / "model", "--data", run.parent / "data").stdout


def test_predict_one_text_and_one_pair(run):
    one = json.loads(plait("predict", run / "best", "mood", "the film was good", "--json").stdout)
    assert one["label"] in ("low", "high") and sum(one["probabilities"].values()) == pytest.approx(1)
    near = json.loads(plait("predict", run, "near", "a dog", "a cat", "--json").stdout)
    assert 0 <= near["score"] <= 5 and near["label"] is None
    assert "reads two texts" in plait("predict", run, "near", "a dog", code=2).stderr
    assert "did you mean 'mood'?" in plait("predict", run, "moood", "a dog", code=2).stderr


def test_predict_and_embed_a_file(run, tmp_path):
    source = run.parent / "data/same-dev.csv"
    plait("predict", run, "same", "--input", source, "--output", tmp_path / "out.csv")
    with (tmp_path / "out.csv").open() as file:
        rows = list(csv.DictReader(file))
    assert len(rows) == 24 and list(rows[0]) == ["one", "two", "same", "prediction", "probability", "p(no)", "p(yes)"]
    plait("embed", run, "--input", source, "--text", "one", "--output", tmp_path / "out.npy")
    assert np.load(tmp_path / "out.npy").shape == (24, 16)
    assert ".npy" in plait("embed", run, "--input", source, "--output", tmp_path / "out.txt", code=2).stderr


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_a_signal_stops_the_run_after_a_checkpoint(recipe_file, tmp_path, number, code):
    process = subprocess.Popen(
        [*PLAIT, "train", str(recipe_file), "--out", str(tmp_path / "run"), "--no-baselines", "--set", "epochs=2000"],
        stderr=subprocess.PIPE,
        text=True,
    )
    metrics = tmp_path / "run/metrics.jsonl"
    while not (metrics.is_file() and metrics.stat().st_size > 0):
        assert process.poll() is None, process.stderr.read()
        time.sleep(0.05)
    os.kill(process.pid, number)
    _, errors = process.communicate(timeout=60)
    assert process.returncode == code and "--resume" in errors and "Traceback" not in errors
    assert list((tmp_path / "run/checkpoints").glob("step-*"))
    changed = plait("train", recipe_file, "--resume", tmp_path / "run", "--no-baselines", code=2).stderr
    assert "epochs: 2000 → 2" in changed


def test_every_line_of_json_output_is_json(run, tmp_path):
    source = run.parent / "data/mood-dev.csv"
    for command in (
        ("predict", run, "mood", "--input", source, "--output", tmp_path / "out.jsonl"),
        ("embed", run, "--input", source, "--output", tmp_path / "out.npy"),
        ("evaluate", run),
    ):
        lines = [json.loads(line) for line in plait(*command, "--json").stdout.splitlines()]
        assert lines[-1]["kind"] == "result", command


def test_a_damaged_run_is_refused(run, tmp_path):
    import shutil

    broken = shutil.copytree(run, tmp_path / "broken")
    (broken / "result.json").unlink()
    checkpoint = broken / "checkpoints/step-00000003"
    checkpoint.mkdir(parents=True)
    (checkpoint / "weights.safetensors").write_bytes(b"short")
    assert "step-00000003: damaged" in plait("train", "--resume", broken, code=2).stderr
    (broken / "run.json").write_text("{")
    assert "run.json: damaged" in plait("train", "--resume", broken, code=2).stderr


def test_check_prints_mistakes_as_json(recipe_file):
    out = plait("check", recipe_file, "--json", "--set", "tasks.moood.head=linear", code=2)
    assert "did you mean 'mood'?" in json.loads(out.stdout)["mistakes"][0]


def test_a_wrong_model_path_is_not_looked_up_on_the_hub(tmp_path):
    assert "no such directory" in plait("predict", tmp_path / "nowhere", "mood", "x", code=2).stderr


def test_out_of_memory_is_one_message(recipe_file, tmp_path):
    huge = f"tasks.same.head={{name: difference_product, hidden: {10**9}}}"
    out = plait("train", recipe_file, "--out", tmp_path / "run", "--set", huge, code=1)
    assert out.stderr.splitlines()[-1].startswith("plait: out of memory; try a smaller batch_size")


def test_brackets_in_names_are_printed_unchanged(tiny_recipe, tmp_path):
    recipe = tiny_recipe(epochs=1)
    recipe["tasks"] = {"[b]": recipe["tasks"]["mood"]}
    YAML().dump(recipe, tmp_path / "recipe.yaml")
    assert (
        "[b]"
        in plait("train", tmp_path / "recipe.yaml", "--out", tmp_path / "[b]", "--no-baselines", "--no-report").stdout
    )


@pytest.mark.parametrize(
    ("body", "code"), [("0", 0), ("sys.exit()", 0), ("sys.exit(3)", 3), ("sys.exit('no')", 1), ("1 / 0", 1)]
)
def test_the_process_runs_its_cleanup_before_it_ends_at_once(body, code):
    lines = [
        "import atexit, sys",
        "import plait.cli.main as main",
        f"main.main = lambda: (print('worked', end=''), atexit.register(print, ', cleaned up'), {body})",
        "main.start()",
    ]
    out = subprocess.run([sys.executable, "-c", "\n".join(lines)], capture_output=True, text=True, timeout=60)
    assert (out.returncode, out.stdout) == (code, "worked, cleaned up\n")
    assert ("ZeroDivisionError" in out.stderr) == (body == "1 / 0")
