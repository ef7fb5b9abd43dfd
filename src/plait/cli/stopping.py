"""Signals that ask a run to stop: it saves a checkpoint first."""

import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType

__all__ = ["Stop", "stop_on_signals"]


class Stop:
    """Remembers the signal that came; before the run first asks for it, there is nothing to save."""

    def __init__(self) -> None:
        self.signal = 0
        self.asked_for = False

    def __call__(self) -> bool:
        """Whether to stop."""
        self.asked_for = True
        return bool(self.signal)

    @property
    def exit_code(self) -> int:
        """130 after Ctrl-C, 143 after a termination."""
        return 128 + self.signal


@contextmanager
def stop_on_signals() -> Iterator[Stop]:
    """SIGINT and SIGTERM are noted; a second one, or one before the first step, ends the program at once."""
    stop = Stop()

    def note(number: int, frame: FrameType | None) -> None:
        at_once = bool(stop.signal) or not stop.asked_for
        stop.signal = number
        if at_once:
            raise SystemExit(stop.exit_code)

    before: dict[int, Callable[..., object] | int | None] = {
        number: signal.signal(number, note) for number in (signal.SIGINT, signal.SIGTERM)
    }
    try:
        yield stop
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
