"""The server as a process: signals, workers that are killed, connections that misbehave."""

import asyncio
import os
import signal
import socket
import threading
from pathlib import Path

import numpy as np
import pytest

import plait
from every_task import FEW, make_model, save
from plait.errors import RequestError
from real_server import PATIENCE, RealServer, running
from tiny import make_checkpoint, sentences


@pytest.fixture(scope="module")
def model(tiny_bert: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return save(make_model(tiny_bert, FEW), tmp_path_factory.mktemp("served") / "tiny")


@pytest.fixture(scope="module")
def real(model: Path):
    with running(str(model), "--workers", "1", "--engine", "torch", "--max-connections", "20") as server:
        server.wait_until(server.is_ready)
        yield server


def connect(server: RealServer) -> socket.socket:
    return socket.create_connection(("127.0.0.1", server.port), timeout=PATIENCE)


def received(connection: socket.socket) -> bytes:
    """Everything until the server closes the connection."""
    parts = []
    while part := connection.recv(65536):
        parts.append(part)
    return b"".join(parts)


def test_answers_equal_those_of_python(real, model):
    texts = sentences(20, seed=9, longest=30)
    here = plait.load(model)
    with plait.Client(real.address) as client:
        assert client.predict("mood", texts) == list(here.predict("mood", texts))
        assert client.predict("turn", [("a dog", "a cat")]) == list(here.predict("turn", [("a dog", "a cat")]))
        assert client.predict("far", [("a", "b", "c")]) == list(here.predict("far", [("a", "b", "c")]))
        assert client.embed(texts).tolist() == here.embed(texts).tolist()
        assert client.similarity(texts[:3], texts[3:5]).tolist() == here.similarity(texts[:3], texts[3:5]).tolist()
        ((tasks, embedding),) = client.analyze(texts[:1])
        assert tasks == {"mood": here.predict("mood", texts[:1])[0]}
        assert embedding.tolist() == here.embed(texts[:1])[0].tolist()
        ranked = client.rerank("a dog", texts, top_k=2)
        assert [number for number, _ in ranked] == np.argsort(-here.similarity(["a dog"], texts)[0])[:2].tolist()
        assert client.describe()["name"] == "tiny"
        assert client.predict("mood", []) == [] and client.embed([]).shape == (0, 16)
        with pytest.raises(RequestError, match=r"no task 'moo'; did you mean 'mood'\? \(unknown_task, request \w+\)"):
            client.predict("moo", ["a"])


def test_async_client_asks_side_by_side(real, model):
    texts = sentences(30, seed=9)

    async def ask() -> list:
        async with plait.AsyncClient(real.address, connections=8) as client:
            found = await asyncio.gather(*(client.predict("mood", [text]) for text in texts))
            return [one for (one,) in found]

    assert asyncio.run(ask()) == list(plait.load(model).predict("mood", texts))


def test_killed_worker_is_replaced(real):
    (worker,) = real.worker_pids()
    os.kill(worker, signal.SIGKILL)
    real.wait_until(lambda: not real.is_ready())
    assert real.get("/health") == {"status": "ok"}
    real.wait_until(real.is_ready)
    assert real.worker_pids() != [worker]
    assert real.post("/predict/mood", {"texts": "a dog"})["predictions"]


def test_client_that_leaves_does_not_disturb_others(real):
    body = b'{"texts": ["%b"]}' % b'", "'.join([b"the film was good"] * 500)
    kind = b"content-type: application/json\r\ncontent-length: %d\r\n\r\n"
    head = b"POST /predict/mood HTTP/1.1\r\nhost: localhost\r\n" + kind
    for _ in range(5):
        connection = connect(real)
        connection.sendall(head % len(body) + body)
        connection.close()
    assert real.post("/predict/mood", {"texts": "a dog"})["predictions"]
    assert real.is_ready()


@pytest.mark.parametrize(
    ("sent", "status", "code"),
    [
        (b"nonsense\r\n\r\n", b"400", b"invalid_http"),
        (b"GET /model HTTP/1.1\r\n" + b"x: y\r\n" * 20_000, b"431", b"headers_too_large"),
    ],
)
def test_bad_http_is_answered_with_json(real, sent, status, code):
    with connect(real) as connection:
        connection.sendall(sent)
        answer = received(connection)
    assert answer.startswith(b"HTTP/1.1 " + status) and b'"code": "' + code in answer


def test_connections_are_capped(real):
    held = [connect(real) for _ in range(20)]
    try:
        with connect(real) as one_more:
            assert b"too_many_connections" in received(one_more)
    finally:
        for connection in held:
            connection.close()
    real.wait_until(real.is_ready)


def test_sigterm_answers_everything_that_was_accepted(model):
    with running(str(model), "--workers", "1", "--engine", "torch") as server:
        texts = sentences(3000, seed=3, longest=30)
        answers: list[int] = []

        def ask() -> None:
            with plait.Client(server.address, retries=0) as client:
                answers.append(len(client.predict("mood", texts)))

        threads = [threading.Thread(target=ask) for _ in range(3)]
        for thread in threads:
            thread.start()
        server.wait_until(lambda: _metric(server, "plait_examples_total") >= 3 * len(texts))
        code, said = server.stop()
        for thread in threads:
            thread.join(PATIENCE)
        assert answers == [3000] * 3 and code == 0, said
        with pytest.raises(OSError):
            server.get("/health")


def _metric(server: RealServer, name: str) -> float:
    from urllib.request import urlopen

    with urlopen(f"{server.address}/metrics", timeout=PATIENCE) as page:
        lines = page.read().decode().splitlines()
    return float(next(line.split()[1] for line in lines if line.startswith(f"{name} ")))


def test_sighup_exchanges_the_model(tiny_bert, tmp_path):
    folder = save(make_model(tiny_bert, FEW), tmp_path / "model")
    with running(f"mine={folder}", "--workers", "1", "--engine", "torch") as server:
        before = server.get("/model")["identity"]
        other = save(make_model(make_checkpoint(tmp_path / "bert", "bert", seed=3), FEW), tmp_path / "other")
        folder.rename(tmp_path / "old")
        other.rename(folder)
        server.process.send_signal(signal.SIGHUP)
        server.wait_until(lambda: server.get("/model")["identity"] != before)
        assert server.post("/predict/mood", {"texts": "a dog"})["predictions"]
        assert server.stop(signal.SIGINT)[0] == 0
