"""A worker as the server sees it: a process that computes one batch at a time."""

import asyncio
import json
import socket
import subprocess
import time
from collections.abc import Mapping
from typing import Any

from plait.errors import ExecutionError, ModelError
from plait.processes import module_command, safe_environment
from plait.serving.wire import pack_message, receive_message

__all__ = ["WorkerFailed", "WorkerProcess"]

_EXIT_SECONDS = 10.0  # for a process to end after its connection


class WorkerFailed(Exception):
    """A worker died, or did not answer in time."""


class WorkerProcess:
    """A running worker; `start` makes one."""

    def __init__(self, process: "subprocess.Popen[bytes]") -> None:
        self._process = process
        self._reader: asyncio.StreamReader
        self._writer: asyncio.StreamWriter
        self.models: dict[str, Any] = {}  # what it says about each
        self.last_answer = time.monotonic()

    @classmethod
    async def start(cls, models: Mapping[str, tuple[str, str]]) -> "WorkerProcess":
        """Start a process that loads these models: name → directory and engine. Raises what is wrong with them."""
        ours, theirs = socket.socketpair()
        with theirs:
            command = module_command("plait.serving.worker", theirs.fileno(), json.dumps(models))
            worker = cls(
                subprocess.Popen(
                    command,
                    stdin=subprocess.DEVNULL,
                    pass_fds=[theirs.fileno()],
                    start_new_session=True,  # Ctrl+C is for the server, which drains
                    env=safe_environment(),
                )
            )
        try:
            worker._reader, worker._writer = await asyncio.open_connection(sock=ours)
            header, _ = await receive_message(worker._reader)
        except (EOFError, OSError):
            raise ExecutionError(
                f"a worker stopped before it was ready (exit code {await worker._exit_code()}), perhaps out of memory; "
                "use fewer workers"
            ) from None
        except BaseException:
            worker._process.kill()
            ours.close()
            raise
        if "mistakes" in header:
            await worker.stop()
            raise ModelError(*header["mistakes"])
        worker.models = header["models"]
        worker.last_answer = time.monotonic()
        return worker

    @property
    def pid(self) -> int:
        """The id of the process."""
        return self._process.pid

    async def ask(self, header: dict[str, Any], payload: bytes, seconds: float) -> tuple[dict[str, Any], bytes]:
        """Its answer to a message; raises WorkerFailed if none comes in time."""
        try:
            async with asyncio.timeout(seconds):
                self._writer.write(pack_message(header, payload))
                answer, found = await receive_message(self._reader)
        except TimeoutError:
            raise WorkerFailed(f"did not answer within {seconds:g} s") from None
        except (EOFError, OSError):
            raise WorkerFailed(f"stopped with exit code {await self._exit_code()}") from None
        self.last_answer = time.monotonic()
        return answer, found

    async def stop(self) -> None:
        """End the process at once."""
        self._process.kill()
        self._writer.close()
        await self._exit_code()

    async def _exit_code(self) -> int | None:
        try:
            return await asyncio.to_thread(self._process.wait, _EXIT_SECONDS)
        except subprocess.TimeoutExpired:
            return None
