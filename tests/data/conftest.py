"""Fixtures for tests of reading data."""

import pytest

from plait.progress import SilentProgress


class RecordedNotes(SilentProgress):
    """Keeps the notes of a run."""

    def __init__(self) -> None:
        self.notes: list[str] = []

    def note(self, message: str) -> None:
        self.notes.append(message)


@pytest.fixture
def recorded() -> RecordedNotes:
    return RecordedNotes()
