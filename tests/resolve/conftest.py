import pytest

from versions import add_newer_linear


@pytest.fixture
def newer_linear(monkeypatch):
    """Version 2 of the head `linear`, registered for one test."""
    return add_newer_linear(monkeypatch)
