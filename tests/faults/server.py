"""The server: workers that are killed, logs that cannot be written, and hostile clients: no request is lost."""

import asyncio
import os
import random
import signal
import threading
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path

from faults.bench import Bench
from real_server import RealServer
from tiny import sentences

__all__ = ["CASES", "check"]

CLIENTS = 4


def _server(bench: Bench, *options: str, errors: Path | None = None) -> RealServer:
    server = RealServer(str(bench.model), "--workers", "2", "--engine", "torch", *options, errors=errors)
    server.wait_until(server.is_ready)
    return server


def _requests(server: RealServer, count: int, answers: Counter[str]) -> list[threading.Thread]:
    """Clients that send requests one after the other and count how they are answered."""
    import plait

    texts = sentences(40, seed=8)

    def ask(number: int) -> None:
        with plait.Client(server.address, retries=0) as client:
            for turn in range(count):
                try:
                    found = client.predict("mood", texts[(number + turn) % 30 :][:10])
                    answers["whole" if len(found) == 10 else "short"] += 1
                except Exception as error:
                    answers[type(error).__name__ + ": " + str(error)[:80]] += 1

    threads = [threading.Thread(target=ask, args=(number,)) for number in range(CLIENTS)]
    for thread in threads:
        thread.start()
    return threads


def _lost(answers: Counter[str], expected: int) -> str:
    """Requests that were neither answered nor refused at the door (503: they were never accepted)."""
    refused = sum(count for name, count in answers.items() if "no_worker" in name or "queue_full" in name)
    return "" if answers["whole"] + refused == expected else f"of {expected} requests: {dict(answers)}"


def killed_workers(bench: Bench, kills: int = 10, requests: int = 150) -> str:
    """Workers are killed one after the other while clients ask."""
    server, chance, answers = _server(bench), random.Random(5), Counter[str]()
    try:
        threads = _requests(server, requests, answers)
        done = 0
        while done < kills and any(thread.is_alive() for thread in threads):
            if len(workers := server.worker_pids()) == 2:  # so that the other one answers meanwhile
                os.kill(chance.choice(workers), signal.SIGKILL)
                done += 1
                server.wait_until(lambda: server.is_ready() or not any(thread.is_alive() for thread in threads))
            time.sleep(chance.uniform(0, 0.3))
        for thread in threads:
            thread.join()
        if done < min(kills, 2):
            return f"only {done} workers were killed"
        return _lost(answers, CLIENTS * requests)
    finally:
        server.process.kill()
        server.process.communicate()


def full_log(bench: Bench) -> str:
    """Standard error is a full disk; killed workers and bad requests are logged there."""
    server, answers = _server(bench, errors=Path("/dev/full")), Counter[str]()
    try:
        threads = _requests(server, 30, answers)
        os.kill(server.worker_pids()[0], signal.SIGKILL)
        for thread in threads:
            thread.join()
        server.wait_until(server.is_ready)
        return _lost(answers, CLIENTS * 30)
    finally:
        server.process.kill()
        server.process.communicate()


def hostile_traffic(bench: Bench, seconds: float = 20) -> str:
    """The attacks of the soak benchmark beside honest clients."""
    from serve_soak import attack

    server, answers, statuses = _server(bench), Counter[str](), Counter[str]()
    try:
        threads = _requests(server, 50, answers)

        async def both() -> None:
            await asyncio.gather(*(attack(server.port, seconds, statuses) for _ in range(3)))

        asyncio.run(both())
        for thread in threads:
            thread.join()
        if failed := {status: count for status, count in statuses.items() if status[:1] == "5" and status != "503"}:
            return f"attacks were answered with {failed}"
        return _lost(answers, CLIENTS * 50) or ("" if server.is_ready() else "not ready afterwards")
    finally:
        server.process.kill()
        server.process.communicate()


CASES: tuple[Callable[[Bench], str], ...] = (killed_workers, full_log, hostile_traffic)


def check(bench: Bench, number: int) -> str:
    problem = CASES[number](bench)
    return problem and f"{CASES[number].__name__}: {problem}"
