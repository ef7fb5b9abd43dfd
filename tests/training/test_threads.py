"""The number of threads of a run: measured once, recorded, and the same when the run resumes."""

import json

import pytest
import torch

import plait
from plait import measurement_cache
from plait.measurement_cache import cache_file
from plait.model.directory.load import load_model
from plait.progress import SilentProgress
from plait.training import threads
from plait.training.threads import _thread_counts, choose_threads, measure_threads
from plait.training.train import Stopped, resume
from small_runs import Recorder, stop_after


@pytest.fixture(autouse=True)
def own_cache(tmp_path, monkeypatch):
    """An empty cache on a quiet machine, four threads, and no OMP_NUM_THREADS."""
    monkeypatch.setattr(measurement_cache, "_busy_seconds", lambda: 0.0)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
    before = torch.get_num_threads()
    torch.set_num_threads(4)
    yield
    torch.set_num_threads(before)


@pytest.fixture
def model(tiny_bert):
    return load_model(tiny_bert, device="cpu").model


@pytest.mark.parametrize(("most", "counts"), [(1, [1]), (2, [1, 2]), (6, [1, 2, 4, 6]), (8, [1, 2, 4, 8])])
def test_powers_of_two_and_the_maximum_are_tried(most, counts):
    assert _thread_counts(most) == counts


@pytest.mark.parametrize(
    ("seconds", "best"),
    [([4.0, 2.0, 1.0], 4), ([1.0, 2.0, 3.0], 1), ([1.04, 2.0, 1.0], 1), ([1.10, 1.0, 0.99], 2)],
)
def test_the_fastest_number_wins_and_fewer_threads_win_a_tie(model, monkeypatch, seconds, best):
    monkeypatch.setattr(threads, "measure_threads", lambda config, counts: seconds)
    progress = Recorder()
    choose_threads(model, progress)
    assert torch.get_num_threads() == best
    assert progress.notes[0].startswith(f"threads: {best}, the fastest when measured (")


def test_threads_are_measured_once(model, monkeypatch):
    calls = []
    monkeypatch.setattr(threads, "measure_threads", lambda config, counts: calls.append(1) or [3.0, 1.0, 2.0])
    for _ in range(2):
        torch.set_num_threads(4)
        choose_threads(model, SilentProgress())
        assert torch.get_num_threads() == 2
    assert calls == [1]


def test_omp_num_threads_takes_precedence(model, monkeypatch):
    monkeypatch.setenv("OMP_NUM_THREADS", "4")
    progress = Recorder()
    choose_threads(model, progress)
    assert torch.get_num_threads() == 4 and progress.notes == [] and not cache_file().exists()


def test_measuring_changes_neither_threads_nor_the_random_state(model):
    torch.manual_seed(3)
    state = torch.random.get_rng_state()
    seconds = measure_threads(model.encoder.config, [1, 2])
    assert len(seconds) == 2 and all(0 < value < 60 for value in seconds)
    assert torch.get_num_threads() == 4
    assert torch.equal(torch.random.get_rng_state(), state)


def test_a_run_records_its_threads_and_resumes_with_them(tiny_recipe, tmp_path):
    with pytest.raises(Stopped, match="stopped after step 2"):
        plait.train(tiny_recipe(), tmp_path / "run", baselines=False, threads=3, stop=stop_after(2))
    assert json.loads((tmp_path / "run/run.json").read_text())["threads"] == 3
    seen = set()
    resume(tmp_path / "run", stop=lambda: seen.add(torch.get_num_threads()))
    assert seen == {3}
    assert torch.get_num_threads() == 4  # restored for the next run in this process
