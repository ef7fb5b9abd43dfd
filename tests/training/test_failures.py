"""What ends a run from outside: no memory, a full disk, a directory that is gone. It stops with one message."""

import shutil
from contextlib import ExitStack

import pytest

import plait
from full_disk import full_disk
from plait.errors import ExecutionError
from plait.runs.directory import RunDirectory
from plait.training import trainer
from plait.training.train import resume
from small_runs import result_json

NO_MEMORY = [
    MemoryError(),
    RuntimeError("[enforce fail at alloc_cpu.cpp:117] err == 0. DefaultCPUAllocator: can't allocate memory: you tried"),
    RuntimeError("CUDA out of memory. Tried to allocate 2.00 GiB"),
]


@pytest.fixture
def recipe(tiny_recipe):
    recipe = tiny_recipe(epochs=1, checkpoint_every=1, dropout=0.3)
    del recipe["tasks"]["same"]
    return recipe


@pytest.fixture
def expected(recipe, tmp_path) -> str:
    """The last weights of the run that nothing ends."""
    return result_json(plait.train(recipe, tmp_path / "whole", baselines=False).run)["last_weights_sha256"]


def at_step(number: int, do) -> object:
    """A `stop` that does something after a step, and never stops."""
    asked = 0

    def stop() -> bool:
        nonlocal asked
        asked += 1
        if asked == number:
            do()
        return False

    return stop


@pytest.mark.parametrize("error", NO_MEMORY)
def test_a_run_that_is_out_of_memory_can_be_resumed(recipe, expected, tmp_path, monkeypatch, error):
    step = trainer.train_step

    def fail(parts, batches, number, **options):
        if number == 2:
            raise error
        return step(parts, batches, number, **options)

    with monkeypatch.context() as patch:
        patch.setattr(trainer, "train_step", fail)
        with pytest.raises(ExecutionError) as caught:
            plait.train(recipe, tmp_path / "run", baselines=False)
    assert caught.value.exit_code == 1
    assert list(caught.value.mistakes) == [
        "out of memory; try a smaller batch_size or max_length, or a smaller encoder or head; "
        f"once that is solved, resume with plait train --resume {tmp_path}/run"
    ]
    assert result_json(resume(tmp_path / "run").run)["last_weights_sha256"] == expected


def test_a_run_on_a_full_disk_names_the_file_and_can_be_resumed(recipe, expected, tmp_path):
    with ExitStack() as disk, pytest.raises(ExecutionError) as caught:
        fill = at_step(2, lambda: disk.enter_context(full_disk(20_000)))
        plait.train(recipe, tmp_path / "run", baselines=False, stop=fill)
    (mistake,) = caught.value.mistakes
    where = f"{tmp_path}/run/checkpoints/step-00000002: File too large; "
    assert mistake == f"{where}once that is solved, resume with plait train --resume {tmp_path}/run"
    assert not list((tmp_path / "run").rglob(".*.part"))
    assert result_json(resume(tmp_path / "run").run)["last_weights_sha256"] == expected


def test_a_run_that_never_worked_is_not_said_to_be_resumable(recipe, tmp_path):
    with full_disk(100), pytest.raises(ExecutionError, match=r"; once that is solved, start the run again$"):
        plait.train(recipe, tmp_path / "run", baselines=False)
    assert not (tmp_path / "run").exists()


GONE = "run: the directory was deleted, moved or replaced while the run trained in it"


def test_a_run_whose_directory_is_deleted_stops_and_does_not_make_it_again(recipe, tmp_path):
    run = tmp_path / "run"
    with pytest.raises(ExecutionError, match=GONE):
        plait.train(recipe, run, baselines=False, stop=at_step(2, lambda: shutil.rmtree(run)))
    assert not run.exists()


def test_a_run_whose_directory_is_moved_stops_and_can_be_resumed_there(recipe, expected, tmp_path):
    run = tmp_path / "run"
    with pytest.raises(ExecutionError, match=GONE):
        plait.train(recipe, run, baselines=False, stop=at_step(2, lambda: run.rename(tmp_path / "moved")))
    assert result_json(resume(tmp_path / "moved").run)["last_weights_sha256"] == expected


def test_a_new_run_does_not_mix_with_one_whose_directory_is_deleted(recipe, expected, tmp_path):
    run = tmp_path / "run"

    def replace() -> None:
        shutil.rmtree(run)
        plait.train(recipe, run, baselines=False)

    with pytest.raises(ExecutionError, match=GONE):
        plait.train({**recipe, "seed": 5}, run, baselines=False, stop=at_step(2, replace))
    assert result_json(run)["last_weights_sha256"] == expected
    assert plait.load(run).tasks.keys() == recipe["tasks"].keys() and RunDirectory(run).metrics_lines()
