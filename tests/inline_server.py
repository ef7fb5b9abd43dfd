"""`plait serve` without processes and sockets, for tests."""

import asyncio
import io
import time
from collections.abc import Coroutine, Mapping
from functools import cache
from typing import Any

import httpx2

from plait.inference.predictor import Predictor, load
from plait.serving.app import make_app
from plait.serving.service import Service
from plait.serving.settings import Limits, Settings
from plait.serving.wire import pack_message, read_message
from plait.serving.worker import answer_batch, describe_model

load_once = cache(load)


class InlineWorker:
    """A worker that computes in a thread. Messages are packed and read as those of a process."""

    def __init__(self, predictors: Mapping[str, Predictor]) -> None:
        self.predictors = predictors
        described = {name: describe_model(predictor) for name, predictor in predictors.items()}
        self.models, _ = carried(described)
        self.last_answer = time.monotonic()
        self.batches: list[dict[str, Any]] = []  # the headers of all batches
        self.is_stopped = False

    @classmethod
    async def start(cls, models: Mapping[str, tuple[str, str]]) -> "InlineWorker":
        return cls({name: load_once(source, engine="torch") for name, (source, _) in models.items()})

    async def ask(self, header: dict[str, Any], payload: bytes, seconds: float) -> tuple[dict[str, Any], bytes]:
        header, payload = carried(header, payload)
        self.batches.append(header)
        found = await asyncio.to_thread(answer_batch, self.predictors[header["model"]], header, payload)
        self.last_answer = time.monotonic()
        return carried(*found)

    async def stop(self) -> None:
        self.is_stopped = True


def carried(header: Any, payload: bytes = b"") -> tuple[Any, bytes]:
    """A message as it arrives at the other end."""
    return read_message(io.BytesIO(pack_message(header, payload)))


class InlineServer:
    """The app of a service, and its own event loop."""

    def __init__(self, start: Any = InlineWorker.start, **options: Any) -> None:
        limits = {name: options.pop(name) for name in list(options) if name in Limits.__dataclass_fields__}
        self.settings = Settings(**{"workers": 1, **options}, limits=Limits(**limits))
        self.workers: list[Any] = []  # all that were started
        self.runner = asyncio.Runner()
        self.service = self.run(self._open(start))
        self.app = make_app(self.service)
        transport = httpx2.ASGITransport(self.app)
        self.http = httpx2.AsyncClient(transport=transport, base_url="http://localhost")

    async def _open(self, start: Any) -> Service:
        async def started(models: Mapping[str, tuple[str, str]]) -> Any:
            self.workers.append(await start(models))
            return self.workers[-1]

        service = Service(self.settings, started)
        await service.open()
        await service.pool.wait_until_ready(10)
        return service

    def run(self, work: Coroutine[Any, Any, Any]) -> Any:
        return self.runner.run(work)

    def get(self, path: str, **options: Any) -> httpx2.Response:
        return self.run(self.http.get(path, **options))

    def post(self, path: str, body: Any, **options: Any) -> httpx2.Response:
        return self.run(self.http.post(path, json=body, **options))

    def answer(self, path: str, body: Any, **options: Any) -> Any:
        """The JSON of an answer that succeeds."""
        response = self.post(path, body, **options)
        assert response.status_code == 200, response.text
        return response.json()

    def error(self, path: str, body: Any, **options: Any) -> tuple[int, str, str]:
        """The status, code and message of an error."""
        response = self.post(path, body, **options)
        return error_of(response)

    def close(self) -> None:
        self.run(self.service.close())
        self.run(self.http.aclose())
        self.runner.close()


def error_of(response: httpx2.Response) -> tuple[int, str, str]:
    """The status, code and message of an error, which has the request's id."""
    error = response.json()["error"]
    assert error["request_id"] == response.headers["x-request-id"]
    return response.status_code, error["code"], error["message"]
