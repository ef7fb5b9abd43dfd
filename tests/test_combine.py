"""How the gradients of several tasks become one; 1e-5 is what float32 sums in another order leave."""

import itertools
import math

import pytest
import torch
from torch import Tensor, nn

from plait.errors import RecipeError
from plait.gradients.combine import COMBINERS, ByGram, draw_orders, find_combiner, surgery, weigh_gradients
from plait.gradients.rows import Rows
from plait.training.loop import as_recipe
from plait.training.objective import Pass
from plait.training.settle import settle_recipe
from plait.training.step import shared_parameters, train_step
from plait.training.trainer import Trainer

PLANNED = [("mood", (0, 3, 5, 6)), ("same", (1, 2, 4))]


def test_the_weight_of_each_task_by_hand():
    assert [COMBINERS["sum"].weigh(tasks) for tasks in (1, 2, 3)] == [1.0, 1.0, 1.0]
    assert [COMBINERS["mean"].weigh(tasks) for tasks in (1, 2, 4)] == [1.0, 0.5, 0.25]


def test_an_unknown_method_is_answered_with_the_nearest_or_all():
    with pytest.raises(RecipeError, match=r"^unknown name 'surgry'; did you mean 'surgery'\?$"):
        find_combiner("surgry")
    with pytest.raises(RecipeError, match=r"^unknown name 'x'; allowed: mean, sum, surgery$"):
        find_combiner("x")


# Surgery


SCALES = [1e-6, 1e-3, 1.0, 1e5, 1e15]


def random_rows(tasks: int, seed: int, size: int = 7) -> Tensor:
    return torch.randn(tasks, size, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def by_projection(rows_KP: Tensor, orders: list[list[int]]) -> Tensor:
    """Algorithm 1 of Yu et al. 2020 on the gradients themselves."""
    projected = []
    for i, order in enumerate(orders):
        g_P = rows_KP[i].clone()
        for j in order:
            if j != i and (dot := g_P @ rows_KP[j]) < 0:
                g_P -= dot / (rows_KP[j] @ rows_KP[j]) * rows_KP[j]
        projected.append(g_P)
    return torch.stack(projected).mean(dim=0)


def test_surgery_keeps_agreeing_tasks():
    assert surgery(torch.tensor([[1.0, 0.5], [0.5, 1.0]]), orders=[[1], [0]]).tolist() == [0.5, 0.5]


def test_surgery_by_hand():  # g1 = (1, 0), g2 = (-1, 1): projected to (0.5, 0.5) and (0, 1)
    g_KP = torch.tensor([[1.0, 0.0], [-1.0, 1.0]])
    torch.testing.assert_close(surgery(g_KP @ g_KP.T, orders=[[1], [0]]) @ g_KP, torch.tensor([0.25, 0.75]))


def test_surgery_of_two_tasks_harms_neither():
    for seed in range(100):
        g_KP = random_rows(2, seed)
        mixed_P = surgery(g_KP @ g_KP.T, orders=[[1], [0]]) @ g_KP
        assert (g_KP @ mixed_P >= -1e-12).all(), f"seed {seed}"  # float64


@pytest.mark.parametrize("tasks", [1, 2, 3, 4, 5])
def test_surgery_of_tasks_that_agree_is_their_mean(tasks):
    for seed, scale in itertools.product(range(20), SCALES):
        g_KP = scale * random_rows(tasks, seed).abs()
        weights_K = surgery(g_KP @ g_KP.T, orders=draw_orders(tasks, str(seed)))
        assert weights_K.tolist() == [1 / tasks] * tasks, f"seed {seed}, scale {scale}"


@pytest.mark.parametrize("tasks", [1, 2, 3, 4, 5])
def test_surgery_is_what_projecting_the_gradients_gives(tasks):
    for seed, scale in itertools.product(range(40), SCALES):
        g_KP, orders = scale * random_rows(tasks, seed), draw_orders(tasks, f"{seed}/{tasks}")
        found_P = surgery(g_KP @ g_KP.T, orders=orders) @ g_KP
        torch.testing.assert_close(found_P / scale, by_projection(g_KP, orders) / scale, atol=1e-9, rtol=1e-9)


@pytest.mark.parametrize("tasks", [2, 3, 4, 5])
def test_surgery_scales_with_the_gradients_even_when_each_has_a_scale_of_its_own(tasks):
    """What a gradient loses does not depend on the length of the one that it points against."""
    for seed in range(40):
        g_KP, orders = random_rows(tasks, seed), draw_orders(tasks, str(seed))
        size_K = torch.tensor([SCALES[(seed + task) % len(SCALES)] for task in range(tasks)], dtype=torch.float64)
        for i in range(tasks):  # only task i's own projected gradient: others keep out of its way by size
            alone = [orders[i] if task == i else [] for task in range(tasks)]
            scaled_KP = size_K[:, None] * g_KP
            others_P = (scaled_KP.sum(dim=0) - scaled_KP[i]) / tasks
            found_P = surgery(scaled_KP @ scaled_KP.T, orders=alone) @ scaled_KP - others_P
            plain_P = surgery(g_KP @ g_KP.T, orders=alone) @ g_KP - (g_KP.sum(dim=0) - g_KP[i]) / tasks
            error = (found_P - size_K[i] * plain_P).abs().max() / scaled_KP.abs().max()
            assert error < 1e-12, f"seed {seed}, task {i}"  # float64, beside the largest gradient


@pytest.mark.parametrize("tasks", [1, 2, 3, 4, 5])
def test_a_gradient_of_zero_neither_changes_others_nor_breaks_the_numbers(tasks):
    for seed, scale in itertools.product(range(20), SCALES):
        g_KP, orders = scale * random_rows(tasks, seed), draw_orders(tasks + 1, str(seed))
        with_zero = torch.cat([g_KP, torch.zeros(1, 7, dtype=torch.float64)])
        found_P = surgery(with_zero @ with_zero.T, orders=orders) @ with_zero
        expected_P = by_projection(g_KP, [[j for j in order if j < tasks] for order in orders[:tasks]])
        torch.testing.assert_close(found_P / scale, expected_P * tasks / (tasks + 1) / scale, atol=1e-9, rtol=1e-9)
    zero_KK = torch.zeros(tasks, tasks)
    assert surgery(zero_KK, orders=draw_orders(tasks, "0")).tolist() == pytest.approx([1 / tasks] * tasks)


def test_a_square_that_is_too_small_for_a_float_does_not_divide_by_zero():
    g_KP = torch.tensor([[1e15, 0.0], [-1e-25, 0.0]])  # the square of the second is 0 in float32, the product is not
    gram_KK = g_KP @ g_KP.T
    assert gram_KK[1, 1] == 0 and gram_KK[0, 1] < 0
    assert surgery(gram_KK, orders=[[1, 0], [0, 1]]).isfinite().all()


def test_opposite_gradients_cancel():
    g_KP = torch.tensor([[2.0, 1.0], [-4.0, -2.0]])
    assert (surgery(g_KP @ g_KP.T, orders=[[1], [0]]) @ g_KP).tolist() == [0.0, 0.0]


def test_the_order_matters_with_three_tasks():
    g_KP = torch.tensor([[1.0, 0.0], [-1.0, 1.0], [-1.0, -0.5]])
    first, second = (surgery(g_KP @ g_KP.T, orders=[order, [0, 2], [0, 1]]) @ g_KP for order in ([1, 2], [2, 1]))
    assert not torch.allclose(first, second)


@pytest.mark.parametrize("tasks", [1, 2, 3, 4, 5])
def test_the_orders_are_permutations_that_follow_from_the_seed(tasks):
    orders = draw_orders(tasks, "7/0/41/combine")
    assert len(orders) == tasks and all(sorted(order) == list(range(tasks)) for order in orders)
    assert orders == draw_orders(tasks, "7/0/41/combine")


def test_every_order_is_drawn_as_often_and_each_task_has_its_own():
    drawn = [draw_orders(3, f"7/0/{step}/combine") for step in range(6000)]
    for task in range(3):
        counts = [sum(orders[task] == list(order) for orders in drawn) for order in itertools.permutations(range(3))]
        assert max(abs(count - 1000) for count in counts) < 5 * math.sqrt(1000)  # five deviations
    alike = sum(orders[0] == orders[1] for orders in drawn)
    assert abs(alike - 1000) < 5 * math.sqrt(1000)


# In place


def test_weighing_multiplies_the_gradients_that_are_there():
    first, second, none = (nn.Parameter(torch.zeros(2)) for _ in range(3))
    first.grad, second.grad = torch.tensor([1.0, -2.0]), torch.tensor([0.0, 8.0])
    weigh_gradients([first, second, none], 0.25)
    assert (first.grad.tolist(), second.grad.tolist(), none.grad) == ([0.25, -0.5], [0.0, 2.0], None)


def test_weighing_by_one_changes_nothing():
    weight = nn.Parameter(torch.zeros(3))
    weight.grad = torch.tensor([0.1, float("inf"), -3.0])
    kept = weight.grad.clone()
    weigh_gradients([weight], 1.0)
    assert torch.equal(weight.grad, kept)


def test_weighing_twice_is_weighing_by_the_product():
    for seed in range(20):
        once, twice = nn.Parameter(torch.zeros(5)), nn.Parameter(torch.zeros(5))
        once.grad = torch.randn(5, generator=torch.Generator().manual_seed(seed))
        twice.grad = once.grad.clone()
        weigh_gradients([once], 1 / 6)
        weigh_gradients([twice], 1 / 2)
        weigh_gradients([twice], 1 / 3)
        torch.testing.assert_close(once.grad, twice.grad, atol=1e-5, rtol=1e-5)


@pytest.fixture
def trainer(tiny_recipe) -> Trainer:
    """A model whose dropout is off, so that its gradients can be worked out again."""
    made = Trainer(
        settle_recipe(as_recipe(tiny_recipe(shared_layer="tanh", tasks=two_tasks(tiny_recipe)), None, None, ()))
    )
    made.model.eval()
    return made


def two_tasks(tiny_recipe) -> dict:
    tasks = tiny_recipe()["tasks"]
    return {"mood": tasks["mood"], "same": {**tasks["same"], "weight": 2.0}}


def gradients(trainer: Trainer) -> dict[str, Tensor]:
    return {name: weight.grad.clone() for name, weight in trainer.model.named_parameters() if weight.grad is not None}


def stepped(trainer: Trainer, planned: list, combine: str) -> dict[str, Tensor]:
    """The gradients that one training step leaves; the weights are then put back."""
    before = {name: weight.clone() for name, weight in trainer.model.state_dict().items()}
    batches = trainer.batches(planned)
    parts = (trainer.model, trainer.encode, trainer.objectives, trainer.optimizer, batches)
    by_gram = isinstance(COMBINERS[combine], ByGram)
    rows = Rows(list(shared_parameters(trainer.model)), len(batches)) if by_gram else None
    train_step(*parts, combine=combine, clip=None, seed="7/0", step=0, rows=rows)
    trainer.model.load_state_dict(before)
    return gradients(trainer)


def of_summed_loss(trainer: Trainer, planned: list) -> dict[str, Tensor]:
    """The gradients of the tasks' losses added up, by one backward pass."""
    losses = [
        trainer.objectives[batch.task](Pass(trainer.model(batch)), torch.from_numpy(batch.labels))
        for batch in trainer.batches(planned)
    ]
    trainer.model.zero_grad()
    torch.stack(losses).sum().backward()
    return gradients(trainer)


def assert_equal(found: dict[str, Tensor], expected: dict[str, Tensor]) -> None:
    assert found.keys() == expected.keys()
    for name in expected:
        assert expected[name].abs().max() > 0, f"nothing to compare in {name}"
        torch.testing.assert_close(
            found[name], expected[name], atol=1e-5, rtol=1e-5, msg=lambda text, name=name: f"{name}: {text}"
        )


def test_the_sum_is_the_gradient_of_the_summed_loss(trainer):
    assert_equal(stepped(trainer, PLANNED, "sum"), of_summed_loss(trainer, PLANNED))


def test_the_mean_is_half_of_it_on_shared_weights_and_all_of_it_on_heads(trainer):
    expected = {
        name: gradient if name.startswith("heads.") else gradient / 2
        for name, gradient in of_summed_loss(trainer, PLANNED).items()
    }
    assert {name.split(".")[0] for name in expected} == {"encoder", "shared_layer", "heads"}
    assert_equal(stepped(trainer, PLANNED, "mean"), expected)


def test_a_head_gets_the_gradient_of_its_own_task_alone(trainer):
    alone = stepped(trainer, PLANNED[:1], "sum")
    for combine in COMBINERS:
        together = stepped(trainer, PLANNED, combine)
        assert torch.equal(together["heads.mood.linear.weight"], alone["heads.mood.linear.weight"]), combine


def test_every_method_gives_one_task_its_own_gradient(trainer):
    total, *others = (stepped(trainer, PLANNED[1:], combine) for combine in COMBINERS)
    for other in others:
        assert total.keys() == other.keys()
        assert all(torch.equal(total[name], other[name]) for name in total)
    assert not any(name.startswith("heads.mood") for name in total)


def test_the_order_of_the_tasks_does_not_matter(trainer):
    for combine in COMBINERS:  # with two tasks, not even in surgery: each has one other to meet
        assert_equal(stepped(trainer, PLANNED[::-1], combine), stepped(trainer, PLANNED, combine))


def flat(gradients: dict[str, Tensor]) -> Tensor:
    """The gradients of the shared weights in one vector."""
    return torch.cat([gradient.flatten().double() for name, gradient in gradients.items() if "heads." not in name])


def test_a_step_of_surgery_is_the_mean_of_the_projected_gradients(trainer):
    conflicts = 0
    for first in range(12):
        planned = [("mood", (first, first + 1)), ("same", (first + 2, first + 5))]
        g_KP = torch.stack([flat(stepped(trainer, [part], "sum")) for part in planned])
        conflicts += (g_KP[0] @ g_KP[1]).item() < 0
        expected_P = by_projection(g_KP, [[1], [0]])
        found = stepped(trainer, planned, "surgery")
        torch.testing.assert_close(flat(found), expected_P, atol=1e-5, rtol=1e-5)
        assert found.keys() == stepped(trainer, planned, "sum").keys()
    assert 0 < conflicts < 12, "the test needs batches that agree and batches that do not"
