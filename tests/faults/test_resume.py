"""A run that is killed and gone on with ends in the same bits as one that never stopped."""

import json
import multiprocessing
import os
import random
import signal
import time
from contextlib import nullcontext
from pathlib import Path

import pytest

CHANGES = {
    "sequential": {"schedule": "sequential"},
    "round_robin": {"schedule": {"name": "round_robin", "order": ["mood", "near", "mood", "same"]}},
    "sampled": {"schedule": {"name": "sampled", "by": "equal", "weights": {"same": 2.0}}},
    "alternate": {"schedule": "alternate"},
    "together": {"schedule": {"name": "together", "combine": "mean"}},
    "surgery": {"schedule": {"name": "together", "combine": "surgery"}},
    "stages": {"stages": [{"tasks": ["near"], "epochs": 2}, {"tasks": ["near", "same"], "epochs": 1}, {"epochs": 2}]},
}
KILLS = 10


def work(recipe: dict, folder: str) -> None:
    """In a process of its own: begin the run, or go on with it."""
    import torch

    from plait.errors import RunError
    from plait.training import loop

    torch.set_num_threads(1)
    if (Path(folder) / "run.json").is_file():
        finished = (Path(folder) / "result.json").is_file()  # killed after its last line
        with pytest.raises(RunError, match="is finished") if finished else nullcontext():
            loop.resume(folder)
    else:
        loop.train(recipe, folder, baselines=False, keep=2)


@pytest.fixture(scope="module")
def server():
    """Processes that start with torch already imported, so that a kill hits the run and not the import."""
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["plait.training.loop"])
    return context


@pytest.mark.parametrize("name", CHANGES)
def test_killed_at_ten_random_moments_ends_in_the_same_bits(name, tiny_recipe, tmp_path, server):
    often = {"checkpoint_every": 2, "evaluate_every": 3, "watch_conflict": 2}
    recipe = tiny_recipe(epochs=4, dropout=0.3, **often, **CHANGES[name])

    def start(folder: str):
        process = server.Process(target=work, args=(recipe, str(tmp_path / folder)))
        process.start()
        return process

    began = time.monotonic()
    unbroken = start("unbroken")
    unbroken.join()
    assert unbroken.exitcode == 0
    length = time.monotonic() - began

    generator = random.Random(name)
    killed = finished = 0
    while killed < KILLS or not finished or (tmp_path / f"broken-{finished}").is_dir():
        process = start(f"broken-{finished}")
        process.join(generator.uniform(0, length) if killed < KILLS else None)
        if process.is_alive():
            os.kill(process.pid, signal.SIGKILL)
            killed += 1
        process.join()
        assert process.exitcode in (0, -signal.SIGKILL)
        if process.exitcode == 0:
            same_run(tmp_path / "unbroken", tmp_path / f"broken-{finished}")
            finished += 1


def same_run(unbroken: Path, broken: Path) -> None:
    """Equal weights, equal scores, equal metrics, equal model files, and nothing left lying about."""
    whole, mended = (json.loads((run / "result.json").read_text()) for run in (unbroken, broken))
    assert mended["last_weights_sha256"] == whole["last_weights_sha256"]
    assert mended["scores"] == whole["scores"] and mended["best_step"] == whole["best_step"]
    assert mended["conflicts"] == whole["conflicts"] and len(whole["conflicts"]) == 3
    same_files(unbroken / "best", broken / "best")
    assert mended["kept"] == whole["kept"] and len(whole["kept"]) == 2
    same_files(unbroken / "kept", broken / "kept")
    assert (broken / "metrics.jsonl").read_bytes() == (unbroken / "metrics.jsonl").read_bytes()
    assert not list(broken.rglob("*.part")), "a killed process left something behind"


def same_files(first: Path, second: Path) -> None:
    names = sorted(path.relative_to(first) for path in first.rglob("*") if path.is_file())
    assert names == sorted(path.relative_to(second) for path in second.rglob("*") if path.is_file())
    for name in names:
        assert (first / name).read_bytes() == (second / name).read_bytes(), f"{name} differs"
