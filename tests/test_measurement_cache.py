"""Measurements are made once per machine and kept in the user's cache directory."""

import json
import time
from pathlib import Path

import pytest

from plait import measurement_cache
from plait.measurement_cache import cache_file, cached_measurement


@pytest.fixture(autouse=True)
def own_cache(tmp_path, monkeypatch):
    """An empty cache directory, on a quiet machine."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setattr(measurement_cache, "_TOLERATED", 1000.0)


def test_a_measurement_is_made_once():
    assert cached_measurement("step", "tiny", lambda: [7, 8]) == [7, 8]
    assert cached_measurement("step", "tiny", lambda: pytest.fail("measured again")) == [7, 8]


def test_measurements_of_other_things_are_kept_separately():
    assert [cached_measurement(what, about, lambda: 7) for what, about in (("step", "tiny"), ("step", "big"))] == [7, 7]
    assert cached_measurement("encoding", "tiny", lambda: 9) == 9
    assert len(json.loads(cache_file().read_text())) == 3


@pytest.mark.parametrize("content", ["", "[1]", "{"])
def test_a_damaged_cache_is_rewritten(content):
    cache_file().parent.mkdir(parents=True)
    cache_file().write_text(content)
    assert cached_measurement("step", "tiny", lambda: 7) == 7
    assert cached_measurement("step", "tiny", lambda: 8) == 7


def test_a_cache_that_cannot_be_written_is_ignored(monkeypatch, tmp_path):
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "file"))
    assert cached_measurement("step", "tiny", lambda: 7) == 7
    assert cached_measurement("step", "tiny", lambda: 8) == 8


def test_an_old_measurement_is_made_again(monkeypatch):
    assert cached_measurement("step", "tiny", lambda: 7) == 7
    monkeypatch.setattr(measurement_cache, "_MAX_AGE", 0.0)
    assert cached_measurement("step", "tiny", lambda: 8) == 8


def test_a_figure_of_a_busy_machine_is_not_stored(monkeypatch):
    seconds = iter(range(0, 1000, 100))
    monkeypatch.setattr(measurement_cache, "_TOLERATED", 0.2)
    with monkeypatch.context() as busy:
        busy.setattr(measurement_cache, "_busy_seconds", lambda: next(seconds))
        assert cached_measurement("step", "tiny", lambda: 7) == 7
        busy.setattr(measurement_cache, "_busy_seconds", lambda: 0.0)
        assert cached_measurement("step", "tiny", lambda: 8) == 8
    monkeypatch.setattr(measurement_cache, "_busy_seconds", lambda: next(seconds))
    monkeypatch.setattr(measurement_cache, "_MAX_AGE", 0.0)
    assert cached_measurement("step", "tiny", lambda: 9) == 8  # old, but from a quiet machine


@pytest.mark.skipif(not Path("/proc/stat").exists(), reason="only Linux counts the seconds of all cores")
def test_all_work_on_the_machine_is_counted():
    began = measurement_cache._busy_seconds()
    own = time.process_time()
    while time.process_time() - own < 0.2:
        pass
    assert measurement_cache._busy_seconds() - began >= 0.15
