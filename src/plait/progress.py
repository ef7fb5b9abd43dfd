"""What long work reports while it runs; the command line shows it, Python may ignore it."""

from typing import Any, Protocol

__all__ = ["Progress", "SilentProgress"]


class Progress(Protocol):
    """Receives the progress of long work, in the thread that called it; `SilentProgress` is a base for your own."""

    def begin(self, what: str, total: int, done: int = 0) -> None:
        """A part of the work begins; `total` 0 means unknown, `done` is what an earlier process did."""

    def advance(self, count: int = 1, **facts: Any) -> None:
        """`count` more are done; `facts` are worth showing beside the bar.

        For a training step these are `loss` (by task), `examples` and `epoch`.
        """

    def end(self) -> None:
        """The part is over."""

    def scores(self, record: dict[str, Any]) -> None:
        """An evaluation, as metrics.jsonl holds it: `step`, `epoch`, `dev` (task → metric → value), `mean`, …"""

    def note(self, message: str) -> None:
        """One sentence for the user."""


class SilentProgress:
    """Shows nothing; override what you want to receive."""

    def begin(self, what: str, total: int, done: int = 0) -> None:
        pass

    def advance(self, count: int = 1, **facts: Any) -> None:
        pass

    def end(self) -> None:
        pass

    def scores(self, record: dict[str, Any]) -> None:
        pass

    def note(self, message: str) -> None:
        pass
