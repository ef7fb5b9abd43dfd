"""Several processes train together as one does with the same batches."""

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
import torch

from plait.world import World
from small_runs import metrics_lines, result_json
from tiny import write_tasks
from training_process import train_in_float64

HERE = Path(__file__).parent.parent
SIZES = (2, 3)
CASES: Mapping[str, dict[str, Any]] = {
    "sequential": {"schedule": "sequential"},
    "round_robin": {"schedule": "round_robin", "clip": 0.5},
    "sampled": {"schedule": "sampled"},
    "alternate": {"schedule": "alternate"},
    "together": {"schedule": "together", "weight_decay": 0.01},
    "mean": {"schedule": {"name": "together", "combine": "mean"}},
    "surgery": {"schedule": {"name": "together", "combine": "surgery"}, "shared_layer": "tanh"},
    "conflict": {"schedule": "round_robin", "conflict_every": 3},
    "contrastive": {"same.loss": [{"name": "info_nce"}, "binary_cross_entropy"]},
    "cached": {"same.loss": [{"name": "multiple_negatives", "cached": True, "chunk": 3}, "binary_cross_entropy"]},
    "proxies": {"mood.loss": ["soft_triple", "cross_entropy"]},
    "mined": {"same.loss": [{"name": "multiple_negatives", "mine": True}, "binary_cross_entropy"]},
    "few rows": {"batch_size": 1},  # fewer inputs than processes
    "frozen": {"train_encoder": False},
}


@pytest.fixture(scope="module")
def trained(tiny_bert, tmp_path_factory) -> Path:
    """A folder with the weights of every case, trained by several processes."""
    folder = tmp_path_factory.mktemp("processes")
    shutil.copytree(tiny_bert, folder / "encoder")
    config = json.loads((folder / "encoder/config.json").read_text())
    still = {"hidden_dropout_prob": 0.0, "attention_probs_dropout_prob": 0.0}
    (folder / "encoder/config.json").write_text(json.dumps({**config, **still}))
    base = {**write_tasks(folder / "data", folder / "encoder"), "dropout": 0.0, "epochs": 9, "schedule": "round_robin"}
    (folder / "cases.json").write_text(json.dumps({name: changed(base, case) for name, case in CASES.items()}))
    command = [sys.executable, str(HERE / "training_process.py"), str(folder)]
    running = [
        subprocess.Popen([*command, str(rank), str(size)], env={**os.environ, "OMP_NUM_THREADS": "1"})
        for size in SIZES
        for rank in range(size)
    ]
    assert [process.wait(timeout=600) for process in running] == [0] * len(running)
    return folder


def changed(recipe: dict, case: Mapping[str, Any]) -> dict:
    """A recipe with some keys changed; `task.key` is a key of a task."""
    recipe = json.loads(json.dumps(recipe))
    for key, value in case.items():
        task, _, inner = key.rpartition(".")
        (recipe["tasks"][task] if task else recipe)[inner] = value
    return recipe


@pytest.mark.parametrize("case", CASES)
def test_weights_equal_those_of_one_process(trained, case):
    recipe = json.loads((trained / "cases.json").read_text())[case]
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    alone = train_in_float64(recipe, World())
    torch.set_num_threads(threads)
    for size in SIZES:
        found = [torch.load(trained / f"{case}-{size}-{rank}.pt") for rank in range(size)]
        for name, tensor in alone.items():
            assert (found[0][name].double() - tensor.double()).abs().max() <= 1e-9, name
            assert all(torch.equal(found[0][name], other[name]) for other in found[1:]), name


def start_training(size: int, *arguments: str, environment: Mapping[str, str] | None = None) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "torch.distributed.run", f"--nproc-per-node={size}", "--master-port=0"]
    return subprocess.Popen(
        [*command, "--standalone", "-m", "plait", "train", *arguments],
        env={**os.environ, "OMP_NUM_THREADS": "1", **(environment or {})},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


@pytest.fixture
def recipe_file(tiny_recipe, tmp_path) -> Path:
    path = tmp_path / "recipe.yaml"
    path.write_text(json.dumps(tiny_recipe(head_start="frozen", dropout=0.1, refit=False)))
    return path


def test_torchrun_trains_evaluates_and_writes_once(recipe_file, tmp_path):
    process = start_training(2, str(recipe_file), "--out", str(tmp_path / "run"), "--no-report", "--single-task")
    out, errors = process.communicate(timeout=300)
    assert process.returncode == 0, errors
    assert out.count("the best model") == 1
    steps = [line["step"] for line in metrics_lines(tmp_path / "run") if line["kind"] == "train"]
    assert steps == sorted(set(steps)) and len(steps) == result_json(tmp_path / "run")["steps"]
    assert json.loads((tmp_path / "run/run.json").read_text())["processes"] == 2
    assert json.loads((tmp_path / "run/single_task.json").read_text())["scores"].keys() == {"mood", "same", "near"}


def test_a_mistake_is_reported_once(recipe_file, tmp_path):
    process = start_training(2, str(recipe_file), "--out", str(tmp_path / "run"), "--set", "lr=-1")
    _, errors = process.communicate(timeout=300)
    assert process.returncode != 0
    assert errors.count("plait: ") == 1 and "lr" in errors
    assert not (tmp_path / "run").exists()


def test_a_killed_process_ends_the_others_and_the_run_resumes_in_another_number(recipe_file, tmp_path):
    run = tmp_path / "run"
    many = ("--set", "epochs=400", "--set", "checkpoint_every=5", "--set", "evaluate_every=2000")
    process = start_training(3, str(recipe_file), "--out", str(run), *many)
    deadline = time.monotonic() + 240
    while not list(run.glob("checkpoints/*")):
        assert process.poll() is None and time.monotonic() < deadline, process.communicate()
        time.sleep(0.1)
    victim = max(child for child in children(process.pid))
    os.kill(victim, signal.SIGKILL)
    killed = time.monotonic()
    _, errors = process.communicate(timeout=60)
    assert time.monotonic() - killed < 60
    assert process.returncode != 0
    assert "another process of this training has ended or cannot be reached" in errors
    process = start_training(2, "--resume", str(run), "--no-report")
    deadline = time.monotonic() + 240
    assert process.stderr is not None
    said = ""
    while "begun with 3 processes, resuming with 2 processes" not in said:
        assert process.poll() is None and time.monotonic() < deadline, said
        said += process.stderr.readline()
    process.send_signal(signal.SIGTERM)
    process.communicate(timeout=120)
    lines = [line["step"] for line in metrics_lines(run) if line["kind"] == "train"]
    assert lines == list(range(1, len(lines) + 1))


def children(pid: int) -> list[int]:
    return [int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]
