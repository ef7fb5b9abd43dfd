"""Steps that store each task's gradient in a row: memory, seeds, numbers that are not finite, frozen encoders."""

import gc
import json
import weakref
from collections.abc import Callable

import pytest
import torch
from torch import Tensor

import plait
from plait.errors import NotFiniteError, RecipeError
from plait.gradients.combine import ByGram, draw_orders, surgery
from plait.gradients.rows import GradientRows
from plait.model.model import Model
from plait.training.step import shared_parameters, train_step
from plait.training.trainer import Trainer
from tiny_trainer import batches_of, build_trainer, shared_size, step_parts, weights

MOOD, SAME, NEAR = ("mood", (0, 3, 5, 6)), ("same", (1, 2, 4)), ("near", (7, 9))
SURGERY = {"name": "together", "combine": "surgery"}


@pytest.fixture
def make(tiny_recipe) -> Callable[..., Trainer]:
    """A trainer of the tiny recipe with some keys changed."""
    return lambda **changes: build_trainer(tiny_recipe(**changes))


@pytest.fixture
def two_tasks(tiny_recipe) -> dict:
    """Two tasks whose heads may follow a shared layer."""
    tasks = tiny_recipe()["tasks"]
    return {name: tasks[name] for name in ("mood", "same")}


def rows_of(trainer: Trainer) -> GradientRows:
    rows = trainer._parts.rows
    assert rows is not None
    return rows


# Memory


def test_rows_are_one_tensor_of_tasks_by_shared_weights_that_every_step_reuses(make, two_tasks):
    trainer = make(schedule=SURGERY, shared_layer="tanh", tasks=two_tasks)
    rows = rows_of(trainer)
    assert rows.buffer_KP.shape == (2, shared_size(trainer))
    start, size = rows.buffer_KP.data_ptr(), 4 * shared_size(trainer)
    for number in range(3):
        trainer.step(number, [MOOD, SAME])
        assert rows.buffer_KP.data_ptr() == start
        grads = [
            parameter.grad
            for parameter in shared_parameters(trainer.model, trainer.objectives)
            if parameter.grad is not None
        ]
        assert all(start <= grad.data_ptr() < start + size for grad in grads), "the update has memory of its own"


def live_bytes() -> int:
    """The memory of all tensors; what several share counts once."""
    gc.collect()
    storages = {}
    for thing in gc.get_objects():
        if issubclass(type(thing), Tensor):
            storage = thing.untyped_storage()
            storages[storage.data_ptr()] = storage.nbytes()
            if thing.is_leaf and thing.grad is not None:
                storages[thing.grad.untyped_storage().data_ptr()] = thing.grad.untyped_storage().nbytes()
    return sum(storages.values())


def test_surgery_needs_the_memory_of_the_rows_and_of_one_graph_at_a_time(make, monkeypatch):
    """Measured when each task's forward pass begins: surgery has the rows in addition, and never an old graph."""
    live: dict[str, list[int]] = {"sum": [], "surgery": []}
    graphs: list[int] = []
    saved: weakref.WeakSet[Tensor] = weakref.WeakSet()
    encode = Model.encode

    def save(tensor: Tensor) -> Tensor:
        copy = tensor.detach()  # only the graph refers to it
        saved.add(copy)
        return copy

    for combine, found in live.items():
        trainer = make(schedule={"name": "together", "combine": combine})
        batches = batches_of(trainer, [MOOD, SAME, NEAR])

        def measure_and_encode(model, batch, found=found):
            graphs.append(len(saved))
            found.append(live_bytes())
            return encode(model, batch)

        monkeypatch.setattr(Model, "encode", measure_and_encode)
        parts = step_parts(trainer, combine, trainer._parts.rows, clip=1.0)
        for number in range(2):  # in the first step the optimizer allocates its state
            with torch.autograd.graph.saved_tensors_hooks(save, lambda copy: copy):
                train_step(parts, batches, number)
        assert len(saved) == 0
        size = 4 * shared_size(trainer)
        del trainer, parts
    assert graphs == [0] * 12, "a graph was alive when the next task began"
    extra = [more - less for more, less in zip(live["surgery"][3:], live["sum"][3:], strict=True)]
    assert max(extra) <= 3 * size + 1024, "more than one row per task"  # and the Gram matrix
    assert min(extra) >= 2 * size, "the rows do not exist"  # before the second task, sum has a gradient as well


# Steps


def test_steps_of_surgery_follow_from_seed_and_step(make):
    ends = []
    for start in (1, 2):
        torch.manual_seed(start)
        trainer = make(schedule=SURGERY)
        before = torch.get_rng_state()
        for number in range(3):
            trainer.step(number, [MOOD, SAME, NEAR])
        assert torch.equal(torch.get_rng_state(), before)
        ends.append(weights(trainer))
    assert all(torch.equal(ends[0][name], ends[1][name]) for name in ends[0])


def test_orders_follow_from_seed_and_step(make, monkeypatch):
    seeds = []

    def weigh(gram_KK: Tensor, seed: str) -> Tensor:
        seeds.append(seed)
        return surgery(gram_KK, orders=draw_orders(len(gram_KK), seed))

    monkeypatch.setattr("plait.training.step.find_combiner", lambda name: ByGram(weigh))
    for seed in (1, 2):
        trainer = make(schedule=SURGERY, seed=seed)
        for number in (0, 1):
            trainer.step(number, [MOOD, SAME, NEAR])
    assert seeds == ["1/0/0/combine", "1/0/1/combine", "2/0/0/combine", "2/0/1/combine"]


def test_gradient_that_is_not_finite_names_its_task_and_leaves_the_weights_unchanged(make):
    trainer = make(schedule=SURGERY)
    with torch.no_grad():
        trainer.model.heads["mood"].linear.weight *= 1e25
    before = weights(trainer)
    with pytest.raises(NotFiniteError, match=r"^step 1: the gradient is inf, .*\(mood: rows 0, 3, 5, 6\)"):
        trainer.step(0, [SAME, MOOD])
    assert all(torch.equal(tensor, before[name]) for name, tensor in weights(trainer).items())
    with torch.no_grad():
        trainer.model.heads["mood"].linear.weight *= 1e-25
    trainer.step(0, [SAME, MOOD])  # the next step starts with empty rows
    assert len(rows_of(trainer).reached) == 2


def test_surgery_leaves_weights_without_a_gradient_unchanged(make):
    """The pooler is part of the encoder; mean pooling does not use it, and weight decay must not shrink it."""
    trainer = make(schedule=SURGERY, weight_decay=0.5, lr=0.1)
    unused = {name: tensor for name, tensor in weights(trainer).items() if "pooler" in name}
    trainer.step(0, [MOOD, SAME, NEAR])
    assert unused and all(torch.equal(weights(trainer)[name], unused[name]) for name in unused)


# A frozen encoder

FROZEN = r"^schedule\.combine: surgery changes the gradients of shared weights, .* train the encoder$"


def test_surgery_on_a_frozen_encoder_is_refused(make):
    with pytest.raises(RecipeError, match=FROZEN):
        make(schedule=SURGERY, train_encoder=False)
    assert make(train_encoder=False)._parts.rows is None  # sum is accepted


def test_surgery_on_a_frozen_encoder_works_on_the_shared_layer(make, two_tasks):
    trainer = make(schedule=SURGERY, train_encoder=False, shared_layer="tanh", tasks=two_tasks)
    assert rows_of(trainer).buffer_KP.shape == (2, 16 * 16 + 16)
    before = weights(trainer)
    trainer.step(0, [MOOD, SAME])
    after = weights(trainer)
    changed = {name.split(".")[0] for name in before if not torch.equal(after[name], before[name])}
    assert changed == {"shared_layer", "heads"}


def test_surgery_on_the_frozen_shared_layer_of_a_start_model_is_refused(make, two_tasks, tiny_recipe, tmp_path):
    recipe = tiny_recipe(shared_layer="tanh", tasks=two_tasks, epochs=1)
    model = plait.train(recipe, tmp_path / "run", baselines=False).model
    with pytest.raises(RecipeError, match=FROZEN):
        make(encoder=str(model), schedule=SURGERY, train_encoder=False, tasks=two_tasks)


def test_frozen_baseline_of_a_run_with_surgery_is_measured(tiny_recipe, tmp_path):
    result = plait.train(tiny_recipe(schedule=SURGERY, epochs=1), tmp_path / "run")
    assert result.baselines["dev"]["frozen encoder"].keys() == {"mood", "same", "near"}
    recipe = json.loads((tmp_path / "run/run.json").read_text())["recipe"]
    assert recipe["schedule"] == {"name": "together", "combine": "surgery", "epoch": "longest"}
