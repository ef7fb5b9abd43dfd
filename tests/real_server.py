"""`plait serve` as a process, for tests."""

import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.request import Request, urlopen

PATIENCE = 120  # seconds; a busy machine takes long to start a process


class RealServer:
    """A running server; `address` is known once it serves."""

    def __init__(self, *arguments: str, environment: dict[str, str] | None = None, errors: Path | None = None) -> None:
        command = [sys.executable, "-m", "plait", "serve", *arguments, "--port", "0"]
        given = {**os.environ, "OMP_NUM_THREADS": "1", **(environment or {})}
        log = errors.open("w") if errors else subprocess.PIPE
        self.process = subprocess.Popen(command, env=given, stdout=subprocess.PIPE, stderr=log, text=True)
        if errors:
            log.close()
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        found = re.search(r"http://[\w.:]+\d", line)
        if found is None:
            _, problems = self.process.communicate()
            raise AssertionError(f"did not start: {line}{problems}")
        self.address = found[0]
        self.port = int(self.address.rpartition(":")[2])
        self.line = line

    def get(self, path: str) -> Any:
        with urlopen(self.address + path, timeout=PATIENCE) as response:
            return json.load(response)

    def post(self, path: str, body: Any) -> Any:
        data = json.dumps(body).encode()
        request = Request(self.address + path, data, {"content-type": "application/json"})
        with urlopen(request, timeout=PATIENCE) as response:
            return json.load(response)

    def is_ready(self) -> bool:
        try:
            return self.get("/ready") == {"status": "ready"}
        except OSError:
            return False

    def wait_until(self, condition: Any) -> None:
        end = time.monotonic() + PATIENCE
        while not condition():
            assert time.monotonic() < end, "it did not happen in time"
            time.sleep(0.05)

    def worker_pids(self) -> list[int]:
        children = Path(f"/proc/{self.process.pid}/task/{self.process.pid}/children")
        return [int(pid) for pid in children.read_text().split()]

    def stop(self, number: int = signal.SIGTERM) -> tuple[int, str]:
        """Its exit code and what it said on standard error."""
        self.process.send_signal(number)
        _, problems = self.process.communicate(timeout=PATIENCE)
        return self.process.returncode, problems


@contextmanager
def running(*arguments: str, environment: dict[str, str] | None = None) -> Iterator[RealServer]:
    server = RealServer(*arguments, environment=environment)
    try:
        yield server
    finally:
        server.process.kill()
        server.process.communicate()
