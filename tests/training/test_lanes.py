"""Training side by side: the same gradients as in one graph, the same bits every time."""

from dataclasses import replace

import pytest
import torch

import plait
from plait.runs.directory import RunDirectory
from plait.training import step
from plait.training.backward import backward
from plait.training.lanes import Lanes
from plait.training.step import train_step
from plait.training.threads import restore_threads
from plait.training.train import Stopped, resume
from small_runs import stop_after
from tiny_trainer import batches_of, build_trainer, gradients, step_parts

ROWS = (0, 3, 4, 7, 9, 11, 12)
LOSSES = {
    "mood": ["cross_entropy", {"name": "soft_triple", "proxies": 2, "weight": 0.5}],
    "same": ["binary_cross_entropy", {"name": "contrastive"}],
    "near": ["mse"],
}


@pytest.fixture
def make(tiny_recipe):
    """A trainer of three tasks, one of them with a loss on tokens; keyword arguments change its recipe."""

    def build(**changes):
        recipe = tiny_recipe(**{"dropout": 0.2, **changes})
        for task, loss in LOSSES.items():
            recipe["tasks"][task]["loss"] = loss
        trainer = build_trainer(recipe)
        trainer.model.train()
        return trainer

    return build


def gradients_with(trainer, lanes, tasks=tuple(LOSSES), seed="s"):
    """The losses of some tasks and the sum of their gradients."""
    trainer.model.zero_grad(set_to_none=True)
    lanes = Lanes(trainer.model, lanes)
    lanes.train(trainer.model.training)
    losses = [
        backward(trainer.model, lanes, {}, trainer.objectives, [batch], seed)[0].item()
        for batch in batches_of(trainer, [(task, ROWS) for task in tasks])
    ]
    return losses, gradients(trainer)


@pytest.mark.parametrize("task", LOSSES)
@pytest.mark.parametrize(
    "changes", [{}, {"pooling": "pooler", "shared_layer": "tanh"}, {"pooling": "max"}, {"pooling": "weighted"}]
)
def test_any_number_of_lanes_gives_the_gradients_of_one_graph(make, task, changes):
    trainer = make(**changes)
    trainer.model.eval()
    losses, expected = gradients_with(trainer, 1, [task])
    for lanes in (2, 3, 20):  # more lanes than inputs, too
        found_losses, found = gradients_with(trainer, lanes, [task])
        assert found_losses == pytest.approx(losses, rel=1e-5)
        assert found.keys() == expected.keys()
        for name, gradient in expected.items():
            torch.testing.assert_close(found[name], gradient, atol=2e-6, rtol=1e-4, msg=name)


@pytest.mark.parametrize("lanes", [2, 3])
def test_the_same_number_of_lanes_gives_the_same_bits_dropout_included(make, lanes):
    trainer = make()
    expected_losses, expected = gradients_with(trainer, lanes)
    for _ in range(5):
        losses, found = gradients_with(trainer, lanes)
        assert losses == expected_losses
        assert all(torch.equal(found[name], gradient) for name, gradient in expected.items())
    assert gradients_with(trainer, lanes, seed="t")[0] != expected_losses


def test_every_lane_has_its_own_dropout(make):
    """With one mask for all lanes, two equal parts would have equal embeddings."""
    trainer = make()
    seen = []
    states = trainer.model.states

    def record(ids, firsts, encoder):
        found = states(ids[:1], firsts[:1], encoder)
        seen.append((tuple(ids[0]), found[0][0].tolist()))
        return states(ids, firsts, encoder)

    (batch,) = batches_of(trainer, [("mood", (0, 0))])
    lanes = Lanes(trainer.model, 2)
    lanes.train(True)
    trainer.model.states = record
    backward(trainer.model, lanes, {}, trainer.objectives, [batch], "s")
    (first_ids, first), (second_ids, second) = seen
    assert first_ids == second_ids and first != second


@pytest.mark.parametrize("lanes", [2, 3])
def test_batches_in_one_pass_have_the_losses_and_gradients_of_one_after_the_other(make, lanes):
    """Without dropout: its masks belong to the parts that are encoded."""
    trainer = make()
    trainer.model.eval()
    losses, expected = gradients_with(trainer, 1)
    trainer.model.zero_grad(set_to_none=True)
    batches = batches_of(trainer, [(task, ROWS) for task in LOSSES])
    together = backward(trainer.model, Lanes(trainer.model, lanes), {}, trainer.objectives, batches, "s")
    assert [loss.item() for loss in together] == pytest.approx(losses, rel=1e-5)
    found = gradients(trainer)
    assert found.keys() == expected.keys()
    for name, gradient in expected.items():
        torch.testing.assert_close(found[name], gradient, atol=4e-6, rtol=1e-4, msg=name)


@pytest.mark.parametrize(
    ("lanes", "tokens", "changes", "expected"),
    [
        (2, 4096, {}, [["mood", "same", "near"]]),
        (1, 4096, {}, [["mood"], ["same"], ["near"]]),
        (2, 10, {}, [["mood"], ["same"], ["near"]]),  # each has more tokens than that
        (2, 4096, {"chunk": 3}, [["mood"], ["same"], ["near"]]),
        (2, 4096, {"schedule": {"name": "together", "combine": "surgery"}}, [["mood"], ["same"], ["near"]]),
        (2, 4096, {"schedule": {"name": "together", "combine": "mean"}}, [["mood", "same", "near"]]),
    ],
)
def test_several_lanes_encode_the_batches_of_a_step_in_one_pass(make, monkeypatch, lanes, tokens, changes, expected):
    trainer = make(**changes)
    passes = []

    def record(model, lanes, stored, objectives, batches, *rest):
        passes.append([batch.task for batch in batches])
        return backward(model, lanes, stored, objectives, batches, *rest)

    monkeypatch.setattr(step, "backward", record)
    monkeypatch.setattr(step, "_JOINED_TOKENS", tokens)
    parts = replace(trainer._parts, lanes=Lanes(trainer.model, lanes))
    losses = train_step(parts, batches_of(trainer, [(task, ROWS) for task in LOSSES]), 0)
    assert passes == expected and list(losses) == list(LOSSES)


@pytest.mark.parametrize("lanes", [1, 2, 5])
def test_gradients_of_any_layout_are_clipped_together(make, lanes):
    chance = torch.Generator().manual_seed(2)
    drawn = [torch.randn(size, generator=chance) for size in ((3, 4), (4, 3), ())]
    weights = [torch.nn.Parameter(values) for values in (drawn[0], drawn[1].T, drawn[2])]
    for weight in weights:
        weight.grad = 2 * weight.detach()  # keeps the layout, transposed or of no dimension
    expected = torch.linalg.vector_norm(torch.cat([2 * weight.detach().flatten() for weight in weights]))
    norm = Lanes(make().model, lanes).clip_gradients(weights, 0.5)
    assert norm.item() == pytest.approx(expected.item(), rel=1e-6)
    clipped = torch.cat([weight.grad.flatten() for weight in weights])
    assert torch.linalg.vector_norm(clipped).item() == pytest.approx(0.5, rel=1e-5)


def test_lanes_see_the_weights_that_the_optimizer_changes(make):
    trainer = make()
    lanes = Lanes(trainer.model, 2)
    train_step(step_parts(trainer, "sum"), batches_of(trainer, [("mood", ROWS)]), 0)
    for own, twin in zip(trainer.model.encoder.parameters(), lanes.encoders[1].parameters(), strict=True):
        assert own.data_ptr() == twin.data_ptr() and torch.equal(own, twin)


def test_rows_of_the_token_table_from_earlier_steps_have_no_gradient_left(make):
    trainer = make()
    lanes = Lanes(trainer.model, 2)
    lanes.train(True)
    table = trainer.model.encoder.tokens.weight
    for rows in (ROWS, (1, 2)):
        trainer.model.zero_grad(set_to_none=True)
        (batch,) = batches_of(trainer, [("mood", rows)])
        backward(trainer.model, lanes, {}, trainer.objectives, [batch], "s")
        reached = table.grad.abs().sum(dim=1).nonzero().flatten().tolist()
        assert reached == sorted({token for ids in batch.ids for token in ids.tolist()})


def test_an_error_in_a_lane_is_raised_when_all_lanes_have_ended(make, monkeypatch):
    trainer = make()
    model, states = trainer.model, trainer.model.states
    done = []

    def fail_once(ids, firsts, encoder):
        if encoder is model.encoder:
            raise ValueError("a lane failed")
        done.append(states(ids, firsts, encoder))
        return done[-1]

    monkeypatch.setattr(model, "states", fail_once)
    (batch,) = batches_of(trainer, [("mood", ROWS)])
    with pytest.raises(ValueError, match="a lane failed"):
        backward(model, Lanes(model, 2), {}, trainer.objectives, [batch], "s")
    assert len(done) == 1


def test_a_run_of_two_lanes_resumes_with_equal_bits(tiny_recipe, tmp_path):
    whole = plait.train(tiny_recipe(), tmp_path / "whole", baselines=False, threads=2)
    with pytest.raises(Stopped):
        plait.train(tiny_recipe(), tmp_path / "run", baselines=False, threads=2, stop=stop_after(4))
    resumed = resume(tmp_path / "run")
    digests = {RunDirectory(result.run).read_result().last_weights_sha256 for result in (whole, resumed)}
    assert len(digests) == 1


@pytest.mark.parametrize("threads", [1, 2, 3])
def test_runs_with_the_same_number_of_threads_are_equal(tiny_recipe, tmp_path, threads):
    ends = set()
    for name in ("one", "two"):
        result = plait.train(tiny_recipe(epochs=1), tmp_path / name, baselines=False, threads=threads)
        ends.add(RunDirectory(result.run).read_result().last_weights_sha256)
    assert len(ends) == 1


@pytest.mark.parametrize(("lanes", "inside"), [(1, 2), (2, 1)])
def test_the_calling_thread_leaves_the_cores_to_the_lanes(make, lanes, inside):
    trainer = make()
    with restore_threads():
        torch.set_num_threads(2)
        with Lanes(trainer.model, lanes).free_cores():
            assert torch.get_num_threads() == inside
        assert torch.get_num_threads() == 2
