"""Clients of an HTTP server, in one process without dependencies: each sends a text and waits for its embedding.

    python load.py PORT PATH --texts FILE [--clients N --requests N | --rate N --seconds N]

With `--clients` every client sends its next request when its last one was answered (a closed loop); with `--rate`
requests start at random moments, regardless of earlier ones (an open loop). Prints JSON: seconds, the latency of
each request in milliseconds, and the statuses that were not 200.
"""

import argparse
import asyncio
import json
import random
import time
from collections import Counter
from pathlib import Path

LONGEST_WAIT = 120  # seconds


class Client:
    """One connection that is kept open."""

    def __init__(self, port: int, path: str) -> None:
        self.port, self.path = port, path
        self.reader: asyncio.StreamReader | None = None
        self.writer: asyncio.StreamWriter | None = None

    async def post(self, body: bytes) -> tuple[int, bytes]:
        """The status and the body of the answer."""
        if self.writer is None or self.reader is None or self.writer.is_closing() or self.reader.at_eof():
            self.reader, self.writer = await asyncio.open_connection("127.0.0.1", self.port)
        head = f"POST {self.path} HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\n"
        self.writer.write(f"{head}Content-Length: {len(body)}\r\n\r\n".encode() + body)
        await self.writer.drain()
        lines = (await self.reader.readuntil(b"\r\n\r\n")).decode("latin-1").split("\r\n")
        headers = dict(line.lower().split(": ", 1) for line in lines[1:] if ": " in line)
        answer = await self.reader.readexactly(int(headers["content-length"]))
        if headers.get("connection") == "close":
            self.writer.close()
        return int(lines[0].split()[1]), answer

    def close(self) -> None:
        if self.writer is not None:
            self.writer.close()


def bodies_of(texts: list[str]) -> list[bytes]:
    return [json.dumps({"model": "minilm", "input": [text]}).encode() for text in texts]


class Load:
    """Requests, their latencies and their failures."""

    def __init__(self, port: int, path: str, texts: list[str]) -> None:
        self.port, self.path, self.bodies = port, path, bodies_of(texts)
        self.latencies: list[float] = []
        self.failures: Counter[str] = Counter()

    async def send(self, client: Client, number: int) -> None:
        began = time.perf_counter()
        try:
            async with asyncio.timeout(LONGEST_WAIT):
                status, _ = await client.post(self.bodies[number % len(self.bodies)])
        except (OSError, EOFError, TimeoutError) as error:
            client.close()
            self.failures[type(error).__name__] += 1
            return
        if status == 200:
            self.latencies.append(1000 * (time.perf_counter() - began))
        else:
            self.failures[str(status)] += 1

    async def closed(self, clients: int, requests: int) -> None:
        numbers = iter(range(requests))

        async def work() -> None:
            client = Client(self.port, self.path)
            for number in numbers:
                await self.send(client, number)
            client.close()

        await asyncio.gather(*(work() for _ in range(clients)))

    async def open(self, rate: float, seconds: float) -> None:
        chance = random.Random(11711)
        idle: list[Client] = []

        async def one(number: int) -> None:
            client = idle.pop() if idle else Client(self.port, self.path)
            await self.send(client, number)
            idle.append(client)

        began, due, number = time.perf_counter(), 0.0, 0
        async with asyncio.TaskGroup() as group:
            while (due := due + chance.expovariate(rate)) < seconds:
                await asyncio.sleep(max(0.0, began + due - time.perf_counter()))
                group.create_task(one(number))
                number += 1
        for client in idle:
            client.close()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("port", type=int)
    parser.add_argument("path")
    parser.add_argument("--texts", type=Path, required=True, help="a JSON array of texts")
    parser.add_argument("--clients", type=int)
    parser.add_argument("--requests", type=int)
    parser.add_argument("--rate", type=float, help="requests per second")
    parser.add_argument("--seconds", type=float)
    arguments = parser.parse_args()
    load = Load(arguments.port, arguments.path, json.loads(arguments.texts.read_text(encoding="utf-8")))
    began = time.perf_counter()
    if arguments.clients:
        asyncio.run(load.closed(arguments.clients, arguments.requests))
    else:
        asyncio.run(load.open(arguments.rate, arguments.seconds))
    seconds = time.perf_counter() - began
    print(json.dumps({"seconds": seconds, "latencies": load.latencies, "failures": load.failures}))


if __name__ == "__main__":
    main()
