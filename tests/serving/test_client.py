"""The client tries again when the server is busy, and says what went wrong otherwise."""

import json
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread

import pytest

import plait
from plait.errors import ExecutionError, RequestError
from plait.inference.explanation import ExplainedWord


class Scripted(ThreadingHTTPServer):
    """A server that answers with what the test has written down, and keeps what it was asked."""

    def __init__(self) -> None:
        self.script: list[tuple[int, dict[str, str], bytes]] = []
        self.asked: list[tuple[str, dict[str, str], bytes]] = []
        super().__init__(("127.0.0.1", 0), Handler)

    @property
    def address(self) -> str:
        return f"http://127.0.0.1:{self.server_port}"


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: Scripted

    def do_POST(self) -> None:
        content = self.rfile.read(int(self.headers.get("content-length", 0)))
        self.server.asked.append((self.path, dict(self.headers), content))
        status, headers, body = self.server.script.pop(0)
        self.send_response(status)
        for name, value in {**headers, "content-length": str(len(body))}.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        pass


ANSWER = {"predictions": [{"label": ["a", "b"], "score": 0.25, "probabilities": {"a": 0.5, "b": 0.75}}]}
DONE = (200, {}, json.dumps(ANSWER).encode())


def refusal(status: int, seconds: str | None = "0") -> tuple[int, dict[str, str], bytes]:
    error = {"code": "busy", "message": "try later", "request_id": "r1"}
    return status, {"retry-after": seconds} if seconds else {}, json.dumps({"error": error}).encode()


@pytest.fixture
def scripted() -> Iterator[Scripted]:
    server = Scripted()
    thread = Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05})
    thread.start()
    yield server
    server.shutdown()
    thread.join()
    server.server_close()


@pytest.mark.parametrize("status", [429, 503])
def test_busy_server_is_asked_again(scripted, status):
    scripted.script = [refusal(status), refusal(status), DONE]
    with plait.Client(scripted.address) as client:
        (found,) = client.predict("tags", ["a text"])
    assert found == plait.Prediction(("a", "b"), 0.25, {"a": 0.5, "b": 0.75})
    assert len(scripted.asked) == 3 and len({content for *_, content in scripted.asked}) == 1


def test_pause_is_what_the_server_says(scripted, monkeypatch):
    pauses: list[float] = []
    monkeypatch.setattr("plait.serving.client.time.sleep", pauses.append)
    scripted.script = [refusal(429, "7"), refusal(503, None), refusal(503, None), refusal(429, "999"), DONE]
    with plait.Client(scripted.address) as client:
        client.predict("tags", ["a text"])
    assert pauses == [7, 1, 2, 30]


def test_client_gives_up_after_its_retries(scripted):
    scripted.script = [refusal(503)] * 3
    with plait.Client(scripted.address, retries=2) as client, pytest.raises(ExecutionError, match="try later"):
        client.predict("tags", ["a text"])
    assert len(scripted.asked) == 3


@pytest.mark.parametrize(("status", "error"), [(404, RequestError), (401, RequestError), (500, ExecutionError)])
def test_other_refusals_are_final(scripted, status, error):
    scripted.script = [refusal(status)]
    with plait.Client(scripted.address) as client, pytest.raises(error, match=r"try later \(busy, request r1\)"):
        client.predict("tags", ["a text"])


def test_answer_of_a_proxy_is_reported_by_its_status(scripted):
    scripted.script = [(502, {}, b"<html>")]
    with plait.Client(scripted.address) as client, pytest.raises(ExecutionError, match="status 502"):
        client.predict("tags", ["a text"])


def test_requests_carry_token_model_and_shape(scripted):
    scripted.script = [DONE] * 2
    with plait.Client(f"{scripted.address}/behind/", token="secret", model="my model") as client:
        client.predict("both at once", [("a", "b")], top_k=2)
        client.predict("far", [("a", "b", "c")], threshold=0.5)
    (path, headers, content), (_, _, second) = scripted.asked
    assert path == "/behind/predict/both%20at%20once?model=my+model"
    assert {name.lower(): value for name, value in headers.items()}["authorization"] == "Bearer secret"
    assert json.loads(content) == {"pairs": [["a", "b"]], "top_k": 2}
    assert json.loads(second) == {"triplets": [["a", "b", "c"]], "threshold": 0.5}


def test_an_explanation_is_that_of_python(scripted):
    word = {"word": "a", "start": 0, "end": 1, "weight": 0.5}
    found = {"task": "near", "label": None, "score": 2.5, "texts": ["a", "b"], "words": [[word], []]}
    scripted.script = [(200, {}, json.dumps({"explanation": found}).encode())]
    with plait.Client(scripted.address) as client:
        explanation = client.explain("near", ("a", "b"))
    words = ((ExplainedWord("a", 0, 1, 0.5),), ())
    assert explanation == plait.Explanation("near", None, 2.5, ("a", "b"), words)
    path, _, content = scripted.asked[0]
    assert path == "/explain/near" and json.loads(content) == {"example": ["a", "b"]}


def test_closed_connection_is_opened_again(scripted):
    scripted.script = [(200, {"connection": "close"}, DONE[2]), DONE]
    with plait.Client(scripted.address) as client:
        assert client.predict("tags", ["a"]) == client.predict("tags", ["a"])


def test_no_server_is_reported():
    with (
        plait.Client("http://127.0.0.1:1") as client,
        pytest.raises(ExecutionError, match="1:1: no answer"),
    ):
        client.predict("tags", ["a"])


@pytest.mark.parametrize("address", ["localhost:8000", "ftp://a", ""])
def test_address_must_be_one(address):
    with pytest.raises(RequestError, match="expected http://HOST:PORT"):
        plait.Client(address)


def test_one_text_is_refused():
    with pytest.raises(RequestError, match="found one text; put it into a list"):
        plait.Client().predict("tags", "a text")
