"""The gradients that a training step leaves, for every way to combine tasks; 1e-5 is the rounding of float32 sums."""

import pytest
import torch
from torch import Tensor

from plait.gradients.combine import COMBINERS
from plait.training.objective import Pass
from plait.training.trainer import Trainer
from projection import project_and_average
from tiny_trainer import Planned, batches_of, build_trainer, gradients, gradients_after_step

PLANNED = [("mood", (0, 3, 5, 6)), ("same", (1, 2, 4))]


@pytest.fixture
def trainer(tiny_recipe) -> Trainer:
    """Dropout is off, so that the gradients can be computed again."""
    tasks = tiny_recipe()["tasks"]
    two = {"mood": tasks["mood"], "same": {**tasks["same"], "weight": 2.0}}
    made = build_trainer(tiny_recipe(shared_layer="tanh", tasks=two))
    made.model.eval()
    return made


def combined(trainer: Trainer, planned: Planned, combine: str) -> dict[str, Tensor]:
    return gradients_after_step(trainer, planned, combine)


def gradients_of_summed_loss(trainer: Trainer, planned: Planned) -> dict[str, Tensor]:
    """The gradients of the sum of the tasks' losses, by one backward pass."""
    losses = [
        trainer.objectives[batch.task](Pass(trainer.model(batch)), torch.from_numpy(batch.labels))
        for batch in batches_of(trainer, planned)
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


def shared_vector(gradients: dict[str, Tensor]) -> Tensor:
    """The gradients of the shared weights in one vector."""
    return torch.cat([gradient.flatten().double() for name, gradient in gradients.items() if "heads." not in name])


def test_sum_is_the_gradient_of_the_summed_loss(trainer):
    assert_equal(combined(trainer, PLANNED, "sum"), gradients_of_summed_loss(trainer, PLANNED))


def test_mean_halves_the_gradient_of_shared_weights_and_not_that_of_heads(trainer):
    expected = {
        name: gradient if name.startswith("heads.") else gradient / 2
        for name, gradient in gradients_of_summed_loss(trainer, PLANNED).items()
    }
    assert {name.split(".")[0] for name in expected} == {"encoder", "shared_layer", "heads"}
    assert_equal(combined(trainer, PLANNED, "mean"), expected)


@pytest.mark.parametrize("combine", COMBINERS)
def test_head_gets_the_gradient_of_its_own_task_alone(trainer, combine):
    alone, together = combined(trainer, PLANNED[:1], "sum"), combined(trainer, PLANNED, combine)
    assert torch.equal(together["heads.mood.linear.weight"], alone["heads.mood.linear.weight"])


@pytest.mark.parametrize("combine", COMBINERS)
def test_single_task_gets_its_own_gradient(trainer, combine):
    plain, found = (combined(trainer, PLANNED[1:], name) for name in ("sum", combine))
    assert plain.keys() == found.keys()
    assert all(torch.equal(plain[name], found[name]) for name in plain)
    assert not any(name.startswith("heads.mood") for name in plain)


@pytest.mark.parametrize("combine", COMBINERS)
def test_order_of_two_tasks_does_not_matter(trainer, combine):
    assert_equal(combined(trainer, PLANNED[::-1], combine), combined(trainer, PLANNED, combine))


def test_step_of_surgery_is_the_mean_of_the_projected_gradients(trainer):
    conflicts = 0
    for first in range(12):
        planned = [("mood", (first, first + 1)), ("same", (first + 2, first + 5))]
        g_KP = torch.stack([shared_vector(combined(trainer, [part], "sum")) for part in planned])
        conflicts += (g_KP[0] @ g_KP[1]).item() < 0
        found = combined(trainer, planned, "surgery")
        expected_P = project_and_average(g_KP, [[1], [0]])
        torch.testing.assert_close(shared_vector(found), expected_P, atol=1e-5, rtol=1e-5)
        assert found.keys() == combined(trainer, planned, "sum").keys()
    assert 0 < conflicts < 12, "the test needs batches that agree and batches that conflict"
