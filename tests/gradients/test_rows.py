"""Gradients that are set aside task by task: their numbers, their bits, and what they cost."""

import gc
import json
import weakref
from collections.abc import Callable

import pytest
import torch
from torch import Tensor, nn

import plait
from plait.errors import NotFiniteError, RecipeError
from plait.gradients.combine import ByGram, draw_orders, surgery
from plait.gradients.rows import Rows
from plait.model.model import Model
from plait.training.loop import as_recipe
from plait.training.settle import settle_recipe
from plait.training.step import shared_parameters, train_step
from plait.training.trainer import Trainer

MOOD, SAME, NEAR = ("mood", (0, 3, 5, 6)), ("same", (1, 2, 4)), ("near", (7, 9))
SURGERY = {"name": "together", "combine": "surgery"}


@pytest.fixture
def make(tiny_recipe) -> Callable[..., Trainer]:
    return lambda **changes: Trainer(settle_recipe(as_recipe(tiny_recipe(**changes), None, None, ())))


def two_weights() -> list[nn.Parameter]:
    return [nn.Parameter(torch.zeros(2, 2)), nn.Parameter(torch.zeros(3))]


def fill(rows: Rows, gradients: list[list[list | None]]) -> None:
    """As if each task had been through its backward pass."""
    rows.clear()
    for task in gradients:
        for parameter, gradient in zip(rows.parameters, task, strict=True):
            parameter.grad = None if gradient is None else torch.tensor(gradient)
        rows.set_aside()


FIRST = [[[1.0, 2.0], [3.0, 4.0]], [5.0, 6.0, 7.0]]
SECOND = [[[-1.0, 0.0], [0.0, 1.0]], [0.0, 2.0, 0.0]]


def test_a_gradient_that_is_set_aside_leaves_the_weights_and_stands_in_its_row():
    rows = Rows(two_weights(), 2)
    fill(rows, [FIRST, SECOND])
    assert rows.buffer_KP.tolist() == [[1, 2, 3, 4, 5, 6, 7], [-1, 0, 0, 1, 0, 2, 0]]
    assert all(parameter.grad is None for parameter in rows.parameters)


def test_the_gram_matrix_by_hand():
    rows = Rows(two_weights(), 2)
    fill(rows, [FIRST, SECOND])
    assert rows.measure().tolist() == [[140.0, 15.0], [15.0, 6.0]]  # -1 + 4 + 12 = 15
    assert rows.gram_KK.dtype == torch.float64


def test_the_mix_by_hand():
    rows = Rows(two_weights(), 2)
    fill(rows, [FIRST, SECOND])
    rows.mix(torch.tensor([2.0, -1.0], dtype=torch.float64))
    assert [parameter.grad.tolist() for parameter in rows.parameters] == [[[3, 4], [6, 7]], [10, 10, 14]]


def test_the_sum_times_a_weight_by_hand():
    rows = Rows(two_weights(), 2)
    fill(rows, [FIRST, SECOND])
    rows.add_up(0.5)
    assert [parameter.grad.tolist() for parameter in rows.parameters] == [[[0, 1], [1.5, 2.5]], [2.5, 4, 3.5]]


def test_a_weight_that_no_task_reaches_keeps_no_gradient_and_one_that_some_reach_has_theirs():
    for combine in (lambda rows: rows.add_up(1.0), lambda rows: rows.mix(torch.ones(2))):
        rows = Rows(two_weights(), 2)
        fill(rows, [[FIRST[0], None], [None, None]])
        assert rows.measure().tolist() == [[30.0, 0.0], [0.0, 0.0]]
        combine(rows)
        assert rows.parameters[0].grad.tolist() == FIRST[0] and rows.parameters[1].grad is None


def test_what_an_earlier_step_left_in_a_row_does_not_come_back():
    rows = Rows(two_weights(), 2)
    fill(rows, [FIRST, SECOND])
    rows.mix(torch.ones(2))
    fill(rows, [SECOND, [None, SECOND[1]]])
    rows.mix(torch.ones(2))
    assert [parameter.grad.tolist() for parameter in rows.parameters] == [SECOND[0], [0.0, 4.0, 0.0]]


def test_fewer_tasks_than_rows_leave_the_others_out():
    rows = Rows(two_weights(), 3)
    fill(rows, [FIRST, SECOND])
    assert rows.measure().shape == (2, 2)
    rows.mix(torch.tensor([1.0, 1.0]))
    assert rows.parameters[1].grad.tolist() == [5.0, 8.0, 7.0]


@pytest.mark.parametrize("scale", [1e-6, 1.0, 1e5, 1e15])
def test_products_of_long_rows_keep_their_digits(scale):
    weight = nn.Parameter(torch.zeros(2_621_457))
    rows = Rows([weight], 3)
    generator = torch.Generator().manual_seed(5)
    for _ in range(3):
        weight.grad = scale * (0.3 + torch.randn(weight.shape, generator=generator))
        rows.set_aside()
    exact = rows.buffer_KP.double() @ rows.buffer_KP.double().T
    error = (rows.measure() - exact).abs().max() / exact.diagonal().max()
    assert error < 2e-6, error  # float32 sums of 2^16 numbers; one float32 sum of all of them is far off


def test_the_bits_of_the_sum_are_those_of_adding_in_place():
    generator = torch.Generator().manual_seed(1)
    gradients = [torch.randn(1000, generator=generator) * 10 ** (task - 2) for task in range(4)]
    gradients[0][:3] = torch.tensor([-0.0, -0.0, 0.0])
    gradients[1][:3] = gradients[2][:3] = gradients[3][:3] = torch.tensor([-0.0, 0.0, -0.0])
    in_place = gradients[0].clone()
    for gradient in gradients[1:]:
        in_place += gradient
    in_place *= 1 / 4
    weight = nn.Parameter(torch.zeros(1000))
    rows = Rows([weight], 4)
    for gradient in gradients:
        weight.grad = gradient
        rows.set_aside()
    rows.add_up(1 / 4)
    assert weight.grad.numpy().tobytes() == in_place.numpy().tobytes()


# What it costs


def surgery_step(trainer: Trainer, rows: Rows | None, batches: list, combine: str = "surgery") -> dict[str, float]:
    parts = (trainer.model, trainer.encode, trainer.objectives, trainer.optimizer, batches)
    return train_step(*parts, combine=combine, clip=1.0, seed="7/0", step=0, rows=rows)


def shared_size(model: Model) -> int:
    return sum(parameter.numel() for parameter in shared_parameters(model))


def test_the_rows_are_one_tensor_of_tasks_times_shared_weights_which_every_step_uses_again(make):
    trainer = make(schedule=SURGERY, shared_layer="tanh", tasks=without_cosine(make))
    assert trainer.rows.buffer_KP.shape == (2, shared_size(trainer.model))
    place = trainer.rows.buffer_KP.data_ptr()
    for number in range(3):
        trainer.step(number, [MOOD, SAME])
        assert trainer.rows.buffer_KP.data_ptr() == place
        start, size = place, 4 * shared_size(trainer.model)
        grads = [parameter.grad for parameter in shared_parameters(trainer.model) if parameter.grad is not None]
        assert all(start <= grad.data_ptr() < start + size for grad in grads), "the update has memory of its own"


def without_cosine(make) -> dict:
    """Two tasks whose heads may stand behind a shared layer."""
    tasks = make().recipe.model_dump(mode="json")["tasks"]
    return {name: tasks[name] for name in ("mood", "same")}


def live_bytes() -> int:
    """Of all tensors, memory that several share counted once."""
    gc.collect()
    storages = {}
    for thing in gc.get_objects():
        if issubclass(type(thing), Tensor):
            storage = thing.untyped_storage()
            storages[storage.data_ptr()] = storage.nbytes()
            if thing.is_leaf and thing.grad is not None:
                storages[thing.grad.untyped_storage().data_ptr()] = thing.grad.untyped_storage().nbytes()
    return sum(storages.values())


def test_between_two_tasks_the_memory_is_the_rows_and_one_graph(make):
    """What lives when each task's forward begins: with surgery the rows more than without, and never a graph."""
    lived: dict[str, list[int]] = {}
    graphs: list[int] = []
    saved: weakref.WeakSet[Tensor] = weakref.WeakSet()

    def pack(tensor: Tensor) -> Tensor:
        kept = tensor.detach()  # the graph holds this one and nobody else does
        saved.add(kept)
        return kept

    for combine in ("sum", "surgery"):
        trainer = make(schedule={"name": "together", "combine": combine})
        batches = trainer.batches([MOOD, SAME, NEAR])
        plain, lived[combine] = trainer.encode, []

        def forward(batch, plain=plain, found=lived[combine]):
            graphs.append(len(saved))
            found.append(live_bytes())
            return plain(batch)

        trainer.encode = forward
        for _ in range(2):  # in the first step the optimizer makes its state
            with torch.autograd.graph.saved_tensors_hooks(pack, lambda kept: kept):
                surgery_step(trainer, trainer.rows, batches, combine)
        assert len(saved) == 0
        size = 4 * shared_size(trainer.model)
        del trainer, plain, forward
    assert graphs == [0] * 12, "a graph was alive when the next task began"
    extra = [more - less for more, less in zip(lived["surgery"][3:], lived["sum"][3:], strict=True)]
    assert max(extra) <= 3 * size + 1024, "more than a row for each task"  # and the Gram matrix
    assert min(extra) >= 2 * size, "the rows were not there"  # before the second task, sum has a gradient as well


# Steps


def test_a_step_of_surgery_is_the_same_for_the_same_seed_and_step(make):
    ends = []
    for start in (1, 2):
        torch.manual_seed(start)
        trainer = make(schedule=SURGERY)
        before = torch.get_rng_state()
        for number in range(3):
            trainer.step(number, [MOOD, SAME, NEAR])
        assert torch.equal(torch.get_rng_state(), before)
        ends.append({name: tensor.clone() for name, tensor in trainer.model.state_dict().items()})
    assert all(torch.equal(ends[0][name], ends[1][name]) for name in ends[0])


def test_the_orders_come_from_seed_and_step(make, monkeypatch):
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


def test_a_gradient_that_is_not_finite_is_named_by_its_task_and_leaves_the_weights(make):
    trainer = make(schedule=SURGERY)
    with torch.no_grad():
        trainer.model.heads["mood"].linear.weight *= 1e25
    before = {name: tensor.clone() for name, tensor in trainer.model.state_dict().items()}
    with pytest.raises(NotFiniteError, match=r"^step 1: the gradient is inf, .*\(mood: rows 0, 3, 5, 6\)"):
        trainer.step(0, [SAME, MOOD])
    assert all(torch.equal(tensor, before[name]) for name, tensor in trainer.model.state_dict().items())
    with torch.no_grad():
        trainer.model.heads["mood"].linear.weight *= 1e-25
    trainer.step(0, [SAME, MOOD])  # and the next step begins with empty rows
    assert len(trainer.rows.reached) == 2


def test_surgery_leaves_weights_without_a_gradient_as_they_are(make):
    """The pooler is part of the encoder; mean pooling does not use it, and weight decay must not shrink it."""
    trainer = make(schedule=SURGERY, weight_decay=0.5, lr=0.1)
    unused = {name: tensor.clone() for name, tensor in trainer.model.state_dict().items() if "pooler" in name}
    trainer.step(0, [MOOD, SAME, NEAR])
    assert unused and all(torch.equal(trainer.model.state_dict()[name], unused[name]) for name in unused)


# A frozen encoder


FROZEN = r"^schedule\.combine: surgery changes the gradients of weights that tasks share, .* train the encoder$"


def test_surgery_on_a_frozen_encoder_is_refused(make, tiny_recipe):
    with pytest.raises(RecipeError, match=FROZEN):
        make(schedule=SURGERY, train_encoder=False)
    assert make(train_encoder=False).rows is None  # sum is not


def test_surgery_on_a_frozen_encoder_may_work_on_the_shared_layer(make):
    trainer = make(schedule=SURGERY, train_encoder=False, shared_layer="tanh", tasks=without_cosine(make))
    assert trainer.rows.buffer_KP.shape == (2, 16 * 16 + 16)
    before = {name: tensor.clone() for name, tensor in trainer.model.state_dict().items()}
    trainer.step(0, [MOOD, SAME])
    after = trainer.model.state_dict()
    changed = {name.split(".")[0] for name in before if not torch.equal(after[name], before[name])}
    assert changed == {"shared_layer", "heads"}


def test_surgery_on_the_frozen_shared_layer_of_a_model_that_grows_is_refused(make, tiny_recipe, tmp_path):
    tasks = without_cosine(make)
    result = plait.train(tiny_recipe(shared_layer="tanh", tasks=tasks, epochs=1), tmp_path / "run", baselines=False)
    with pytest.raises(RecipeError, match=FROZEN):
        make(encoder=str(result.model), schedule=SURGERY, train_encoder=False, tasks=tasks)


def test_the_frozen_baseline_of_a_run_with_surgery_is_measured(tiny_recipe, tmp_path):
    result = plait.train(tiny_recipe(schedule=SURGERY, epochs=1), tmp_path / "run")
    assert result.baselines["dev"]["frozen encoder"].keys() == {"mood", "same", "near"}
    recipe = json.loads((tmp_path / "run/run.json").read_text())["recipe"]
    assert recipe["schedule"] == {"name": "together", "combine": "surgery", "epoch": "longest"}
