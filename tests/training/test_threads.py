"""The number of threads of a run: measured once, remembered, recorded, and kept when the run goes on."""

import json

import pytest
import torch

import plait
from plait.model.load import load_model
from plait.model.remember import memory_file, remembered
from plait.model.watch import Silent
from plait.training import threads
from plait.training.loop import resume
from plait.training.threads import choose_threads, measure_threads, thread_counts


class Notes(Silent):
    def __init__(self):
        self.told = []

    def note(self, message):
        self.told.append(message)


@pytest.fixture(autouse=True)
def own_cache(tmp_path, monkeypatch):
    """An empty cache, four threads at hand, and no wish of the user's."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
    before = torch.get_num_threads()
    torch.set_num_threads(4)
    yield
    torch.set_num_threads(before)


@pytest.fixture
def model(tiny_bert):
    return load_model(tiny_bert, device="cpu")


@pytest.mark.parametrize(("most", "counts"), [(1, [1]), (2, [1, 2]), (6, [1, 2, 4, 6]), (8, [1, 2, 4, 8])])
def test_the_numbers_that_are_tried(most, counts):
    assert thread_counts(most) == counts


@pytest.mark.parametrize(
    ("seconds", "best"),
    [([4.0, 2.0, 1.0], 4), ([1.0, 2.0, 3.0], 1), ([1.04, 2.0, 1.0], 1), ([1.10, 1.0, 0.99], 2)],
)
def test_the_fastest_is_taken_and_the_smaller_of_equals(model, monkeypatch, seconds, best):
    monkeypatch.setattr(threads, "measure_threads", lambda config, counts: seconds)
    notes = Notes()
    choose_threads(model, notes)
    assert torch.get_num_threads() == best
    assert notes.told[0].startswith(f"threads: {best}, the fastest when it was measured (")


def test_it_is_measured_once(model, monkeypatch):
    calls = []
    monkeypatch.setattr(threads, "measure_threads", lambda config, counts: calls.append(1) or [3.0, 1.0, 2.0])
    for _ in range(2):
        torch.set_num_threads(4)
        choose_threads(model, Silent())
        assert torch.get_num_threads() == 2
    assert calls == [1]


def test_a_number_in_the_environment_decides(model, monkeypatch):
    monkeypatch.setenv("OMP_NUM_THREADS", "4")
    notes = Notes()
    choose_threads(model, notes)
    assert torch.get_num_threads() == 4 and notes.told == [] and not memory_file().exists()


def test_measuring_leaves_no_trace(model):
    torch.manual_seed(3)
    state = torch.random.get_rng_state()
    seconds = measure_threads(model.encoder.config, [1, 2])
    assert len(seconds) == 2 and all(0 < value < 60 for value in seconds)
    assert torch.get_num_threads() == 4
    assert torch.equal(torch.random.get_rng_state(), state)


def test_a_run_records_its_threads_and_resumes_with_them(tiny_recipe, tmp_path):
    steps = iter([False, True])
    with pytest.raises(Exception, match="stopped after step 2"):
        plait.train(tiny_recipe(), tmp_path / "run", baselines=False, threads=3, stop=lambda: next(steps))
    assert json.loads((tmp_path / "run/run.json").read_text())["threads"] == 3
    seen = set()
    resume(tmp_path / "run", stop=lambda: seen.add(torch.get_num_threads()))
    assert seen == {3}
    assert torch.get_num_threads() == 4  # the next run in this process has its own


@pytest.mark.parametrize("content", ["", "[1]", "{"])
def test_a_broken_memory_is_written_anew(content):
    memory_file().parent.mkdir(parents=True)
    memory_file().write_text(content)
    assert remembered("step", "tiny", lambda: 7) == 7
    assert remembered("step", "tiny", lambda: 8) == 7


def test_a_memory_that_cannot_be_kept_is_no_mistake(monkeypatch, tmp_path):
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "file"))
    assert remembered("step", "tiny", lambda: 7) == 7
    assert remembered("step", "tiny", lambda: 8) == 8
