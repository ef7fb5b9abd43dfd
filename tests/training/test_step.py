"""One training step: its losses, its randomness, and what it does when a number is not finite."""

import hashlib
from collections.abc import Callable
from functools import partial

import pytest
import torch
from torch import Tensor, nn

from plait.errors import NotFiniteError
from plait.losses.prediction import binary_cross_entropy, cross_entropy, mse
from plait.model.model import Encoded
from plait.recipe.schema import LossChoice
from plait.training.backward import pass_on
from plait.training.loop import as_recipe
from plait.training.objective import Objective, Part, Pass
from plait.training.seeds import seeded
from plait.training.settle import settle_recipe
from plait.training.step import train_step
from plait.training.trainer import Trainer

CPU = torch.device("cpu")
MOOD, SAME, NEAR = ("mood", (0, 3, 5, 6)), ("same", (1, 2, 4)), ("near", (7, 9))


@pytest.fixture
def make(tiny_recipe) -> Callable[..., Trainer]:
    return lambda **changes: Trainer(settle_recipe(as_recipe(tiny_recipe(**changes), None, None, ())))


def step(trainer: Trainer, planned: list, *, seed: str = "7/0", clip: float | None = None, encode=None) -> dict:
    parts = (trainer.model, encode or trainer.encode, trainer.objectives, trainer.optimizer, trainer.batches(planned))
    return train_step(*parts, combine="sum", clip=clip, seed=seed, step=41)


def weights(trainer: Trainer) -> dict[str, Tensor]:
    return {name: tensor.clone() for name, tensor in trainer.model.state_dict().items()}


def bits(trainer: Trainer) -> str:
    """A digest of every weight, in which not-a-number equals itself."""
    digest = hashlib.sha256()
    for tensor in trainer.model.state_dict().values():
        digest.update(tensor.numpy().tobytes())
    return digest.hexdigest()


def gradient_norm(trainer: Trainer) -> float:
    gradients = [weight.grad.flatten() for weight in trainer.model.parameters() if weight.grad is not None]
    return torch.cat(gradients).double().norm().item()


# The objective


def test_an_objective_is_the_weighted_sum_of_its_losses():
    yes_no = partial(binary_cross_entropy, threshold=3.0)
    half = LossChoice(name="binary_cross_entropy", weight=0.5)
    objective = Objective((Part(LossChoice(name="mse"), mse), Part(half, yes_no)), 2.0)
    outputs_BC, label_B = torch.tensor([[0.0], [0.0]]), torch.tensor([1.0, 3.0])
    # mse (1 + 9)/2 = 5, binary cross-entropy ln 2: 2·(5 + 0.5·ln 2)
    value = objective(Pass(outputs_BC), label_B).item()
    assert value == pytest.approx(2 * (5 + 0.5 * 0.6931472), abs=1e-5)  # float32


def test_an_objective_hands_on_class_weights_and_smoothing():
    objective = Objective((Part(LossChoice(name="cross_entropy"), cross_entropy),), 1.0, torch.tensor([1.0, 3.0]), 0.2)
    outputs_BC, label_B = torch.tensor([[0.0, 1.0], [2.0, 0.0]]), torch.tensor([1, 1])
    expected = nn.functional.cross_entropy(outputs_BC, label_B, weight=torch.tensor([1.0, 3.0]), label_smoothing=0.2)
    assert torch.equal(objective(Pass(outputs_BC), label_B), expected)


def test_a_step_gives_the_loss_of_each_task_before_its_update(make):
    trainer = make()
    trainer.model.eval()
    expected = {
        batch.task: trainer.objectives[batch.task](Pass(trainer.model(batch)), torch.from_numpy(batch.labels)).item()
        for batch in trainer.batches([MOOD, SAME, NEAR])
    }
    before = bits(trainer)
    assert step(trainer, [MOOD, SAME, NEAR]) == expected
    assert bits(trainer) != before


# Not finite


def test_a_loss_that_is_not_finite_stops_the_step_with_the_weights_as_they_were(make):
    trainer = make()
    with torch.no_grad():
        trainer.model.heads["mood"].linear.weight[0, 0] = float("inf")
    before = bits(trainer)
    with pytest.raises(NotFiniteError, match=r"^step \d+: the loss is (nan|inf|-inf), .*\(mood: rows 0, 3, 5, 6\)"):
        step(trainer, [SAME, MOOD])
    assert bits(trainer) == before


def test_a_gradient_that_is_not_finite_stops_the_step_with_the_weights_as_they_were(make):
    trainer = make()
    with torch.no_grad():
        trainer.model.heads["mood"].linear.weight *= 1e25  # a finite loss, a gradient whose square is not
    before = bits(trainer)
    rows = r"\(mood: rows 0, 3, 5, 6; same: rows 1, 2, 4\)"
    with pytest.raises(NotFiniteError, match=rf"^step \d+: the gradient is inf, .*{rows}"):
        step(trainer, [MOOD, SAME])
    assert bits(trainer) == before


@pytest.mark.parametrize("clip", [None, 1.0])
def test_a_gradient_that_is_not_a_number_is_not_clipped_away(make, clip):
    trainer = make()
    before = bits(trainer)

    def steep(batch):  # √0 is 0, its slope is infinite
        views = trainer.encode(batch).views
        return Encoded({view: view_BD + (0 * view_BD).abs().sqrt() for view, view_BD in views.items()})

    with pytest.raises(NotFiniteError, match="the gradient is nan"):
        step(trainer, [MOOD], clip=clip, encode=steep)
    assert bits(trainer) == before


def test_the_optimizer_forgets_a_step_that_was_stopped(make):
    trainer, other = make(), make()
    with torch.no_grad():
        kept = trainer.model.heads["mood"].linear.weight.clone()
        trainer.model.heads["mood"].linear.weight[0, 0] = float("inf")
    with pytest.raises(NotFiniteError):
        step(trainer, [SAME, MOOD])
    with torch.no_grad():
        trainer.model.heads["mood"].linear.weight.copy_(kept)
    for each in (trainer, other):
        step(each, [MOOD, SAME])
    assert bits(trainer) == bits(other)


def test_the_message_counts_steps_as_metrics_do(make):
    trainer = make()
    with torch.no_grad():
        trainer.model.heads["mood"].linear.weight[0, 0] = float("inf")
    with pytest.raises(NotFiniteError, match=r"^step 1: "):  # metrics.jsonl calls the first step 1
        trainer.step(0, [MOOD])


# Randomness


def test_equal_seeds_give_equal_dropout():
    drop, ones = nn.Dropout(0.5), torch.ones(1000)
    with seeded("7/0/1", CPU):
        first = drop(ones)
    with seeded("7/0/1", CPU):
        again = drop(ones)
    with seeded("7/0/2", CPU):
        other = drop(ones)
    assert torch.equal(first, again)
    assert not torch.equal(first, other)


def test_a_seed_leaves_the_global_random_numbers_untouched():
    torch.manual_seed(3)
    before = torch.get_rng_state()
    with seeded("7/0/1", CPU):
        torch.rand(5)
    assert torch.equal(torch.get_rng_state(), before)
    with pytest.raises(KeyError), seeded("7/0/1", CPU):
        torch.rand(5)
        raise KeyError
    assert torch.equal(torch.get_rng_state(), before)


def test_a_step_is_the_same_for_the_same_seed_whatever_the_global_random_numbers(make):
    ends = []
    for seed, start in (("7/1", 3), ("7/1", 4), ("7/2", 3)):
        trainer = make()
        trainer.model.train()
        torch.manual_seed(start)
        before = torch.get_rng_state()
        step(trainer, [MOOD, SAME], seed=seed)
        assert torch.equal(torch.get_rng_state(), before)
        ends.append(bits(trainer))
    assert ends[0] == ends[1] != ends[2]


def test_the_dropout_of_a_task_does_not_depend_on_the_tasks_beside_it(make):
    alone, beside = make(), make()
    for trainer in (alone, beside):
        trainer.model.train()
    assert step(alone, [SAME])["same"] == step(beside, [MOOD, SAME])["same"]


def test_two_tasks_of_one_step_draw_different_dropout(make, tiny_recipe):
    mood = tiny_recipe()["tasks"]["mood"]
    trainer = make(tasks={"mood": mood, "again": mood})
    trainer.model.heads["again"].load_state_dict(trainer.model.heads["mood"].state_dict())
    before = weights(trainer)
    alike, apart = [], []
    for mode, found in ((False, alike), (True, apart)):
        trainer.model.load_state_dict(before)
        trainer.model.train(mode)
        found += step(trainer, [MOOD, ("again", MOOD[1])]).values()
    assert alike[0] == alike[1]
    assert apart[0] != apart[1]


# Clipping


def test_clipping_shortens_a_long_gradient_and_keeps_its_direction(make):
    trainer = make()
    trainer.model.eval()
    before = weights(trainer)
    step(trainer, [MOOD, SAME])
    norm, free = gradient_norm(trainer), trainer.model.heads["mood"].linear.weight.grad.clone()
    trainer.model.load_state_dict(before)
    step(trainer, [MOOD, SAME], clip=norm / 4)
    assert gradient_norm(trainer) == pytest.approx(norm / 4, rel=1e-5)  # float32
    torch.testing.assert_close(4 * trainer.model.heads["mood"].linear.weight.grad, free, atol=1e-5, rtol=1e-5)


def test_clipping_above_the_norm_changes_nothing(make):
    free, clipped = make(), make()
    for trainer, clip in ((free, None), (clipped, 1e6)):
        trainer.model.eval()
        step(trainer, [MOOD, SAME], clip=clip)
    assert bits(free) == bits(clipped)


# A frozen encoder


def test_a_frozen_encoder_gets_no_gradient_and_keeps_its_weights(make):
    trainer = make(train_encoder=False)
    before = weights(trainer)
    trainer.step(0, [MOOD, SAME])
    assert all(weight.grad is None for weight in trainer.model.encoder.parameters())
    changed = {name.split(".")[1] for name, now in weights(trainer).items() if not torch.equal(now, before[name])}
    assert changed == {"mood", "same"}  # of heads.mood and heads.same


def test_a_frozen_encoder_gives_what_it_gave_without_dropout(make):
    trainer = make(train_encoder=False)
    trainer.model.eval()
    for batch in trainer.batches([MOOD, SAME, NEAR]):
        # stored embeddings come from other packs of texts, so float32 sums differ
        passed = pass_on(trainer.model, trainer.objectives[batch.task], batch, trainer.encode(batch))
        torch.testing.assert_close(passed.outputs_BC, trainer.model(batch), atol=1e-5, rtol=1e-5)
        assert passed.views_BD.keys() == batch.views.keys()


def test_a_head_without_weights_on_a_frozen_encoder_learns_nothing_and_does_not_fail(make):
    trainer = make(train_encoder=False)
    before = bits(trainer)
    losses = trainer.step(0, [NEAR])
    assert losses.keys() == {"near"}
    assert bits(trainer) == before
