"""Signals that stop a run after a checkpoint."""

import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType

__all__ = ["Stop", "stop_on_signals"]


class Stop:
    """Records a signal; until the run first asks for it, there is nothing to save."""

    def __init__(self) -> None:
        self.signal = 0
        self.was_asked = False
        self.is_at_once = False  # a second signal, or one before the first step

    def __call__(self) -> bool:
        self.was_asked = True
        return bool(self.signal)

    @property
    def exit_code(self) -> int:
        """130 after SIGINT, 143 after SIGTERM."""
        return 128 + self.signal


@contextmanager
def stop_on_signals() -> Iterator[Stop]:
    """Record SIGINT and SIGTERM; a second one, or one before the first step, ends the program at once."""
    stop = Stop()

    def note(number: int, frame: FrameType | None) -> None:
        stop.is_at_once = bool(stop.signal) or not stop.was_asked
        stop.signal = number
        if stop.is_at_once:
            raise SystemExit(stop.exit_code)

    before: dict[int, Callable[..., object] | int | None] = {
        number: signal.signal(number, note) for number in (signal.SIGINT, signal.SIGTERM)
    }
    try:
        yield stop
    except Exception:
        if stop.is_at_once:  # a library turned the exit into an error of its own
            raise SystemExit(stop.exit_code) from None
        raise
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
