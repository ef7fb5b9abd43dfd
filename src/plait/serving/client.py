"""A client of `plait serve`, with nothing but the standard library and numpy; it does not import torch."""

import asyncio
import base64
import http.client
import json
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from queue import Empty, SimpleQueue
from typing import Any, TypeVar
from urllib.parse import quote, urlencode, urlsplit

import numpy as np

from plait.errors import ExecutionError, RequestError
from plait.inference.explanation import ExplainedWord, Explanation
from plait.inference.prediction import Prediction
from plait.search.index import Hit

__all__ = ["AsyncClient", "Client"]

_AGAIN = frozenset({429, 503})
_LONGEST_PAUSE = 30.0  # seconds between two attempts
_KEYS = {1: "texts", 2: "pairs", 3: "triplets"}  # texts in an example → the key of the request
_Found = TypeVar("_Found")
_Texts = Iterable[str] | Iterable[tuple[str, ...]]


class Client:
    """Asks a server for predictions and embeddings; threads can share it.

    A request that the server refuses because it is busy (429) or not ready (503) is sent again after the time that the
    server names, up to `retries` times.
    """

    def __init__(
        self,
        address: str = "http://127.0.0.1:8000",
        *,
        token: str | None = None,
        model: str | None = None,
        timeout: float = 120.0,
        retries: int = 5,
    ) -> None:
        """`model` chooses among several; by default, the server's first."""
        parts = urlsplit(address)
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise RequestError(f"the argument `address`: expected http://HOST:PORT, found {address!r}")
        self._parts, self._path = parts, parts.path.rstrip("/")
        self._headers = {"content-type": "application/json"} | ({"authorization": f"Bearer {token}"} if token else {})
        self._model, self._timeout, self._retries = model, timeout, retries
        self._about: dict[str, Any] | None = None  # the model's description, fetched on first use
        self._free: SimpleQueue[http.client.HTTPConnection] = SimpleQueue()

    def __enter__(self) -> "Client":
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the connections."""
        while not self._free.empty():
            self._free.get().close()

    def predict(
        self,
        task: str,
        texts: _Texts,
        *,
        threshold: float | None = None,
        abstain_below: float | None = None,
        top_k: int | None = None,
    ) -> list[Prediction]:
        """The task's prediction for each text, pair or triplet; the options are those of `Predictor.predict`."""
        rows = _listed(texts)
        if not rows:
            return []
        key = "texts" if isinstance(rows[0], str) else _KEYS.get(len(rows[0]), "texts")
        body = {key: rows, "threshold": threshold, "abstain_below": abstain_below, "top_k": top_k}
        return [_prediction(one) for one in self._ask(f"/predict/{quote(task, safe='')}", body)["predictions"]]

    def analyze(self, texts: Iterable[str]) -> list[tuple[dict[str, Prediction], np.ndarray]]:
        """For each text, what every task that reads one text predicts, and the embedding."""
        results = self._ask("/analyze", {"texts": _listed(texts)})["results"]
        return [
            (
                {task: _prediction(value) for task, value in one["tasks"].items()},
                np.array(one["embedding"], np.float32),
            )
            for one in results
        ]

    def explain(self, task: str, text: str | tuple[str, ...], *, label: str | None = None) -> Explanation:
        """Which words of a text, pair or triplet the answer of a task depends on."""
        body = {"example": text if isinstance(text, str) else list(text), "label": label}
        found = self._ask(f"/explain/{quote(task, safe='')}", body)["explanation"]
        words = tuple(tuple(ExplainedWord(**word) for word in side) for side in found["words"])
        return Explanation(**{**found, "texts": tuple(found["texts"]), "words": words})

    def embed(self, texts: Iterable[str]) -> np.ndarray:
        """Embeddings (texts, width) in float32."""
        if self._about is None:
            self._about = self.describe()
        body = {"input": _listed(texts), "model": self._about["name"], "encoding_format": "base64"}
        data = self._ask("/v1/embeddings", body)["data"]
        vectors = [np.frombuffer(base64.b64decode(one["embedding"]), "<f4") for one in data]
        return np.stack(vectors) if vectors else np.empty((0, self._about["dimensions"]), np.float32)

    def similarity(self, first: Iterable[str], second: Iterable[str]) -> np.ndarray:
        """The cosine of every text of the first list with every text of the second: (first, second)."""
        given = _listed(first), _listed(second)
        found = self._ask("/similarity", {"first": given[0], "second": given[1]})["similarities"]
        return np.array(found, np.float32).reshape(len(given[0]), len(given[1]))

    def rerank(
        self, query: str, texts: Sequence[str], *, task: str | None = None, top_k: int | None = None
    ) -> list[tuple[int, float]]:
        """The number of each text and its score, best first."""
        body = {"query": query, "texts": _listed(texts), "task": task, "top_k": top_k}
        return [(one["index"], one["score"]) for one in self._ask("/rerank", body)["results"]]

    def search(self, query: str, *, top_k: int = 10, index: str | None = None) -> list[Hit]:
        """The rows of an index nearest to a text, best first; without a name, of the server's first index."""
        return self.search_many([query], top_k=top_k, index=index)[0]

    def search_many(self, queries: Iterable[str], *, top_k: int = 10, index: str | None = None) -> list[list[Hit]]:
        """The rows of an index nearest to each text, best first."""
        body = {"queries": _listed(queries), "top_k": top_k, "index": index}
        return [[Hit(**hit) for hit in hits] for hits in self._ask("/search", body)["results"]]

    def describe(self) -> dict[str, Any]:
        """The model: its tasks, labels, ranges, scores and indexes."""
        found: dict[str, Any] = self._ask("/model", None)
        return found

    def _ask(self, path: str, body: Mapping[str, Any] | None) -> Any:
        """The server's answer; raises its message if it refuses."""
        query = "" if self._model is None or path.startswith("/v1") else f"?{urlencode({'model': self._model})}"
        pause = 0.5
        for attempt in range(self._retries + 1):
            try:
                status, headers, answer = self._send(f"{self._path}{path}{query}", body)
            except (OSError, http.client.HTTPException) as error:
                raise ExecutionError(f"{self._parts.netloc}: no answer: {error or type(error).__name__}") from None
            if status == 200:
                return json.loads(answer)
            if status not in _AGAIN or attempt == self._retries:
                break
            given = headers.get("retry-after", "")
            time.sleep(min(float(given) if given.isdecimal() else pause, _LONGEST_PAUSE))
            pause *= 2
        raise _error(self._parts.netloc, status, answer)

    def _send(self, path: str, body: Mapping[str, Any] | None) -> tuple[int, http.client.HTTPMessage, bytes]:
        """One request on an idle connection, or on a new one if the server has closed it."""
        content = None if body is None else json.dumps({k: v for k, v in body.items() if v is not None}).encode()
        while True:
            try:
                connection, is_new = self._free.get_nowait(), False
            except Empty:
                connection, is_new = self._connect(), True
            try:
                connection.request("GET" if body is None else "POST", path, content, self._headers)
                response = connection.getresponse()
                answer = response.read()
            except (ConnectionError, http.client.HTTPException):
                connection.close()
                if is_new:
                    raise
                continue
            except BaseException:
                connection.close()
                raise
            self._free.put(connection)
            return response.status, response.headers, answer

    def _connect(self) -> http.client.HTTPConnection:
        kind = http.client.HTTPSConnection if self._parts.scheme == "https" else http.client.HTTPConnection
        assert self._parts.hostname is not None, "checked at the start"
        return kind(self._parts.hostname, self._parts.port, timeout=self._timeout)


class AsyncClient:
    """`Client` for asyncio: the same methods as coroutines, up to `connections` at a time."""

    def __init__(
        self,
        address: str = "http://127.0.0.1:8000",
        *,
        token: str | None = None,
        model: str | None = None,
        timeout: float = 120.0,
        retries: int = 5,
        connections: int = 16,
    ) -> None:
        self._client = Client(address, token=token, model=model, timeout=timeout, retries=retries)
        self._threads = ThreadPoolExecutor(connections, "plait client")

    async def __aenter__(self) -> "AsyncClient":
        return self

    async def __aexit__(self, *exception: object) -> None:
        await self.close()

    async def close(self) -> None:
        """Wait for running requests and close the connections."""
        await asyncio.to_thread(self._threads.shutdown)
        self._client.close()

    async def predict(
        self,
        task: str,
        texts: _Texts,
        *,
        threshold: float | None = None,
        abstain_below: float | None = None,
        top_k: int | None = None,
    ) -> list[Prediction]:
        """The task's prediction for each text, pair or triplet; the options are those of `Predictor.predict`."""
        wishes = {"threshold": threshold, "abstain_below": abstain_below, "top_k": top_k}
        return await self._run(lambda: self._client.predict(task, texts, **wishes))  # type: ignore[arg-type]

    async def analyze(self, texts: Iterable[str]) -> list[tuple[dict[str, Prediction], np.ndarray]]:
        """For each text, what every task that reads one text predicts, and the embedding."""
        return await self._run(partial(self._client.analyze, texts))

    async def explain(self, task: str, text: str | tuple[str, ...], *, label: str | None = None) -> Explanation:
        """Which words of a text, pair or triplet the answer of a task depends on."""
        return await self._run(partial(self._client.explain, task, text, label=label))

    async def embed(self, texts: Iterable[str]) -> np.ndarray:
        """Embeddings (texts, width) in float32."""
        return await self._run(partial(self._client.embed, texts))

    async def similarity(self, first: Iterable[str], second: Iterable[str]) -> np.ndarray:
        """The cosine of every text of the first list with every text of the second: (first, second)."""
        return await self._run(partial(self._client.similarity, first, second))

    async def rerank(
        self, query: str, texts: Sequence[str], *, task: str | None = None, top_k: int | None = None
    ) -> list[tuple[int, float]]:
        """The number of each text and its score, best first."""
        return await self._run(partial(self._client.rerank, query, texts, task=task, top_k=top_k))

    async def search(self, query: str, *, top_k: int = 10, index: str | None = None) -> list[Hit]:
        """The rows of an index nearest to a text, best first; without a name, of the server's first index."""
        return await self._run(partial(self._client.search, query, top_k=top_k, index=index))

    async def search_many(
        self, queries: Iterable[str], *, top_k: int = 10, index: str | None = None
    ) -> list[list[Hit]]:
        """The rows of an index nearest to each text, best first."""
        return await self._run(partial(self._client.search_many, queries, top_k=top_k, index=index))

    async def describe(self) -> dict[str, Any]:
        """The model: its tasks, labels, ranges, scores and indexes."""
        return await self._run(self._client.describe)

    async def _run(self, work: Callable[[], _Found]) -> _Found:
        return await asyncio.get_running_loop().run_in_executor(self._threads, work)


def _listed(texts: Iterable[Any]) -> list[Any]:
    if isinstance(texts, str):
        raise RequestError("the argument `texts`: expected a list of texts, found one text; put it into a list")
    return list(texts)


def _prediction(value: Mapping[str, Any]) -> Prediction:
    label = value["label"]
    return Prediction(tuple(label) if isinstance(label, list) else label, value["score"], value["probabilities"])


def _error(server: str, status: int, answer: bytes) -> RequestError | ExecutionError:
    """The error message of the server, or of a proxy in front of it."""
    try:
        error = json.loads(answer)["error"]
        message = f"{server}: {error['message']} ({error['code']}, request {error['request_id']})"
    except (ValueError, KeyError, TypeError):
        message = f"{server}: status {status}"
    return (RequestError if 400 <= status < 500 and status not in (408, 429) else ExecutionError)(message)
