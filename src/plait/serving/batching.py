"""One queue for requests of all kinds, and the batches that workers take from it.

There is no artificial wait: a free worker takes what is there. When more waits than a batch can hold, requests are
served in fair order, so that a small one overtakes the rest of a large one, and a batch holds texts of similar length.
"""

import asyncio
import heapq
import math
import time
from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import count
from typing import Any, NamedTuple

from plait.serving.errors import ApiError
from plait.serving.examples import Example

__all__ = ["Queue", "Ticket", "WorkBatch"]

_BATCH_TOKENS = 2048  # what one worker encodes in one pass
_WINDOW = 4  # batches' worth of tokens among which a batch is chosen by length
_ATTEMPTS = 2  # at a request whose worker dies
_MEMORY = 0.9  # of the speed, from batch to batch


class Ticket:
    """A request's place in the queue; `done` gets the answer of each example."""

    def __init__(self, model: str, examples: Sequence[Example], deadline: float) -> None:
        self.model = model
        self.examples = examples
        self.deadline = deadline
        self.answers: list[Any] = [None] * len(examples)
        self.left = len(examples)
        self.waiting_tokens = 0
        self.attempts = 0
        self.done: asyncio.Future[list[Any]] = asyncio.get_running_loop().create_future()

    @property
    def is_over(self) -> bool:
        """Whether the client has gone or the deadline has passed."""
        return self.done.done() or time.monotonic() > self.deadline

    def answer(self, number: int, answer: Any) -> None:
        """Note the answer of one example."""
        self.answers[number] = answer
        self.left -= 1
        if not self.left and not self.done.done():
            self.done.set_result(self.answers)

    def fail(self, error: ApiError) -> None:
        """Give up."""
        if not self.done.done():
            self.done.set_exception(error)


class _Entry(NamedTuple):
    """An example in the queue; entries with a lower tag are served first."""

    tag: float
    order: int
    ticket: Ticket
    number: int
    tokens: int


@dataclass(frozen=True)
class WorkBatch:
    """What a worker encodes in one pass."""

    model: str
    entries: Sequence[tuple[Ticket, int]]
    tokens: int

    @property
    def examples(self) -> list[Example]:
        return [ticket.examples[number] for ticket, number in self.entries]

    @property
    def tickets(self) -> list[Ticket]:
        return list(dict.fromkeys(ticket for ticket, _ in self.entries))


@dataclass
class Queue:
    """Examples that wait for a worker."""

    most_tokens: int
    tokens: int = 0  # that wait
    speed: float = 0.0  # tokens per second of one worker
    workers: int = 1
    _heaps: dict[str, list[_Entry]] = field(default_factory=dict)  # of each model
    _again: deque[WorkBatch] = field(default_factory=deque)  # whose worker died
    _takers: deque[asyncio.Future[None]] = field(default_factory=deque)
    _now: float = 0.0  # the highest tag that was served
    _order: Iterator[int] = field(default_factory=count)
    _waking: bool = False

    def put(self, ticket: Ticket) -> None:
        """Add a request; raises a 429 if too many tokens wait already."""
        tokens = sum(example.tokens for example in ticket.examples)
        if self.tokens and self.tokens + tokens > self.most_tokens:
            raise ApiError(
                429,
                "queue_full",
                f"{self.tokens:,} tokens wait already, and at most {self.most_tokens:,} may; try again later",
                retry_after=self.seconds_to_wait(),
            )
        heap = self._heaps.setdefault(ticket.model, [])
        tag = self._now
        for number, example in enumerate(ticket.examples):
            tag += example.tokens
            heapq.heappush(heap, _Entry(tag, next(self._order), ticket, number, example.tokens))
        ticket.waiting_tokens = tokens
        self.tokens += tokens
        self._wake()

    def drop(self, ticket: Ticket) -> None:
        """Drop the pending examples of an abandoned request; its entries are skipped later."""
        self.tokens -= ticket.waiting_tokens
        ticket.waiting_tokens = 0
        ticket.done.cancel()

    def put_back(self, batch: WorkBatch) -> None:
        """Take back a batch whose worker died; each of its requests is tried once more, alone."""
        for ticket in batch.tickets:
            ticket.attempts += 1
            if ticket.attempts >= _ATTEMPTS:
                ticket.fail(ApiError(500, "worker_failed", "the process that computes this request failed twice"))
                self.drop(ticket)
                continue
            own = [entry for entry in batch.entries if entry[0] is ticket]
            self._again.append(WorkBatch(batch.model, own, sum(ticket.examples[number].tokens for _, number in own)))
        self._wake()

    def seconds_to_wait(self) -> int:
        """How long the queue takes to empty, roughly; at least 1."""
        speed = self.speed * max(1, self.workers)
        return min(60, max(1, math.ceil(self.tokens / speed))) if speed else 1

    def note_speed(self, tokens: int, seconds: float) -> None:
        """Learn from a finished batch how fast workers are."""
        speed = tokens / max(seconds, 1e-6)
        self.speed = _MEMORY * self.speed + (1 - _MEMORY) * speed if self.speed else speed

    async def take(self, seconds: float) -> WorkBatch | None:
        """The next batch; None if nothing comes within that time."""
        end = time.monotonic() + seconds
        while (batch := self._next()) is None:
            taker = asyncio.get_running_loop().create_future()
            self._takers.append(taker)
            try:
                await asyncio.wait_for(taker, end - time.monotonic())
            except TimeoutError:
                return None
            finally:
                if taker in self._takers:
                    self._takers.remove(taker)
        return batch

    def _wake(self) -> None:
        """Wake the takers once all requests of this turn of the loop are in the queue."""
        if not self._waking:
            self._waking = True
            asyncio.get_running_loop().call_soon(self._wake_now)

    def _wake_now(self) -> None:
        self._waking = False
        for taker in self._takers:
            if not taker.done():
                taker.set_result(None)

    def _next(self) -> WorkBatch | None:
        while self._again:
            batch = self._again.popleft()
            if not batch.entries[0][0].is_over:
                return batch
        while True:
            heaps = [heap for heap in self._heaps.values() if heap]
            if not heaps:
                return None
            heap = min(heaps, key=lambda heap: heap[0])
            if entries := self._choose(heap, self._budget()):
                break
        self._now = max(self._now, min(entry.tag for entry in entries))
        tokens = sum(entry.tokens for entry in entries)
        self.tokens -= tokens
        for entry in entries:
            entry.ticket.waiting_tokens -= entry.tokens
        return WorkBatch(entries[0].ticket.model, [(entry.ticket, entry.number) for entry in entries], tokens)

    def _budget(self) -> int:
        """Tokens for the next batch: with several free workers, each gets its share."""
        free = 1 + len(self._takers)
        return min(_BATCH_TOKENS, max(1, -(-self.tokens // free)))  # abandoned entries count 0 tokens

    def _choose(self, heap: list[_Entry], budget: int) -> list[_Entry]:
        """The entry that is next, and those of the most similar length among the ones that follow it."""
        window: list[_Entry] = []
        tokens = 0
        while heap and tokens < _WINDOW * budget:
            entry = heapq.heappop(heap)
            if entry.ticket.is_over:
                continue
            window.append(entry)
            tokens += entry.tokens
        if tokens <= budget or not window:
            return window
        first = window[0]
        window.sort(key=lambda entry: entry.tokens)
        low = high = window.index(first)  # the batch is window[low : high + 1]
        room = budget - first.tokens
        while True:
            below = window[low - 1].tokens if low else None
            above = window[high + 1].tokens if high + 1 < len(window) else None
            if below is not None and (above is None or first.tokens - below <= above - first.tokens) and below <= room:
                low, room = low - 1, room - below
            elif above is not None and above <= room:
                high, room = high + 1, room - above
            elif below is not None and below <= room:
                low, room = low - 1, room - below
            else:
                break
        for entry in (*window[:low], *window[high + 1 :]):
            heapq.heappush(heap, entry)
        return window[low : high + 1]
