"""Serving embeddings over HTTP: plait against a plain FastAPI handler and infinity, with the same weights.

    python benchmarks/serve.py [--json] [--full] [--rounds N]

Each server runs on the same two cores as the clients, which are a process of their own. A round is a closed loop of 1,
8 and 64 clients that send one text each, then an open loop at fixed rates. Timed is the whole round.
"""

import asyncio
import atexit
import json
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from collections import defaultdict
from pathlib import Path

import numpy as np
from compare import Benchmark, Contender, Disagreement, Ready, Setting, Table, Target, at_least, at_most, run
from load import Client, bodies_of
from texts import mixed

HERE = Path(__file__).resolve().parent
PLAIT, PLAIN, INFINITY = "plait", "FastAPI and sentence-transformers", "infinity"
CLIENTS = {1: 60, 8: 300, 64: 600}  # clients → requests
FULL = {1: 200, 8: 1_000, 64: 3_000}
RATES = (10, 30)  # requests per second
OPEN_SECONDS = {False: 5, True: 20}
STARTS = 180  # seconds in which a server must answer


def name_of(clients: int) -> str:
    return "1 client" if clients == 1 else f"{clients} clients"


def free_port() -> int:
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return int(found.getsockname()[1])


def start(command: list[str], port: int, path: str) -> None:
    """Start a server, wait for its first answer, and stop it when this process ends."""
    server = subprocess.Popen(command, stdout=subprocess.DEVNULL)
    atexit.register(server.wait)
    atexit.register(server.terminate)
    until = time.monotonic() + STARTS
    while time.monotonic() < until:
        if server.poll() is not None:
            raise SystemExit(f"{command[0]} ended with {server.returncode}")
        try:
            if ask(port, path, ["ready?"]):
                return
        except (OSError, EOFError, ValueError):
            time.sleep(0.5)
    raise SystemExit(f"{command[0]} did not answer within {STARTS} seconds")


def ask(port: int, path: str, texts: list[str]) -> list[list[float]]:
    """The embeddings of texts, one request each."""

    async def send() -> list[list[float]]:
        client, found = Client(port, path), []
        for body in bodies_of(texts):
            status, answer = await client.post(body)
            if status != 200:
                raise ValueError(f"{path} answered {status}")
            found.append(json.loads(answer)["data"][0]["embedding"])
        client.close()
        return found

    return asyncio.run(send())


def contender(command, path: str = "/v1/embeddings"):
    """Loads on a server that `command(setting, port)` starts."""

    def make(setting: Setting) -> Ready:
        port, texts = free_port(), mixed(setting.full)
        start(command(setting, port), port, path)
        file = Path(tempfile.mkdtemp()) / "texts.json"
        file.write_text(json.dumps(texts), encoding="utf-8")
        found: dict[str, list[float]] = defaultdict(list)

        def load(name: str, *options: object) -> None:
            arguments = [port, path, "--texts", file, *options]
            done = subprocess.run(
                [sys.executable, HERE / "load.py", *map(str, arguments)], capture_output=True, text=True, check=True
            )
            answer = json.loads(done.stdout)
            if answer["failures"]:
                raise SystemExit(f"{name}: {answer['failures']}")
            cuts = statistics.quantiles(answer["latencies"], n=100)
            found[f"{name}: requests/s"].append(len(answer["latencies"]) / answer["seconds"])
            found[f"{name}: p50 ms"].append(cuts[49])
            found[f"{name}: p99 ms"].append(cuts[98])

        def work() -> object:
            for clients, requests in (FULL if setting.full else CLIENTS).items():
                load(name_of(clients), "--clients", clients, "--requests", requests)
            for rate in RATES:
                load(f"{rate}/s", "--rate", rate, "--seconds", OPEN_SECONDS[setting.full])
            return np.array(ask(port, path, texts[:50]))

        names = [name_of(clients) for clients in CLIENTS] + [f"{rate}/s" for rate in RATES]
        keys = [f"{name}: {what}" for name in names for what in ("requests/s", "p50 ms", "p99 ms")]
        return Ready(work, {key: lambda key=key: round(statistics.median(found[key]), 1) for key in keys})

    return make


def plait_command(setting: Setting, port: int) -> list[str]:
    return [sys.executable, "-m", "plait", "serve", "minilm", "--port", str(port)]


def plain_command(setting: Setting, port: int) -> list[str]:
    return [sys.executable, str(HERE / "plain_server.py"), setting.minilm, str(port)]


def infinity_command(setting: Setting, port: int) -> list[str]:
    program = str(Path(sys.executable).parent / "infinity_emb")
    options = {"--model-id": setting.minilm, "--served-model-name": "minilm", "--engine": "torch", "--device": "cpu"}
    options |= {"--port": str(port), "--host": "127.0.0.1", "--url-prefix": "/v1", "--no-bettertransformer": ""}
    return [program, "v2", *(word for pair in options.items() for word in pair if word)]


def check(outputs) -> dict[str, dict[str, object]]:
    """All servers answer with the same embeddings."""
    units = {name: found / np.linalg.norm(found, axis=1, keepdims=True) for name, found in outputs.items()}
    details: dict[str, dict[str, object]] = {}
    for name, found_nD in units.items():
        lowest = float((found_nD * units[PLAIT]).sum(axis=1).min())
        if lowest < 0.999:
            raise Disagreement(f"{name}: a cosine of {lowest:.5f} with {PLAIT}")
        details[name] = {"lowest cosine": f"{lowest:.5f}"}
    return details


def targets(table: Table) -> list[Target]:
    def figure(name: str, key: str) -> float | None:
        return float(table.contenders[name].details[key]) if name in table.contenders else None  # type: ignore[arg-type]

    def ratio(key: str, name: str) -> float | None:
        ours, theirs = figure(PLAIT, key), figure(name, key)
        return ours / theirs if ours is not None and theirs is not None else None

    found = [
        at_least(3, f"× the requests per second of {PLAIN}, 64 clients", ratio("64 clients: requests/s", PLAIN)),
        at_least(
            1.2, f"× the requests per second of {INFINITY}, 64 clients", ratio("64 clients: requests/s", INFINITY)
        ),
    ]
    found += [
        at_most(1, f"× the p99 latency of {name}, {rate} requests per second", ratio(f"{rate}/s: p99 ms", name))
        for name in (PLAIN, INFINITY)
        for rate in RATES
    ]
    return found


CONTENDERS = {
    PLAIT: Contender(
        contender(plait_command), imports=("plait", "torch", "fastapi", "uvicorn"), how="`plait serve minilm`"
    ),
    PLAIN: Contender(
        contender(plain_command),
        peer="plain-server",
        imports=("torch", "sentence_transformers", "fastapi", "uvicorn"),
        how="`benchmarks/plain_server.py`",
    ),
    INFINITY: Contender(
        contender(infinity_command),
        peer="infinity",
        imports=("torch", "infinity_emb"),
        how="`infinity_emb v2 --engine torch`",
    ),
}
BENCHMARK = Benchmark(
    "Serving embeddings over HTTP",
    CONTENDERS,
    check=check,
    targets=targets,
    facts=lambda table: {"texts": f"{len(mixed(table.setting.full)):,} of mixed length, one per request"},
    rounds=3,
)

if __name__ == "__main__":
    run(BENCHMARK)
