"""A server under load for a quarter of an hour, then under attack: memory, errors, and the latency of honest clients.

    python benchmarks/serve_soak.py [--minutes 15] [--hostile-minutes 5] [--model MODEL]

Soak: clients send texts of mixed length, one or several a request, at a steady rate; the memory of all processes of the
server is read every five seconds. Attack: beside the same honest clients, others send bodies that are too large,
malformed or never finished, break off before the answer, or are generated from the server's own OpenAPI description
by schemathesis.
"""

import argparse
import asyncio
import contextlib
import json
import os
import random
import signal
import statistics
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path

from load import Client, bodies_of
from machine import machine
from serve import ask, free_port
from texts import mixed

RATE = 20.0  # requests of honest clients per second
SAMPLES = 5.0  # seconds between two readings of memory
ROUTE = "/v1/embeddings"
KEPT = 20.0  # megabytes that memory may grow from a third of the soak to its end


def tree_megabytes(root: int) -> float:
    """The resident memory of a process and of all processes below it."""
    children: dict[int, list[int]] = {}
    for status in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError):
            fields = status.read_text().rsplit(")", 1)[1].split()
            children.setdefault(int(fields[1]), []).append(int(status.parent.name))
    found, waiting = 0.0, [root]
    while waiting:
        process = waiting.pop()
        waiting += children.get(process, [])
        with contextlib.suppress(OSError):
            pages = int(Path(f"/proc/{process}/statm").read_text().split()[1])
            found += pages * os.sysconf("SC_PAGE_SIZE") / 2**20
    return found


class Honest:
    """Requests at random moments, at a steady rate."""

    def __init__(self, port: int, texts: list[str]) -> None:
        self.port, self.bodies = port, bodies_of(texts)
        chance = random.Random(11711)
        several = [chance.sample(texts, 16) for _ in range(20)]
        self.bodies += [json.dumps({"model": "minilm", "input": some}).encode() for some in several]
        self.latencies: list[float] = []
        self.statuses: Counter[str] = Counter()

    async def run(self, seconds: float) -> None:
        chance, idle = random.Random(1), []
        until = time.monotonic() + seconds

        async def one() -> None:
            client = idle.pop() if idle else Client(self.port, ROUTE)
            began = time.perf_counter()
            try:
                status, _ = await client.post(chance.choice(self.bodies))
            except (OSError, EOFError) as error:
                client.close()
                self.statuses[type(error).__name__] += 1
                return
            self.statuses[str(status)] += 1
            self.latencies.append(1000 * (time.perf_counter() - began))
            idle.append(client)

        async with asyncio.TaskGroup() as group:
            while time.monotonic() < until:
                await asyncio.sleep(chance.expovariate(RATE))
                group.create_task(one())
        for client in idle:
            client.close()

    @property
    def p99(self) -> float:
        return statistics.quantiles(self.latencies, n=100)[98]


async def attack(port: int, seconds: float, statuses: Counter[str]) -> None:
    """One attack after the other, each on its own connection."""
    chance, until = random.Random(2), time.monotonic() + seconds
    head = f"POST {ROUTE} HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\n"

    def sized(body: bytes) -> bytes:
        return f"{head}Content-Length: {len(body)}\r\n\r\n".encode() + body

    attacks = {
        "oversized": lambda: f"{head}Content-Length: {2**33}\r\n\r\n".encode() + b"x" * 2**20,
        "long text": lambda: sized(json.dumps({"model": "minilm", "input": "word " * 300_000}).encode()),
        "many texts": lambda: sized(json.dumps({"model": "minilm", "input": ["a"] * 100_000}).encode()),
        "malformed": lambda: sized(chance.randbytes(2_000)),
        "nested": lambda: sized(b"[" * 100_000),
        "no HTTP": lambda: chance.randbytes(500),
        "long header": lambda: f"GET / HTTP/1.1\r\nHost: {'x' * 2**20}\r\n\r\n".encode(),
        "never finished": lambda: f"{head}Content-Length: 1000\r\n\r\n".encode() + b"{",
        "breaks off": lambda: sized(bodies_of(["text " * 400])[0]),
    }
    while time.monotonic() < until:
        name = chance.choice(list(attacks))
        try:
            async with asyncio.timeout(5 if name == "never finished" else 30):
                reader, writer = await asyncio.open_connection("127.0.0.1", port)
                writer.write(attacks[name]())
                with contextlib.suppress(OSError):
                    await writer.drain()
                if name != "breaks off":
                    line = await reader.readline()
                    statuses[line.decode("latin-1").split(" ")[1] if line else "closed"] += 1
                writer.close()
        except (OSError, TimeoutError, IndexError):
            statuses["cut off"] += 1
        await asyncio.sleep(0.02)


def fuzz(port: int, seconds: float) -> str:
    """schemathesis against the server's own description; its last lines."""
    program = Path(sys.executable).parent / "schemathesis"
    options = f"--checks not_a_server_error --max-examples 200 --workers 2 --seed 11711 --max-time {int(seconds)}"
    command = [program, "run", f"http://127.0.0.1:{port}/openapi.json", *options.split(), "--exclude-path", "/reload"]
    done = subprocess.run(list(map(str, command)), capture_output=True, text=True)
    return "\n".join(done.stdout.strip().splitlines()[-15:])


async def soak(port: int, process: int, minutes: float, texts: list[str]) -> dict[str, object]:
    honest, memory = Honest(port, texts), []
    work = asyncio.create_task(honest.run(60 * minutes))
    began = time.monotonic()
    while not work.done():
        memory.append(((time.monotonic() - began) / 60, tree_megabytes(process)))
        await asyncio.wait([work], timeout=SAMPLES)
    await work

    def around(minute: float) -> float:
        """The median of a minute."""
        return statistics.median(found for when, found in memory if minute - 1 <= when <= minute)

    third, end = around(minutes / 3), around(minutes)
    return {
        "minutes": minutes,
        "requests": sum(honest.statuses.values()),
        "statuses": dict(honest.statuses),
        "p50 ms": statistics.median(honest.latencies),
        "p99 ms": honest.p99,
        f"MB at minute {minutes / 3:g}": third,
        f"MB at minute {minutes:g}": end,
        "memory is flat": end - third <= KEPT,
        "no error": set(honest.statuses) == {"200"},
    }


async def under_attack(port: int, minutes: float, texts: list[str], normal: float) -> dict[str, object]:
    honest, statuses = Honest(port, texts), Counter[str]()
    seconds = 60 * minutes
    _, *_, fuzzed = await asyncio.gather(
        honest.run(seconds),
        *(attack(port, seconds, statuses) for _ in range(4)),
        asyncio.to_thread(fuzz, port, seconds),
    )
    served = {status for status in [*honest.statuses, *statuses] if status.startswith("5")}
    return {
        "minutes": minutes,
        "honest": dict(honest.statuses),
        "hostile": dict(statuses),
        "p99 ms": honest.p99,
        "times the normal p99": honest.p99 / normal,
        "no 5xx but 503": served <= {"503"},
        "schemathesis": fuzzed,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--minutes", type=float, default=15)
    parser.add_argument("--hostile-minutes", type=float, default=5)
    parser.add_argument("--model", default="minilm")
    arguments = parser.parse_args()
    port, texts = free_port(), mixed(full=False)
    server = subprocess.Popen([sys.executable, "-m", "plait", "serve", arguments.model, "--port", str(port)])
    try:
        for _ in range(120):
            try:
                ask(port, ROUTE, ["ready?"])
                break
            except (OSError, EOFError, ValueError):
                time.sleep(1)
        soaked = asyncio.run(soak(port, server.pid, arguments.minutes, texts))
        attacked = asyncio.run(under_attack(port, arguments.hostile_minutes, texts, float(str(soaked["p99 ms"]))))
        answers = bool(ask(port, ROUTE, ["still there?"]))
    finally:
        server.send_signal(signal.SIGTERM)
        server.wait(120)
    print(
        json.dumps({"machine": machine(), "soak": soaked, "attack": attacked, "answers afterwards": answers}, indent=1)
    )


if __name__ == "__main__":
    main()
