"""Measurements are made once per machine and kept in the user's cache directory."""

import json

import pytest

from plait.measurement_cache import cache_file, cached_measurement


@pytest.fixture(autouse=True)
def own_cache(tmp_path, monkeypatch):
    """An empty cache directory."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))


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
