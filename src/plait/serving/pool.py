"""Workers with the same models, the queue that they share, and their supervision."""

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, Protocol

import numpy as np

from plait.errors import PlaitError
from plait.serving.batching import Queue, Ticket, WorkBatch
from plait.serving.errors import ApiError
from plait.serving.examples import EMBEDDING, Example, Member, make_examples, pack_examples
from plait.serving.indexes import ServedIndex, open_indexes
from plait.serving.metrics import Metrics
from plait.serving.settings import Settings
from plait.serving.worker_process import WorkerFailed, WorkerProcess

__all__ = ["Pool", "ServedModel", "StartWorker", "Worker"]

_CHECK = "a"  # the text of the forward pass that an idle worker makes
_FIRST_PAUSE, _LONGEST_PAUSE = 0.1, 30.0  # seconds before another worker is started
_log = logging.getLogger("plait.serving")


class Worker(Protocol):
    """What a pool needs of a worker."""

    models: dict[str, Any]
    last_answer: float

    async def ask(self, header: dict[str, Any], payload: bytes, seconds: float) -> tuple[dict[str, Any], bytes]: ...

    async def stop(self) -> None: ...


StartWorker = Callable[[Mapping[str, tuple[str, str]]], Awaitable[Worker]]


class ServedModel:
    """A model as the server knows it: what it tells clients, and how the model reads texts."""

    def __init__(self, name: str, description: Mapping[str, Any]) -> None:
        self.name = name
        self.about: dict[str, Any] = {"name": name, **description["about"]}
        self.members = [Member.from_json(member) for member in description["members"]]

    @property
    def tasks(self) -> Mapping[str, Mapping[str, Any]]:
        """What is known about each task."""
        found: dict[str, Mapping[str, Any]] = self.about["tasks"]
        return found

    def examples(self, asked: Sequence[str], columns: Sequence[Sequence[str]]) -> list[Example]:
        """The rows of some columns of text, tokenized for these tasks or for EMBEDDING."""
        return make_examples(self.members, asked, columns)


class Pool:
    """One set of loaded models. A reload makes a new pool and drains the old one."""

    def __init__(self, settings: Settings, metrics: Metrics, start: StartWorker = WorkerProcess.start) -> None:
        self._settings, self._limits = settings, settings.limits
        self._metrics = metrics
        self._start = start
        self._engines = dict.fromkeys(settings.models, settings.engine)
        self._workers: list[Worker | None] = [None] * settings.workers
        self._requests = 0  # that are not answered yet
        self._tasks: list[asyncio.Task[None]] = []
        self.models: dict[str, ServedModel] = {}
        self.indexes: dict[str, ServedIndex] = {}
        self.queue = Queue(settings.limits.queue_tokens)
        self._checks: dict[str, Example] = {}

    async def open(self) -> None:
        """Start the first worker, which raises what is wrong with a model, and open the indexes; others follow."""
        first = await self._start_worker()
        self.models = {name: ServedModel(name, first.models[name]) for name in self._settings.models}
        self._engines = {name: model.about["engine"] for name, model in self.models.items()}
        self._checks = {name: model.examples([EMBEDDING], [[_CHECK]])[0] for name, model in self.models.items()}
        self._workers[0] = first
        self.indexes = await open_indexes(self._settings.indexes, self.models)
        self._tasks = [asyncio.create_task(self._tend(place)) for place in range(len(self._workers))]

    @property
    def is_ready(self) -> bool:
        """Whether every worker made a forward pass within the last seconds."""
        now = time.monotonic()
        return all(worker and now - worker.last_answer < self._limits.ready_seconds for worker in self._workers)

    @property
    def workers(self) -> int:
        """How many workers are running."""
        return sum(worker is not None for worker in self._workers)

    async def wait_until_ready(self, seconds: float) -> bool:
        """Whether every worker is ready within that time."""
        end = time.monotonic() + seconds
        while not self.is_ready and time.monotonic() < end:
            await asyncio.sleep(0.05)
        return self.is_ready

    async def drain(self, seconds: float) -> None:
        """Wait until every request is answered, then stop the workers."""
        end = time.monotonic() + seconds
        while self._requests and time.monotonic() < end:
            await asyncio.sleep(0.02)
        await self.close()

    async def close(self) -> None:
        """Stop the workers at once."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await asyncio.gather(*(worker.stop() for worker in self._workers if worker))
        self._workers = [None] * len(self._workers)

    @contextmanager
    def request(self) -> Iterator[None]:
        """While a request is read and answered: the workers stay until it is."""
        self._requests += 1
        try:
            yield
        finally:
            self._requests -= 1

    def submit(self, model: str, examples: Sequence[Example], deadline: float) -> Ticket:
        """Put a request into the queue."""
        ticket = Ticket(model, examples, deadline)
        self.queue.put(ticket)
        return ticket

    async def _start_worker(self) -> Worker:
        sources = self._settings.models.items()
        return await self._start({name: (source, self._engines[name]) for name, source in sources})

    async def _tend(self, place: int) -> None:
        """Keep one worker running and busy."""
        pause = _FIRST_PAUSE
        while True:
            worker = self._workers[place]
            if worker is None:
                try:
                    worker = await self._start_worker()
                except (PlaitError, OSError) as error:
                    _log.error("worker %d could not be started: %s", place, error)
                    await asyncio.sleep(pause)
                    pause = min(2 * pause, _LONGEST_PAUSE)
                    continue
                self._workers[place] = worker
            self.queue.workers = self.workers
            try:
                await self._check(worker)
                pause = _FIRST_PAUSE
                await self._work(worker)
            except WorkerFailed as error:
                _log.error("worker %d %s; starting another", place, error)
                self._metrics.restarts.inc()
                self._workers[place] = None
                await worker.stop()
                await asyncio.sleep(pause)
                pause = min(2 * pause, _LONGEST_PAUSE)

    async def _work(self, worker: Worker) -> None:
        """Answer batch after batch; an idle worker makes a forward pass now and then."""
        while True:
            batch = await self.queue.take(self._limits.check_seconds)
            if batch is None:
                await self._check(worker)
                continue
            try:
                await self._answer(worker, batch)
            except WorkerFailed:
                self.queue.put_back(batch)
                raise

    async def _check(self, worker: Worker) -> None:
        """A forward pass of every model."""
        for name, example in self._checks.items():
            header, payload = pack_examples([example])
            await worker.ask({"model": name, **header}, payload, self._limits.worker_seconds)

    async def _answer(self, worker: Worker, batch: WorkBatch) -> None:
        header, payload = pack_examples(batch.examples)
        began = time.monotonic()
        answer, found = await worker.ask({"model": batch.model, **header}, payload, self._limits.worker_seconds)
        if "mistakes" in answer:
            self._refuse(batch, answer["mistakes"])
            return
        self.queue.note_speed(batch.tokens, time.monotonic() - began)
        self._metrics.note_batch(len(batch.entries), batch.tokens)
        width = self.models[batch.model].about["dimensions"]
        vectors_kD = np.frombuffer(found, np.float32).reshape(-1, width)
        for (ticket, number), given in zip(batch.entries, answer["answers"], strict=True):
            if (row := given.get(EMBEDDING)) is not None:
                given[EMBEDDING] = vectors_kD[row]
            ticket.answer(number, given)

    def _refuse(self, batch: WorkBatch, mistakes: Sequence[str]) -> None:
        """An error in place of answers that are not finite; the requests of a batch are first tried one by one."""
        if len(batch.tickets) > 1:
            self.queue.put_back(batch)
            return
        for ticket in batch.tickets:
            ticket.fail(ApiError(500, "not_finite", " ".join(mistakes)))
            self.queue.drop(ticket)
