"""The queue: fair order, texts of similar length together, a budget of tokens, nothing for those who left."""

import asyncio
import random
import time
from collections import Counter

import numpy as np
import pytest

from plait.serving.batching import Queue, Ticket, WorkBatch
from plait.serving.errors import ApiError
from plait.serving.examples import EMBEDDING, Example


def example(tokens: int) -> Example:
    return Example([np.zeros(tokens, np.int32)], [tokens], [1], {EMBEDDING: [[0]]}, tokens, False)


def ticket(*lengths: int, model: str = "m", seconds: float = 60) -> Ticket:
    return Ticket(model, [example(length) for length in lengths], time.monotonic() + seconds)


def in_loop(test):
    """Run a test inside an event loop."""

    def run() -> None:
        asyncio.run(test())

    run.__name__ = test.__name__
    return run


async def take_all(queue: Queue) -> list[WorkBatch]:
    found = []
    while batch := await queue.take(0.01):
        found.append(batch)
    return found


@in_loop
async def test_requests_that_fit_share_one_batch():
    queue = Queue(10_000)
    given = [ticket(10, 20), ticket(5), ticket(400)]
    for one in given:
        queue.put(one)
    batch = await queue.take(1)
    assert set(batch.tickets) == set(given) and batch.tokens == 435 and queue.tokens == 0


@in_loop
async def test_batch_stays_within_the_budget_and_has_similar_lengths():
    queue = Queue(10**6)
    queue.put(ticket(*[100, 400] * 30))
    batches = await take_all(queue)
    assert all(batch.tokens <= 2048 for batch in batches)
    assert sum(len(batch.entries) for batch in batches) == 60
    lengths = [ticket.examples[number].tokens for ticket, number in batches[0].entries]
    assert lengths == [100] * 17  # all short ones among the first four batches' worth of tokens


@in_loop
async def test_small_request_overtakes_the_rest_of_a_large_one():
    queue = Queue(10**6)
    large, small = ticket(*[100] * 1000), ticket(100)
    queue.put(large)
    await queue.take(1)
    queue.put(small)
    soon = [await queue.take(1) for _ in range(3)]  # of the 50 batches of the large one
    assert any(small in batch.tickets for batch in soon)


@in_loop
async def test_free_workers_share_what_waits():
    queue = Queue(10_000)
    workers = [asyncio.create_task(queue.take(1)) for _ in range(2)]
    await asyncio.sleep(0)
    queue.put(ticket(*[10] * 20))
    batches = await asyncio.gather(*workers)
    assert [len(batch.entries) for batch in batches] == [10, 10]


@in_loop
async def test_one_batch_is_of_one_model():
    queue = Queue(10_000)
    queue.put(ticket(10, model="a"))
    queue.put(ticket(10, model="b"))
    assert sorted(batch.model for batch in await take_all(queue)) == ["a", "b"]


@in_loop
async def test_text_over_the_budget_gets_a_batch_of_its_own():
    queue = Queue(10_000)
    queue.put(ticket(3000, 10))
    assert sorted(batch.tokens for batch in await take_all(queue)) == [10, 3000]


@in_loop
async def test_work_of_those_who_left_is_dropped():
    queue = Queue(10_000)
    gone, stays, late = ticket(10, 20), ticket(30), ticket(40, seconds=-1)
    for one in (gone, stays, late):
        queue.put(one)
    queue.drop(gone)
    assert queue.tokens == 70
    (batch,) = await take_all(queue)
    assert batch.tickets == [stays]


@in_loop
async def test_queue_of_dropped_work_is_empty():
    queue = Queue(10_000)
    gone = ticket(10, 20)
    queue.put(gone)
    queue.drop(gone)
    assert queue.tokens == 0 and await queue.take(0.01) is None
    queue.put(stays := ticket(30))
    assert (await queue.take(1)).tickets == [stays]


@in_loop
async def test_full_queue_refuses_and_says_when_to_try_again():
    queue = Queue(1000)
    queue.put(ticket(800))
    queue.note_speed(200, 1.0)
    with pytest.raises(ApiError, match="800 tokens wait already, and at most 1,000 may") as caught:
        queue.put(ticket(300))
    assert (caught.value.status, caught.value.retry_after) == (429, 4)
    queue.put(ticket(200))
    await take_all(queue)
    queue.put(ticket(5000))  # an empty queue takes any request


@in_loop
async def test_batch_of_a_dead_worker_is_tried_again_request_by_request():
    queue = Queue(10_000)
    one, two = ticket(10), ticket(20)
    queue.put(one)
    queue.put(two)
    queue.put_back(await queue.take(1))
    again = await take_all(queue)
    assert [batch.tickets for batch in again] == [[one], [two]]
    queue.put_back(again[0])
    assert await take_all(queue) == []
    with pytest.raises(ApiError, match="failed twice"):
        one.done.result()


@in_loop
async def test_ticket_is_done_with_its_last_answer():
    given = ticket(10, 20)
    given.answer(1, "second")
    assert not given.done.done()
    given.answer(0, "first")
    assert given.done.result() == ["first", "second"]


@pytest.mark.parametrize("seed", range(10))
def test_every_example_is_served_once_unless_it_was_dropped(seed):
    async def play() -> None:
        draw = random.Random(seed)
        queue, served, dropped = Queue(10**9), Counter(), set()
        tickets: list[Ticket] = []
        for _ in range(200):
            move = draw.random()
            if move < 0.5:
                tickets.append(ticket(*draw.choices(range(3, 600), k=draw.randint(1, 40)), model=draw.choice("ab")))
                queue.put(tickets[-1])
            elif move < 0.6 and tickets:
                dropped.add(gone := draw.choice(tickets))
                queue.drop(gone)
            elif (batch := queue._next()) is not None:
                assert batch.tokens <= 2048 and not dropped & set(batch.tickets)
                if draw.random() < 0.1:
                    queue.put_back(batch)
                else:
                    served.update(batch.entries)
            assert queue.tokens >= 0
        for batch in await take_all(queue):
            served.update(batch.entries)
        failed = {one for one in tickets if one.attempts > 1}
        expected = {(one, n) for one in set(tickets) - dropped - failed for n in range(len(one.examples))}
        assert queue.tokens == 0 and expected <= served.keys() and set(served.values()) == {1}

    asyncio.run(play())
