"""Which tasks and rows each step trains, and with which learning rate."""

from collections import Counter
from collections.abc import Iterable
from functools import partial
from itertools import chain, combinations, pairwise
from math import ceil, cos, pi, sqrt

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from plait.schedules import (
    LR_SCHEDULES,
    SCHEDULES,
    Plan,
    TaskRows,
    alternate,
    round_robin,
    sampled,
    sequential,
    together,
)

BATCHES = {"a": 2, "b": 1, "c": 3}


def names(plans: list[list[tuple[str, ...]]]) -> list[str]:
    """Each epoch as one word, for schedules that train one task per step."""
    assert all(len(step) == 1 for steps in plans for step in steps)
    return ["".join(task for (task,) in steps) for steps in plans]


# The tasks of each step


def test_sequential_finishes_all_epochs_of_a_task_before_the_next():
    assert names(sequential(BATCHES, 2, "7")) == ["aa", "aa", "b", "b", "ccc", "ccc"]
    assert names(sequential(BATCHES, 2, "7", order=("c", "a"))) == ["ccc", "ccc", "aa", "aa"]


def test_round_robin_passes_over_each_task_in_every_epoch():
    assert names(round_robin(BATCHES, 2, "7")) == ["aabccc", "aabccc"]


def test_round_robin_passes_twice_over_a_task_that_occurs_twice_in_the_order():
    assert names(round_robin(BATCHES, 1, "7", order=("a", "b", "a", "c", "b"))) == ["aabaacccb"]


def test_sampled_by_size_shuffles_every_batch_of_every_task():
    batches = {"a": 40, "b": 20}
    first, second = names(sampled(batches, 2, "7"))
    assert Counter(first) == Counter(second) == batches
    assert len({first, second, "a" * 40 + "b" * 20}) == 3  # shuffled, differently in each epoch


def test_sampled_by_size_multiplies_batches_by_the_weights():
    (steps,) = names(sampled(BATCHES, 1, "7", weights={"a": 2.0, "c": 1 / 3}))
    assert Counter(steps) == {"a": 4, "b": 1, "c": 1}


@pytest.mark.parametrize(
    ("options", "shares"),
    [
        ({"by": "equal"}, {"a": 1 / 3, "b": 1 / 3, "c": 1 / 3}),
        ({"by": "equal", "weights": {"b": 2.0}}, {"a": 1 / 4, "b": 2 / 4, "c": 1 / 4}),
        ({"by": "temperature"}, {"a": 3 / 6, "b": 1 / 6, "c": 2 / 6}),  # √9 : √1 : √4
        ({"by": "temperature", "t": 1.0}, {"a": 9 / 14, "b": 1 / 14, "c": 4 / 14}),
        ({"by": "temperature", "weights": {"b": 3.0}}, {"a": 3 / 8, "b": 3 / 8, "c": 2 / 8}),
    ],
)
def test_sampled_draws_tasks_by_their_shares(options, shares):
    batches = {"a": 9000, "b": 1000, "c": 4000}
    (steps,) = names(sampled(batches, 1, "7", **options))
    assert len(steps) == 14000  # as many steps as all tasks have batches
    for task, share in shares.items():
        deviation = sqrt(share * (1 - share) / 14000)
        assert abs(steps.count(task) / 14000 - share) < 4 * deviation, task  # 4 standard deviations of the draw


def test_sampling_by_temperature_equals_equal_sampling_if_every_task_has_one_batch():
    batches = dict.fromkeys("abcdefghijklmnopqrst", 1)
    assert sampled(batches, 5, "7", by="temperature") == sampled(batches, 5, "7", by="equal")


@pytest.mark.parametrize("by", ["size", "equal", "temperature"])
def test_sampling_follows_from_the_seed(by):
    batches = {"a": 40, "b": 20}
    assert sampled(batches, 2, "7", by=by) == sampled(batches, 2, "7", by=by)
    assert sampled(batches, 2, "7", by=by) != sampled(batches, 2, "8", by=by)
    assert sampled(batches, 3, "7", by=by)[:2] == sampled(
        batches, 2, "7", by=by
    )  # more epochs do not change the first ones


@pytest.mark.parametrize(("epoch", "turns"), [("longest", 3), ("shortest", 1), ("a", 2)])
def test_alternate_takes_turns_until_its_epoch_ends(epoch, turns):
    assert names(alternate(BATCHES, 2, "7", epoch=epoch)) == ["abc" * turns] * 2


def test_alternate_follows_the_given_order():
    assert names(alternate(BATCHES, 1, "7", order=("c", "a", "c"), epoch="a")) == ["caccac"]


@pytest.mark.parametrize(("epoch", "steps"), [("longest", 3), ("shortest", 1), ("a", 2)])
def test_together_trains_every_task_in_each_step(epoch, steps):
    assert together(BATCHES, 2, "7", epoch=epoch) == [[("a", "b", "c")] * steps] * 2


@pytest.mark.parametrize("schedule", [alternate, together])
def test_epoch_ends_with_the_longest_task_by_default(schedule):
    assert schedule(BATCHES, 2, "7") == schedule(BATCHES, 2, "7", epoch="longest")


# The rows of each step


def task_rows(count: int, batch_size: int, take: float = 1.0, seed: int = 0, made: str = "random") -> TaskRows:
    return TaskRows(np.random.default_rng(seed).integers(3, 60, count), batch_size, take, made)


TASKS = {"a": task_rows(53, 8), "b": task_rows(20, 5, seed=1), "c": task_rows(9, 8, seed=2)}
EVERY = {
    **{name: schedule.function for name, schedule in SCHEDULES.items()},
    "round_robin in an order": partial(round_robin, order=("c", "a", "c", "b")),
    "sampled by size": partial(sampled, by="size"),
    "sampled equally": partial(sampled, by="equal", weights={"c": 2.0}),
    "sampled by temperature": partial(sampled, by="temperature"),
    "together, shortest": partial(together, epoch="shortest"),
}
every_schedule = pytest.mark.parametrize("schedule", EVERY.values(), ids=EVERY)


def walk(plan: Plan) -> list[list[list[tuple[str, tuple[int, ...]]]]]:
    return [list(plan.epoch_plan(epoch)) for epoch in range(len(plan.epochs))]


def rows_of(task: str, steps: Iterable[list[tuple[str, tuple[int, ...]]]]) -> list[int]:
    return [row for step in steps for name, rows in step if name == task for row in rows]


def test_only_sequential_trains_task_by_task():
    assert [name for name, schedule in SCHEDULES.items() if schedule.task_by_task] == ["sequential"]


def test_turns_are_the_runs_of_steps_that_train_one_task():
    plan = Plan(TASKS, sequential, 2, 7)
    assert plan.turns == [(0, 14), (14, 8), (22, 4)]


@every_schedule
def test_plan_follows_from_seed_and_stage(schedule):
    planned = walk(Plan(TASKS, schedule, 4, seed=7))
    assert walk(Plan(TASKS, schedule, 4, seed=7)) == planned
    assert walk(Plan(TASKS, schedule, 4, seed=8)) != planned
    assert walk(Plan(TASKS, schedule, 4, seed=7, stage=1)) != planned


@every_schedule
def test_epoch_planned_on_its_own_equals_that_of_the_whole_plan(schedule):
    assert list(Plan(TASKS, schedule, 4, seed=7).epoch_plan(3)) == walk(Plan(TASKS, schedule, 4, seed=7))[3]


@every_schedule
def test_iterating_a_plan_twice_gives_the_same_steps(schedule):
    plan = Plan(TASKS, schedule, 4, seed=7)
    assert walk(plan) == walk(plan)


@every_schedule
def test_number_of_steps_is_that_of_the_epochs(schedule):
    plan = Plan(TASKS, schedule, 4, seed=7)
    assert plan.steps == sum(map(len, walk(plan))) > 0


@every_schedule
def test_plan_has_the_tasks_of_the_schedule(schedule):
    plan = Plan(TASKS, schedule, 4, seed=7)
    assert [[tuple(task for task, _ in step) for step in steps] for steps in walk(plan)] == plan.epochs


@every_schedule
def test_batches_are_not_empty_and_not_larger_than_the_batch_size(schedule):
    sizes = {task: [] for task in TASKS}
    for steps in walk(Plan(TASKS, schedule, 4, seed=7)):
        for step in steps:
            for task, rows in step:
                sizes[task].append(len(rows))
    for task, found in sizes.items():
        assert found and max(found) <= TASKS[task].batch_size and min(found) > 0, task


@every_schedule
def test_every_row_occurs_once_before_any_occurs_again(schedule):
    planned = walk(Plan(TASKS, schedule, 12, seed=7))
    for task, known in TASKS.items():
        stream, count = rows_of(task, chain(*planned)), len(known.lengths)
        assert len(stream) >= 2 * count, task
        for start in range(0, len(stream) - count + 1, count):
            assert sorted(stream[start : start + count]) == list(range(count)), task
        rest = stream[len(stream) // count * count :]
        assert len(set(rest)) == len(rest), task


@pytest.mark.parametrize("by", ["equal", "temperature"])
def test_stream_of_a_task_continues_across_epochs(by):
    epochs = walk(Plan(TASKS, partial(sampled, by=by), 6, seed=7))
    ends = np.cumsum([len(rows_of("a", steps)) for steps in epochs])
    assert any(end % 53 for end in ends[:-1])  # an epoch ends in the middle of a pass…
    stream = rows_of("a", chain(*epochs))
    assert sorted(stream[:53]) == sorted(stream[53:106]) == list(range(53))  # …and the next continues it


@pytest.mark.parametrize("schedule", [round_robin, sampled])
def test_epoch_contains_every_row_of_every_task_once(schedule):
    for steps in walk(Plan(TASKS, schedule, 3, seed=7)):
        for task, known in TASKS.items():
            assert sorted(rows_of(task, steps)) == list(range(len(known.lengths))), task


def test_each_pass_of_each_task_has_its_own_shuffle():
    equal = {"a": task_rows(50, 5), "b": task_rows(50, 5)}
    (steps,) = walk(Plan(equal, partial(round_robin, order=("a", "a", "b")), 1, seed=7))
    passes = [tuple(rows for ((_, rows),) in steps[start : start + 10]) for start in (0, 10, 20)]
    assert len({frozenset(rows) for rows in passes}) == 3  # different batches, not just a different order


def test_take_draws_a_new_share_for_each_pass():
    tasks = {"a": task_rows(100, 10, take=0.25)}
    passes = [set(rows_of("a", steps)) for steps in walk(Plan(tasks, round_robin, 40, seed=7))]
    assert {len(rows) for rows in passes} == {25}
    assert len(set(map(frozenset, passes))) == 40
    assert set.union(*passes) == set(range(100))  # a row is missed by all 40 with probability 0.75⁴⁰ ≈ 1e-5


@pytest.mark.parametrize(
    ("count", "take", "batch_size", "taken", "batches"),
    [(100, 1.0, 32, 100, 4), (100, 0.25, 10, 25, 3), (96, 1.0, 32, 96, 3), (3, 0.01, 32, 1, 1)],
)
def test_rows_and_batches_of_a_pass_by_hand(count, take, batch_size, taken, batches):
    rows = task_rows(count, batch_size, take)
    assert (rows.taken, rows.batches) == (taken, batches)
    (steps,) = walk(Plan({"a": rows}, together, 1, seed=7))
    assert (len(rows_of("a", steps)), len(steps)) == (taken, batches)
    assert sorted(len(batch) for ((_, batch),) in steps)[1:] == [batch_size] * (batches - 1)  # one may be smaller


def test_sorted_batches_have_rows_of_similar_length():
    def spread_of(made: str) -> float:
        known = task_rows(2000, 10, made=made)
        (steps,) = walk(Plan({"a": known}, together, 1, seed=7))
        return spread(known.lengths, [rows for ((_, rows),) in steps])

    assert spread_of("sorted") < spread_of("random") / 10  # over 32 batches, a batch spans 1/32 of the lengths


@pytest.mark.parametrize(("count", "batch_size"), [(350, 64), (1000, 32), (64, 8), (5000, 16)])
def test_rows_meet_other_rows_in_the_next_pass(count, batch_size):
    """The share of a row's mates that are its mates again in the next pass."""

    def share_again(made: str) -> float:
        plan = Plan({"a": task_rows(count, batch_size, made=made)}, together, 6, seed=7)
        passes = [[rows for ((_, rows),) in steps] for steps in walk(plan)]
        pairs = [{pair for rows in batches for pair in combinations(sorted(rows), 2)} for batches in passes]
        return sum(len(one & other) for one, other in pairwise(pairs)) / sum(map(len, pairs[:-1]))

    at_random = (batch_size - 1) / (count - 1)
    assert share_again("random") == pytest.approx(at_random, rel=0.15)
    assert share_again("sorted") > 3 * at_random


def test_batches_are_not_ordered_by_length():
    known = task_rows(200, 10, made="sorted")  # one window
    (steps,) = walk(Plan({"a": known}, together, 1, seed=7))
    means = [known.lengths[list(rows)].mean() for ((_, rows),) in steps]
    assert means != sorted(means) and means != sorted(means, reverse=True)


def spread(lengths: np.ndarray, batches: list) -> float:
    """The mean over batches of longest − shortest."""
    return float(np.mean([np.ptp(lengths[list(rows)]) for rows in batches]))


# The learning rate


def rates(name: str, steps: int, **options: float) -> list[float]:
    """The factor at each step, and after the last one."""
    return [LR_SCHEDULES[name](step, steps, **options) for step in range(steps + 1)]


def test_constant_by_hand():
    assert rates("constant", 3) == [1, 1, 1, 1]
    assert rates("constant", 10, warmup=0.4) == [0.25, 0.5, 0.75, 1, 1, 1, 1, 1, 1, 1, 1]


def test_linear_by_hand():
    assert rates("linear", 4, warmup=0.0) == [1, 0.75, 0.5, 0.25, 0]
    # 2 steps of warm-up, then 8 steps down: 1 − (step − 2)/8
    assert rates("linear", 10, warmup=0.2) == [1 / 2, 1, 1, 7 / 8, 6 / 8, 5 / 8, 4 / 8, 3 / 8, 2 / 8, 1 / 8, 0]


def test_linear_warms_up_over_a_tenth_by_default():
    assert rates("linear", 40) == rates("linear", 40, warmup=0.1) != rates("linear", 40, warmup=0.0)


def test_cosine_by_hand():
    half = sqrt(2) / 4  # (1 ± cos 45°)/2 = 1/2 ± √2/4
    assert rates("cosine", 4) == pytest.approx([1, 0.5 + half, 0.5, 0.5 - half, 0], abs=1e-12)  # float64
    down = [(1 + cos(pi * step / 4)) / 2 for step in range(5)]
    assert rates("cosine", 6, warmup=1 / 3) == pytest.approx([1 / 2, 1, *down], abs=1e-12)


def test_warm_up_rises_in_equal_steps():
    factors = rates("linear", 200, warmup=0.06)[:12]
    assert factors == pytest.approx([step / 12 for step in range(1, 13)], abs=1e-12)  # float64


@pytest.mark.parametrize("name", LR_SCHEDULES)
@settings(deadline=None)  # the machine may be busy
@given(steps=st.integers(2, 300), warmup=st.floats(0, 0.5))
def test_rate_rises_during_warm_up_and_never_again(name, steps, warmup):
    factors = rates(name, steps, warmup=warmup)
    assert all(0 <= factor <= 1 for factor in factors)
    assert all(factor > 0 for factor in factors[:-1])  # every step trains
    peak = ceil(warmup * steps)
    assert max(factors) == 1
    assert factors[:peak] == sorted(factors[:peak])
    assert factors[peak:] == sorted(factors[peak:], reverse=True)
    assert factors[-1] == (1 if name == "constant" else 0)
