"""Weights that combine the gradients of several tasks.

K tasks, P parameters.
"""

import itertools
import math

import pytest
import torch
from torch import Tensor, nn

from plait.errors import RecipeError
from plait.gradients.combine import (
    COMBINERS,
    ByGram,
    draw_orders,
    find_combiner,
    scale_gradients,
    surgery,
)
from projection import project_and_average
from properties import (
    ROUNDING,
    SCALES,
    Weigh,
    assert_no_task_is_harmed,
    assert_single_task_keeps_its_gradient,
    assert_task_order_does_not_matter,
    assert_weights_do_not_depend_on_scale,
)

every_combiner = pytest.mark.parametrize("name", COMBINERS)
one_to_five_tasks = pytest.mark.parametrize("tasks", [1, 2, 3, 4, 5])
POSITIVE_SCALES = [scale for scale in SCALES if scale]


def weigh_with(name: str) -> Weigh:
    """A method as a function of the Gram matrix."""
    combiner = COMBINERS[name]
    if isinstance(combiner, ByGram):
        return lambda gram_KK: combiner.weigh(gram_KK, "seed")
    return lambda gram_KK: torch.full((len(gram_KK),), combiner.weigh(len(gram_KK)), dtype=gram_KK.dtype)


def draw_gradients(tasks: int, seed: int, size: int = 7) -> Tensor:
    return torch.randn(tasks, size, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


# Every method


@every_combiner
def test_single_task_keeps_its_gradient(name):
    assert_single_task_keeps_its_gradient(weigh_with(name), draw_gradients(20, 0))


@every_combiner
def test_weights_do_not_depend_on_the_scale_of_the_gradients(name):
    for tasks, seed in itertools.product([1, 2, 3, 4, 5], range(20)):
        assert_weights_do_not_depend_on_scale(weigh_with(name), draw_gradients(tasks, seed))


@every_combiner
def test_order_of_two_tasks_does_not_matter(name):  # with more, surgery depends on the orders that it draws
    for seed in range(20):
        assert_task_order_does_not_matter(weigh_with(name), draw_gradients(2, seed))


@pytest.mark.parametrize("name", [name for name, combiner in COMBINERS.items() if isinstance(combiner, ByGram)])
def test_methods_that_compare_gradients_harm_neither_of_two_tasks(name):
    for seed in range(100):
        assert_no_task_is_harmed(weigh_with(name), draw_gradients(2, seed))


def test_fixed_weights_by_hand():
    assert [COMBINERS["sum"].weigh(tasks) for tasks in (1, 2, 3)] == [1.0, 1.0, 1.0]
    assert [COMBINERS["mean"].weigh(tasks) for tasks in (1, 2, 4)] == [1.0, 0.5, 0.25]


def test_unknown_method_is_answered_with_the_closest_name_or_all_names():
    with pytest.raises(RecipeError, match=r"^unknown name 'surgry'; did you mean 'surgery'\?$"):
        find_combiner("surgry")
    with pytest.raises(RecipeError, match=r"^unknown name 'x'; allowed: mean, sum, surgery$"):
        find_combiner("x")


# Surgery


def test_surgery_keeps_agreeing_tasks():
    assert surgery(torch.tensor([[1.0, 0.5], [0.5, 1.0]]), orders=[[1], [0]]).tolist() == [0.5, 0.5]


def test_surgery_by_hand():  # g1 = (1, 0), g2 = (-1, 1): projected to (0.5, 0.5) and (0, 1)
    g_KP = torch.tensor([[1.0, 0.0], [-1.0, 1.0]])
    torch.testing.assert_close(surgery(g_KP @ g_KP.T, orders=[[1], [0]]) @ g_KP, torch.tensor([0.25, 0.75]))


def test_opposite_gradients_cancel():
    g_KP = torch.tensor([[2.0, 1.0], [-4.0, -2.0]])
    assert (surgery(g_KP @ g_KP.T, orders=[[1], [0]]) @ g_KP).tolist() == [0.0, 0.0]


@one_to_five_tasks
def test_surgery_of_agreeing_tasks_is_their_mean(tasks):
    for seed, scale in itertools.product(range(20), POSITIVE_SCALES):
        g_KP = scale * draw_gradients(tasks, seed).abs()
        weights_K = surgery(g_KP @ g_KP.T, orders=draw_orders(tasks, str(seed)))
        assert weights_K.tolist() == [1 / tasks] * tasks, f"seed {seed}, scale {scale}"


@one_to_five_tasks
def test_surgery_equals_projecting_the_gradients(tasks):
    for seed, scale in itertools.product(range(40), POSITIVE_SCALES):
        g_KP, orders = scale * draw_gradients(tasks, seed), draw_orders(tasks, f"{seed}/{tasks}")
        found_P = surgery(g_KP @ g_KP.T, orders=orders) @ g_KP
        torch.testing.assert_close(found_P / scale, project_and_average(g_KP, orders) / scale, atol=1e-9, rtol=1e-9)


@pytest.mark.parametrize("tasks", [2, 3, 4, 5])
def test_what_a_gradient_loses_does_not_depend_on_the_length_of_the_others(tasks):
    for seed in range(40):
        g_KP, orders = draw_gradients(tasks, seed), draw_orders(tasks, str(seed))
        scales = [POSITIVE_SCALES[(seed + task) % len(POSITIVE_SCALES)] for task in range(tasks)]
        scale_K = torch.tensor(scales, dtype=torch.float64)
        for i in range(tasks):  # only task i is projected; the others stay unchanged and are subtracted
            only_i = [orders[i] if task == i else [] for task in range(tasks)]
            scaled_KP = scale_K[:, None] * g_KP
            others_P = (scaled_KP.sum(dim=0) - scaled_KP[i]) / tasks
            found_P = surgery(scaled_KP @ scaled_KP.T, orders=only_i) @ scaled_KP - others_P
            plain_P = surgery(g_KP @ g_KP.T, orders=only_i) @ g_KP - (g_KP.sum(dim=0) - g_KP[i]) / tasks
            error = (found_P - scale_K[i] * plain_P).abs().max() / scaled_KP.abs().max()
            assert error < 1e-12, f"seed {seed}, task {i}"  # float64, relative to the largest gradient


@one_to_five_tasks
def test_zero_gradient_leaves_the_others_unchanged(tasks):
    for seed, scale in itertools.product(range(20), POSITIVE_SCALES):
        g_KP, orders = scale * draw_gradients(tasks, seed), draw_orders(tasks + 1, str(seed))
        with_zero = torch.cat([g_KP, torch.zeros(1, 7, dtype=torch.float64)])
        found_P = surgery(with_zero @ with_zero.T, orders=orders) @ with_zero
        expected_P = project_and_average(g_KP, [[j for j in order if j < tasks] for order in orders[:tasks]])
        torch.testing.assert_close(found_P / scale, expected_P * tasks / (tasks + 1) / scale, atol=1e-9, rtol=1e-9)
    zero_KK = torch.zeros(tasks, tasks)
    assert surgery(zero_KK, orders=draw_orders(tasks, "0")).tolist() == pytest.approx([1 / tasks] * tasks)


def test_square_that_underflows_does_not_divide_by_zero():
    g_KP = torch.tensor([[1e15, 0.0], [-1e-25, 0.0]])  # in float32 the square of the second is 0, the product is not
    gram_KK = g_KP @ g_KP.T
    assert gram_KK[1, 1] == 0 and gram_KK[0, 1] < 0
    assert surgery(gram_KK, orders=[[1, 0], [0, 1]]).isfinite().all()


def test_order_matters_with_three_tasks():
    g_KP = torch.tensor([[1.0, 0.0], [-1.0, 1.0], [-1.0, -0.5]])
    first, second = (surgery(g_KP @ g_KP.T, orders=[order, [0, 2], [0, 1]]) @ g_KP for order in ([1, 2], [2, 1]))
    assert not torch.allclose(first, second)


# The orders of surgery


@one_to_five_tasks
def test_orders_are_permutations_that_follow_from_the_seed(tasks):
    orders = draw_orders(tasks, "7/0/41/combine")
    assert len(orders) == tasks and all(sorted(order) == list(range(tasks)) for order in orders)
    assert orders == draw_orders(tasks, "7/0/41/combine")


def test_all_orders_are_equally_likely_and_independent_between_tasks():
    drawn = [draw_orders(3, f"7/0/{step}/combine") for step in range(6000)]
    for task in range(3):
        counts = [sum(orders[task] == list(order) for orders in drawn) for order in itertools.permutations(range(3))]
        assert max(abs(count - 1000) for count in counts) < 5 * math.sqrt(1000)  # five standard deviations
    equal = sum(orders[0] == orders[1] for orders in drawn)
    assert abs(equal - 1000) < 5 * math.sqrt(1000)


# In place


def test_scaling_multiplies_the_gradients_that_exist():
    first, second, none = (nn.Parameter(torch.zeros(2)) for _ in range(3))
    first.grad, second.grad = torch.tensor([1.0, -2.0]), torch.tensor([0.0, 8.0])
    scale_gradients([first, second, none], 0.25)
    assert (first.grad.tolist(), second.grad.tolist(), none.grad) == ([0.25, -0.5], [0.0, 2.0], None)


def test_scaling_by_one_changes_nothing():
    weight = nn.Parameter(torch.zeros(3))
    weight.grad = torch.tensor([0.1, float("inf"), -3.0])
    before = weight.grad.clone()
    scale_gradients([weight], 1.0)
    assert torch.equal(weight.grad, before)


def test_scaling_twice_is_scaling_by_the_product():
    for seed in range(20):
        once, twice = nn.Parameter(torch.zeros(5)), nn.Parameter(torch.zeros(5))
        once.grad = torch.randn(5, generator=torch.Generator().manual_seed(seed))
        twice.grad = once.grad.clone()
        scale_gradients([once], 1 / 6)
        scale_gradients([twice], 1 / 2)
        scale_gradients([twice], 1 / 3)
        torch.testing.assert_close(once.grad, twice.grad, **ROUNDING)
