"""A loss over a whole batch in the memory of one chunk: the same loss, the same gradients."""

import gc
import subprocess
import sys
import weakref
from collections.abc import Callable

import numpy as np
import pytest
import torch
from torch import nn

from plait.gradients.parts import backward_in_parts
from plait.losses.embedding import info_nce
from plait.model.model import Encoded
from plait.training.backward import _forward, backward
from plait.training.lanes import Lanes
from plait.training.seeds import seeded
from plait.training.trainer import Trainer
from tiny_trainer import batches_of, build_trainer, gradients, weights

ROWS = tuple(range(11))


def test_backward_in_parts_by_hand():
    # loss (a + b)² of a = 2w and b = 3w at w = 1: 25, slope 2·5·5 = 50
    weight = nn.Parameter(torch.tensor(1.0))
    chunks = [lambda: (2 * weight).reshape(1), lambda: (3 * weight).reshape(1)]
    loss = backward_in_parts(chunks, lambda both: both.sum() ** 2)
    assert (loss.item(), weight.grad.item(), loss.requires_grad) == (25.0, 50.0, False)


def test_gradients_are_added_to_existing_ones():
    weight = nn.Parameter(torch.tensor(1.0))
    weight.grad = torch.tensor(7.0)
    backward_in_parts([lambda: (2 * weight).reshape(1)], lambda one: one.sum())
    assert weight.grad.item() == 9.0


def test_loss_with_weights_of_its_own_learns_even_if_the_chunks_are_frozen():
    weight = nn.Parameter(torch.tensor(3.0))
    backward_in_parts([lambda: torch.ones(2, 1)], lambda embeddings: weight * embeddings.sum())
    assert weight.grad.item() == 2.0


@pytest.mark.parametrize("size", [1, 3, 8, 16])
def test_layer_gets_the_gradients_of_a_single_graph(size):
    layer = nn.Linear(5, 4)
    first_BD, second_BD = torch.randn(2, 8, 5, generator=torch.Generator().manual_seed(1))
    plain = info_nce(layer(first_BD), layer(second_BD))
    plain.backward()
    expected = [parameter.grad.clone() for parameter in layer.parameters()]
    layer.zero_grad()
    chunks = [
        lambda rows=slice(start, start + size): torch.stack([layer(first_BD[rows]), layer(second_BD[rows])], dim=1)
        for start in range(0, 8, size)
    ]
    cached = backward_in_parts(chunks, lambda both: info_nce(both[:, 0], both[:, 1]))
    torch.testing.assert_close(cached, plain.detach(), atol=1e-5, rtol=0)  # float32
    for parameter, gradient in zip(layer.parameters(), expected, strict=True):
        torch.testing.assert_close(parameter.grad, gradient, atol=1e-5, rtol=0)


# In a task

TASKS = [
    ("near", ["mse", {"name": "multiple_negatives", "positive_above": 0.5, "cached": True, "chunk": 3}]),
    ("same", ["binary_cross_entropy", {"name": "info_nce", "cached": True, "chunk": 4}]),
    ("same", ["binary_cross_entropy", {"name": "contrastive", "cached": True, "chunk": 4}]),
    ("mood", ["cross_entropy", {"name": "simcse_unsupervised", "cached": True, "chunk": 5}]),
    ("mood", ["cross_entropy", {"name": "supervised_contrastive", "cached": True, "chunk": 1}]),
    ("mood", ["cross_entropy", {"name": "class_triplet", "cached": True, "chunk": 3}]),
]


@pytest.fixture
def make(tiny_recipe) -> Callable[[str, object], Trainer]:
    """A trainer of one task with the given loss."""

    def build(task: str, loss: object) -> Trainer:
        recipe = tiny_recipe(dropout=0.2)
        recipe["tasks"] = {task: {**recipe["tasks"][task], "loss": loss}}
        trainer = build_trainer(recipe)
        trainer.model.train()
        return trainer

    return build


@pytest.mark.parametrize("lanes", [1, 2, 3])
@pytest.mark.parametrize(("task", "loss"), TASKS)
def test_loss_and_gradients_equal_those_of_a_single_graph_dropout_included(make, task, loss, lanes):
    """A single graph over all chunks, each with the dropout that it has when it is cached."""
    trainer = make(task, loss)
    objective, model = trainer.objectives[task], trainer.model
    (batch,) = batches_of(trainer, [(task, ROWS)])
    (found,) = backward(model, Lanes(model, lanes), {}, trainer.objectives, [batch], "s")
    cached = gradients(trainer)
    model.zero_grad(set_to_none=True)
    chunks = batch.split_inputs(lanes * -(-len(ROWS) // objective.chunk))
    assert len(chunks) > 1
    parts = []
    for number, chunk in enumerate(chunks):
        ids, firsts = [batch.ids[place] for place in chunk], [batch.firsts[place] for place in chunk]
        with seeded(f"s/{task}/{number}", model.device):
            parts.append(model.states(ids, firsts)[0])
    ordered = torch.cat(parts)[np.argsort(np.concatenate(chunks))]
    views = {view: ordered[place] for view, place in batch.views.items()}
    with seeded(f"s/{task}/head", model.device):
        plain = objective(_forward(model, objective, batch, Encoded(views)), torch.from_numpy(batch.labels))
    plain.backward()
    assert found.item() == pytest.approx(plain.item(), abs=1e-5)
    assert cached.keys() == gradients(trainer).keys()
    for name, gradient in gradients(trainer).items():
        torch.testing.assert_close(cached[name], gradient, atol=1e-5, rtol=0, msg=name)


@pytest.mark.parametrize(("task", "loss"), TASKS[:3])
def test_without_dropout_a_cached_task_equals_one_that_is_not_cached(make, task, loss):
    losses, found = [], []
    for trainer in (make(task, loss), make(task, [loss[0], {**loss[1], "cached": None, "chunk": None}])):
        trainer.model.eval()
        (batch,) = batches_of(trainer, [(task, ROWS)])
        losses += backward(trainer.model, Lanes(trainer.model, 1), {}, trainer.objectives, [batch], "s")
        found.append(gradients(trainer))
    assert losses[0].item() == pytest.approx(losses[1].item(), abs=1e-5)
    assert found[0].keys() == found[1].keys()
    for name, gradient in found[1].items():
        torch.testing.assert_close(found[0][name], gradient, atol=1e-5, rtol=0, msg=name)


def test_measuring_conflicts_of_cached_tasks_changes_no_bits(tiny_recipe):
    """Measured, a task's gradient goes to its row; otherwise its chunks are added to the gradients of other tasks."""
    ends = []
    for every in (None, 1):
        recipe = tiny_recipe(dropout=0.2, conflict_every=every, clip=None)
        recipe["tasks"]["same"]["loss"] = TASKS[1][1]
        recipe["tasks"]["near"]["loss"] = TASKS[0][1]
        trainer = build_trainer(recipe)
        for number, planned in zip(range(2), trainer.plan.epoch_plan(0), strict=False):
            trainer.step(number, planned)
        ends.append(weights(trainer))
    assert all(torch.equal(ends[0][name], ends[1][name]) for name in ends[0])


# Memory


def test_at_most_one_chunk_has_a_graph(make, monkeypatch):
    trainer = make("near", TASKS[0][1])
    (batch,) = batches_of(trainer, [("near", ROWS)])
    encode = trainer.model.states
    with_graph, alive, references = [], [], []

    def states(ids, firsts, encoder):
        gc.collect()
        alive.append(sum(reference() is not None for reference in references))
        found = encode(ids, firsts, encoder)
        if found[0].requires_grad:
            with_graph.append([len(text) for text in ids])
            references.append(weakref.ref(found[0]))
        return found

    monkeypatch.setattr(trainer.model, "states", states)
    backward(trainer.model, Lanes(trainer.model, 1), {}, trainer.objectives, [batch], "s")
    chunks = [[len(batch.ids[place]) for place in chunk] for chunk in batch.split_inputs(4)]
    assert len(chunks) == 4
    assert with_graph == [chunks[-1], *chunks[:-1]]
    assert (len(alive), max(alive)) == (7, 0)


MEASURE = """
import sys
import torch
from plait.gradients.parts import backward_in_parts
from plait.losses.embedding import multiple_negatives
torch.set_num_threads(1)
def peak():  # kB; getrusage would begin with the peak of the process that started this one
    return next(int(line.split()[1]) for line in open("/proc/self/status") if line.startswith("VmHWM"))
def measure(embeddings):
    pairs = multiple_negatives(embeddings[:512], embeddings[512:1024], scale=1.0, similarity="dot")
    return pairs + embeddings.square().mean()
layers = torch.nn.Sequential(*(layer for _ in range(8) for layer in (torch.nn.Linear(256, 256), torch.nn.GELU())))
inputs = torch.randn(4096, 4, 256)
chunks = [lambda start=start: layers(inputs[start:start + 64]).mean(dim=1) for start in range(0, 4096, 64)]
layers(inputs[:64]).sum().backward()  # warm up
before = peak()
if sys.argv[1] == "cached":
    backward_in_parts(chunks, measure)
else:
    measure(torch.cat([chunk() for chunk in chunks])).backward()
print(peak() - before)
"""


@pytest.mark.skipif(sys.platform != "linux", reason="reads the peak memory where only Linux has it")
def test_batch_of_4096_needs_little_more_memory_than_one_chunk():
    cached, plain = (
        int(subprocess.run([sys.executable, "-c", MEASURE, how], capture_output=True, text=True, check=True).stdout)
        for how in ("cached", "plain")
    )
    # Plain, 16 layers of 4096 × 4 × 256 floats are 268 MB. The layers of a chunk are 4 MB, and so is each tensor as
    # large as all embeddings. The allocator keeps some more.
    assert plain > 200_000 and cached < plain / 2.5, (cached, plain)
