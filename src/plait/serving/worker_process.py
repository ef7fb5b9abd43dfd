"""A worker as the server sees it: a process that is asked one batch at a time."""

import asyncio
import contextlib
import json
import sys
import time
from collections.abc import Mapping
from typing import Any

from plait.errors import ExecutionError, ModelError
from plait.serving.wire import pack_message, receive_message

__all__ = ["WorkerFailed", "WorkerProcess"]


class WorkerFailed(Exception):
    """A worker died, or did not answer in time."""


class WorkerProcess:
    """A running worker; `start` makes one."""

    def __init__(self, process: asyncio.subprocess.Process, models: dict[str, Any]) -> None:
        self._process = process
        self.models = models  # what it says about each
        self.last_answer = time.monotonic()

    @classmethod
    async def start(cls, models: Mapping[str, tuple[str, str]]) -> "WorkerProcess":
        """Start a process that loads these models: name → directory and engine. Raises what is wrong with them."""
        process = await asyncio.create_subprocess_exec(
            sys.executable,
            "-m",
            "plait.serving.worker",
            json.dumps({"models": models}),
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            start_new_session=True,  # Ctrl+C is for the server, which drains
        )
        try:
            assert process.stdout is not None, "it is a pipe"
            header, _ = await receive_message(process.stdout)
        except EOFError:
            raise ExecutionError(
                f"a worker stopped before it was ready (exit code {await process.wait()}), perhaps out of memory; "
                "use fewer workers"
            ) from None
        except BaseException:
            process.kill()
            raise
        if "mistakes" in header:
            await process.wait()
            raise ModelError(*header["mistakes"])
        return cls(process, header["models"])

    async def ask(self, header: dict[str, Any], payload: bytes, seconds: float) -> tuple[dict[str, Any], bytes]:
        """Its answer to a message; raises WorkerFailed if none comes in time."""
        assert self._process.stdin is not None and self._process.stdout is not None, "both are pipes"
        try:
            async with asyncio.timeout(seconds):
                self._process.stdin.write(pack_message(header, payload))
                answer, found = await receive_message(self._process.stdout)
        except TimeoutError:
            raise WorkerFailed(f"did not answer within {seconds:g} s") from None
        except (EOFError, OSError):
            raise WorkerFailed(f"stopped with exit code {await self._process.wait()}") from None
        self.last_answer = time.monotonic()
        return answer, found

    async def stop(self) -> None:
        """End the process at once."""
        with contextlib.suppress(ProcessLookupError):
            self._process.kill()
        await self._process.wait()
