"""A server inside the test: the same app and queue, with workers that are threads."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from browser import browser
from inline_server import InlineServer
from plait.inference.predictor import Predictor, load

__all__ = ["browser"]


@pytest.fixture(scope="session")
def predictor(untrained: Path) -> Predictor:
    """The model that is served, with a task for every head."""
    return load(untrained, engine="torch")


@pytest.fixture
def serve(untrained: Path) -> Iterator[Callable[..., InlineServer]]:
    """Starts servers; keyword arguments are settings or limits."""
    started: list[InlineServer] = []

    def start(**options: object) -> InlineServer:
        started.append(InlineServer(**{"models": {"tiny": str(untrained)}, **options}))
        return started[-1]

    yield start
    for server in started:
        server.close()


@pytest.fixture(scope="module")
def server(untrained: Path) -> Iterator[InlineServer]:
    """A server that tests share."""
    shared = InlineServer(models={"tiny": str(untrained)})
    yield shared
    shared.close()
