"""What all routes share: the models, the path of a request through the queue, and reloading."""

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from plait.data.examples import value_problem
from plait.errors import PlaitError, did_you_mean
from plait.serving.batching import Ticket
from plait.serving.errors import ApiError
from plait.serving.examples import EMBEDDING
from plait.serving.indexes import ServedIndex
from plait.serving.metrics import Metrics
from plait.serving.pool import Pool, ServedModel, StartWorker
from plait.serving.settings import Settings
from plait.serving.worker_process import WorkerProcess

__all__ = ["Answered", "Disconnected", "Service"]

_IN_LOOP = 20_000  # characters; more are tokenized in a thread, so that other requests go on
_START_SECONDS = 600.0  # for all workers of a reload to load their models
Disconnected = Callable[[], Awaitable[None]]  # returns when the client has disconnected
_log = logging.getLogger("plait.serving")


@dataclass(frozen=True)
class Answered:
    """The answers to each row of a request, by task, and what they cost."""

    answers: list[dict[str, Any]]
    tokens: int
    truncated: int  # examples

    @property
    def usage(self) -> dict[str, int]:
        return {"tokens": self.tokens, "truncated": self.truncated}


class Service:
    """The models and their queue."""

    def __init__(self, settings: Settings, start: StartWorker = WorkerProcess.start) -> None:
        self.settings, self.limits = settings, settings.limits
        self.metrics = Metrics()
        self._start = start
        self.pool = Pool(settings, self.metrics, start)
        self.started = int(time.time())
        self.is_draining = False
        self._reload = asyncio.Lock()
        self._old: set[asyncio.Task[None]] = set()
        self.metrics.add_gauge("plait_queue_tokens", "Tokens that wait.", lambda: self.pool.queue.tokens)
        self.metrics.add_gauge("plait_workers", "Workers that run.", lambda: self.pool.workers)
        self.metrics.add_gauge("plait_ready", "1 if the server is ready.", lambda: self.is_ready)

    async def open(self) -> None:
        """Load the models; raises what is wrong with them."""
        await self.pool.open()

    async def close(self) -> None:
        """Stop every worker, also those of a reload that drains."""
        await asyncio.gather(*self._old)
        await self.pool.close()

    @property
    def is_ready(self) -> bool:
        return self.pool.is_ready and not self.is_draining

    def model(self, name: str | None) -> ServedModel:
        """The model of that name, or the first."""
        models = self.pool.models
        if name is None:
            return next(iter(models.values()))
        if name not in models:
            raise ApiError(404, "unknown_model", f"there is no model {name!r}; {did_you_mean(name, models)}")
        return models[name]

    def index(self, name: str | None, model: str | None) -> ServedIndex:
        """The index of that name, or the first, among those of a model if one is named."""
        indexes = self.pool.indexes
        if model is not None:
            served = self.model(model).name
            indexes = {key: one for key, one in indexes.items() if one.model == served}
        if not indexes:
            of = f"the model {model!r}" if model is not None else "the server"
            raise ApiError(404, "unknown_index", f"{of} has no index; start it with --index DIR")
        if name is None:
            return next(iter(indexes.values()))
        if name not in indexes:
            raise ApiError(404, "unknown_index", f"there is no index {name!r}; {did_you_mean(name, indexes)}")
        return indexes[name]

    def task(self, model: ServedModel, name: str) -> Mapping[str, Any]:
        """What is known about a task."""
        if name not in model.tasks:
            hint = did_you_mean(name, model.tasks) if model.tasks else "it is a plain encoder, which only embeds"
            raise ApiError(404, "unknown_task", f"the model {model.name!r} has no task {name!r}; {hint}")
        return model.tasks[name]

    async def embed(self, model: ServedModel, texts: Sequence[str], where: str, left: Disconnected) -> Answered:
        """The embedding of each text."""
        return await self.ask(model, [EMBEDDING], [texts], where, left)

    async def ask(
        self, model: ServedModel, asked: Sequence[str], columns: Sequence[Sequence[str]], where: str, left: Disconnected
    ) -> Answered:
        """What some tasks, or EMBEDDING, answer for each row of one, two or three columns of text."""
        deadline = time.monotonic() + self.limits.seconds
        self._check_texts(columns, where)
        if not columns[0]:
            return Answered([], 0, 0)
        pool = self.pool  # a request is answered by the pool whose tokenizer read it
        if not pool.workers:
            raise ApiError(503, "no_worker", "no worker is running at the moment; try again", retry_after=1)
        with pool.request():
            if sum(len(text) for column in columns for text in column) > _IN_LOOP:
                examples = await asyncio.to_thread(model.examples, asked, columns)
            else:
                examples = model.examples(asked, columns)
            tokens = sum(example.tokens for example in examples)
            if tokens > self.limits.tokens:
                most = f"at most {self.limits.tokens:,}; send fewer texts"
                raise ApiError(413, "too_many_tokens", f"{where}: {tokens:,} tokens, {most}")
            ticket = pool.submit(model.name, examples, deadline)
            truncated = sum(example.truncated for example in examples)
            self.metrics.tokens.inc(tokens)
            self.metrics.texts.inc(len(examples))
            self.metrics.truncated.inc(truncated)
            return Answered(await self._wait(pool, ticket, left), tokens, truncated)

    async def _wait(self, pool: Pool, ticket: Ticket, left: Disconnected) -> list[dict[str, Any]]:
        """The answers to a request, unless the client disconnects or the deadline passes."""
        leaving: asyncio.Future[None] = asyncio.ensure_future(left())
        waiting: set[asyncio.Future[Any]] = {ticket.done, leaving}
        try:
            seconds = max(0.0, ticket.deadline - time.monotonic())
            await asyncio.wait(waiting, timeout=seconds, return_when=asyncio.FIRST_COMPLETED)
            if ticket.done.done():
                return ticket.done.result()
            reason = "client_left" if leaving.done() else "deadline"
        except asyncio.CancelledError:
            pool.queue.drop(ticket)
            raise
        finally:
            leaving.cancel()
        pool.queue.drop(ticket)
        self.metrics.dropped.labels(reason).inc()
        if reason == "client_left":
            raise ApiError(499, "client_left", "the client closed the connection")
        raise ApiError(504, "deadline", f"no answer within {self.limits.seconds:g} s; send fewer texts, or try again")

    def _check_texts(self, columns: Sequence[Sequence[str]], where: str) -> None:
        count = sum(map(len, columns))
        if count > self.limits.texts:
            raise ApiError(413, "too_many_texts", f"{where}: {count:,} texts, at most {self.limits.texts:,}")
        for side, column in enumerate(columns):
            for number, text in enumerate(column):
                place = f"{where}: text {number}" if len(columns) == 1 else f"{where}: example {number}, text {side}"
                if problem := value_problem(text):
                    raise ApiError(422, "invalid_text", f"{place} {problem}")
                if len(text) > self.limits.characters:
                    raise ApiError(
                        413,
                        "text_too_long",
                        f"{place} has {len(text):,} characters, at most {self.limits.characters:,}; texts are "
                        "truncated to the model's max_length anyway",
                    )

    async def reload(self) -> dict[str, bool]:
        """Load the models again and replace them all at once; whether each changed. Requests are answered meanwhile."""
        if self._reload.locked():
            raise ApiError(409, "reload_running", "the models are being loaded already")
        async with self._reload:
            pool = Pool(self.settings, self.metrics, self._start)
            try:
                await pool.open()
                if not await pool.wait_until_ready(_START_SECONDS):
                    raise ApiError(503, "reload_failed", "the workers of the new models did not start in time")
            except (PlaitError, OSError) as error:
                await pool.close()
                _log.error("reload failed, the models stay as they are: %s", error)
                message = "the models could not be loaded and stay as they are; the server's log says why"
                raise ApiError(500, "reload_failed", message) from None
            except BaseException:
                await pool.close()
                raise
            old, self.pool = self.pool, pool
            self.metrics.reloads.inc()
        drained = asyncio.create_task(old.drain(self.limits.drain_seconds))
        self._old.add(drained)
        drained.add_done_callback(self._old.discard)
        changed = {
            name: model.about["identity"] != old.models[name].about["identity"] for name, model in pool.models.items()
        }
        _log.info("reloaded: %s", ", ".join(f"{name}{'' if new else ' (unchanged)'}" for name, new in changed.items()))
        return changed
