"""A run is used by one process at a time, and its failures say how to go on."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from plait.errors import OUT_OF_MEMORY, ExecutionError, RunError, is_out_of_memory
from plait.files import Lock, lock

__all__ = ["RunLock"]


class RunLock:
    """The lock of a run directory."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._held: Lock | None = None
        self.was_lost = False  # the directory was deleted, moved or replaced while this process held the lock

    @contextmanager
    def hold(self, how_to_go_on: Callable[[], str]) -> Iterator[None]:
        """Keep other processes out. Errors of the system become one message that ends with `how_to_go_on`."""
        with lock(self.folder / ".lock", wait=False) as self._held:
            if self._held is None:
                raise RunError(f"{self.folder}: another process is training this run")
            try:
                yield
            except OSError as error:
                self.check()
                raise ExecutionError(_explain(error, self.folder, how_to_go_on())) from None
            except (MemoryError, RuntimeError) as error:
                if not is_out_of_memory(error):
                    raise
                raise ExecutionError(f"{OUT_OF_MEMORY}; {how_to_go_on()}") from None
            finally:
                self.was_lost = not self._held.is_current()
                self._held = None

    def check(self) -> None:
        """Stop if the directory is no longer the one that was locked: nothing may be written into another run."""
        if self._held and not self._held.is_current():
            raise ExecutionError(
                f"{self.folder}: the directory was deleted, moved or replaced while the run trained in it; "
                "the run has stopped and wrote nothing there since"
            )

    @contextmanager
    def try_to_hold(self) -> Iterator[bool]:
        """The same for a moment; False if another process trains there."""
        with lock(self.folder / ".lock", wait=False) as held:
            yield held is not None


def _explain(error: OSError, folder: Path, how_to_go_on: str) -> str:
    """Where and what went wrong, and what to do; a full disk is the usual reason."""
    return f"{error.filename or folder}: {error.strerror or error}; {how_to_go_on}"
