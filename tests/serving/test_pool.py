"""Workers that die, hang or hold an older model: requests are answered all the same."""

import asyncio
import shutil

import pytest

from every_task import make_model, save
from inline_server import InlineWorker, error_of, load_once
from plait.errors import ModelError
from plait.serving.worker_process import WorkerFailed
from tiny import make_checkpoint


class Fragile(InlineWorker):
    """A worker that dies of some batches: those whose text has as many tokens as `poison`, or the next `deaths`."""

    poison = 0
    deaths = 0

    async def ask(self, header, payload, seconds):
        is_check = header["lengths"] == [3]  # that an idle worker makes
        if not is_check and (Fragile.poison in header["lengths"] or Fragile.deaths):
            Fragile.deaths = max(0, Fragile.deaths - 1)
            raise WorkerFailed("stopped with exit code -9")
        return await super().ask(header, payload, seconds)


@pytest.fixture(autouse=True)
def sound():
    Fragile.poison = Fragile.deaths = 0


def test_request_of_a_dead_worker_is_answered_by_the_next(serve):
    server = serve(start=Fragile.start)
    Fragile.deaths = 1
    assert server.answer("/predict/mood", {"texts": ["the film was good"]})["predictions"][0]["label"]
    assert len(server.workers) == 2 and server.workers[0].is_stopped
    assert "plait_worker_restarts_total 1.0" in server.get("/metrics").text


def test_request_that_kills_workers_harms_no_other(serve):
    server = serve(start=Fragile.start)
    Fragile.poison = 7

    async def both():
        texts = ["the film was very good", "the film"]  # of 7 and 4 tokens
        return await asyncio.gather(*(server.http.post("/predict/mood", json={"texts": text}) for text in texts))

    killer, other = server.run(both())
    assert error_of(killer) == (500, "worker_failed", "the process that computes this request failed twice")
    assert other.status_code == 200


class Overflowing(InlineWorker):
    """A worker whose model has no finite answer to texts of 7 tokens."""

    async def ask(self, header, payload, seconds):
        if 7 in header["lengths"]:
            return {"mistakes": ["task 'mood': the outputs of its head are infinite or NaN"]}, b""
        return await super().ask(header, payload, seconds)


def test_answer_that_is_not_finite_is_an_error_and_harms_no_other(serve):
    server = serve(start=Overflowing.start)

    async def both():
        texts = ["the film was very good", "the film"]  # of 7 and 4 tokens
        return await asyncio.gather(*(server.http.post("/predict/mood", json={"texts": text}) for text in texts))

    broken, other = server.run(both())
    assert error_of(broken) == (500, "not_finite", "task 'mood': the outputs of its head are infinite or NaN")
    assert other.status_code == 200 and len(server.workers) == 1


def test_server_is_not_ready_while_a_worker_is_missing(serve):
    blocked = asyncio.Event()

    async def start(models):
        if started:
            await blocked.wait()
        started.append(True)
        return await Fragile.start(models)

    started: list[bool] = []
    server = serve(start=start)
    assert server.get("/ready").status_code == 200
    Fragile.deaths = 1

    async def ask_meanwhile():
        asked = asyncio.ensure_future(server.http.post("/predict/mood", json={"texts": "the film was good"}))
        while server.service.pool.workers:
            await asyncio.sleep(0.01)
        ready, refused = await server.http.get("/ready"), await server.http.post("/predict/mood", json={"texts": "a"})
        health = await server.http.get("/health")
        blocked.set()
        return ready, refused, health, await asked

    ready, refused, health, answered = server.run(ask_meanwhile())
    assert error_of(ready)[:2] == (503, "not_ready") and ready.headers["retry-after"] == "1"
    assert error_of(refused)[:2] == (503, "no_worker") and refused.headers["retry-after"] == "1"
    assert health.status_code == answered.status_code == 200
    assert server.run(server.service.pool.wait_until_ready(10)) and server.get("/ready").status_code == 200


def test_ready_needs_a_recent_forward_pass(serve):
    server = serve(ready_seconds=0.3, check_seconds=30)
    assert server.get("/ready").status_code == 200
    server.run(asyncio.sleep(0.35))
    assert server.get("/ready").status_code == 503


def test_idle_worker_makes_forward_passes(serve):
    server = serve(check_seconds=0.05)
    before = len(server.workers[0].batches)
    server.run(asyncio.sleep(0.5))
    assert len(server.workers[0].batches) > before


class Slow(InlineWorker):
    """A worker that takes its time, unless it is only checked."""

    async def ask(self, header, payload, seconds):
        if header["lengths"] != [3]:
            await asyncio.sleep(0.3)
        return await super().ask(header, payload, seconds)


def test_deadline(serve):
    server = serve(start=Slow.start, seconds=0.1)
    assert error_of(server.post("/predict/mood", {"texts": "the film was good"}))[:2] == (504, "deadline")


def test_full_queue_is_refused_with_the_time_to_wait(serve):
    server = serve(start=Slow.start, queue_tokens=30)

    async def ask(count):
        body = {"texts": ["the film was good"]}  # 6 tokens
        return await asyncio.gather(*(server.http.post("/predict/mood", json=body) for _ in range(count)))

    responses = server.run(ask(20))
    refused = [response for response in responses if response.status_code == 429]
    assert {response.status_code for response in responses} == {200, 429} and len(refused) >= 10
    assert error_of(refused[0])[1] == "queue_full" and int(refused[0].headers["retry-after"]) >= 1


def test_work_of_a_client_who_left_is_dropped(serve):
    server = serve(start=Slow.start)
    path = "/predict/mood"
    scope = {
        "type": "http",
        "method": "POST",
        "path": path,
        "raw_path": path.encode(),
        "query_string": b"",
        "headers": [(b"host", b"localhost"), (b"content-type", b"application/json")],
    }

    async def leave():
        busy = asyncio.ensure_future(server.http.post(path, json={"texts": "the film was good"}))
        while server.service.pool.queue.tokens:
            await asyncio.sleep(0.01)
        await asyncio.sleep(0.05)  # the worker has the first request
        messages = [{"type": "http.request", "body": b'{"texts": "a dog"}'}, {"type": "http.disconnect"}]

        async def receive():
            return messages.pop(0)

        async def send(message):
            pass

        await server.app({**scope}, receive, send)
        return await busy

    assert server.run(leave()).status_code == 200
    assert server.service.pool.queue.tokens == 0
    assert 'plait_dropped_requests_total{reason="client_left"} 1.0' in server.get("/metrics").text
    assert [4] not in [batch["lengths"] for batch in server.workers[0].batches]  # "a dog" was never encoded


# ---------------------------------------------------------------- reload


async def start_fresh(models):
    load_once.cache_clear()
    await asyncio.sleep(0.3)  # as long as a process might take
    return await Slow.start(models)


def test_reload_exchanges_the_model_and_loses_no_request(serve, tiny_bert, tmp_path):
    folder = tmp_path / "model"
    save(make_model(tiny_bert), folder)
    server = serve(start=start_fresh, models={"m": str(folder)})
    before = server.get("/model").json()["identity"]
    shutil.rmtree(folder)
    save(make_model(make_checkpoint(tmp_path / "other", "bert", seed=5)), folder)

    async def ask_during_reload():
        reload = asyncio.ensure_future(server.http.post("/reload"))
        found = []
        while not reload.done():
            found.append(asyncio.ensure_future(server.http.post("/predict/mood", json={"texts": "the film was good"})))
            await asyncio.sleep(0.01)
        return await reload, await asyncio.gather(*found)

    reloaded, responses = server.run(ask_during_reload())
    assert reloaded.json() == {"changed": {"m": True}}
    assert {response.status_code for response in responses} == {200} and responses
    after = server.answer("/predict/mood", {"texts": "the film was good"})["predictions"]
    assert responses[0].json()["predictions"] != after
    assert server.get("/model").json()["identity"] != before
    server.run(asyncio.sleep(0.5))
    assert [worker.is_stopped for worker in server.workers] == [True, False]


def test_failed_reload_keeps_the_model(serve, caplog):
    calls = []

    async def start(models):
        calls.append(models)
        if len(calls) > 1:
            raise ModelError("/secret/folder: config.json is missing")
        return await InlineWorker.start(models)

    server = serve(start=start)
    status, code, message = server.error("/reload", {})
    assert (status, code) == (500, "reload_failed") and "stay as they are" in message and "secret" not in message
    assert "/secret/folder: config.json is missing" in caplog.text
    assert server.answer("/predict/mood", {"texts": "a dog"})["predictions"]


def test_unchanged_model_is_reported(serve):
    assert serve().answer("/reload", {}) == {"changed": {"tiny": False}}
