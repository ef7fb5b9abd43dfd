"""A run that is killed and resumed ends with the same bits as one that never stopped."""

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
    "alternate": {"schedule": "alternate", "pooling": "weighted"},
    "together": {"schedule": {"name": "together", "combine": "mean"}},
    "surgery": {"schedule": {"name": "together", "combine": "surgery"}},
    "stages": {"stages": [{"tasks": ["near"], "epochs": 2}, {"tasks": ["near", "same"], "epochs": 1}, {"epochs": 2}]},
}
KILLS = 5


def train_or_resume(recipe: dict, folder: str) -> None:
    """In a separate process: begin the run, or resume it."""
    import torch

    from plait.errors import RunError
    from plait.training.train import resume, train

    torch.set_num_threads(1)
    if (Path(folder) / "run.json").is_file():
        finished = (Path(folder) / "result.json").is_file()  # killed after result.json was written
        with pytest.raises(RunError, match="already finished") if finished else nullcontext():
            resume(folder)
    else:
        train(recipe, folder, baselines=False, keep=2)


@pytest.fixture(scope="module")
def server():
    """Processes start with torch already imported, so that a kill hits the run and not the import."""
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["plait.training.train"])
    return context


@pytest.mark.parametrize("name", CHANGES)
def test_resume_after_kills_gives_equal_bits(name, tiny_recipe, tmp_path, server):
    frequent = {"checkpoint_every": 2, "evaluate_every": 3, "conflict_every": 2}
    recipe = tiny_recipe(epochs=4, dropout=0.3, **frequent, **CHANGES[name])

    def start(folder: str):
        process = server.Process(target=train_or_resume, args=(recipe, str(tmp_path / folder)))
        process.start()
        return process

    began = time.monotonic()
    uninterrupted = start("uninterrupted")
    uninterrupted.join()
    assert uninterrupted.exitcode == 0
    length = time.monotonic() - began

    generator = random.Random(name)
    killed = finished = 0
    while killed < KILLS or not finished or (tmp_path / f"resumed-{finished}").is_dir():
        process = start(f"resumed-{finished}")
        process.join(generator.uniform(0, length) if killed < KILLS else None)
        if process.is_alive():
            os.kill(process.pid, signal.SIGKILL)
            killed += 1
        process.join()
        assert process.exitcode in (0, -signal.SIGKILL)
        if process.exitcode == 0:
            assert_same_run(tmp_path / "uninterrupted", tmp_path / f"resumed-{finished}")
            finished += 1


def assert_same_run(uninterrupted: Path, resumed: Path) -> None:
    """Equal weights, scores, metrics and model files, and no temporary files."""
    expected, found = (json.loads((run / "result.json").read_text()) for run in (uninterrupted, resumed))
    assert found["last_weights_sha256"] == expected["last_weights_sha256"]
    assert found["scores"] == expected["scores"] and found["best_step"] == expected["best_step"]
    assert found["conflicts"] == expected["conflicts"] and len(expected["conflicts"]) == 3
    assert_same_files(uninterrupted / "best", resumed / "best")
    assert found["kept"] == expected["kept"] and len(expected["kept"]) == 2
    assert_same_files(uninterrupted / "kept", resumed / "kept")
    assert (resumed / "metrics.jsonl").read_bytes() == (uninterrupted / "metrics.jsonl").read_bytes()
    assert not list(resumed.rglob("*.part")), "a killed process left temporary files"


def assert_same_files(first: Path, second: Path) -> None:
    names = sorted(path.relative_to(first) for path in first.rglob("*") if path.is_file())
    assert names == sorted(path.relative_to(second) for path in second.rglob("*") if path.is_file())
    for name in names:
        assert (first / name).read_bytes() == (second / name).read_bytes(), f"{name} differs"
