"""What a run tells while it goes on; the command line shows it, Python may ignore it."""

from typing import Any, Protocol

__all__ = ["Silent", "Watcher"]


class Watcher(Protocol):
    """Told of a run's progress."""

    def begin(self, what: str, total: int, done: int = 0) -> None:
        """A part of the work begins: what it is, its size (0: not known), and how much of it was done before."""

    def advance(self, count: int = 1, **facts: Any) -> None:
        """So much more of it is done; `facts` are worth showing beside the bar."""

    def end(self) -> None:
        """That part is over."""

    def scores(self, record: dict[str, Any]) -> None:
        """An evaluation, as metrics.jsonl holds it."""

    def note(self, message: str) -> None:
        """A sentence."""


class Silent:
    """Shows nothing."""

    def begin(self, what: str, total: int, done: int = 0) -> None:
        """Nothing."""

    def advance(self, count: int = 1, **facts: Any) -> None:
        """Nothing."""

    def end(self) -> None:
        """Nothing."""

    def scores(self, record: dict[str, Any]) -> None:
        """Nothing."""

    def note(self, message: str) -> None:
        """Nothing."""
