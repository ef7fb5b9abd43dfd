"""A loss over a whole batch at the memory of a chunk: the same loss, the same gradients."""

import gc
import subprocess
import sys
import weakref
from collections.abc import Callable

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from plait.gradients.cached import cached_backward
from plait.losses.embedding import find_own, info_nce
from plait.model.model import Encoded
from plait.training.backward import backward, pass_on
from plait.training.loop import as_recipe
from plait.training.result import weights_digest
from plait.training.seeds import seeded
from plait.training.settle import settle_recipe
from plait.training.trainer import Trainer

ROWS = tuple(range(11))


def test_by_hand():
    # loss (a + b)² of a = 2w and b = 3w at w = 1: 25, slope 2·5·5 = 50
    weight = nn.Parameter(torch.tensor(1.0))
    chunks = [lambda: (2 * weight).reshape(1), lambda: (3 * weight).reshape(1)]
    loss = cached_backward(chunks, lambda both: both.sum() ** 2)
    assert (loss.item(), weight.grad.item(), loss.requires_grad) == (25.0, 50.0, False)


def test_gradients_are_added_to_those_that_are_there():
    weight = nn.Parameter(torch.tensor(1.0))
    weight.grad = torch.tensor(7.0)
    cached_backward([lambda: (2 * weight).reshape(1)], lambda one: one.sum())
    assert weight.grad.item() == 9.0


def test_chunks_that_do_not_learn_leave_what_the_loss_itself_learns():
    weight = nn.Parameter(torch.tensor(3.0))
    cached_backward([lambda: torch.ones(2, 1)], lambda embeddings: weight * embeddings.sum())
    assert weight.grad.item() == 2.0


@pytest.mark.parametrize("size", [1, 3, 8, 16])
def test_a_layer_gets_the_gradients_of_one_graph(size):
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
    cached = cached_backward(chunks, lambda both: info_nce(both[:, 0], both[:, 1]))
    torch.testing.assert_close(cached, plain.detach(), atol=1e-5, rtol=0)  # float32
    for parameter, gradient in zip(layer.parameters(), expected, strict=True):
        torch.testing.assert_close(parameter.grad, gradient, atol=1e-5, rtol=0)


# In a task


@pytest.fixture
def make(tiny_recipe) -> Callable[[str, object], Trainer]:
    """A trainer of one task with a cached loss."""

    def build(task: str, loss: object) -> Trainer:
        recipe = tiny_recipe(dropout=0.2)
        recipe["tasks"] = {task: {**recipe["tasks"][task], "loss": loss}}
        trainer = Trainer(settle_recipe(as_recipe(recipe, None, None, ())))
        trainer.model.train()
        return trainer

    return build


def gradients(trainer: Trainer) -> dict[str, Tensor]:
    return {name: weight.grad for name, weight in trainer.model.named_parameters() if weight.grad is not None}


TASKS = [
    ("near", ["mse", {"name": "multiple_negatives", "positive_above": 0.5, "cached": True, "chunk": 3}]),
    ("same", ["binary_cross_entropy", {"name": "info_nce", "cached": True, "chunk": 4}]),
    ("same", ["binary_cross_entropy", {"name": "contrastive", "cached": True, "chunk": 4}]),
    ("mood", ["cross_entropy", {"name": "simcse_unsupervised", "cached": True, "chunk": 5}]),
    ("mood", ["cross_entropy", {"name": "supervised_contrastive", "cached": True, "chunk": 1}]),
]


@pytest.mark.parametrize(("task", "loss"), TASKS)
def test_loss_and_gradients_are_those_of_the_whole_batch_dropout_included(make, task, loss):
    """One graph over all chunks, each under the dropout that it has when it is cached."""
    trainer = make(task, loss)
    objective, model = trainer.objectives[task], trainer.model
    (batch,) = trainer.batches([(task, ROWS)])
    found = backward(model, trainer.encode, objective, batch, "s")
    cached = {name: gradient.clone() for name, gradient in gradients(trainer).items()}
    model.zero_grad(set_to_none=True)
    chunks = batch.cut(-(-len(ROWS) // objective.chunk))
    assert len(chunks) > 1
    parts = []
    for number, chunk in enumerate(chunks):
        with seeded(f"s/{number}", model.device):
            parts.append(
                model.states([batch.ids[place] for place in chunk], [batch.firsts[place] for place in chunk])[0]
            )
    ordered = torch.cat(parts)[np.argsort(np.concatenate(chunks))]
    views = {view: ordered[place] for view, place in batch.views.items()}
    with seeded("s/head", model.device):
        passed = pass_on(model, objective, batch, Encoded(views))
        plain = objective(passed, torch.from_numpy(batch.labels))
    plain.backward()
    assert found.item() == pytest.approx(plain.item(), abs=1e-5)
    assert cached.keys() == gradients(trainer).keys()
    for name, gradient in gradients(trainer).items():
        torch.testing.assert_close(cached[name], gradient, atol=1e-5, rtol=0, msg=name)


@pytest.mark.parametrize(("task", "loss"), TASKS[:3])
def test_without_dropout_it_is_the_task_that_is_not_cached(make, task, loss):
    trainers = make(task, loss), make(task, [loss[0], {**loss[1], "cached": None, "chunk": None}])
    losses, found = [], []
    for trainer in trainers:
        trainer.model.eval()
        (batch,) = trainer.batches([(task, ROWS)])
        losses.append(backward(trainer.model, trainer.encode, trainer.objectives[task], batch, "s").item())
        found.append(gradients(trainer))
    assert losses[0] == pytest.approx(losses[1], abs=1e-5)
    assert found[0].keys() == found[1].keys()
    for name, gradient in found[1].items():
        torch.testing.assert_close(found[0][name], gradient, atol=1e-5, rtol=0, msg=name)


def test_watching_changes_no_bits(tiny_recipe):
    """Watched, each task's gradient is set aside whole; not watched, chunks go to the gradients of other tasks."""
    digests = set()
    for watch in (None, 1):
        recipe = tiny_recipe(dropout=0.2, watch_conflict=watch, clip=None)
        recipe["tasks"]["same"]["loss"] = TASKS[1][1]
        recipe["tasks"]["near"]["loss"] = TASKS[0][1]
        trainer = Trainer(settle_recipe(as_recipe(recipe, None, None, ())))
        for number, planned in zip(range(2), trainer.plan.epoch_plan(0), strict=False):
            trainer.step(number, planned)
        digests.add(weights_digest(trainer.model))
    assert len(digests) == 1


def test_never_more_than_a_chunk_has_a_graph(make, monkeypatch):
    trainer = make("near", TASKS[0][1])
    (batch,) = trainer.batches([("near", ROWS)])
    encode = trainer.model.states
    with_graph, alive, references = [], [], []

    def states(ids, firsts):
        gc.collect()
        alive.append(sum(reference() is not None for reference in references))
        found = encode(ids, firsts)
        if found[0].requires_grad:
            with_graph.append([len(text) for text in ids])
            references.append(weakref.ref(found[0]))
        return found

    monkeypatch.setattr(trainer.model, "states", states)
    backward(trainer.model, trainer.encode, trainer.objectives["near"], batch, "s")
    chunks = [[len(batch.ids[place]) for place in chunk] for chunk in batch.cut(4)]
    assert len(chunks) == 4
    assert with_graph == [chunks[-1], *chunks[:-1]]
    assert (len(alive), max(alive)) == (7, 0)


MEASURE = """
import sys
import torch
from plait.gradients.cached import cached_backward
from plait.losses.embedding import find_own
torch.set_num_threads(1)
def peak():  # kB; getrusage would begin with the peak of the process that started this one
    return next(int(line.split()[1]) for line in open("/proc/self/status") if line.startswith("VmHWM"))
layers = torch.nn.Sequential(*(layer for _ in range(8) for layer in (torch.nn.Linear(256, 256), torch.nn.GELU())))
inputs = torch.randn(4096, 4, 256)
chunks = [lambda start=start: layers(inputs[start:start + 64]).mean(dim=1) for start in range(0, 4096, 64)]
measure = lambda embeddings: find_own(embeddings[:512] @ embeddings[512:1024].T) + embeddings.square().mean()
warm = layers(inputs[:64]).sum().backward()
before = peak()
if sys.argv[1] == "cached":
    cached_backward(chunks, measure)
else:
    measure(torch.cat([chunk() for chunk in chunks])).backward()
print(peak() - before)
"""


@pytest.mark.skipif(sys.platform != "linux", reason="reads the peak memory where only Linux has it")
def test_a_batch_of_4096_needs_little_more_memory_than_a_chunk():
    assert find_own(torch.eye(2)).isfinite()  # what the processes below import
    cached, plain = (
        int(subprocess.run([sys.executable, "-c", MEASURE, how], capture_output=True, text=True, check=True).stdout)
        for how in ("cached", "plain")
    )
    # Plain, 16 layers of 4096 × 4 × 256 floats are 268 MB; a chunk's are 4 MB, and what is as large as the embeddings
    # of all is 4 MB each. The allocator keeps some more.
    assert plain > 200_000 and cached < plain / 2.5, (cached, plain)
