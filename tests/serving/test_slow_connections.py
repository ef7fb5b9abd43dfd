"""Senders that are too slow are cut off."""

import asyncio
import socket
import time
from collections.abc import Iterator
from threading import Thread

import pytest
import uvicorn

from plait.serving.connections import limited_protocol
from plait.serving.settings import Limits


async def _app(scope, receive, send) -> None:
    """Answers with the size that the path names."""
    size = int(scope["path"].strip("/") or 0)
    await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", str(size).encode())]})
    await send({"type": "http.response.body", "body": b"x" * size})


@pytest.fixture(scope="module")
def impatient() -> Iterator[tuple[uvicorn.Server, int]]:
    """A server that has no patience."""
    limits = Limits(header_seconds=0.3, read_seconds=0.3)
    config = uvicorn.Config(_app, http=limited_protocol(limits), ws="none", lifespan="off", log_config=None)
    server = uvicorn.Server(config)
    listener = socket.create_server(("127.0.0.1", 0))
    thread = Thread(target=lambda: asyncio.run(server.serve(sockets=[listener])))
    thread.start()
    yield server, listener.getsockname()[1]
    server.should_exit = True
    thread.join(60)


@pytest.fixture
def port(impatient: tuple[uvicorn.Server, int]) -> int:
    return impatient[1]


def answer_to(port: int, sent: bytes) -> bytes:
    """What comes until the server closes the connection."""
    with socket.create_connection(("127.0.0.1", port), timeout=60) as connection:
        connection.sendall(sent)
        found = b""
        while part := connection.recv(65536):
            found += part
        return found


@pytest.mark.parametrize("sent", [b"", b"GET / HT", b"GET / HTTP/1.1\r\nhost: a\r\n"])
def test_headers_that_do_not_arrive_are_not_waited_for(port, sent):
    answer = answer_to(port, sent)
    assert answer.startswith(b"HTTP/1.1 408") and b'"too_slow"' in answer


def test_second_request_of_a_connection_must_arrive_in_time_too(port):
    answer = answer_to(port, b"GET /3 HTTP/1.1\r\nhost: a\r\n\r\nGET /")
    assert answer.startswith(b"HTTP/1.1 200") and b"xxxHTTP/1.1 408" in answer


def test_answer_that_is_not_read_does_not_hold_the_connection(impatient):
    server, port = impatient
    with socket.create_connection(("127.0.0.1", port), timeout=60) as connection:
        connection.sendall(b"GET /50000000 HTTP/1.1\r\nhost: a\r\n\r\n")
        assert connection.recv(8).startswith(b"HTTP/1.1")
        end = time.monotonic() + 60
        while server.server_state.connections and time.monotonic() < end:
            time.sleep(0.02)
        assert not server.server_state.connections
