"""How the gradients of several tasks become one; 1e-5 is what float32 sums in another order leave."""

import pytest
import torch
from torch import Tensor, nn

from plait.gradients.combine import COMBINERS, weigh_gradients
from plait.training.loop import as_recipe, settle_recipe
from plait.training.step import train_step
from plait.training.trainer import Trainer

PLANNED = [("mood", (0, 3, 5, 6)), ("same", (1, 2, 4))]


def test_the_weight_of_each_task_by_hand():
    assert [COMBINERS["sum"](tasks) for tasks in (1, 2, 3)] == [1.0, 1.0, 1.0]
    assert [COMBINERS["mean"](tasks) for tasks in (1, 2, 4)] == [1.0, 0.5, 0.25]


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
    parts = (trainer.model, trainer.forward, trainer.objectives, trainer.optimizer, batches)
    train_step(*parts, combine=combine, clip=None, seed="7/0", step=0)
    trainer.model.load_state_dict(before)
    return gradients(trainer)


def of_summed_loss(trainer: Trainer, planned: list) -> dict[str, Tensor]:
    """The gradients of the tasks' losses added up, by one backward pass."""
    losses = [
        trainer.objectives[batch.task](trainer.model(batch), torch.from_numpy(batch.labels))
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


def test_sum_and_mean_of_one_task_are_the_same(trainer):
    total, mean = (stepped(trainer, PLANNED[1:], combine) for combine in ("sum", "mean"))
    assert total.keys() == mean.keys()
    assert all(torch.equal(total[name], mean[name]) for name in total)
    assert not any(name.startswith("heads.mood") for name in total)


def test_the_order_of_the_tasks_does_not_matter(trainer):
    for combine in COMBINERS:
        assert_equal(stepped(trainer, PLANNED[::-1], combine), stepped(trainer, PLANNED, combine))
