"""One training step: its losses, its randomness, and what it does if a number is not finite."""

import hashlib
from collections.abc import Callable, Sequence

import pytest
import torch
from torch import Tensor, nn

from plait.errors import NotFiniteError
from plait.model.model import Encoded
from plait.progress import SilentProgress
from plait.training.objective import Pass
from plait.training.seeds import seeded
from plait.training.step import train_step
from plait.training.trainer import Trainer
from small_runs import batch_of, forward, step_parts, trainer_for

CPU = torch.device("cpu")
MOOD, SAME, NEAR = ("mood", (0, 3, 5, 6)), ("same", (1, 2, 4)), ("near", (7, 9))


@pytest.fixture
def make(tiny_recipe) -> Callable[..., Trainer]:
    return lambda **changes: trainer_for(tiny_recipe(**changes))


def step(trainer: Trainer, planned: Sequence, *, seed: str = "7/0", clip: float | None = None) -> dict[str, float]:
    batches = [batch_of(trainer, task, rows) for task, rows in planned]
    return train_step(step_parts(trainer, seed=seed, clip=clip), batches, 41)


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


def test_a_step_gives_the_loss_of_each_task_before_its_update(make):
    trainer = make()
    trainer.model.eval()
    expected = {}
    for task, rows in (MOOD, SAME, NEAR):
        batch = batch_of(trainer, task, rows)
        label_B = torch.from_numpy(batch.labels)
        expected[task] = trainer.objectives[task](Pass(trainer.model(batch)), label_B).item()
    before = bits(trainer)
    assert step(trainer, [MOOD, SAME, NEAR]) == expected
    assert bits(trainer) != before


# ---------------------------------------------------------------- numbers that are not finite


def test_a_loss_that_is_not_finite_stops_the_step_and_leaves_the_weights_unchanged(make):
    trainer = make()
    with torch.no_grad():
        trainer.model.heads["mood"].linear.weight[0, 0] = float("inf")
    before = bits(trainer)
    with pytest.raises(NotFiniteError, match=r"^step \d+: the loss is (nan|inf|-inf), .*\(mood: rows 0, 3, 5, 6\)"):
        step(trainer, [SAME, MOOD])
    assert bits(trainer) == before


def test_a_gradient_that_is_not_finite_stops_the_step_and_leaves_the_weights_unchanged(make):
    trainer = make()
    with torch.no_grad():
        trainer.model.heads["mood"].linear.weight *= 1e25  # a finite loss, a gradient whose square is not
    before = bits(trainer)
    rows = r"\(mood: rows 0, 3, 5, 6; same: rows 1, 2, 4\)"
    with pytest.raises(NotFiniteError, match=rf"^step \d+: the gradient is inf, .*{rows}"):
        step(trainer, [MOOD, SAME])
    assert bits(trainer) == before


@pytest.mark.parametrize("clip", [None, 1.0])
def test_a_nan_gradient_is_not_hidden_by_clipping(make, monkeypatch, clip):
    trainer = make()
    before = bits(trainer)
    encode = trainer.model.encode

    def steep(batch):  # √0 is 0, its slope is infinite
        views = encode(batch).views
        return Encoded({view: view_BD + (0 * view_BD).abs().sqrt() for view, view_BD in views.items()})

    monkeypatch.setattr(trainer.model, "encode", steep)
    with pytest.raises(NotFiniteError, match="the gradient is nan"):
        step(trainer, [MOOD], clip=clip)
    assert bits(trainer) == before


def test_a_stopped_step_leaves_no_trace_in_the_optimizer(make):
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


def test_messages_count_steps_like_metrics_jsonl(make):
    trainer = make()
    with torch.no_grad():
        trainer.model.heads["mood"].linear.weight[0, 0] = float("inf")
    with pytest.raises(NotFiniteError, match=r"^step 1: "):  # metrics.jsonl calls the first step 1
        trainer.step(0, [MOOD])


# ---------------------------------------------------------------- randomness


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


def test_seeded_leaves_the_global_random_state_untouched():
    torch.manual_seed(3)
    before = torch.get_rng_state()
    with seeded("7/0/1", CPU):
        torch.rand(5)
    assert torch.equal(torch.get_rng_state(), before)
    with pytest.raises(KeyError), seeded("7/0/1", CPU):
        torch.rand(5)
        raise KeyError
    assert torch.equal(torch.get_rng_state(), before)


def test_a_step_depends_on_its_seed_and_not_on_the_global_random_state(make):
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


def test_the_dropout_of_a_task_does_not_depend_on_other_tasks(make):
    single, several = make(), make()
    for trainer in (single, several):
        trainer.model.train()
    assert step(single, [SAME])["same"] == step(several, [MOOD, SAME])["same"]


def test_two_tasks_of_one_step_draw_different_dropout(make, tiny_recipe):
    mood = tiny_recipe()["tasks"]["mood"]
    trainer = make(tasks={"mood": mood, "again": mood})
    trainer.model.heads["again"].load_state_dict(trainer.model.heads["mood"].state_dict())
    before = weights(trainer)
    without_dropout, with_dropout = [], []
    for mode, found in ((False, without_dropout), (True, with_dropout)):
        trainer.model.load_state_dict(before)
        trainer.model.train(mode)
        found += step(trainer, [MOOD, ("again", MOOD[1])]).values()
    assert without_dropout[0] == without_dropout[1]
    assert with_dropout[0] != with_dropout[1]


# ---------------------------------------------------------------- clipping


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


# ---------------------------------------------------------------- a frozen encoder


def test_a_frozen_encoder_gets_no_gradient_and_keeps_its_weights(make):
    trainer = make(train_encoder=False)
    before = weights(trainer)
    trainer.step(0, [MOOD, SAME])
    assert all(weight.grad is None for weight in trainer.model.encoder.parameters())
    changed = {name.split(".")[1] for name, now in weights(trainer).items() if not torch.equal(now, before[name])}
    assert changed == {"mood", "same"}  # of heads.mood and heads.same


def test_stored_embeddings_give_the_outputs_of_the_encoder_without_dropout(make):
    trainer = make(train_encoder=False)
    trainer.store_embeddings(SilentProgress())
    stored = step_parts(trainer).stored
    trainer.model.eval()
    for task, rows in (MOOD, SAME, NEAR):
        batch, passed = forward(trainer, task, rows)
        assert passed.views_BD.keys() == batch.views.keys() == stored[task].keys()
        for view, embedded_BD in passed.views_BD.items():
            # Stored embeddings come from other packs of texts, so float32 sums differ.
            torch.testing.assert_close(stored[task][view][list(rows)], embedded_BD, atol=1e-5, rtol=1e-5)
        torch.testing.assert_close(passed.outputs_BC, trainer.model(batch), atol=1e-5, rtol=1e-5)


def test_a_head_without_weights_on_a_frozen_encoder_trains_nothing_and_does_not_fail(make):
    trainer = make(train_encoder=False)
    before = bits(trainer)
    losses = trainer.step(0, [NEAR])
    assert losses.keys() == {"near"}
    assert bits(trainer) == before
