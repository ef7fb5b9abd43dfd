"""Every limit holds, and says what it is; who has no token is not let in."""

import asyncio
import base64

import pytest

from inline_server import error_of
from plait.errors import RequestError
from plait.serving.settings import Settings, name_models, read_token
from tiny import sentences

TOKEN = "a-token-of-some-length"


@pytest.mark.parametrize(
    ("limit", "body", "status", "code", "message"),
    [
        ({"texts": 3}, {"texts": ["a"] * 4}, 413, "too_many_texts", "texts: 4 texts, at most 3"),
        ({"characters": 5}, {"texts": ["a", "a dog"]}, 200, "", ""),
        ({"characters": 5}, {"texts": ["a", "a dogs"]}, 413, "text_too_long", "text 1 has 6 characters, at most 5"),
        ({"tokens": 10}, {"texts": ["a dog"] * 3}, 413, "too_many_tokens", "texts: 12 tokens, at most 10"),
        ({"bytes": 100}, {"texts": "a" * 100}, 413, "too_many_bytes", "the body has more than 100 bytes"),
    ],
)
def test_limits(serve, limit, body, status, code, message):
    response = serve(**limit).post("/predict/mood", body)
    if status == 200:
        assert response.status_code == 200
    else:
        found = error_of(response)
        assert found[:2] == (status, code) and message in found[2]


def test_similarities_have_a_limit_of_their_own(serve):
    status, code, message = serve(cells=5).error("/similarity", {"first": ["a"] * 2, "second": ["b"] * 3})
    assert (status, code) == (413, "too_many_texts") and "2 × 3 similarities, at most 5" in message


def test_body_without_a_length_is_counted_while_it_arrives(serve):
    server = serve(bytes=1000)

    async def parts():
        for _ in range(20):
            yield b" " * 100

    response = server.run(server.http.post("/predict/mood", content=parts()))
    assert error_of(response)[:2] == (413, "too_many_bytes") and response.headers["connection"] == "close"


def test_body_that_arrives_too_slowly_is_cut_off(serve):
    server = serve(body_seconds=0.2)

    async def parts():
        yield b"{"
        await asyncio.sleep(5)

    response = server.run(server.http.post("/predict/mood", content=parts()))
    assert error_of(response)[:2] == (408, "too_slow")


def test_large_request_is_split_into_batches(serve, predictor):
    server = serve()
    texts = sentences(600, seed=2, longest=30)
    answer = server.answer("/predict/tags", {"texts": texts})
    assert [one["score"] for one in answer["predictions"]] == predictor.predict("tags", texts).scores.tolist()
    assert len(server.workers[0].batches) > 4
    assert all(sum(batch["lengths"]) <= 2048 for batch in server.workers[0].batches)


@pytest.mark.parametrize("path", ["/model", "/v1/models", "/ready", "/metrics", "/docs", "/openapi.json", "/", "/none"])
def test_every_route_but_health_needs_the_token(serve, path):
    server = serve(token=TOKEN)
    assert server.get("/health").status_code == 200
    response = server.get(path)
    assert error_of(response)[:2] == (401, "unauthorized")
    assert response.headers["www-authenticate"].startswith("Bearer")


@pytest.mark.parametrize(
    ("header", "status"),
    [
        (f"Bearer {TOKEN}", 200),
        (f"bearer {TOKEN}", 200),
        ("Basic " + base64.b64encode(f"me:{TOKEN}".encode()).decode(), 200),
        (f"Bearer {TOKEN}x", 401),
        (f"Bearer {TOKEN[:-1]}", 401),
        (TOKEN, 401),
        ("Basic ?", 401),
        ("Basic " + base64.b64encode(TOKEN.encode()).decode(), 401),
        ("Bearer Ω".encode(), 401),
    ],
)
def test_token(serve, header, status):
    assert serve(token=TOKEN).get("/model", headers={"authorization": header}).status_code == status


def test_server_without_token_answers_only_to_local_names(server):
    for host in ("localhost:8000", "127.0.0.1", "[::1]:8000"):
        assert server.get("/model", headers={"host": host}).status_code == 200
    assert error_of(server.get("/model", headers={"host": "evil.example"}))[:2] == (403, "unknown_host")


def test_pages_of_others_get_no_permission(server):
    response = server.get("/model", headers={"origin": "https://other.example"})
    assert not [name for name in response.headers if name.startswith("access-control")]


# ---------------------------------------------------------------- settings


@pytest.mark.parametrize("host", ["0.0.0.0", "192.168.1.7", "::", "example.org"])
def test_public_address_without_token_is_refused(host):
    with pytest.raises(RequestError, match=f"host {host}: other machines could use the server without a token"):
        Settings({"m": "dir"}, host)
    assert Settings({"m": "dir"}, host, token=TOKEN).host == host


@pytest.mark.parametrize("host", ["127.0.0.1", "127.1.2.3", "::1", "localhost"])
def test_local_address_needs_no_token(host):
    assert Settings({"m": "dir"}, host).token is None


def test_token_comes_from_a_file_or_the_environment(tmp_path, monkeypatch):
    monkeypatch.delenv("PLAIT_TOKEN", raising=False)
    assert read_token(None) is None
    monkeypatch.setenv("PLAIT_TOKEN", "from-the-environment")
    assert read_token(None) == "from-the-environment"
    (tmp_path / "token").write_text(f"{TOKEN}\n")
    assert read_token(tmp_path / "token") == TOKEN


@pytest.mark.parametrize("token", ["", "short", "with spaces inside it", "ümlaute-sind-keine-ascii"])
def test_weak_token_is_refused(tmp_path, token):
    (tmp_path / "token").write_text(token)
    with pytest.raises(RequestError, match="at least 16 ASCII characters without spaces"):
        read_token(tmp_path / "token")


def test_missing_token_file_is_reported(tmp_path):
    with pytest.raises(RequestError, match="cannot be read: No such file"):
        read_token(tmp_path / "none")


def test_models_are_named_after_their_directory_or_run():
    assert name_models(["runs/starter/best", "a=x", "models/two/", "my model"]) == {
        "starter": "runs/starter/best",
        "a": "x",
        "two": "models/two/",
        "my-model": "my model",
    }


def test_all_wrong_names_are_reported():
    with pytest.raises(RequestError) as caught:
        name_models(["a=x", "a=y", "ü!=z"])
    assert len(caught.value.mistakes) == 2 and "already called 'a'" in caught.value.mistakes[0]
